"""Statistics over repetitions: pure functions of arrays whose axes are in their names."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import special

FloatArray = np.ndarray[Any, np.dtype[np.float64]]


class Interval(NamedTuple):
    """A mean, and half of the width of its interval; NaN if there is one repetition only."""

    mean: FloatArray
    half_width: FloatArray


def student_interval(x: FloatArray, *, axis: int = 0, confidence: float = 0.95) -> Interval:
    """The mean of independent repetitions along `axis`, with its Student interval."""
    n = x.shape[axis]
    mean = x.mean(axis=axis)
    if n < 2:
        return Interval(mean, np.full_like(mean, np.nan))
    spread = x.std(axis=axis, ddof=1) / np.sqrt(n)
    return Interval(mean, spread * special.stdtrit(n - 1, (1 + confidence) / 2))


def gain(x: FloatArray, baseline: FloatArray) -> FloatArray:
    """How much better x is than a baseline, as a part of the baseline's size, costs or not.

    NaN where the baseline is nothing.
    """
    size = np.abs(baseline)
    return np.divide(x - baseline, size, out=np.full_like(x, np.nan), where=size > 0)


def iqm(x: FloatArray, *, axis: int = 0) -> FloatArray:
    """The interquartile mean along `axis`: of the middle half of the numbers."""
    from scipy import stats  # takes a second to import

    return np.asarray(stats.trim_mean(x, 0.25, axis=axis))


def bootstrap_interval(
    x: FloatArray,
    *,
    statistic: Callable[[FloatArray], FloatArray] = iqm,
    confidence: float = 0.95,
    resamples: int = 2000,
    rng: np.random.Generator,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """(statistic, low, high) of x[repetition, task], by a stratified percentile bootstrap.

    Repetitions are drawn anew within each task, which is a stratum; the statistic is that of all
    numbers together, of an array with one axis.
    """
    n_repetitions, n_tasks = x.shape
    drawn = rng.integers(n_repetitions, size=(resamples, n_repetitions, n_tasks))
    resampled = x[drawn, np.arange(n_tasks)].reshape(resamples, -1)
    values = np.array([statistic(one) for one in resampled])
    tail = (1 - confidence) / 2
    low, high = np.quantile(values, (tail, 1 - tail), axis=0)
    return np.asarray(statistic(x.reshape(-1))), low, high


def moving_average(x: FloatArray, window: int) -> FloatArray:
    """The mean of the last `window` numbers along the last axis; of fewer at the beginning."""
    sums = np.cumsum(x, axis=-1)
    before = np.zeros_like(sums)
    before[..., window:] = sums[..., :-window] if window < x.shape[-1] else 0.0
    number = np.minimum(np.arange(1, x.shape[-1] + 1), window)
    return (sums - before) / number


def relative_to(returns: FloatArray, baseline: FloatArray) -> FloatArray:
    """returns[..., repetition, task, episode], averaged over episodes, over a baseline.

    The baseline is [repetition, task]: the mean return of another agent, or the best possible one.
    """
    return returns.mean(axis=-1) / baseline
