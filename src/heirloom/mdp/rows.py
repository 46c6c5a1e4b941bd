"""What was counted of a task: `Rows`, estimated models of pairs, and `Outcomes`, single outcomes.

They go from the learned model through the memory to the kernels. Compiled code reads them without
checking indices, so this module also checks them.
"""

from typing import NamedTuple

import numpy as np

from heirloom.arrays import BoolArray, FloatArray, IntArray, StateArray, frozen, ranges
from heirloom.errors import InvalidArgument
from heirloom.mdp.transitions import SUM_TOLERANCE
from heirloom.validation import LARGEST_REWARD, Range, instance, shown

RELATIVE = 1e-9  # by how much rounding may take rewards and values beyond the limits of their range
MOST_VISITS = 2**40  # of a pair in one task, so that sums over tasks do not overflow
ROUNDING = 1e-3  # of p * counts, which is a whole number; above the error for `MOST_VISITS`


class Rows(NamedTuple):
    """Estimated models of the pairs k = s * A + a, in the layout of the kernels.

    A pair that was visited has a row: its mean reward, its frequency of termination `ends[k]`, and
    the frequencies `p` of its successors, in increasing order, both at `first[k]:last[k]`. `known`
    marks the pairs whose row counts as a model; other rows are estimates from fewer visits.
    """

    known: BoolArray
    counts: IntArray
    """The visits that the row is estimated from; 0 without a row, and for a row that was given."""
    R: FloatArray
    ends: FloatArray
    first: IntArray
    last: IntArray
    successors: StateArray
    p: FloatArray

    @property
    def lengths(self) -> IntArray:
        """The number of successors of each pair."""
        return self.last - self.first

    @property
    def exist(self) -> BoolArray:
        """The pairs that have a row."""
        return self.known | (self.counts > 0)

    @property
    def widest(self) -> int:
        """The largest number of successors of a known pair."""
        return int(self.lengths.max(initial=0, where=self.known))

    def outcomes(self, n_states: int) -> tuple[IntArray, FloatArray]:
        """Return the outcomes of all rows, k * (S + 1) + successor or S for ⊥, and frequencies.

        They are in no order.
        """
        ending = np.flatnonzero(self.ends > 0)
        owner = np.repeat(np.arange(self.known.size), self.lengths)
        taken = ranges(self.first, self.lengths)
        inner = owner * (n_states + 1) + self.successors[taken]
        outcomes = np.concatenate([inner, ending * (n_states + 1) + n_states])
        return outcomes, np.concatenate([self.p[taken], self.ends[ending]])


# The types of the fields of `Rows`.
DTYPES = (
    *(np.bool_, np.int64, np.float64, np.float64),
    *(np.int64, np.int64, np.int32, np.float64),
)
N_PER_PAIR = 6  # fields with one entry per pair, before `successors` and `p`


def collected(
    known: BoolArray,
    counts: IntArray,
    R: FloatArray,
    outcomes: tuple[IntArray, FloatArray],
    n_states: int,
) -> Rows:
    """Return read-only rows in the order of pairs, from outcomes as in `Rows.outcomes`."""
    order = np.argsort(outcomes[0])
    pairs, states = np.divmod(outcomes[0][order], n_states + 1)
    p = outcomes[1][order]
    at_end = states == n_states
    ends = np.zeros(known.size)
    ends[pairs[at_end]] = p[at_end]
    inner = ~at_end
    lengths = np.bincount(pairs[inner], minlength=known.size)
    last = np.cumsum(lengths)
    successors = states[inner].astype(np.int32)
    per_pair = known, counts, R, ends, last - lengths, last
    return _frozen(Rows(*per_pair, successors, p[inner]))


def compact(rows: Rows) -> Rows:
    """Copy rows, one after the other in the order of pairs, as read-only arrays."""
    last = np.cumsum(rows.lengths)
    taken = ranges(rows.first, rows.lengths)
    copies = rows.known.copy(), rows.counts.copy(), rows.R.copy(), rows.ends.copy()
    return _frozen(Rows(*copies, last - rows.lengths, last, rows.successors[taken], rows.p[taken]))


def _frozen(rows: Rows) -> Rows:
    for array in rows:
        frozen(array)
    return rows


def rewards_outside(rows: Rows, reward_range: Range) -> IntArray:
    """Return the pairs whose mean reward is outside a range by more than rounding errors."""
    return np.flatnonzero(rows.exist & is_outside(rows.R, reward_range))


def is_outside(R: FloatArray, reward_range: Range) -> BoolArray:
    """Return which mean rewards are outside a range by more than rounding errors."""
    lo, hi = reward_range
    tol = RELATIVE * max(abs(lo), abs(hi))
    return ~((R >= lo - tol) & (R <= hi + tol))


def read_rows(rows: object, n_pairs: int, n_states: int) -> Rows:
    """Return the rows of a source as read-only arrays; raise `InvalidArgument` unless valid."""
    given = instance("rows", rows, Rows, "such as source.rows")
    arrays = (
        read_vector(name, array, dtype)
        for name, array, dtype in zip(Rows._fields, given, DTYPES, strict=True)
    )
    read = Rows(*arrays)
    _check_sizes("rows", read, n_pairs)
    check_rows("rows", read, n_states)
    return read


def check_in_any_order(name: str, rows: object, n_pairs: int, n_states: int) -> None:
    """Raise `InvalidArgument` unless `rows` are valid; they need not follow each other.

    `name` is their name in messages.
    """
    given = instance(name, rows, Rows, "such as model.rows")
    for field, array, dtype in zip(Rows._fields, given, DTYPES, strict=True):
        if not isinstance(array, np.ndarray) or array.ndim != 1 or array.dtype != dtype:
            raise InvalidArgument(
                f"{name}.{field} is {shown(array)}: expected an array of {np.dtype(dtype)} with "
                "one axis"
            )
    _check_sizes(name, given, n_pairs)
    size = min(given.successors.size, given.p.size)
    inside = (given.first >= 0) & (given.first <= given.last) & (given.last <= size)
    _check(name, inside, f"a row is not between 0 and {size}")
    check_rows(name, compact(given), n_states)


def check_rows(name: str, rows: Rows, n_states: int) -> None:
    """Raise `InvalidArgument` unless rows are distributions over states and ⊥.

    They must follow each other in the order of pairs, without gaps, and their entries must be
    multiples of 1 / counts, unless counts is 0.
    """
    _, counts, R, ends, first, last, successors, p = rows
    for field, array in (("R", R), ("ends", ends), ("p", p)):
        _check(name, np.isfinite(array), f"{field} has an entry that is not finite")
    _check(name, np.abs(R) <= LARGEST_REWARD, "R has an entry that is too large")
    _check(
        name,
        (counts >= 0) & (counts <= MOST_VISITS),
        f"an entry of counts is not from 0 to {MOST_VISITS}",
    )
    inside = (first >= 0) & (first <= p.size) & (last >= 0) & (last <= p.size)
    _check(name, inside, f"a row is not between 0 and {p.size}, the size of p")
    lengths, exist = rows.lengths, rows.exist
    lengths_fit = (lengths >= 0) & (exist | (lengths == 0))
    _check(name, lengths_fit, "a row has a wrong length")
    _check(name, last == np.cumsum(lengths), "the rows do not follow each other")
    _check(
        name,
        successors.size == p.size == lengths.sum(),
        "the sum of lengths is not the number of successors",
    )
    in_range = (successors >= 0) & (successors < n_states)
    _check(name, in_range, f"a successor is not from 0 to {n_states - 1}")
    for frequencies in (p, ends):
        _check(name, frequencies >= 0, "a probability is negative")
    owner = np.repeat(np.arange(lengths.size), lengths)
    increasing = (np.diff(successors) > 0) | (np.diff(owner) > 0)
    _check(name, increasing, "the successors of a pair are not in increasing order")
    sums = np.bincount(owner, p, minlength=lengths.size) + ends  # 0 where there is no row
    _check(name, np.abs(sums - exist) <= SUM_TOLERANCE, "a row does not sum to 1")
    times = np.concatenate([p * counts[owner], ends * counts])
    whole = np.abs(times - np.rint(times)) <= ROUNDING
    _check(name, whole, "a frequency is not a number of visits, divided by counts")


def values(name: str, value: object, *, missing: bool = False) -> FloatArray:
    """Return finite numbers as a read-only array with one axis.

    With `missing`, -infinity is allowed, which stands for an action that is not available.
    """
    array = read_vector(name, value, np.float64)
    if not (np.isfinite(array) | (missing & np.isneginf(array))).all():
        raise InvalidArgument(f"{name} has an entry that is not finite: expected finite numbers")
    return array


def read_vector(name: str, value: object, dtype: type) -> np.ndarray:
    """Return a read-only array with one axis; an array that others can write to is copied."""
    expected = np.dtype(dtype)
    kinds = {"b": "b", "i": "iu", "f": "biuf"}[expected.kind]
    if not isinstance(value, np.ndarray) or value.ndim != 1 or value.dtype.kind not in kinds:
        raise InvalidArgument(
            f"{name} is {shown(value)}: expected an array of {expected} with one axis"
        )
    is_final = value.flags.owndata and not value.flags.writeable and value.flags.c_contiguous
    if not is_final or value.dtype != expected:
        converted = value.astype(expected)
        if expected.kind == "i" and (converted != value).any():
            raise InvalidArgument(f"{name} has entries beyond the range of {expected}")
        value = frozen(converted)
    return value


def _check_sizes(name: str, rows: Rows, n_pairs: int) -> None:
    per_pair = zip(Rows._fields[:N_PER_PAIR], rows[:N_PER_PAIR], strict=True)
    for field, array in per_pair:
        _check(name, array.size == n_pairs, f"{field} has {array.size} entries, not {n_pairs}")


def _check(name: str, is_valid: BoolArray | bool, problem: str) -> None:  # noqa: FBT001 -- like an assertion
    if not np.all(is_valid):
        raise InvalidArgument(
            f"{name} is not valid ({problem}): expected what a learned model or a source has"
        )


class Outcomes(NamedTuple):
    """All visits of a task: those of pair k = s * A + a are at `first[k]:first[k + 1]`.

    Within a pair, `states` increase. All arrays are read-only. `Rows` have the same visits, or the
    first of them, without rewards of single outcomes and with all terminal transitions as one.
    """

    first: IntArray
    states: StateArray
    """The successor s, or -1 - s if the transition to s was terminal."""
    times: IntArray
    """How often the outcome was seen, 1 or more."""
    R: FloatArray
    """The mean reward of these visits, up to rounding."""
    varies: BoolArray
    """Whether two of these visits had different rewards; True if that is not known."""

    @property
    def pairs(self) -> IntArray:
        """The pair of each outcome."""
        return np.repeat(np.arange(self.first.size - 1), np.diff(self.first))


OUTCOME_DTYPES = np.int64, np.int32, np.int64, np.float64, np.bool_  # of the fields of `Outcomes`


def read_outcomes(outcomes: object, rows: Rows, n_states: int) -> Outcomes:
    """Return the outcomes of a source as read-only arrays; raise `InvalidArgument` unless valid."""
    given = instance("outcomes", outcomes, Outcomes, "such as model.outcomes, or None")
    named = zip(Outcomes._fields, given, OUTCOME_DTYPES, strict=True)
    read = Outcomes(
        *(read_vector(f"outcomes.{name}", array, dtype) for name, array, dtype in named)
    )
    n_pairs = rows.counts.size
    _check(
        "outcomes",
        read.first.size == n_pairs + 1,
        f"first has {read.first.size} entries, not {n_pairs + 1}",
    )
    check_outcomes(read, rows.counts, rows.exist, n_states)
    return read


def check_outcomes(outcomes: Outcomes, counts: IntArray, exist: BoolArray, n_states: int) -> None:
    """Raise `InvalidArgument` unless outcomes are valid, and agree with rows.

    Rows have at most as many visits, `counts`, because they can be older than the last visit. They
    `exist` for every pair with an outcome.
    """
    first, states, times, R, varies = outcomes
    n = states.size
    _check(
        "outcomes", times.size == R.size == varies.size == n, "its arrays have different lengths"
    )
    in_order = first[0] == 0 and first[-1] == n and bool((first[1:] >= first[:-1]).all())
    _check("outcomes", in_order, f"first does not increase from 0 to {n}, the number of outcomes")
    in_range = (states >= -n_states) & (states < n_states)
    _check("outcomes", in_range, f"a state is not from {-n_states} to {n_states - 1}")
    pairs = outcomes.pairs
    increasing = (states[1:] > states[:-1]) | (pairs[1:] > pairs[:-1])
    _check("outcomes", increasing, "the states of a pair are not in increasing order")
    possible = (times >= 1) & (times <= MOST_VISITS)
    _check("outcomes", possible, f"an entry of times is not from 1 to {MOST_VISITS}")
    _check("outcomes", np.abs(R) <= LARGEST_REWARD, "R has an entry that is not finite, or large")
    visits = np.bincount(pairs, times, minlength=counts.size)  # as floats, without overflow
    _check("outcomes", visits <= MOST_VISITS, f"a pair has more than {MOST_VISITS} visits")
    _check("outcomes", visits >= counts, "a pair has fewer visits than its row")
    _check("outcomes", exist | (visits == 0), "a pair without a row has visits")
