"""Measures of an agent over a run, in the terms of lifelong learning; pure functions of arrays.

The arrays have one entry per repetition and task, or per repetition, task and episode. Repetitions
whose job is missing are NaN and are left out. The terms are those of Taylor and Stone (2009):
jumpstart, total reward, time to threshold; forward transfer is that of Continual World (2021).
"""

from typing import NamedTuple

import numpy as np

from heirloom.arrays import BoolArray, FloatArray
from heirloom.stats import Interval, student_interval

NEAR = 0.95
"""The share of the optimal return from which on a policy counts as near-optimal."""
EARLY = 0.01
"""The share of the episodes of a task that count for the jumpstart."""
FEWEST_LEFT = 0.05
"""The share of the episodes that must be left to judge that an agent is near-optimal."""


class Threshold(NamedTuple):
    """Episodes until an agent is near-optimal, [repetition, task]."""

    episodes: FloatArray
    """All episodes of the task where the agent did not become near-optimal."""
    reached: BoolArray


def over_repetitions(values: FloatArray) -> Interval:
    """Mean and 95 % Student interval over the repetitions that are not NaN, if they are normal."""
    finite = values[np.isfinite(values)]
    if not finite.size:
        return Interval(np.array(np.nan), np.array(np.nan))
    return student_interval(finite)


def area_over(returns: FloatArray, baseline: FloatArray) -> FloatArray:
    """Total reward over that of the baseline, per task, [repetition].

    It is the area between the two learning curves [repetition, task, episode].
    """
    return (returns - baseline).sum(axis=2).mean(axis=1)


def jumpstart(returns: FloatArray, baseline: FloatArray) -> FloatArray:
    """Mean return of the first episodes over that of the baseline, from task 2 on, [repetition]."""
    if returns.shape[1] < 2:
        return np.full(returns.shape[0], np.nan)
    n = max(1, round(EARLY * returns.shape[2]))
    return (returns - baseline)[:, 1:, :n].mean(axis=(1, 2))


def forward_transfer(returns: FloatArray, baseline: FloatArray, optimal: FloatArray) -> FloatArray:
    """Share of the baseline's loss that an agent avoids, from task 2 on, [repetition].

    (A - B) / (O - B), with A and B the mean returns of the agent and the baseline over these tasks,
    and O the optimal expected return: 0 for the baseline, 1 for an agent that is optimal from the
    first episode on. NaN if the baseline is optimal.
    """
    if returns.shape[1] < 2:
        return np.full(returns.shape[0], np.nan)
    A, B = (x[:, 1:].mean(axis=(1, 2)) for x in (returns, baseline))
    loss = optimal[:, 1:].mean(axis=1) - B
    return np.divide(A - B, loss, out=np.full_like(A, np.nan), where=loss > 0)


def until_near_optimal(returns: FloatArray, optimal: FloatArray) -> Threshold:
    """Episodes after which the mean return of all remaining ones is near-optimal.

    Near-optimal means at least `NEAR` of the optimal expected return (for a negative optimum, no
    more than 1 - `NEAR` of its size below it). At least `FEWEST_LEFT` of the episodes must remain.
    """
    n = returns.shape[2]
    threshold = optimal - (1 - NEAR) * np.abs(optimal)
    remaining = np.arange(n, 0, -1)
    rest = np.cumsum(returns[:, :, ::-1], axis=2)[:, :, ::-1] / remaining
    good = (rest >= threshold[:, :, np.newaxis]) & (remaining >= max(1, FEWEST_LEFT * n))
    reached = good.any(axis=2)
    episodes = np.where(reached, good.argmax(axis=2), n).astype(np.float64)
    episodes[np.isnan(returns).any(axis=2) | np.isnan(optimal)] = np.nan
    return Threshold(episodes, reached)
