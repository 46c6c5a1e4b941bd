"""The successors that are possible at each pair, in any task of a family."""

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from heirloom.arrays import IntArray, StateArray, frozen
from heirloom.errors import InvalidArgument
from heirloom.wording import counted


class Successors(NamedTuple):
    """The possible successors of each pair k: `states[first[k]:first[k + 1]]`, ascending."""

    first: IntArray
    states: StateArray


def read_successors(value: Any) -> Successors:
    """Return possible successors as read-only arrays; raise `InvalidArgument` unless valid."""
    if isinstance(value, Successors):
        return _checked(value)
    if sparse.issparse(value):
        matrix = sparse.csr_array(value, copy=True)
    else:
        dense = as_array("successors", value)
        if dense.ndim != 3 or dense.dtype != np.bool_ or dense.shape[0] != dense.shape[2]:
            raise InvalidArgument(
                f"successors has dtype {dense.dtype} and shape {dense.shape}: expected booleans "
                "[s, a, s'], or a sparse matrix of shape (S·A, S)"
            )
        matrix = sparse.csr_array(dense.reshape(-1, dense.shape[2]))
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    matrix.sort_indices()
    return Successors(
        frozen(matrix.indptr.astype(np.int64)), frozen(matrix.indices.astype(np.int32))
    )


def _checked(value: Successors) -> Successors:
    """Copy arrays that compiled code reads; raise `InvalidArgument` unless they are valid."""
    first, states = np.array(value.first), np.array(value.states)
    if not (
        first.ndim == states.ndim == 1
        and first.dtype == np.int64
        and states.dtype == np.int32
        and first.size > 0
        and first[0] == 0
        and first[-1] == states.size
        and (first[1:] >= first[:-1]).all()  # a difference may overflow
        and states.min(initial=0) >= 0
        and _is_ascending(first, states)
    ):
        raise InvalidArgument(
            "successors is not valid: expected `first` (int64), which starts at 0, never decreases "
            "and ends at the number of `states` (int32), which ascend within each pair"
        )
    return Successors(frozen(first), frozen(states))


def _is_ascending(first: IntArray, states: StateArray) -> bool:
    """Return whether the states of each pair ascend, which means that none is repeated."""
    starts_pair = np.zeros(states.size + 1, dtype=bool)
    starts_pair[first] = True
    return bool(((np.diff(states) > 0) | starts_pair[1:-1]).all())


def no_successors(n_pairs: int) -> Successors:
    """Return arrays for kernels where every successor is possible.

    They are read-only like those of a nearness; numba would compile kernels again for others.
    """
    first, states = np.zeros(n_pairs + 1, dtype=np.int64), np.empty(0, dtype=np.int32)
    return Successors(frozen(first), frozen(states))


def common_successors(one: Successors | None, other: Successors | None) -> Successors | None:
    """Return the successors that both admit; None if every state is possible."""
    if one is None or other is None:
        return one if other is None else other
    if one.first.size != other.first.size:
        raise InvalidArgument(
            f"successors has {counted(one.first.size - 1, 'pair')} in one nearness and "
            f"{other.first.size - 1} in the other: combine nearness of the same tasks"
        )
    n_states = int(max(one.states.max(initial=0), other.states.max(initial=0))) + 1
    a, b = (
        sparse.csr_array((np.ones(x.states.size), x.states, x.first), (x.first.size - 1, n_states))
        for x in (one, other)
    )
    return read_successors(a.multiply(b))


def as_array(name: str, value: Any) -> np.ndarray:
    """Return a value as an array; raise `InvalidArgument` if it is none."""
    try:
        return np.array(value)
    except (TypeError, ValueError, OverflowError) as reason:
        raise InvalidArgument(f"{name} is not an array: {reason}") from None
