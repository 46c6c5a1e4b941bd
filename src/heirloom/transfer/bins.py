"""What numbers the states of a memory, if its tasks are wrapped environments: bins, or a list."""

import ast
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from heirloom.arrays import FloatArray, frozen
from heirloom.errors import InvalidArgument, InvalidFile
from heirloom.validation import numbers, shown

Edges = tuple[FloatArray, ...]
"""For each dimension of the observations, the numbers at which it is cut, in increasing order."""
Numbers = dict[Hashable, int]
"""The number of each observation that was seen, if they are numbered in order of appearance."""


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


def contains(numbers: Numbers, others: Numbers) -> bool:
    """Whether all observations of others have the same number here."""
    return numbers is others or all(numbers.get(seen) == i for seen, i in others.items())


def as_texts(numbers: Numbers) -> dict[str, Any]:
    """Return numbers for the header of a file; raise unless `from_texts` can read them again."""
    seen = sorted(numbers, key=numbers.__getitem__)
    texts = {"observations": list(map(repr, seen)), "numbers": [numbers[one] for one in seen]}
    try:
        from_texts(texts)
    except (ValueError, SyntaxError) as error:
        raise InvalidArgument(
            f"the numbers could not be loaded again ({error}): let `key` return numbers, texts or "
            "tuples of these; nothing was written"
        ) from error
    return texts


def from_texts(texts: dict[str, Any]) -> Numbers:
    """Return the numbers of observations in the header of a file."""
    # literal_eval parses literals only: it executes no code from the file.
    seen = [ast.literal_eval(text) for text in texts["observations"]]
    numbers = dict(zip(seen, texts["numbers"], strict=True))
    if not all(type(number) is int and number >= 0 for number in numbers.values()):
        raise InvalidFile("a state number is not a whole number, 0 or more")
    return numbers
