"""Checks of the rows of known pairs, which compiled code reads without checking indices."""

import numpy as np

from heirloom.arrays import FloatArray, frozen
from heirloom.errors import InvalidArgument
from heirloom.mdp.learned import Known
from heirloom.mdp.transitions import SUM_TOLERANCE
from heirloom.validation import instance, shown

# The types of the fields of `Known`.
DTYPES = (np.bool_, np.float64, np.float64, np.int64, np.int64, np.int32, np.float64)


def compact(rows: Known) -> Known:
    """Copy the rows of known pairs, one after the other in the order of pairs, as read-only arrays.

    Unknown pairs have no row in the copy.
    """
    lengths = np.where(rows.known, rows.last - rows.first, 0)
    last = np.cumsum(lengths)
    first = last - lengths
    taken = np.repeat(rows.first - first, lengths) + np.arange(int(lengths.sum()))
    copied = Known(
        known=rows.known.copy(),
        R=rows.R.copy(),
        ends=rows.ends.copy(),
        first=first,
        last=last,
        successors=rows.successors[taken],
        p=rows.p[taken],
    )
    for array in copied:
        frozen(array)
    return copied


def read_rows(rows: object, n_pairs: int, n_states: int) -> Known:
    """Return the rows of a source as read-only arrays; raise `InvalidArgument` unless valid."""
    given = instance("rows", rows, Known, "such as source.rows")
    arrays = (
        _read_only_array(name, array, dtype)
        for name, array, dtype in zip(Known._fields, given, DTYPES, strict=True)
    )
    read = Known(*arrays)
    _check_sizes("rows", read, n_pairs)
    check_rows("rows", read, n_states)
    return read


def check_known(name: str, rows: object, n_pairs: int, n_states: int) -> None:
    """Raise `InvalidArgument` unless `rows` are valid rows of known pairs, in any order.

    `name` is their name in messages.
    """
    given = instance(name, rows, Known, "such as model.rows")
    for field, array, dtype in zip(Known._fields, given, DTYPES, strict=True):
        if not isinstance(array, np.ndarray) or array.ndim != 1 or array.dtype != dtype:
            raise InvalidArgument(
                f"{name}.{field} is {shown(array)}: expected an array of {np.dtype(dtype)} with "
                "one axis"
            )
    _check_sizes(name, given, n_pairs)
    known, _, _, first, last, successors, p = given
    size = min(successors.size, p.size)
    inside = (first >= 0) & (first <= last) & (last <= size)
    _check(name, bool((inside | ~known).all()), f"a row is not between 0 and {size}")
    check_rows(name, compact(given), n_states)


def check_rows(name: str, rows: Known, n_states: int) -> None:
    """Raise `InvalidArgument` unless the rows of known pairs are distributions over states and ⊥.

    They must follow each other in the order of pairs, without gaps.
    """
    known, R, ends, first, last, successors, p = rows
    for field, array in (("R", R), ("ends", ends), ("p", p)):
        _check(name, bool(np.isfinite(array).all()), f"{field} has an entry that is not finite")
    inside = (first >= 0) & (first <= p.size) & (last >= 0) & (last <= p.size)
    _check(name, bool(inside.all()), f"a row is not between 0 and {p.size}, the size of p")
    lengths = last - first
    lengths_fit = (lengths >= 0) & (known | (lengths == 0))
    _check(name, bool(lengths_fit.all()), "a row has a wrong length")
    _check(name, bool((last == np.cumsum(lengths)).all()), "the rows do not follow each other")
    _check(
        name,
        successors.size == p.size == lengths.sum(),
        "the sum of lengths is not the number of successors",
    )
    in_range = (successors >= 0) & (successors < n_states)
    _check(name, bool(in_range.all()), f"a successor is not from 0 to {n_states - 1}")
    _check(name, bool((p >= 0).all() and (ends >= 0).all()), "a probability is negative")
    owner = np.repeat(np.arange(lengths.size), lengths)
    increasing = (np.diff(successors) > 0) | (np.diff(owner) > 0)
    _check(name, bool(increasing.all()), "the successors of a pair are not in increasing order")
    sums = np.bincount(owner, p, minlength=lengths.size) + ends  # 0 at unknown pairs
    _check(name, bool((np.abs(sums - known) <= SUM_TOLERANCE).all()), "a row does not sum to 1")


def values(name: str, value: object, *, missing: bool = False) -> FloatArray:
    """Return finite numbers as a read-only array with one axis.

    With `missing`, -infinity is allowed, which stands for an action that is not available.
    """
    array = _read_only_array(name, value, np.float64)
    if not (np.isfinite(array) | (missing & np.isneginf(array))).all():
        raise InvalidArgument(f"{name} has an entry that is not finite: expected finite numbers")
    return array


def _read_only_array(name: str, value: object, dtype: type) -> np.ndarray:
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


def _check_sizes(name: str, rows: Known, n_pairs: int) -> None:
    for field, array in zip(Known._fields[:5], rows[:5], strict=True):
        _check(name, array.size == n_pairs, f"{field} has {array.size} entries, not {n_pairs}")


def _check(name: str, is_valid: bool, problem: str) -> None:  # noqa: FBT001 -- like an assertion
    if not is_valid:
        raise InvalidArgument(
            f"{name} is not valid ({problem}): expected the rows of a learned model or of a source"
        )
