"""Mean rewards of pairs, with bounds on their rounding errors."""

from typing import NamedTuple

import numpy as np

from heirloom.arrays import FloatArray, IntArray


class Means(NamedTuple):
    """Means of rows: `mean` + `low` are within `error` of the exact ones.

    `excess` is the sum of the weights of each row, minus 1.
    """

    mean: FloatArray
    low: FloatArray
    error: FloatArray
    excess: FloatArray

    @property
    def error_of_mean(self) -> FloatArray:
        """A bound on the error of `mean` alone."""
        return np.abs(self.low) + self.error


def means_of(x: FloatArray, x_low: FloatArray, weights: FloatArray, indptr: IntArray) -> Means:
    """Return the means of x + x_low in each row; an empty `x_low` stands for zeros."""
    from heirloom.kernels import means  # here, because tasks with one reward per pair need no numba

    results = Means(*(np.empty(indptr.size - 1) for _ in Means._fields))
    means.weigh(weights, x, x_low, indptr, *results)
    return results


def mean_rewards(
    rewards: FloatArray, merged: Means | None, p: FloatArray, indptr: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Return the mean reward of each pair, and a bound on its rounding error."""
    if merged is None and not differ_within_rows(rewards, indptr):
        return rewards[indptr[:-1]], np.zeros(indptr.size - 1)
    means = means_of(rewards, np.empty(0) if merged is None else merged.low, p, indptr)
    error = means.error_of_mean + np.abs(means.mean) * np.abs(means.excess)
    if merged is not None:
        error += 2 * np.add.reduceat(p * merged.error, indptr[:-1])  # 2 covers the rounding
    return means.mean, error


def differ_within_rows(x: FloatArray, indptr: IntArray) -> bool:
    """Whether a row has different numbers; no row is empty."""
    return bool((np.repeat(x[indptr[:-1]], np.diff(indptr)) != x).any())
