"""Array types, and helpers: arrays that are read-only, ranges, and arrays joined."""

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
StateArray = NDArray[np.int32]
BoolArray = NDArray[np.bool_]

AnyArray = TypeVar("AnyArray", bound=NDArray[Any])


def frozen(array: AnyArray) -> AnyArray:
    """Make an array read-only, in place, and return it."""
    array.setflags(write=False)
    return array


def read_only(array: AnyArray) -> AnyArray:
    """Return a read-only view of an array, which itself can still be written to."""
    return frozen(array.view())


def ranges(first: IntArray, lengths: IntArray) -> IntArray:
    """Return the numbers first[i], ..., first[i] + lengths[i] - 1, for all i."""
    before = np.cumsum(lengths) - lengths
    return np.repeat(first - before, lengths) + np.arange(int(lengths.sum()))


def joined(arrays: Sequence[np.ndarray], dtype: type) -> np.ndarray:
    """Concatenate arrays of a type; there may be none."""
    return np.concatenate([np.empty(0, dtype=dtype), *arrays]).astype(dtype, copy=False)
