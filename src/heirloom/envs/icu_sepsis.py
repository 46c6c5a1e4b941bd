"""ICU-Sepsis: treatment of sepsis in an intensive-care unit, estimated from clinical records.

The model of Choudhary et al. (2024) is in the package `icu-sepsis`: 716 states of a patient and 25
combinations of fluids and vasopressors. The reward is 1 if the patient survives, so the return of
an episode is survival, and the mean return is the rate of survival. The package is not imported,
since it needs the old `gym`; only its tables are read. They have about 1.5 million transitions.

    pip install --no-deps icu-sepsis

Published returns are 0.78 for random treatment and for the clinicians, and 0.88 for the optimum.
They are undiscounted; with the discount factor 0.999, the optimal policy returns 0.875.
"""

import importlib.util
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np

from heirloom.arrays import BoolArray, FloatArray, IntArray, frozen
from heirloom.envs.family import FamilyOptions, TaskFamily
from heirloom.errors import InvalidArgument, InvalidFile
from heirloom.mdp.tabular import TabularMDP
from heirloom.mdp.transitions import Outcomes, Transitions, collect
from heirloom.transfer.nearness.knowledge import Nearness
from heirloom.transfer.nearness.successors import Successors
from heirloom.validation import check_generator, probability, real_number

PACKAGE = "icu_sepsis"
TABLES = Path("envs", "assets", "dynamics.npz")
DEATH, SURVIVAL, AFTER = 713, 714, 715  # states; every transition into them ends the episode
N_STATES, N_ACTIONS = 716, 25
GAMMA = 0.999
STRONGEST = 20.0  # limit on `strength`, so that weights of successors are finite


def tables_path() -> Path | None:
    """Return where the tables of the package are; None if it is not installed."""
    found = importlib.util.find_spec(PACKAGE)
    for folder in () if found is None else found.submodule_search_locations or ():
        if (Path(folder) / TABLES).exists():
            return Path(folder) / TABLES
    return None


def icu_sepsis(*, gamma: float = GAMMA) -> TabularMDP:
    """Build the task of the package: 1 for a patient who survives, 0 for one who dies.

    An action that clinicians never took in a state has the mean effect of those that they took, as
    in the package.
    """
    transitions, start = _base()
    return TabularMDP.from_transitions(
        transitions,
        gamma=gamma,
        start=start,
        reward_range=(0.0, 1.0),
        action_names=[f"fluids {i // 5}, vasopressors {i % 5}" for i in range(N_ACTIONS)],
    )


def expert_policy() -> FloatArray:
    """Return the estimated policy of the clinicians, probabilities [s, a]; uniform at the end."""
    policy = np.array(_table("expert_policy"))
    policy[policy.sum(axis=1) == 0] = 1.0
    return frozen(policy / policy.sum(axis=1, keepdims=True))


def hospital(seed: int, *, difference: float = 0.1, strength: float = 1.0) -> TabularMDP:
    """Build the task of another hospital, whose patients respond differently, within bounds.

    Each transition distribution is T' = (1 - d) T + d N with d = `difference`, where N has the
    successors of T and other weights: the probability of each successor is multiplied by a
    log-normal factor of the hospital, and normalised. So the total variation between the transition
    distributions of any two hospitals is at most d.

    Args:
        seed: the number of the hospital; its factors follow from it.
        difference: the largest total variation between two hospitals, from 0 to 1.
        strength: the standard deviation of the logarithm of the factors.
    """
    return Hospitals(difference=difference, strength=strength).hospital(seed)


@dataclass(frozen=True)
class Hospitals(TaskFamily):
    """ICU-Sepsis in hospitals that differ by a bounded total variation; see `hospital`.

    Args:
        difference: the largest total variation of a pair's transitions between two hospitals.
        strength: the standard deviation of the logarithm of the factors of a hospital.
    """

    difference: float = 0.1
    strength: float = 1.0
    gamma: float = GAMMA

    def hospital(self, seed: int) -> TabularMDP:
        """Build the task of the hospital with this number."""
        return self._perturbed(np.random.default_rng([seed, N_STATES]))

    def draw(self, rng: np.random.Generator) -> TabularMDP:
        """Draw the factors of a hospital."""
        return self._perturbed(check_generator(rng))

    @property
    def nearness(self) -> Nearness:
        """By how much two hospitals can differ.

        Transitions by `difference`, and the mean reward, which is the probability of survival, by
        as much where survival is possible. Which successors are possible does not differ.
        """
        return self._nearness

    @property
    def options(self) -> FamilyOptions:
        """What an agent must know; the only reward, 1, ends the episode, so no value exceeds 1."""
        return {
            "n_states": N_STATES,
            "n_actions": N_ACTIONS,
            "gamma": self.gamma,
            "reward_range": (0.0, 1.0),
            "terminating": True,
            "v_max": 1.0,
        }

    @cached_property
    def _nearness(self) -> Nearness:
        t, _ = _base()
        d = min(1.0, probability("difference", self.difference) * (1 + 1e-9))
        n_successors = np.diff(t.indptr)
        differs = np.where(n_successors > 1, d, 0.0)  # a single successor has probability 1
        survives = np.add.reduceat(_survives(t), t.indptr[:-1]) > 0
        shape = N_STATES, N_ACTIONS
        return Nearness(
            rewards=np.where(survives, differs, 0.0).reshape(shape),
            transitions=differs.reshape(shape),
            successors=Successors(t.continuing.indptr, t.continuing.successors),
            terminates=(t.end_probability > 0).reshape(shape),
        )

    def _perturbed(self, rng: np.random.Generator) -> TabularMDP:
        t, start = _base()
        d = probability("difference", self.difference)
        what = f"expected a standard deviation from 0 to {STRONGEST:g}"
        strength = real_number("strength", self.strength, what, least=0, most=STRONGEST)
        factors = np.exp(strength * rng.standard_normal(N_STATES))
        weights = t.p * factors[t.successors]
        other = weights / np.repeat(np.add.reduceat(weights, t.indptr[:-1]), np.diff(t.indptr))
        p = (1 - d) * t.p + d * other
        p /= np.repeat(np.add.reduceat(p, t.indptr[:-1]), np.diff(t.indptr))
        outcomes = Outcomes(t.pairs, t.successors.astype(np.int64), p, _rewards(t), _ends(t))
        transitions = collect(outcomes, N_STATES, N_ACTIONS)
        return TabularMDP.from_transitions(
            transitions, gamma=self.gamma, start=start, reward_range=(0.0, 1.0)
        )


def _survives(t: Transitions) -> BoolArray:
    """Return whether a transition is the survival of a patient who was alive before."""
    return (t.successors == SURVIVAL) & (t.pairs // N_ACTIONS < DEATH)


def _rewards(t: Transitions) -> FloatArray:
    return _survives(t).astype(np.float64)


def _ends(t: Transitions) -> BoolArray:
    return t.successors >= DEATH


@lru_cache(maxsize=1)
def _base() -> tuple[Transitions, FloatArray]:
    """Return the transitions of the package, and its distribution of first states."""
    T = _table("tx_mat")
    if T.shape != (N_STATES, N_ACTIONS, N_STATES):
        raise InvalidFile(
            f"the transition table of {PACKAGE} has shape {T.shape}: expected {N_STATES} states "
            f"and {N_ACTIONS} actions; install icu-sepsis 2.0.1"
        )
    flat = T.reshape(-1)
    entries: IntArray = np.flatnonzero(flat)
    pairs, successors = np.divmod(entries, N_STATES)
    survives = (successors == SURVIVAL) & (pairs // N_ACTIONS < DEATH)
    outcomes = Outcomes(
        pairs, successors, flat[entries], survives.astype(np.float64), successors >= DEATH
    )
    return collect(outcomes, N_STATES, N_ACTIONS), frozen(_table("d_0"))


def _table(name: str) -> FloatArray:
    """Read one of the package's tables, without unpickling."""
    path = tables_path()
    if path is None:
        raise InvalidArgument(
            "the package icu-sepsis is not installed, or has no tables: "
            "pip install --no-deps icu-sepsis"
        )
    try:
        with np.load(path, allow_pickle=False) as file:
            return np.asarray(file[name], dtype=np.float64)
    except Exception as error:  # a damaged file can raise almost anything
        raise InvalidFile(
            f"{path} cannot be read ({error}): install icu-sepsis 2.0.1 again"
        ) from error
