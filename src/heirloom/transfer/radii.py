"""How far the learned models of a task may be from the true ones, after any numbers of visits.

With probability 1 - δ, all mean rewards R̂ and distributions T̂ (over K outcomes) of all tasks are
within the following radii of the true ones, after every number n of visits at once:

    η = (hi - lo) √((n/4 + ρ) (ln(1 + n/4ρ) + 2 ln(2 S A / δ_j))) / n                 mean rewards
    τ = √((n/4 + ρ) (ln(1 + n/4ρ) + 2 ln((2^(K-1) - 1) 2 S A / δ_j))) / n      in total variation

So they also hold at a random moment: when a task ends because an estimate looks extreme, or at the
last of many looks at growing counts. Radii for a fixed n (Hoeffding; Weissman et al., 2003) do not.

*Proof.* Let X_1, X_2, ... be the outcomes of a pair, in an interval of width 1, with the mean μ
given everything before, and S_n = Σ_i (X_i - μ). exp(λ S_n - λ² n/8) is a supermartingale
for every λ (Hoeffding's lemma), and so is its average over λ from a normal distribution with mean 0
and variance 1/ρ (Robbins, 1970), which is

    M_n = √(ρ / (n/4 + ρ)) exp(S_n² / (2 (n/4 + ρ))),    M_0 = 1.

M ever exceeds 1 / ε with probability ε at most (Ville, 1939); otherwise
|S_n| <= √((n/4 + ρ) (ln(1 + n/4ρ) + 2 ln(1/ε))) for all n. For rewards ε = δ_j / (2 S A). The total
variation between T̂ and T is the largest |T̂(B) - T(B)| over sets B of outcomes. A set and its
complement have the same difference, and ∅ has none, so that 2^(K-1) - 1 sets with
ε = δ_j / ((2^(K-1) - 1) 2 S A) each are enough. The sum over pairs, rewards and transitions is δ_j.

δ_j = 6 δ / (π² j²), and no two tasks have the same j. This is the number of the task, which counts
forgotten tasks, plus the number of tasks that were dropped after they were compared. When a task is
dropped, j of all stored tasks increases: it is then at least what it was when the task began, so
that the radii only grow, and the sum of all δ_j that were ever used is at most δ.

The visits of a pair in all tasks together are one such sequence X_1, X_2, ..., in which the mean
μ_i of X_i is that of the task at hand. So the mean over all visits of a life is within the radii of
the mean of the μ_i, which is a mixture of the models of the tasks, with n the number of all these
visits. Here δ is not divided among tasks.

If the user declares the models exact, they are accurate to the ε of the setting instead: η = ε and
τ = ε / 2, up to rounding.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from heirloom.arrays import BoolArray, FloatArray, IntArray
from heirloom.errors import InvalidArgument
from heirloom.kernels import checking as kernels
from heirloom.transfer.nearness.knowledge import Nearness
from heirloom.transfer.nearness.successors import as_array
from heirloom.transfer.setting import Setting
from heirloom.transfer.source import Source
from heirloom.validation import shown, truth
from heirloom.wording import counted

ROUNDING = 1e-9  # largest difference of exact models that is due to rounding, relative to the range

MOST_VISITS = 10**9  # that are asked for
SMALLEST = 5e-324  # positive number; the share of δ of a task may underflow


class Radii(NamedTuple):
    """The radii of the mean rewards of a task, and those of its transitions, over pairs."""

    rewards: FloatArray
    transitions: FloatArray


class TaskRadii(NamedTuple):
    """The radii of a task as functions of the number of visits n, over pairs.

    They are `eta` + `width` * radius(n, `log_rewards`) and `tau` + radius(n, `log_sets`). The
    function (`kernels/checking.py`) is 0 if its second argument is -infinity.
    """

    eta: float
    width: float
    log_rewards: float
    tau: FloatArray
    log_sets: FloatArray

    def at(self, visits: IntArray) -> Radii:
        """Return the radii after these numbers of visits, which are infinite after 0."""
        found = np.empty((2, visits.size))
        kernels.fill_radii(visits, self.log_rewards, self.log_sets, found)
        return Radii(self.eta + self.width * found[0], self.tau + found[1])

    def of_pair(self, k: int, n: int) -> tuple[float, float]:
        """Return the radii of pair k after n visits."""
        eta = self.eta + self.width * kernels.radius(n, self.log_rewards)
        return eta, float(self.tau[k]) + kernels.radius(n, self.log_sets[k])


class Exact(NamedTuple):
    """The pairs at which parts of the learned models are declared exact."""

    rewards: BoolArray
    transitions: BoolArray

    @property
    def everywhere(self) -> bool:
        """Whether all parts are exact at all pairs."""
        return bool(self.rewards.all() and self.transitions.all())

    def __str__(self) -> str:
        texts = []
        for name, flags in zip(self._fields, self, strict=True):
            if flags.any():
                texts.append(
                    name if flags.all() else f"{name} at {counted(int(flags.sum()), 'pair')}"
                )
        return " and ".join(texts)


def read_exact(exact: Any, setting: Setting) -> Exact:
    """Return where models are exact; `exact` is a flag, or has flags or arrays [s, a] by part."""
    parts = exact if isinstance(exact, Mapping) else dict.fromkeys(Exact._fields, exact)
    for name in parts:
        if name not in Exact._fields:
            raise InvalidArgument(
                f"exact has the key {shown(name)}: expected {' or '.join(Exact._fields)}"
            )
    flags = []
    for name in Exact._fields:
        given = parts.get(name, False)
        array = as_array("exact", given)
        if array.dtype != np.bool_ or array.shape not in (
            (),
            (setting.n_states, setting.n_actions),
        ):
            if not isinstance(exact, Mapping):
                truth("exact", given)
            raise InvalidArgument(
                f"exact has {shown(given)} for {name}: expected True, False, or booleans [s, a]"
            )
        flags.append(np.broadcast_to(array.reshape(-1), setting.n_pairs))
    return Exact(*flags)


@dataclass(frozen=True)
class Accuracy:
    """Whether learned models are exact, and otherwise the probability δ that a radius fails."""

    exact: bool
    delta: float
    n_dropped: int = 0
    """The number of dropped tasks, `TaskMemory.n_dropped`."""
    parts: Exact | None = None
    """Where models are exact although others are not."""

    def radii(self, source: Source, setting: Setting, outcomes: IntArray) -> Radii:
        """Return the radii of a task, infinite where the number of visits is not recorded.

        `outcomes` has the number of possible outcomes, over pairs.
        """
        visits, parts = visits_of(source), self.parts
        found = self.of_task(source.task, setting, outcomes).at(visits)
        if parts is None:
            return found
        exact = self.exact_radii(setting, outcomes)
        return Radii(
            np.where(parts.rewards, exact.rewards, found.rewards),
            np.where(parts.transitions, exact.transitions, found.transitions),
        )

    def of_task(self, task: int, setting: Setting, outcomes: IntArray) -> TaskRadii:
        """Return the radii of the task with this number as functions of visits."""
        if self.exact:
            eta, tau = self.exact_radii(setting, outcomes)
            width, no_sets = setting.reward_range[1] - setting.reward_range[0], -np.inf
            return TaskRadii(float(eta[0]), width, no_sets, tau, np.full(outcomes.shape, no_sets))
        return radii_for(self.share(task), setting, outcomes)

    def share(self, task: int) -> float:
        """Return δ_j of the task with this number."""
        return 6 * self.delta / (math.pi * max(task + self.n_dropped, 1)) ** 2

    def exact_radii(self, setting: Setting, outcomes: IntArray) -> Radii:
        """Return the radii of exact models."""
        lo, hi = setting.reward_range
        rounding = ROUNDING * (hi - lo) + 8 * np.finfo(float).eps * max(abs(lo), abs(hi))
        tau = np.where(outcomes > 1, setting.epsilon / 2 + ROUNDING, ROUNDING)
        return Radii(np.full(outcomes.shape, setting.epsilon + rounding), tau)


def radii_for(delta: float, setting: Setting, outcomes: IntArray) -> TaskRadii:
    """Return radii that fail at any pair and number of visits with probability δ at most.

    `outcomes` has the number of outcomes of each pair, or of each set of pairs.
    """
    lo, hi = setting.reward_range
    log_pairs = math.log(2 * outcomes.size) - math.log(max(delta, SMALLEST))
    log_rewards = log_pairs if hi > lo else -math.inf
    log_sets = log_subsets(outcomes) + log_pairs
    return TaskRadii(0.0, hi - lo, log_rewards, np.zeros(outcomes.shape), log_sets)


def visits_of(source: Source) -> IntArray:
    """Return the number of visits behind the model of each pair; 0 if it is not recorded."""
    return np.where(source.known, source.rows.counts, 0)


def fewest_visits(is_enough: Callable[[int], bool]) -> int | None:
    """Return the smallest number of visits that is enough; None if 10^9 are not."""
    few, many = 0, 1
    while not is_enough(many):
        if many >= MOST_VISITS:
            return None
        few, many = many, 2 * many
    while many - few > 1:
        middle = (few + many) // 2
        few, many = (few, middle) if is_enough(middle) else (middle, many)
    return many


def log_subsets(outcomes: IntArray) -> FloatArray:
    """Return ln(2^(K-1) - 1) for each number K of outcomes, -infinity for 1."""
    fewest, most = max(int(outcomes.min()), 2), max(int(outcomes.max()), 2)
    K = np.arange(fewest, most + 1, dtype=np.float64)  # few, and shared by pairs
    logs = (K - 1) * math.log(2) + np.log1p(-(2.0 ** (1 - K)))
    return np.where(outcomes > 1, logs[np.maximum(outcomes, fewest) - fewest], -np.inf)


def all_outcomes(setting: Setting) -> IntArray:
    """Return the number of outcomes of each pair if all are possible: the states, and ⊥."""
    return np.full(setting.n_pairs, setting.n_states + int(setting.terminating))


def possible_outcomes(nearness: Nearness, setting: Setting) -> IntArray:
    """Return the number of outcomes of each pair that a nearness allows."""
    outcomes = all_outcomes(setting)
    if nearness.successors is not None:
        outcomes = np.diff(nearness.successors.first) + int(setting.terminating)
    if nearness.terminates is not None and setting.terminating:
        outcomes = outcomes - ~nearness._per_pair("terminates", setting.n_pairs)
    return np.maximum(outcomes, 1)
