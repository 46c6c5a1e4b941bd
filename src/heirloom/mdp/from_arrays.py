"""Conversion of the arrays that describe a task, dense or sparse, into `Transitions`."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from heirloom.arrays import BoolArray, FloatArray, IntArray
from heirloom.errors import InvalidTask
from heirloom.mdp.available import read_available
from heirloom.mdp.transitions import (
    SUM_TOLERANCE,
    Entries,
    Transitions,
    collect,
    pair_text,
)
from heirloom.validation import LARGEST_REWARD, Range, check_range, numbers, shown
from heirloom.wording import size_of_task


def read_transitions(R: Any, T: Any, terminates: Any, available: Any = None) -> Transitions:
    """Return the transitions that arrays describe.

    Args:
        R: rewards per pair, [s, a], or per transition, in the shape of T.
        T: probabilities, [s, a, s'], or sparse of shape (S·A, S).
        terminates: None; or the terminal states (their numbers, or a boolean mask), so that every
            transition into them terminates; or the terminal transitions (booleans in the shape
            of T).
        available: None; or the pairs that exist, booleans [s, a]. R and T are ignored elsewhere.
    """
    matrix, n_states, n_actions = _read_probabilities(T)
    mask = read_available(available, n_states, n_actions)
    if mask is not None:
        matrix = _without(matrix, mask)
    pairs = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    successors = matrix.indices.astype(np.int64)
    outcomes = Entries(
        pairs,
        successors,
        matrix.data,
        _read_rewards(R, n_states, n_actions, pairs, successors, mask),
        _read_ends(terminates, n_states, n_actions, pairs, successors),
    )
    return collect(outcomes, n_states, n_actions, available=mask)


def _without(matrix: Any, mask: BoolArray) -> sparse.csr_array:
    """Return a matrix over pairs without its entries at pairs that are not available."""
    kept = mask[_row_indices(matrix)]
    indptr = np.append(0, np.cumsum(np.where(mask, np.diff(matrix.indptr), 0)))
    return sparse.csr_array((matrix.data[kept], matrix.indices[kept], indptr), matrix.shape)


def read_start(start: int | ArrayLike | None, n_states: int) -> FloatArray:
    """Return the start distribution [s] from a state, a distribution, or None for uniform."""
    if start is None:
        return np.full(n_states, 1 / n_states)
    if isinstance(start, int | np.integer) and not isinstance(start, bool):
        if not 0 <= start < n_states:
            raise InvalidTask(f"start is state {shown(start)}: the states are 0 to {n_states - 1}")
        p = np.zeros(n_states)
        p[start] = 1.0
        return p
    p = _task_numbers(start, "start")
    if p.shape != (n_states,):
        raise InvalidTask(
            f"start is {shown(start)}: expected the number of a state, or a distribution of shape "
            f"({n_states},)"
        )
    bad = np.flatnonzero(~(np.isfinite(p) & (p >= 0)))
    if bad.size:
        raise InvalidTask(f"start[{bad[0]}] is {p[bad[0]]}: expected a probability, from 0 to 1")
    if abs(p.sum() - 1) > SUM_TOLERANCE:
        raise InvalidTask(f"start sums to {p.sum():.12g}, not 1: divide it by its sum, in float64")
    return p / p.sum()


def _read_probabilities(T: Any) -> tuple[Any, int, int]:
    """Return T as a sparse matrix, the number of states and the number of actions."""
    shape = T.shape if sparse.issparse(T) else _task_numbers(T, "T").shape
    flat = len(shape) == 2 and sparse.issparse(T)
    n_states = shape[-1] if shape else 0
    if flat and n_states and shape[0] and shape[0] % n_states == 0:
        n_actions = shape[0] // n_states
    elif len(shape) == 3 and shape[0] == n_states and min(shape) > 0:
        n_actions = shape[1]
    else:
        raise InvalidTask(
            f"T has shape {shape}: expected, for S states and A actions, a dense array [s, a, s'] "
            "of shape (S, A, S), or a sparse one of shape (S·A, S) with row s * A + a for (s, a)"
        )
    return _flat(T, "T", n_states, n_actions), n_states, n_actions


def _read_rewards(
    R: Any,
    n_states: int,
    n_actions: int,
    pairs: IntArray,
    successors: IntArray,
    mask: BoolArray | None,
) -> FloatArray:
    """Return the reward of each transition; `mask` marks the available pairs."""
    if not sparse.issparse(R):
        R = _task_numbers(R, "R")
        if R.shape == (n_states, n_actions):
            R = R.reshape(-1) if mask is None else np.where(mask, R.reshape(-1), 0.0)
            _check_finite(R, lambda k: pair_text(k, n_actions))
            return R[pairs]
    matrix = _flat(R, "R", n_states, n_actions, or_pairs=True)
    if mask is not None:
        matrix = _without(matrix, mask)
    rows, columns = _row_indices(matrix), matrix.indices
    _check_finite(matrix.data, lambda j: f"{pair_text(rows[j], n_actions)}, s'={columns[j]}")
    return _entries_at(matrix, pairs, successors)


def _check_finite(rewards: FloatArray, where: Callable[[int], str]) -> None:
    bad = np.flatnonzero(~np.isfinite(rewards))
    if bad.size:
        raise InvalidTask(f"R[{where(bad[0])}] is {rewards[bad[0]]}: expected a finite number")


def _read_ends(
    terminates: Any, n_states: int, n_actions: int, pairs: IntArray, successors: IntArray
) -> BoolArray:
    """Return, for each transition, whether it terminates the episode."""
    if terminates is None:
        return np.zeros(pairs.size, dtype=bool)
    if not sparse.issparse(terminates):
        try:
            terminates = np.asarray(terminates)
        except ValueError as error:
            raise InvalidTask(f"terminates is not an array: {error}") from None
    if terminates.ndim == 3 or sparse.issparse(terminates):
        matrix = _flat(terminates, "terminates", n_states, n_actions)
        invalid = matrix.data[(matrix.data != 0) & (matrix.data != 1)]
        if invalid.size:
            raise InvalidTask(
                f"terminates contains {invalid[0]}: expected 1 (terminal) or 0 (nonterminal)"
            )
        return _entries_at(matrix, pairs, successors) == 1
    return _terminal_states(terminates, n_states)[successors]


def _terminal_states(states: Any, n_states: int) -> BoolArray:
    """Return a mask of the terminal states."""
    if states.dtype == bool and states.shape == (n_states,):
        return states
    mask = np.zeros(n_states, dtype=bool)
    if states.size == 0:
        return mask
    if states.dtype.kind not in "iu" or states.ndim != 1:
        raise InvalidTask(
            f"terminates has shape {states.shape} and dtype {states.dtype}: expected a list of "
            f"states, a boolean mask of shape ({n_states},), or booleans in the shape of T"
        )
    indices, counts = np.unique(states, return_counts=True)
    outside = indices[(indices < 0) | (indices >= n_states)]
    if outside.size:
        raise InvalidTask(
            f"terminates contains state {outside[0]}: the states are 0 to {n_states - 1}"
        )
    if (counts > 1).any():
        raise InvalidTask(
            f"terminates contains state {indices[counts > 1][0]} twice: "
            "if it is a mask over states, make it boolean"
        )
    mask[indices] = True
    return mask


def _flat(
    array: Any, name: str, n_states: int, n_actions: int, *, or_pairs: bool = False
) -> sparse.csr_array:
    """Copy an array in the shape of T into a sparse matrix with row s * A + a for (s, a).

    With `or_pairs`, the message about a wrong shape also offers the shape (S, A).
    """
    n_pairs = n_states * n_actions
    if sparse.issparse(array):
        if array.shape == (n_pairs, n_states):
            matrix = sparse.csr_array(array, copy=True)
            matrix.data = _task_numbers(matrix.data, name)
            try:
                matrix.check_format(full_check=True)
            except ValueError as error:
                raise InvalidTask(f"{name} is not a valid sparse matrix: {error}") from None
            matrix.sum_duplicates()
            return matrix
    else:
        array = _task_numbers(array, name)
        if array.shape == (n_states, n_actions, n_states):
            return sparse.csr_array(array.reshape(n_pairs, n_states))
    pairs = f"shape ({n_states}, {n_actions}) for rewards per pair, " if or_pairs else ""
    raise InvalidTask(
        f"{name} has shape {array.shape}: expected, for {size_of_task(n_states, n_actions)}, "
        f"{pairs}shape ({n_states}, {n_actions}, {n_states}), or a sparse matrix of shape "
        f"({n_pairs}, {n_states})"
    )


def _entries_at(matrix: sparse.csr_array, rows: IntArray, columns: IntArray) -> FloatArray:
    """Return the entries of a sparse matrix at (rows, columns): zero where none is stored."""
    width = matrix.shape[1]
    stored = _row_indices(matrix) * width + matrix.indices
    wanted = rows * width + columns
    if np.array_equal(stored, wanted):
        return matrix.data
    if stored.size == 0:
        return np.zeros(wanted.size)
    positions = np.minimum(np.searchsorted(stored, wanted), stored.size - 1)
    return np.where(stored[positions] == wanted, matrix.data[positions], 0.0)


def _row_indices(matrix: sparse.csr_array) -> IntArray:
    return np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))


def _task_numbers(array: Any, name: str) -> FloatArray:
    return numbers(name, array, InvalidTask)


def rewards_of(transitions: Transitions) -> tuple[FloatArray, IntArray]:
    """Return the rewards that can occur, per transition or per available pair, and their pairs."""
    t = transitions
    if t.rewards is not None:
        return t.rewards, t.pairs
    if t.available is None:
        return t.R, np.arange(t.R.size)
    pairs = np.flatnonzero(t.available)
    return t.R[pairs], pairs


def range_around(transitions: Transitions, reward_range: Range | None, gamma: float) -> Range:
    """Return the range of rewards; raise `InvalidTask` unless all rewards of the task lie in it."""
    rewards, pairs = rewards_of(transitions)
    largest = float(np.abs(rewards).max())
    if largest > LARGEST_REWARD * (1 - gamma) ** 3:  # distances have up to three factors 1 / (1-γ)
        raise InvalidTask(
            f"the largest absolute reward is {largest:g}: with gamma={gamma}, values and distances "
            "would overflow float64; rescale the rewards"
        )
    if reward_range is None:
        return float(rewards.min()), float(rewards.max())
    lo, hi = check_range(reward_range, gamma)
    outside = np.flatnonzero((rewards < lo) | (rewards > hi))
    if outside.size:
        j = int(outside[0])
        where = pair_text(pairs[j], transitions.n_actions)
        if transitions.rewards is not None:
            where += f", s'={transitions.successors[j]}"
        raise InvalidTask(
            f"R[{where}] is {float(rewards[j])}, outside reward_range ({lo}, {hi}): give "
            f"reward_range=({float(rewards.min())}, {float(rewards.max())}) or wider, the same for "
            "all tasks that you compare"
        )
    return lo, hi
