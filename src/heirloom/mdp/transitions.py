"""The transitions of each pair (s, a): successors, probabilities, rewards, termination.

`Transitions` is the internal form of a `TabularMDP`. A transition is (s, a, s', ends): the same
successor can be entered with and without termination, and these are two different transitions.

Certified errors refer to the following exact task. Its probabilities are the float64 numbers `p`,
which are the given ones after normalisation; a row may still differ from 1 in sum by a few
roundings. Its rewards are the given float64 numbers r. A transition that was merged from several
outcomes has the exact mean of their rewards, weighted by their given probabilities. The mean reward
of a pair is Σ p r / Σ p; `R` is this mean rounded to float64, and `R_error` bounds its error.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from heirloom.arrays import BoolArray, FloatArray, IntArray, StateArray, frozen
from heirloom.errors import InvalidTask
from heirloom.mdp.available import SparseRows, checked_available, row_sums, rows_of, stand_ins
from heirloom.validation import LARGEST_REWARD, shown, sizes

SUM_TOLERANCE = 1e-9


@dataclass(frozen=True, eq=False)
class Transitions:
    """All transitions; those of the pair k = s * A + a are at `indptr[k]:indptr[k + 1]`.

    Within a pair, successors are sorted; if a successor occurs twice, the second transition is the
    terminal one. `rewards` is None if every transition has the mean reward `R` of its pair; `ends`
    is None if no transition is terminal. `available` is None if every action is available in every
    state; otherwise a pair has transitions if and only if it is marked there.

    `R_error` bounds the rounding error of `R` per pair, |R - Σ p r / Σ p|. Unless `rewards` is None
    it also bounds |R - Σ p r|, which is the same where a row sums to 1. It is zero if the given
    rewards do not differ within pairs. `rewards_error` bounds the rounding error of `rewards`: zero
    unless outcomes with different rewards were merged.
    """

    n_states: int
    n_actions: int
    indptr: IntArray
    successors: StateArray
    p: FloatArray
    R: FloatArray
    R_error: FloatArray
    rewards: FloatArray | None
    rewards_error: float
    ends: BoolArray | None
    available: BoolArray | None = None

    def __post_init__(self) -> None:
        self._freeze()

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._freeze()  # unpickled arrays are writable

    def _freeze(self) -> None:
        for value in self.__dict__.values():
            for array in value if isinstance(value, SparseRows) else (value,):
                if isinstance(array, np.ndarray):
                    frozen(array)

    @property
    def pairs(self) -> IntArray:
        """The pair of each transition."""
        return np.repeat(np.arange(self.indptr.size - 1), np.diff(self.indptr))

    @cached_property
    def continuing(self) -> SparseRows:
        """The nonterminal transitions; a row sums to 1 minus its probability of termination."""
        if self.ends is None:
            return SparseRows(self.indptr, self.successors, self.p)
        indptr = np.append(0, np.cumsum(row_sums(~self.ends, self.indptr, np.int64)))
        return SparseRows(
            frozen(indptr), frozen(self.successors[~self.ends]), frozen(self.p[~self.ends])
        )

    @cached_property
    def end_probability(self) -> FloatArray:
        """The probability of termination of each pair."""
        if self.ends is None:
            return frozen(np.zeros(self.indptr.size - 1))
        return frozen(row_sums(np.where(self.ends, self.p, 0.0), self.indptr))

    @cached_property
    def stand_ins(self) -> IntArray:
        """Each available pair itself; for a missing pair, the first available one of its state."""
        if self.available is None:
            return frozen(np.arange(self.indptr.size - 1))
        return frozen(stand_ins(self.available, self.n_actions))

    @cached_property
    def completed(self) -> SparseRows:
        """The nonterminal transitions, in which missing pairs have the rows of their stand-ins."""
        if self.available is None:
            return self.continuing
        return rows_of(self.continuing, self.stand_ins)


def check_transitions(transitions: object) -> None:
    """Raise `InvalidTask` unless `transitions` describe a task, as `collect` makes them."""
    if not isinstance(transitions, Transitions):
        raise InvalidTask(
            f"transitions is {shown(transitions)}: expected Transitions, such as m.transitions"
        )
    t = transitions
    n_states, n_actions = sizes(t.n_states, t.n_actions)
    n_pairs = n_states * n_actions
    size = t.p.size if isinstance(t.p, np.ndarray) else 0
    arrays: list[tuple[str, Any, type, int]] = [
        ("indptr", t.indptr, np.int64, n_pairs + 1),
        ("successors", t.successors, np.int32, size),
        ("p", t.p, np.float64, size),
        ("R", t.R, np.float64, n_pairs),
    ]
    arrays += [] if t.rewards is None else [("rewards", t.rewards, np.float64, size)]
    arrays += [] if t.ends is None else [("ends", t.ends, np.bool_, size)]
    arrays += [] if t.available is None else [("available", t.available, np.bool_, n_pairs)]
    for name, array, dtype, length in arrays:
        is_valid = isinstance(array, np.ndarray) and array.dtype == dtype
        if not is_valid or array.shape != (length,) or not array.flags.c_contiguous:
            raise InvalidTask(
                f"{name} of transitions is {shown(array)}: expected an array of {np.dtype(dtype)} "
                f"of shape ({length},)"
            )
        if dtype is np.float64 and not np.isfinite(array).all():
            raise InvalidTask(f"{name} of transitions has a number that is not finite")
    lengths = np.diff(t.indptr)
    there = np.ones(n_pairs, dtype=bool) if t.available is None else t.available
    checked_available(there, n_states, n_actions)
    in_order = (t.indptr[1:] >= t.indptr[:-1]).all()  # `lengths` may overflow
    rows_are_valid = t.indptr[0] == 0 and t.indptr[-1] == size and in_order
    if not rows_are_valid or ((lengths > 0) != there).any():
        raise InvalidTask(
            "indptr of transitions does not give each pair one or more transitions, in order, and "
            "none to an action that is not available"
        )
    if t.available is not None and t.R[~t.available].any():
        raise InvalidTask("R of transitions is not 0 for an action that is not available")
    least, most = int(t.successors.min()), int(t.successors.max())
    if least < 0 or most >= n_states:
        raise InvalidTask(
            f"successors of transitions are from {least} to {most}: the states are 0 to "
            f"{n_states - 1}"
        )
    sums = np.add.reduceat(t.p, t.indptr[:-1][lengths > 0])
    if t.p.min() < 0 or np.abs(sums - 1).max() > SUM_TOLERANCE:
        raise InvalidTask("p of transitions does not hold a distribution for each pair")


class Entries(NamedTuple):
    """Entries of a transition table, in any order; some may have probability 0, or be split."""

    pairs: IntArray
    successors: IntArray
    p: FloatArray
    rewards: FloatArray
    ends: BoolArray


def collect(
    outcomes: Entries,
    n_states: int,
    n_actions: int,
    *,
    available: BoolArray | None = None,
) -> Transitions:
    """Collect the entries of a transition table into `Transitions`.

    Entries with equal pair, successor and `ends` are merged: probabilities are added, and the
    reward is their mean. Raises `InvalidTask` if the outcomes of a pair are not a distribution.
    `available` marks the pairs that exist, None for all; outcomes of other pairs are ignored.
    """
    if available is not None:
        available = checked_available(available, n_states, n_actions)
    if available is not None:
        outcomes = _selected(outcomes, available[outcomes.pairs])
    _check_entries(outcomes, n_actions)
    if not (outcomes.p > 0).all():
        outcomes = _selected(outcomes, outcomes.p > 0)
    (pairs, successors, p, rewards, ends), merged = _merged(outcomes, n_states)
    indptr = np.append(0, np.cumsum(np.bincount(pairs, minlength=n_states * n_actions)))
    rows = indptr if available is None else np.append(indptr[:-1][available], indptr[-1])
    p = _normalised(p, rows, n_actions, available)
    R, R_error = mean_rewards(rewards, merged, p, rows)
    if available is not None:
        R, R_error = (_spread(x, available) for x in (R, R_error))
    rewards_differ = bool((R[pairs] != rewards).any())
    return Transitions(
        n_states=n_states,
        n_actions=n_actions,
        indptr=indptr,
        successors=successors.astype(np.int32),
        p=p,
        R=R,
        R_error=R_error,
        rewards=rewards if rewards_differ else None,
        rewards_error=0.0 if merged is None else float(merged.error_of_mean.max()),
        ends=ends if ends.any() else None,
        available=available,
    )


def _spread(x: FloatArray, available: BoolArray) -> FloatArray:
    """Return the numbers of the available pairs as numbers of all pairs, 0 for the others."""
    spread = np.zeros(available.size)
    spread[available] = x
    return spread


def _check_entries(entries: Entries, n_actions: int) -> None:
    """Raise `InvalidTask` unless probabilities and rewards are numbers in their ranges."""
    most, finite = LARGEST_REWARD, f"a finite number, at most {LARGEST_REWARD:g} in size"
    for letter, x, least, expected in (
        ("T", entries.p, 0.0, "a probability, from 0 to 1"),
        ("R", entries.rewards, -most, finite),
    ):
        bad = np.flatnonzero(~((x >= least) & (x <= most)))
        if bad.size:
            pair, successor = entries.pairs[bad[0]], entries.successors[bad[0]]
            raise InvalidTask(
                f"{letter}[{pair_text(pair, n_actions)}, s'={successor}] is {x[bad[0]]}: "
                f"expected {expected}"
            )


def _selected(outcomes: Entries, which: BoolArray | IntArray) -> Entries:
    pairs, successors, p, rewards, ends = outcomes
    return Entries(pairs[which], successors[which], p[which], rewards[which], ends[which])


class Means(NamedTuple):
    """Means of rows: `mean` + `low` are within `error` of the exact ones.

    `excess` is the sum of the weights of each row, minus 1.
    """

    mean: FloatArray
    low: FloatArray
    error: FloatArray
    excess: FloatArray

    @property
    def error_of_mean(self) -> FloatArray:
        """A bound on the error of `mean` alone."""
        return np.abs(self.low) + self.error


def _merged(outcomes: Entries, n_states: int) -> tuple[Entries, Means | None]:
    """Sort outcomes by pair, successor and `ends`, and merge those in which all three agree.

    Returns the outcomes, and if outcomes with different rewards were merged, their mean rewards
    with more digits than float64 has.
    """
    keys = (outcomes.pairs * n_states + outcomes.successors) * 2 + outcomes.ends
    if (np.diff(keys) > 0).all():
        return outcomes, None
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    first = np.flatnonzero(np.diff(keys, prepend=-1))
    pairs, successors, p, rewards, ends = _selected(outcomes, order)
    indptr = np.append(first, p.size)
    means = None
    if differ_within_rows(rewards, indptr):
        means = means_of(rewards, np.empty(0), p, indptr)
    merged = Entries(
        pairs[first],
        successors[first],
        np.add.reduceat(p, first),
        rewards[first] if means is None else means.mean,
        ends[first],
    )
    return merged, means


def means_of(x: FloatArray, x_low: FloatArray, weights: FloatArray, indptr: IntArray) -> Means:
    """Return the means of x + x_low in each row; an empty `x_low` stands for zeros."""
    from heirloom.kernels import means  # here, because tasks with one reward per pair need no numba

    results = Means(*(np.empty(indptr.size - 1) for _ in Means._fields))
    means.weigh(weights, x, x_low, indptr, *results)
    return results


def mean_rewards(
    rewards: FloatArray, merged: Means | None, p: FloatArray, indptr: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Return the mean reward of each pair, and a bound on its rounding error."""
    if merged is None and not differ_within_rows(rewards, indptr):
        return rewards[indptr[:-1]], np.zeros(indptr.size - 1)
    means = means_of(rewards, np.empty(0) if merged is None else merged.low, p, indptr)
    error = means.error_of_mean + np.abs(means.mean) * np.abs(means.excess)
    if merged is not None:
        error += 2 * np.add.reduceat(p * merged.error, indptr[:-1])  # 2 covers the rounding
    return means.mean, error


def differ_within_rows(x: FloatArray, indptr: IntArray) -> bool:
    """Whether a row has different numbers; no row is empty."""
    return bool((np.repeat(x[indptr[:-1]], np.diff(indptr)) != x).any())


def _normalised(
    p: FloatArray, indptr: IntArray, n_actions: int, available: BoolArray | None
) -> FloatArray:
    """Return the probabilities of rows, those of the available pairs, divided by their sums."""
    counts = np.diff(indptr)
    pairs = np.arange(counts.size) if available is None else np.flatnonzero(available)
    empty = np.flatnonzero(counts == 0)
    if empty.size:
        raise InvalidTask(
            f"T[{pair_text(pairs[empty[0]], n_actions)}] sums to 0, not 1: every available action "
            "needs a successor; make an absorbing state its own successor, or mark an action that "
            "does not exist with available"
        )
    sums = np.add.reduceat(p, indptr[:-1])
    worst = int(np.abs(sums - 1).argmax())
    if abs(sums[worst] - 1) > SUM_TOLERANCE:
        raise InvalidTask(
            f"T[{pair_text(pairs[worst], n_actions)}] sums to {sums[worst]:.12g}, not 1: "
            "divide counts or weights by their sum, in float64"
        )
    return p / np.repeat(sums, counts)


def pair_text(pair: int, n_actions: int) -> str:
    """Return the location of a pair for error messages: "s=1, a=0"."""
    s, a = divmod(int(pair), n_actions)
    return f"s={s}, a={a}"
