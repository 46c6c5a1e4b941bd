"""Conversion of a `TabularMDP` to and from named arrays, and tasks from `.npz` files of others.

The header holds the numbers of states and actions, `gamma`, `reward_range`, the names, and the
bound on the rounding error of rewards. The arrays are those of `Transitions`, and `start`:

    indptr                  [k + 1]  where the transitions of the pair k = s * A + a begin
    successors, p           the transitions, one pair after the other
    R, R_error              [k]      mean rewards, and bounds on their rounding errors
    rewards, ends           one entry per transition; each may be missing
    available               [k]      the pairs that exist; missing if all do
    start                   [s]      the distribution of the first state
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
from heirloom.storage.archive import Content, parsing, take
from heirloom.storage.atomic import named

SPARSE = ("T_data", "T_indices", "T_indptr")
NAMES = ("state_names", "action_names")
READ = {"R", "T", "start", "terminates", "available", "gamma", "reward_range", *NAMES, *SPARSE}


def packed(m: TabularMDP) -> Content:
    """Convert a task to a header and arrays."""
    t = m.transitions
    header = {
        "n_states": t.n_states,
        "n_actions": t.n_actions,
        "gamma": m.gamma,
        "reward_range": list(m.reward_range),
        "rewards_error": t.rewards_error,
        "state_names": m.state_names,
        "action_names": m.action_names,
    }
    arrays: dict[str, np.ndarray] = {
        "indptr": t.indptr,
        "successors": t.successors,
        "p": t.p,
        "R": t.R,
        "R_error": t.R_error,
        "start": m.start,
    }
    if t.rewards is not None:
        arrays["rewards"] = t.rewards
    if t.ends is not None:
        arrays["ends"] = t.ends
    if t.available is not None:
        arrays["available"] = t.available
    return Content(header, arrays)


def unpacked(content: Content, where: str) -> TabularMDP:
    """Convert a header and arrays to a task; raise `InvalidFile` unless they are valid."""
    header, arrays = content
    with parsing(where, "task"):
        n_pairs = header["n_states"] * header["n_actions"]
        size = arrays["p"].size
        t = Transitions(
            n_states=header["n_states"],
            n_actions=header["n_actions"],
            indptr=take(arrays, "indptr", np.int64, (n_pairs + 1,)),
            successors=take(arrays, "successors", np.int32, (size,)),
            p=take(arrays, "p", np.float64, (size,)),
            R=take(arrays, "R", np.float64, (n_pairs,)),
            R_error=take(arrays, "R_error", np.float64, (n_pairs,)),
            rewards=take(arrays, "rewards", np.float64, (size,)) if "rewards" in arrays else None,
            rewards_error=float(header["rewards_error"]),
            ends=take(arrays, "ends", np.bool_, (size,)) if "ends" in arrays else None,
            available=(
                take(arrays, "available", np.bool_, (n_pairs,)) if "available" in arrays else None
            ),
        )
        m = TabularMDP.from_transitions(
            t,
            gamma=header["gamma"],
            start=take(arrays, "start", np.float64, (header["n_states"],)),
            reward_range=tuple(header["reward_range"]),
            state_names=header["state_names"],
            action_names=header["action_names"],
        )
        _check_order(t)
        _check_rewards(t)
        m.__dict__["start"] = arrays["start"]  # as it was, without normalising it again
        return m


def _check_order(t: Transitions) -> None:
    """Raise `InvalidFile` unless successors increase within a pair, the terminal one last."""
    ends = np.zeros(t.p.size, dtype=bool) if t.ends is None else t.ends
    keys = (t.pairs * t.n_states + t.successors) * 2 + ends
    if (np.diff(keys) <= 0).any():
        raise InvalidFile("the successors of a pair are not in increasing order")


def _check_rewards(t: Transitions) -> None:
    """Raise `InvalidFile` unless mean rewards are those of the transitions."""
    errors_are_valid = np.isfinite(t.R_error).all() and (t.R_error >= 0).all()
    if not (errors_are_valid and 0 <= t.rewards_error < np.inf):
        raise InvalidFile("a bound on a rounding error is negative or not finite")
    if t.rewards is None:
        return
    sizes = row_sums(t.p * np.abs(t.rewards), t.indptr)
    rounding = 1e-15 * np.diff(t.indptr) * sizes + t.R_error + 2 * t.rewards_error
    if (np.abs(row_sums(t.p * t.rewards, t.indptr) - t.R) > rounding).any():
        raise InvalidFile("the mean rewards are not those of the transitions")


def is_saved_task(path: str | os.PathLike[str]) -> bool:
    """Whether a file looks like one that `TabularMDP.save` has written."""
    try:
        with zipfile.ZipFile(Path(path)) as file:
            return file.comment.startswith(b"heirloom task ")
    except Exception:  # not a path or an archive; reading it reports what is wrong
        return False


def saved_task(path: str | os.PathLike[str]) -> tuple[Transitions, dict[str, Any]]:
    """Read a saved task; return its transitions, and the other arguments of `from_transitions`."""
    m = TabularMDP.load(path)
    names = ("gamma", "start", "reward_range", "state_names", "action_names")
    return m.transitions, {name: getattr(m, name) for name in names}


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
