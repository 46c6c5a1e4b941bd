"""ICU-Sepsis: treatment of sepsis in an intensive-care unit, estimated from clinical records.

The model of Choudhary et al. (2024) is in the package `icu-sepsis`: 716 states of a patient and 25
combinations of fluids and vasopressors. The reward is 1 if the patient survives, so the return of
an episode is survival, and the mean return is the rate of survival. The package is not imported,
since it needs the old `gym`; only its tables are read. They have about 1.5 million transitions.

A patient who dies ends the episode. A patient who survives is in the state `SURVIVAL`, and leaving
it earns the reward. So all hospitals have the same rewards, and differ only in transitions.

    pip install --no-deps icu-sepsis

Published returns are 0.78 for random treatment and for the clinicians, and 0.88 for the optimum.
They are undiscounted; with the discount factor 0.999, the optimal policy returns 0.875.
"""

import importlib.metadata
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np

from heirloom.arrays import BoolArray, FloatArray, IntArray, frozen
from heirloom.envs.family import FamilyOptions, TaskFamily
from heirloom.errors import InvalidArgument, InvalidFile
from heirloom.mdp.tabular import TabularMDP
from heirloom.mdp.transitions import Entries, Transitions, collect
from heirloom.transfer.nearness.knowledge import Nearness
from heirloom.transfer.nearness.successors import Successors
from heirloom.validation import check_generator, probability, real_number, whole_number

PACKAGE = "icu_sepsis"
TABLES = Path("envs", "assets", "dynamics.npz")
DEATH, SURVIVAL, AFTER = 713, 714, 715  # states; transitions into the first and last are terminal
N_DOSES = 5  # of fluids, and of vasopressors
N_STATES, N_ACTIONS = 716, 25
GAMMA = 0.999
STRONGEST = 20.0  # limit on `strength`, so that weights of successors are finite


def tables_path() -> Path | None:
    """Return where the tables of the package are; None if it is not installed."""
    try:
        # Not by its module, which a script of the same name would hide.
        found = importlib.metadata.distribution(PACKAGE).locate_file(f"{PACKAGE}/{TABLES}")
    except importlib.metadata.PackageNotFoundError:
        return None
    path = Path(str(found))
    return path if path.exists() else None


def icu_sepsis(*, gamma: float = GAMMA) -> TabularMDP:
    """Build the task of the package: 1 for a patient who survives, 0 for one who dies.

    An action that clinicians never took in a state has the mean effect of those that they took, as
    in the package.
    """
    transitions, start = _base()
    return _task(transitions, start, gamma)


def expert_policy() -> FloatArray:
    """Return the estimated policy of the clinicians, probabilities [s, a]; uniform at the end."""
    policy = np.array(_table("expert_policy"))
    policy[policy.sum(axis=1) == 0] = 1.0
    return frozen(policy / policy.sum(axis=1, keepdims=True))


@dataclass(frozen=True)
class Hospitals(TaskFamily):
    """ICU-Sepsis in hospitals whose vasopressors act differently, by a bounded total variation.

    Each transition distribution is T' = (1 - d) T + d N, where N has the successors of T and other
    weights: the probability of each successor is multiplied by a log-normal factor, which the
    hospital has for each successor and each dose of vasopressors, and normalised. So the total
    variation between the transition distributions of any two hospitals is at most d.

    Args:
        difference: d for the doses of vasopressors from `level` on, from 0 to 1.
        level: the lowest dose of vasopressors, from 0 to 4, that acts differently.
        elsewhere: d for the lower doses, from 0 to 1.
        dropped: the number of actions, of 25, that each hospital does not have, at random.
        strength: the standard deviation of the logarithm of the factors.
        gamma: the discount factor.
    """

    difference: float = 0.3
    level: int = 4
    elsewhere: float = 0.0
    dropped: int = 0
    strength: float = 2.0
    gamma: float = GAMMA

    def hospital(self, seed: int) -> TabularMDP:
        """Build the task of the hospital with this number."""
        return self._perturbed(np.random.default_rng([seed, N_STATES]))

    def draw(self, rng: np.random.Generator) -> TabularMDP:
        """Draw the factors of a hospital."""
        return self._perturbed(check_generator(rng))

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
    def nearness(self) -> Nearness:
        """By how much two hospitals can differ.

        Transitions by `difference` or `elsewhere`, and rewards not at all. Which successors are
        possible does not differ.
        """
        t, _ = _base()
        d = np.minimum(1.0, self._differences() * (1 + 1e-9))
        n_successors = np.diff(t.indptr)
        differs = np.where(n_successors > 1, d, 0.0)  # a single successor has probability 1
        shape = N_STATES, N_ACTIONS
        highest = np.zeros(shape)
        highest[SURVIVAL] = 1.0
        return Nearness(
            rewards=0.0,
            highest_rewards=highest,
            transitions=differs.reshape(shape),
            successors=Successors(t.continuing.indptr, t.continuing.successors),
            terminates=(t.end_probability > 0).reshape(shape),
        )

    @property
    def d_max(self) -> FloatArray:
        """An upper bound on D_sa(M, M̄) of any two hospitals, [s, a]; values are at most 1."""
        return 2 * self.gamma * self.nearness.transitions

    def _differences(self) -> FloatArray:
        """Return by how much the transitions of any two hospitals can differ at each pair."""
        level = whole_number("level", self.level, least=0, most=N_DOSES - 1)
        largest = probability("difference", self.difference)
        d = np.where(_doses() >= level, largest, probability("elsewhere", self.elsewhere))
        return np.tile(d, N_STATES)

    def _perturbed(self, rng: np.random.Generator) -> TabularMDP:
        t, start = _base()
        d = np.repeat(self._differences(), np.diff(t.indptr))
        what = f"expected a standard deviation from 0 to {STRONGEST:g}"
        strength = real_number("strength", self.strength, what, least=0, most=STRONGEST)
        factors = np.exp(strength * rng.standard_normal((N_DOSES, N_STATES)))
        weights = t.p * factors[_doses()[t.pairs % N_ACTIONS], t.successors]
        other = weights / np.repeat(np.add.reduceat(weights, t.indptr[:-1]), np.diff(t.indptr))
        p = (1 - d) * t.p + d * other
        p /= np.repeat(np.add.reduceat(p, t.indptr[:-1]), np.diff(t.indptr))
        dropped = whole_number("dropped", self.dropped, least=0, most=N_ACTIONS - 1)
        available = None
        if dropped:
            kept = np.sort(rng.permutation(N_ACTIONS)[dropped:])
            available = np.tile(np.isin(np.arange(N_ACTIONS), kept), N_STATES)
        transitions = _collected(t.pairs, t.successors.astype(np.int64), p, available)
        return _task(transitions, start, self.gamma)


def _doses() -> IntArray:
    """Return the dose of vasopressors of each action."""
    return np.arange(N_ACTIONS) % N_DOSES


def _collected(
    pairs: IntArray, successors: IntArray, p: FloatArray, available: BoolArray | None = None
) -> Transitions:
    """Return transitions with these probabilities, and with the rewards and ends of the task."""
    rewards = (pairs // N_ACTIONS == SURVIVAL).astype(np.float64)
    ends = (successors == DEATH) | (successors == AFTER)
    outcomes = Entries(pairs, successors, p, rewards, ends)
    return collect(outcomes, N_STATES, N_ACTIONS, available=available)


def _task(transitions: Transitions, start: FloatArray, gamma: float) -> TabularMDP:
    return TabularMDP.from_transitions(
        transitions,
        gamma=gamma,
        start=start,
        reward_range=(0.0, 1.0),
        action_names=[f"fluids {i // 5}, vasopressors {i % 5}" for i in range(N_ACTIONS)],
    )


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
    return _collected(pairs, successors, flat[entries]), frozen(_table("d_0"))


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
