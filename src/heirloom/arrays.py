"""Array types, and helpers that make arrays read-only."""

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
