"""Statistics over repetitions: pure functions of arrays whose axes are in their names."""

from typing import Any, NamedTuple

import numpy as np
from scipy import stats

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
    return Interval(mean, spread * stats.t.ppf((1 + confidence) / 2, n - 1))


def gain(x: FloatArray, baseline: FloatArray) -> FloatArray:
    """How much better x is than a baseline, as a part of the baseline's size, costs or not."""
    return (x - baseline) / np.abs(baseline)
