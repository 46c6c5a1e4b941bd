"""Statistics over repetitions.

A Student interval has its confidence if the repetitions are independent and normal, and nearly so
if they are many. For few repetitions of a skewed quantity, such as a rare failure that costs much,
it fails more often: `docs/experiments.md` shows by how much. No interval for a mean is valid for
all distributions, unless bounds on the numbers are known.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy import special

FloatArray = np.ndarray[Any, np.dtype[np.float64]]
BoolArray = np.ndarray[Any, np.dtype[np.bool_]]

MIN_REPETITIONS = 3  # for an interval
EQUAL = 1e-12  # repetitions whose range is this share of the largest of them count as equal


class Interval(NamedTuple):
    """A mean and the half-width of its confidence interval; NaN where there is no interval."""

    mean: FloatArray
    half_width: FloatArray


def student_interval(x: FloatArray, *, axis: int = 0, confidence: float = 0.95) -> Interval:
    """Return the mean of independent, normal repetitions along `axis`, with its Student t interval.

    There is no interval for fewer than 3 repetitions. There is none either where all of them are
    equal, because they do not say how much others might differ: its width would be 0.
    """
    n = x.shape[axis]
    mean = x.mean(axis=axis)
    if n < MIN_REPETITIONS:
        return Interval(mean, np.full_like(mean, np.nan))
    standard_error = x.std(axis=axis, ddof=1) / np.sqrt(n)
    half_width = standard_error * special.stdtrit(n - 1, (1 + confidence) / 2)
    return Interval(mean, np.where(all_equal(x, axis=axis), np.nan, half_width))


def all_equal(x: FloatArray, *, axis: int = 0) -> BoolArray:
    """Return where all numbers along `axis` are equal, up to rounding."""
    return np.ptp(x, axis=axis) <= EQUAL * np.abs(x).max(axis=axis)


def moving_average(x: FloatArray, window: int) -> FloatArray:
    """Return the mean of the last `window` numbers along the last axis; of fewer at its start."""
    sums = np.cumsum(x, axis=-1)
    before = np.zeros_like(sums)
    before[..., window:] = sums[..., :-window] if window < x.shape[-1] else 0.0
    counts = np.minimum(np.arange(1, x.shape[-1] + 1), window)
    return (sums - before) / counts


MOST_SIGNS = 4096  # patterns of signs that are all tried; of more repetitions, so many are drawn


def step_down(differences: FloatArray) -> FloatArray:
    """Return p-values of the hypotheses that paired differences have no direction.

    Column i of `differences` [repetition, i] has those of one pair of agents. The p-values are
    corrected for their number: the probability that any true hypothesis has one of at most α is at
    most α. The test flips the signs of whole repetitions, so it allows for the dependence of
    columns, and assumes only that those without a direction are together symmetric around 0. It
    steps down from the largest statistic of Student (P. H. Westfall and S. S. Young, 1993). The
    smallest possible p-value of n repetitions is 2 / 2^n, or 1 / 4096 if that is larger.
    """
    n, k = differences.shape
    if 2 ** (n - 1) <= MOST_SIGNS:  # the other half has the same absolute values
        bits = np.arange(2 ** (n - 1))[:, None] >> np.arange(n) & 1
    else:
        bits = np.random.default_rng(0).integers(2, size=(MOST_SIGNS, n))
        bits[0] = 0  # the signs as they are count as one of the patterns
    squares = (differences**2).sum(axis=0)
    # Student's statistic grows with |sum| / √squares, which is the same for all units.
    scale = np.sqrt(np.where(squares > 0, squares, 1.0))
    sums = np.abs((1 - 2 * bits) @ differences) / scale
    order = np.argsort(-sums[0], kind="stable")
    largest = np.maximum.accumulate(sums[:, order[::-1]], axis=1)[:, ::-1]
    # A tolerance, since sums of the same numbers in another order differ by rounding errors.
    p = (largest >= sums[0, order] * (1 - EQUAL)).mean(axis=0)
    adjusted = np.empty(k)
    adjusted[order] = np.maximum.accumulate(p)
    return adjusted
