"""Conversion of a `TaskMemory` to and from named arrays.

The header holds the numbers of states and actions, `capacity` and `keep`, the numbers of tasks seen
and dropped, the `setting`, the number of tasks that each learned distance compared, and how many
first tasks are compared and kept. The arrays are over N stored tasks and the pairs k = s * A + a:

    task        [N]         the numbers of the tasks, from 1
    role        [N]         1 for a source, 2 for a first task still to be compared, 3 for both
    uses        [N]         the number of pairs of later tasks whose bound each task determined
    n_known     [N]         the visits that made pairs known, 0 if not recorded; may be missing
    known, R, ends, Q       [N, k]      Q is -infinity where an action is missing
    available   [N, k]      the pairs that surely exist; missing if all do in all tasks
    lengths     [N, k]      the numbers of successors of known pairs
    successors, p           the rows of known pairs, one after the other
    max_Q       [k]         the largest Q of all tasks seen, if there were any
    visits      [k]         the visits in all tasks, up to n_known in each; missing if not recorded
    learned/D   [k]         the largest distance between the first tasks, for the model distance D,
                            or the largest difference for a part of a learned nearness
    names       [bytes]     names of states and actions, labels of tasks and edges of bins, as JSON
                            in UTF-8; missing if there are none (`transfer/names_file.py`)
    envelope/E/...          for each envelope E: `E` [k], and the `scores` and `tasks` of its
                            calibration so far, [n]; missing if there is none
"""

from typing import Any, TypeVar

import numpy as np

from heirloom.arrays import frozen
from heirloom.errors import InvalidFile
from heirloom.mdp.learned import Known
from heirloom.storage.archive import Content, parsing, take
from heirloom.transfer.memory import EnvelopeState, TaskMemory
from heirloom.transfer.names_file import packed_names, restore_names
from heirloom.transfer.rows import check_rows
from heirloom.transfer.setting import Setting
from heirloom.transfer.source import Source, check_rewards, check_values

SOURCE, FIRST = 1, 2
ENVELOPE = "envelope/"
SETTING = (
    *("n_states", "n_actions", "gamma", "reward_range"),
    *("terminating", "v_max", "epsilon", "tol"),
)

M = TypeVar("M", bound=TaskMemory)


def packed(memory: TaskMemory) -> Content:
    """Convert a memory to a header and arrays."""
    roles = {source.task: SOURCE for source in memory._sources}
    stored = {source.task: source for source in memory._sources}
    if memory.capacity is not None:
        for source in memory._first:
            roles[source.task] = roles.get(source.task, 0) | FIRST
            stored[source.task] = source
    tasks = sorted(stored)
    sources = [stored[task] for task in tasks]
    n_pairs = memory.n_pairs

    def stacked(rows: list[np.ndarray], dtype: type) -> np.ndarray:
        return np.array(rows, dtype=dtype).reshape(len(rows), n_pairs)

    arrays: dict[str, np.ndarray] = {
        "task": np.array(tasks, dtype=np.int64),
        "role": np.array([roles[task] for task in tasks], dtype=np.int8),
        "uses": np.array([memory.uses.get(task, 0) for task in tasks], dtype=np.int64),
        "n_known": np.array([source.n_known for source in sources], dtype=np.int64),
        "known": stacked([source.known for source in sources], np.bool_),
        "R": stacked([source.rows.R for source in sources], np.float64),
        "ends": stacked([source.rows.ends for source in sources], np.float64),
        "Q": stacked([source.Q for source in sources], np.float64),
        "lengths": stacked([source.rows.last - source.rows.first for source in sources], np.int32),
        "successors": _joined([source.rows.successors for source in sources], np.int32),
        "p": _joined([source.rows.p for source in sources], np.float64),
        **{f"learned/{name}": largest for name, (largest, _) in memory.learned.items()},
        **_packed_envelopes(memory),
    }
    if any(source.available is not None for source in sources):
        everywhere = np.ones(n_pairs, dtype=bool)
        masks = [everywhere if one.available is None else one.available for one in sources]
        arrays["available"] = stacked(masks, np.bool_)
    names = packed_names(memory, sources)
    if names is not None:
        arrays["names"] = names
    if memory.max_Q is not None:
        arrays["max_Q"] = memory.max_Q
    if memory.visits is not None:
        arrays["visits"] = memory.visits
    return Content(_header(memory), arrays)


def _header(memory: TaskMemory) -> dict[str, Any]:
    setting = memory.setting
    return {
        "n_states": memory.n_states,
        "n_actions": memory.n_actions,
        "capacity": memory.capacity,
        "keep": memory.keep,
        "n_tasks": memory.n_tasks,
        **({"n_dropped": memory.n_dropped} if memory.n_dropped else {}),
        "n_first": memory.n_first,
        **({"n_kept_first": memory.n_kept_first} if memory.n_kept_first else {}),
        "learned": {name: n_compared for name, (_, n_compared) in memory.learned.items()},
        "setting": None if setting is None else {name: getattr(setting, name) for name in SETTING},
    }


def _packed_envelopes(memory: TaskMemory) -> dict[str, np.ndarray]:
    """Return the arrays of the envelopes, without the score of a task that was not stored."""
    arrays: dict[str, np.ndarray] = {}
    for name, (E, scores, tasks) in memory.envelopes.items():
        stored = tasks <= memory.n_tasks
        arrays |= {
            f"{ENVELOPE}{name}/E": E,
            f"{ENVELOPE}{name}/scores": scores[stored],
            f"{ENVELOPE}{name}/tasks": tasks[stored],
        }
    return arrays


def unpacked(cls: type[M], content: Content, where: str) -> M:
    """Restore a packed memory; raise `InvalidFile` unless it is valid."""
    with parsing(where, "memory"):
        return _unpacked(cls, content)


def _unpacked(cls: type[M], content: Content) -> M:
    header, arrays = content
    memory = cls(
        header["n_states"],
        header["n_actions"],
        capacity=header["capacity"],
        keep=header["keep"],
    )
    if header["setting"] is not None:
        given = header["setting"]
        reward_range = tuple(given["reward_range"])
        setting = {name: given[name] for name in SETTING} | {"reward_range": reward_range}
        _check(type(given["terminating"]) is bool, "`terminating` is not true or false")
        memory.bind(Setting(**setting))
    memory.n_tasks = _count(header["n_tasks"])
    memory.n_dropped = _count(header.get("n_dropped", 0))  # older files do not have it
    memory.n_first = _count(header["n_first"])
    memory.n_kept_first = _count(header.get("n_kept_first", 0))  # older files do not have it
    n_pairs = memory.n_pairs
    if memory.n_tasks:
        memory.max_Q = _values(take(arrays, "max_Q", np.float64, (n_pairs,)), "max_Q")
        if memory.setting is not None:
            check_values(memory.max_Q, memory.setting)
    memory.visits = None if memory.n_tasks else memory.visits
    if "visits" in arrays:  # older files do not have it
        visits = take(arrays, "visits", np.int64, (n_pairs,))
        _check(bool((visits >= 0).all()), "visits has a negative entry")
        memory.visits = frozen(visits)
    for name, n_compared in header["learned"].items():
        largest = _finite(take(arrays, f"learned/{name}", np.float64, (n_pairs,)), name)
        _check(bool((largest >= 0).all()), f"learned/{name} has a negative entry")
        _check(_count(n_compared) <= memory.n_tasks, "more tasks were compared than seen")
        memory.learned[name] = frozen(largest), n_compared
    memory.envelopes.update(_envelopes(memory, arrays))
    _restore_sources(memory, _sources(memory, arrays), arrays)
    if "names" in arrays:
        restore_names(memory, take(arrays, "names", np.uint8, (-1,)))
    if memory.visits is not None:
        stored = {source.task: source for source in (*memory._sources, *memory._first)}
        least = sum((one.n_known * one.known for one in stored.values()), np.int64(0))
        _check(bool((memory.visits >= least).all()), "visits is below that of the stored tasks")
    return memory


def _envelopes(memory: TaskMemory, arrays: dict[str, np.ndarray]) -> dict[str, EnvelopeState]:
    """Restore what was learned of envelopes; raise `InvalidFile` unless it is valid."""
    names = {name.split("/")[1] for name in arrays if name.startswith(ENVELOPE)}
    envelopes = {}
    for name in sorted(names):
        prefix = f"{ENVELOPE}{name}/"
        E = _finite(take(arrays, f"{prefix}E", np.float64, (memory.n_pairs,)), f"{prefix}E")
        scores = _finite(take(arrays, f"{prefix}scores", np.float64, (-1,)), f"{prefix}scores")
        tasks = take(arrays, f"{prefix}tasks", np.int64, scores.shape)
        _check_tasks(tasks, memory, f"{prefix}tasks is")
        envelopes[name] = EnvelopeState(frozen(E), frozen(scores), frozen(tasks))
    return envelopes


def _restore_sources(
    memory: TaskMemory, sources: list[Source], arrays: dict[str, np.ndarray]
) -> None:
    """Give the stored tasks their roles; raise `InvalidFile` if these are inconsistent."""
    largest = memory.max_Q if memory.max_Q is not None else np.empty(0)
    for source in sources:
        _check(bool((source.Q <= largest).all()), "an entry of Q is above max_Q")
    n = len(sources)
    roles = take(arrays, "role", np.int8, (n,)).tolist()
    uses = take(arrays, "uses", np.int64, (n,)).tolist()
    _check(
        all(role in (SOURCE, FIRST, SOURCE | FIRST) for role in roles), "a role is not 1, 2 or 3"
    )
    _check(all(number >= 0 for number in uses), "uses has a negative entry")
    for source, role, used in zip(sources, roles, uses, strict=True):
        if role & SOURCE:
            memory._sources.append(source)
            memory.uses[source.task] = used
        if role & FIRST:
            memory._first.append(source)
    kept = len(memory._sources)
    most = memory.n_tasks if memory.capacity is None else min(memory.n_tasks, memory.capacity)
    _check(kept == most, f"there are {kept} sources, not {most}")
    first = [source.task for source in memory._first]
    _check(first == list(range(1, len(first) + 1)), "the first tasks are not numbered 1, 2, ...")


def _sources(memory: TaskMemory, arrays: dict[str, np.ndarray]) -> list[Source]:
    """Restore the stored tasks; their arrays are views of the arrays of the file."""
    tasks = take(arrays, "task", np.int64, (-1,))
    _check_tasks(tasks, memory, "the task numbers are")
    shape = tasks.size, memory.n_pairs
    n_known = np.zeros(tasks.size, dtype=np.int64)  # older files do not have this array
    if "n_known" in arrays:
        n_known = take(arrays, "n_known", np.int64, (tasks.size,))
    _check(bool((n_known >= 0).all()), "n_known has a negative entry")
    known = take(arrays, "known", np.bool_, shape)
    R = take(arrays, "R", np.float64, shape)
    ends = take(arrays, "ends", np.float64, shape)
    Q = _values(take(arrays, "Q", np.float64, shape), "Q")
    lengths = take(arrays, "lengths", np.int32, shape).astype(np.int64)
    successors = take(arrays, "successors", np.int32, (-1,))
    p = take(arrays, "p", np.float64, successors.shape)
    _check(bool((lengths >= 0).all()), "a row has a wrong length")
    _check(lengths.sum() == p.size, "the sum of lengths is not the number of successors")
    # Rows are stored task by task, so all tasks together are checked like a single one.
    last = np.cumsum(lengths).reshape(shape)
    known_, R_, ends_, first_, last_ = (
        array.reshape(-1) for array in (known, R, ends, last - lengths, last)
    )
    rows = Known(known_, R_, ends_, first_, last_, successors, p)
    check_rows("rows", rows, memory.n_states)
    if memory.setting is not None:
        check_values(Q, memory.setting)
        check_rewards(rows, memory.setting)
    # `first` and `last` count from 0 in each task.
    last = np.cumsum(lengths, axis=1)
    bounds = np.concatenate([[0], np.cumsum(lengths.sum(axis=1))])
    V = Q.reshape(tasks.size, memory.n_states, memory.n_actions).max(axis=2)
    _check(bool(np.isfinite(V).all()), "a state has no action")
    available = _masks(arrays, known, Q)
    for array in (last, first := last - lengths, V):
        frozen(array)
    return [
        Source._of_valid(
            Known(
                known[i],
                R[i],
                ends[i],
                first[i],
                last[i],
                successors[bounds[i] : bounds[i + 1]],
                p[bounds[i] : bounds[i + 1]],
            ),
            Q[i],
            V[i],
            task,
            visits,
            available[i],
        )
        for i, (task, visits) in enumerate(zip(tasks.tolist(), n_known.tolist(), strict=True))
    ]


def _masks(arrays: dict[str, np.ndarray], known: np.ndarray, Q: np.ndarray) -> list[Any]:
    """Return which pairs surely exist in each task, None for all; raise unless they are valid."""
    missing = np.isneginf(Q)
    if "available" not in arrays:
        _check(not missing.any(), "Q is -infinity where no action is missing")
        return [None] * len(Q)
    masks = frozen(take(arrays, "available", np.bool_, Q.shape))
    _check(not (masks & missing).any(), "Q is -infinity at an available action")
    _check(not (known & ~masks).any(), "a known action is not available")
    return [None if mask.all() else mask for mask in masks]


def _check_tasks(tasks: np.ndarray, memory: TaskMemory, what: str) -> None:
    """Raise `InvalidFile` unless these are numbers of tasks that the memory has seen, in order."""
    # Neighbours are compared, because their difference may overflow.
    in_order = (tasks[1:] > tasks[:-1]).all() and (tasks >= 1).all()
    is_valid = in_order and (tasks <= memory.n_tasks).all()
    _check(bool(is_valid), f"{what} not increasing between 1 and n_tasks")


def _values(array: np.ndarray, name: str) -> np.ndarray:
    """Return an array of values, which may be -infinity where an action is missing."""
    is_valid = np.isfinite(array) | np.isneginf(array)
    _check(bool(is_valid.all()), f"{name} has an entry that is not finite")
    return array


def _joined(rows: list[np.ndarray], dtype: type) -> np.ndarray:
    return np.concatenate([np.empty(0, dtype), *rows]).astype(dtype, copy=False)


def _finite(array: np.ndarray, name: str) -> np.ndarray:
    _check(bool(np.isfinite(array).all()), f"{name} has an entry that is not finite")
    return array


def _count(number: Any) -> int:
    _check(type(number) is int and number >= 0, f"{number!r} is not a number of tasks")
    return number


def _check(is_valid: bool, message: str) -> None:  # noqa: FBT001 -- called like an assertion
    if not is_valid:
        raise InvalidFile(message)
