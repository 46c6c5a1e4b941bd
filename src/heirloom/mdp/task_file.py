"""Conversion of a `TabularMDP` to a header and arrays, and back; and tasks from other `.npz` files.

docs/files.md lists the header and the arrays, which are those of `Transitions`, and `start`.
"""

import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from heirloom.errors import InvalidFile
from heirloom.mdp.available import row_sums
from heirloom.mdp.tabular import TabularMDP
from heirloom.mdp.transitions import Transitions
from heirloom.storage.archive import Content, check, parsing, take
from heirloom.storage.files import named

PER_PAIR = {"R": np.float64, "R_error": np.float64, "available": np.bool_}
PER_TRANSITION = {"successors": np.int32, "p": np.float64, "rewards": np.float64, "ends": np.bool_}
OPTIONAL = {"rewards", "ends", "available"}
OPTIONS = ("gamma", "reward_range", "state_names", "action_names")

SPARSE = ("T_data", "T_indices", "T_indptr")
READ = {"R", "T", "start", "terminates", "available", *OPTIONS, *SPARSE}


def packed(m: TabularMDP) -> Content:
    """Convert a task to a header and arrays."""
    t = m.transitions
    header = {name: getattr(t, name) for name in ("n_states", "n_actions", "rewards_error")}
    header |= {name: getattr(m, name) for name in OPTIONS}
    arrays = {name: getattr(t, name) for name in ("indptr", *PER_PAIR, *PER_TRANSITION)}
    arrays["start"] = m.start
    return Content(header, {name: array for name, array in arrays.items() if array is not None})


def unpacked(content: Content, where: str) -> TabularMDP:
    """Convert a header and arrays to a task; raise `InvalidFile` unless they are valid."""
    with parsing(where, "task"):
        header, arrays = content
        n_states, n_actions = header["n_states"], header["n_actions"]
        n_pairs, size = n_states * n_actions, arrays["p"].size
        types = {name: (dtype, (n_pairs,)) for name, dtype in PER_PAIR.items()}
        types |= {name: (dtype, (size,)) for name, dtype in PER_TRANSITION.items()}
        types["indptr"] = np.int64, (n_pairs + 1,)
        taken: dict[str, Any] = {
            name: None if name in OPTIONAL - arrays.keys() else take(arrays, name, *expected)
            for name, expected in types.items()
        }
        rewards_error = float(header["rewards_error"])
        t = Transitions(n_states, n_actions, **taken, rewards_error=rewards_error)
        start = take(arrays, "start", np.float64, (n_states,))
        options = {name: header[name] for name in OPTIONS}
        m = TabularMDP.from_transitions(t, start=start, **options)
        _check_transitions(t)
        m.__dict__["start"] = start  # as it was, without normalising it again
        return m


def _check_transitions(t: Transitions) -> None:
    """Raise `InvalidFile` unless successors are in order, and mean rewards are those of `rewards`.

    `TabularMDP.from_transitions` has checked everything else.
    """
    ends = np.zeros(t.p.size, dtype=bool) if t.ends is None else t.ends
    keys = (t.pairs * t.n_states + t.successors) * 2 + ends  # the terminal transition is the last
    check((np.diff(keys) > 0).all(), "the successors of a pair are not in increasing order")
    errors = np.append(t.R_error, t.rewards_error)
    are_valid = ((errors >= 0) & (errors < np.inf)).all()
    check(are_valid, "a bound on a rounding error is negative or not finite")
    if t.rewards is not None:
        sizes = row_sums(t.p * np.abs(t.rewards), t.indptr)
        rounding = 1e-15 * np.diff(t.indptr) * sizes + t.R_error + 2 * t.rewards_error
        differences = np.abs(row_sums(t.p * t.rewards, t.indptr) - t.R)
        check((differences <= rounding).all(), "the mean rewards are not those of the transitions")


def saved_task(path: str | os.PathLike[str]) -> tuple[Transitions, dict[str, Any]] | None:
    """Return the transitions and options of a file that `save` wrote; None for other files."""
    try:
        with zipfile.ZipFile(Path(path)) as file:
            if not file.comment.startswith(b"heirloom task "):
                return None
    except Exception:  # not a path or an archive; reading it reports what is wrong
        return None
    m = TabularMDP.load(path)
    return m.transitions, {name: getattr(m, name) for name in ("start", *OPTIONS)}


def read_npz(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read the arrays of a task from an `.npz` file, as arguments of `TabularMDP`.

    Arrays of objects are refused, since numpy would have to unpickle them.
    """
    try:
        with np.load(Path(path), allow_pickle=False) as file:
            found = list(file.files)
            arrays: dict[str, Any] = {name: file[name] for name in found if name in READ}
    except Exception as error:  # a damaged file can raise almost anything
        raise InvalidFile(
            f"{named(path)} cannot be read as an .npz file of arrays ({error}): write it "
            "with numpy.savez(path, R=..., T=...)"
        ) from error
    if all(name in arrays for name in SPARSE):
        data, indices, indptr = (arrays.pop(name) for name in SPARSE)
        arrays["T"] = _sparse(data, indices, indptr, R=arrays.get("R"), path=path)
    if "R" not in arrays or "T" not in arrays:
        raise InvalidFile(
            f"{path} has the arrays {', '.join(sorted(found)) or 'none'}: expected R and T, or R, "
            f"{', '.join(SPARSE)}"
        )
    given = {name: x.item() if x.ndim == 0 else x for name, x in arrays.items()}
    if "reward_range" in given:
        given["reward_range"] = tuple(np.ravel(given["reward_range"]).tolist())
    return given


def _sparse(data: Any, indices: Any, indptr: Any, *, R: Any, path: object) -> sparse.csr_array:
    n_states = np.shape(R)[0] if np.ndim(R) else 0
    try:
        T = sparse.csr_array((data, indices, indptr), shape=(np.size(indptr) - 1, n_states))
        T.check_format(full_check=True)
    except (TypeError, ValueError) as error:
        raise InvalidFile(
            f"{path} does not hold a sparse matrix in {', '.join(SPARSE)} ({error}): expected the "
            "arrays of a scipy csr_array of shape (S·A, S)"
        ) from error
    return T
