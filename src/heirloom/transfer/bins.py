"""The bins that number the states of a memory, if its tasks are environments of real numbers."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from heirloom.arrays import FloatArray, frozen
from heirloom.errors import InvalidArgument
from heirloom.validation import numbers, shown

Edges = tuple[FloatArray, ...]
"""For each dimension of the observations, the numbers at which it is cut, in increasing order."""


def checked_edges(edges: Sequence[ArrayLike]) -> Edges:
    """Return the edges of each dimension; raise `InvalidArgument` unless they increase."""
    if not isinstance(edges, list | tuple) or not edges:
        raise InvalidArgument(
            f"edges is {shown(edges)}: expected a list with the edges of each dimension"
        )
    rows = []
    for i, given in enumerate(edges):
        row = np.array(numbers(f"edges[{i}]", given))
        if row.ndim != 1 or not np.isfinite(row).all() or (np.diff(row) <= 0).any():
            raise InvalidArgument(
                f"edges[{i}] is {shown(given)}: expected finite numbers in increasing order, or an "
                "empty list"
            )
        rows.append(frozen(row + 0.0))
    return tuple(rows)


def n_bins(edges: Edges) -> int:
    """Return the number of combinations of bins."""
    return int(np.prod([row.size + 1 for row in edges], dtype=object))


def same_edges(one: Edges, other: Edges) -> bool:
    """Whether two binnings number observations in the same way."""
    pairs = zip(one, other, strict=False)
    return len(one) == len(other) and all(np.array_equal(a, b) for a, b in pairs)
