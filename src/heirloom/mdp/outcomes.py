"""`Outcomes`: how often each outcome of each pair was seen in a task, and with which rewards.

Compiled code reads them without checking indices, so this module also checks them.
"""

from typing import NamedTuple

import numpy as np

from heirloom.arrays import BoolArray, FloatArray, IntArray, StateArray
from heirloom.errors import InvalidArgument
from heirloom.mdp.rows import MOST_VISITS, Rows, read_vector
from heirloom.validation import LARGEST_REWARD, instance


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


DTYPES = np.int64, np.int32, np.int64, np.float64, np.bool_  # of the fields of `Outcomes`


def read_outcomes(outcomes: object, rows: Rows, n_states: int) -> Outcomes:
    """Return the outcomes of a source as read-only arrays; raise `InvalidArgument` unless valid."""
    given = instance("outcomes", outcomes, Outcomes, "such as model.outcomes, or None")
    named = zip(Outcomes._fields, given, DTYPES, strict=True)
    read = Outcomes(
        *(read_vector(f"outcomes.{name}", array, dtype) for name, array, dtype in named)
    )
    n_pairs = rows.counts.size
    _check(
        read.first.size == n_pairs + 1, f"first has {read.first.size} entries, not {n_pairs + 1}"
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
    _check(times.size == R.size == varies.size == n, "its arrays have different lengths")
    in_order = first[0] == 0 and first[-1] == n and bool((first[1:] >= first[:-1]).all())
    _check(in_order, f"first does not increase from 0 to {n}, the number of outcomes")
    in_range = (states >= -n_states) & (states < n_states)
    _check(bool(in_range.all()), f"a state is not from {-n_states} to {n_states - 1}")
    pairs = outcomes.pairs
    increasing = (states[1:] > states[:-1]) | (pairs[1:] > pairs[:-1])
    _check(bool(increasing.all()), "the states of a pair are not in increasing order")
    possible = (times >= 1) & (times <= MOST_VISITS)
    _check(bool(possible.all()), f"an entry of times is not from 1 to {MOST_VISITS}")
    _check(bool((np.abs(R) <= LARGEST_REWARD).all()), "R has an entry that is not finite, or large")
    visits = np.bincount(pairs, times, minlength=counts.size)  # as floats, without overflow
    _check(bool((visits <= MOST_VISITS).all()), f"a pair has more than {MOST_VISITS} visits")
    _check(bool((visits >= counts).all()), "a pair has fewer visits than its row")
    _check(bool((exist | (visits == 0)).all()), "a pair without a row has visits")


def _check(is_valid: bool, problem: str) -> None:  # noqa: FBT001 -- like an assertion
    if not is_valid:
        raise InvalidArgument(
            f"outcomes is not valid ({problem}): expected the outcomes of a learned model or of a "
            "source, or None"
        )
