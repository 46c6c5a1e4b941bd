"""Actions that are not available in every state.

A task may lack actions in some states. Its mask is a flat array of booleans over pairs
k = s * A + a, or None if all actions are available everywhere. A missing pair has no transitions,
and 0 as its mean reward.

Solvers use a task in which every missing action is a copy of the first available action of its
state. This task has the same optimal values of states, and kernels need no masks.
"""

from typing import Any, NamedTuple

import numpy as np

from heirloom.arrays import BoolArray, FloatArray, IntArray, StateArray, frozen
from heirloom.errors import InvalidTask
from heirloom.validation import shown


class Rows(NamedTuple):
    """A sparse matrix with one row per pair, in the layout of the kernels."""

    indptr: IntArray
    successors: StateArray
    p: FloatArray


def read_available(available: Any, n_states: int, n_actions: int) -> BoolArray | None:
    """Return a mask over pairs, or None if every action is available.

    Raises `InvalidTask` unless `available` has booleans [s, a], and an action for each state.
    """
    if available is None:
        return None
    try:
        given = np.asarray(available)
    except (TypeError, ValueError) as error:
        raise InvalidTask(f"available is not an array of booleans: {error}") from None
    if given.shape != (n_states, n_actions) or given.dtype != np.bool_:
        raise InvalidTask(
            f"available is {shown(available)}, of shape {given.shape} and type {given.dtype}: "
            f"expected booleans [s, a] of shape ({n_states}, {n_actions})"
        )
    return checked_available(given.reshape(-1), n_states, n_actions)


def checked_available(mask: BoolArray, n_states: int, n_actions: int) -> BoolArray | None:
    """Return a copy of a mask over pairs, or None if it is True everywhere.

    Raises `InvalidTask` if a state has no available action.
    """
    if mask.all():
        return None
    stuck = np.flatnonzero(~mask.reshape(n_states, n_actions).any(axis=1))
    if stuck.size:
        raise InvalidTask(
            f"state {stuck[0]} has no available action: every state needs at least one; give a "
            "terminal state an action that leads back to it"
        )
    return frozen(mask.copy())


def stand_ins(mask: BoolArray, n_actions: int) -> IntArray:
    """Return each available pair itself, and for a missing one the first available of its state."""
    pairs = np.arange(mask.size)
    first = mask.reshape(-1, n_actions).argmax(axis=1) + np.arange(0, mask.size, n_actions)
    return np.where(mask, pairs, np.repeat(first, n_actions))


def rows_of(rows: Rows, pairs: IntArray) -> Rows:
    """Return the rows of `pairs`, one after the other."""
    lengths = rows.indptr[pairs + 1] - rows.indptr[pairs]
    indptr = np.zeros(pairs.size + 1, dtype=np.int64)
    np.cumsum(lengths, out=indptr[1:])
    taken = np.arange(indptr[-1]) + np.repeat(rows.indptr[pairs] - indptr[:-1], lengths)
    return Rows(frozen(indptr), frozen(rows.successors[taken]), frozen(rows.p[taken]))


def row_sums(x: Any, indptr: IntArray, dtype: Any = None) -> Any:
    """Return the sum of each row, which is 0 for an empty row."""
    filled = np.diff(indptr) > 0
    if filled.all():
        return np.add.reduceat(x, indptr[:-1], dtype=dtype)
    sums = np.zeros(filled.size, dtype=x.dtype if dtype is None else dtype)
    if filled.any():
        sums[filled] = np.add.reduceat(x, indptr[:-1][filled], dtype=dtype)
    return sums


def action_text(s: int, a: int, mask: BoolArray) -> str:
    """Return what messages say about an action that is missing; `mask` is that of the state."""
    there = ", ".join(str(i) for i in np.flatnonzero(mask)[:10])
    more = ", ..." if np.count_nonzero(mask) > 10 else ""
    return f"action {a} is not available in state {s}: the available actions are {there}{more}"
