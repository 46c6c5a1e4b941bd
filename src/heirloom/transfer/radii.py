"""How far the learned models of a task may be from the true ones.

The first n visits of a pair are independent draws, whatever led the agent there. So all mean
rewards R̂ and distributions T̂ (over K outcomes) of the known pairs of a task are within the
following radii of the true ones (Hoeffding; Weissman et al., 2003):

    η = (hi - lo) √(ln(4 S A / δ_j) / 2n)                      for mean rewards
    τ = ½ √(2 ln((2^K - 2) 2 S A / δ_j) / n)                   in total variation

for all tasks at once with probability 1 - δ, if δ_j = 6 δ / (π² j²) and no two tasks have the same
j. This is the number of the task, which counts forgotten tasks, plus the number of tasks that were
dropped after they were compared. When a task is dropped, j of all stored tasks increases: it is
then at least what it was when the task began, so that the radii only grow, and the sum of all δ_j
that were ever used is at most δ. The radii are for a fixed number of visits, so that only known
pairs may be compared.

If the user declares the models exact, they are accurate to the ε of the setting instead: η = ε and
τ = ε / 2, up to rounding.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from heirloom.arrays import FloatArray, IntArray
from heirloom.transfer.setting import Setting
from heirloom.transfer.source import Source

ROUNDING = 1e-9  # largest difference of exact models that is due to rounding, relative to the range

SMALLEST = 5e-324  # positive number; the share of δ of a task may underflow


class Radii(NamedTuple):
    """The radius of all mean rewards of a task, and those of its transitions, over pairs."""

    reward: float
    transitions: FloatArray


@dataclass(frozen=True)
class Accuracy:
    """Whether learned models are exact, and otherwise the probability δ that a radius fails."""

    exact: bool
    delta: float
    n_dropped: int = 0
    """The number of dropped tasks, `TaskMemory.n_dropped`."""

    def radii(self, source: Source, setting: Setting, outcomes: IntArray) -> Radii:
        """Return the radii of a task, infinite if its number of visits is not recorded.

        `outcomes` has the number of possible outcomes, over pairs.
        """
        return self.radii_of(source.n_known, source.task, setting, outcomes)

    def radii_of(self, n: int, task: int, setting: Setting, outcomes: IntArray) -> Radii:
        """Return the radii of the task with this number if `n` visits make a pair known."""
        if self.exact:
            lo, hi = setting.reward_range
            rounding = ROUNDING * (hi - lo) + 8 * np.finfo(float).eps * max(abs(lo), abs(hi))
            tau = setting.epsilon / 2 + ROUNDING
            return Radii(setting.epsilon + rounding, np.where(outcomes > 1, tau, ROUNDING))
        log_pairs = log_pairs_over_delta(task + self.n_dropped, self.delta, setting)
        return Radii(
            reward_radius(n, log_pairs, setting),
            transition_radii(n, log_pairs, outcomes),
        )


def log_pairs_over_delta(task: int, delta: float, setting: Setting) -> float:
    """Return ln(2 S A / δ_j) for j = `task`."""
    share = max(6 * delta / (math.pi * max(task, 1)) ** 2, SMALLEST)
    return math.log(2 * setting.n_pairs) - math.log(share)


def reward_radius(n: int, log_pairs: float, setting: Setting) -> float:
    """Return η for n visits, infinite if n is 0."""
    lo, hi = setting.reward_range
    if n == 0:
        return math.inf
    return (hi - lo) * math.sqrt((math.log(2) + log_pairs) / (2 * n))


def transition_radii(n: int, log_pairs: float, outcomes: IntArray) -> FloatArray:
    """Return τ for n visits and each number of outcomes; with one outcome there is no error."""
    if n == 0:
        return np.full(outcomes.shape, math.inf)
    fewest, most = int(outcomes.min()), int(outcomes.max())
    K = np.arange(max(fewest, 2), max(most, 2) + 1, dtype=np.float64)  # few, and shared by pairs
    log_subsets = K * math.log(2) + np.log1p(-(2.0 ** (1 - K)))  # ln(2^K - 2)
    radii = np.sqrt(2 * (log_subsets + log_pairs) / n) / 2
    if fewest > 1:
        return radii[outcomes - fewest]
    return np.where(outcomes > 1, radii[np.maximum(outcomes, 2) - 2], 0.0)


def all_outcomes(setting: Setting) -> IntArray:
    """Return the number of outcomes of each pair if all are possible: the states, and ⊥."""
    return np.full(setting.n_pairs, setting.n_states + int(setting.terminating))
