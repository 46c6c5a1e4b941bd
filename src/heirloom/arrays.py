"""The types of arrays, and freezing them."""

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
StateArray = NDArray[np.int32]
BoolArray = NDArray[np.bool_]

AnyArray = TypeVar("AnyArray", bound=NDArray[Any])


def frozen(array: AnyArray) -> AnyArray:
    """The same array, made read-only."""
    array.setflags(write=False)
    return array
