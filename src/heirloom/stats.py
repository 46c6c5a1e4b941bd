"""Statistics over repetitions.

A Student interval has its confidence if the repetitions are independent and normal, and nearly so
if they are many. For few repetitions of a skewed quantity, such as a rare failure that costs much,
it fails more often: `docs/experiments.md` shows by how much. No interval for a mean is valid for
all distributions, unless bounds on the numbers are known.
"""

from collections.abc import Callable
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


def relative_difference(x: FloatArray, baseline: FloatArray) -> Interval:
    """Return (mean(x) - mean(baseline)) / |mean(baseline)| with its 95 % interval.

    It is positive if x is better, also for negative returns; the mean of the baseline must not be
    0. Entry i of both arrays is repetition i. The interval is Student's for the ratio of means,
    linearised in both of them (delta method).
    """
    mean, of_baseline = x.mean(), baseline.mean()
    size = np.abs(of_baseline)
    # These have the mean of x, so that rounding errors are small compared with them.
    linearised = x - baseline * (mean / of_baseline) + mean
    half_width = student_interval(linearised / size).half_width
    return Interval((mean - of_baseline) / size, half_width)


def iqm(x: FloatArray, *, axis: int = 0) -> FloatArray:
    """Return the interquartile mean along `axis`: the mean of the middle half of the numbers."""
    from scipy import stats  # imported here because it takes a second

    return np.asarray(stats.trim_mean(x, 0.25, axis=axis))


def bootstrap_interval(
    x: FloatArray,
    *,
    statistic: Callable[[FloatArray], FloatArray] = iqm,
    confidence: float = 0.95,
    resamples: int = 2000,
    rng: np.random.Generator,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return (statistic, low, high) of x[repetition, task], by a stratified percentile bootstrap.

    The confidence is approximate, and less than stated for few repetitions.

    Each task is a stratum: repetitions are resampled within it. `statistic` takes all numbers of a
    resample as one flat array.
    """
    n_repetitions, n_tasks = x.shape
    drawn = rng.integers(n_repetitions, size=(resamples, n_repetitions, n_tasks))
    resampled = x[drawn, np.arange(n_tasks)].reshape(resamples, -1)
    values = np.array([statistic(numbers) for numbers in resampled])
    tail = (1 - confidence) / 2
    low, high = np.quantile(values, (tail, 1 - tail), axis=0)
    return np.asarray(statistic(x.reshape(-1))), low, high


def moving_average(x: FloatArray, window: int) -> FloatArray:
    """Return the mean of the last `window` numbers along the last axis; of fewer at its start."""
    sums = np.cumsum(x, axis=-1)
    before = np.zeros_like(sums)
    before[..., window:] = sums[..., :-window] if window < x.shape[-1] else 0.0
    counts = np.minimum(np.arange(1, x.shape[-1] + 1), window)
    return (sums - before) / counts


def relative_to(returns: FloatArray, baseline: FloatArray) -> FloatArray:
    """Average returns[..., repetition, task, episode] over episodes, and divide by a baseline.

    The baseline, [repetition, task], is the mean return of another agent or the optimal return.
    """
    return returns.mean(axis=-1) / baseline
