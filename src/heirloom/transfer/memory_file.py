"""Conversion of a `TaskMemory` to a header and arrays, and back; docs/files.md lists them.

Compiled code reads the arrays without checking indices, so loading checks all of them.
"""

import math
from dataclasses import fields
from typing import Any, TypeVar

import numpy as np

from heirloom.arrays import frozen, joined
from heirloom.errors import InvalidArgument
from heirloom.mdp.rows import Outcomes, Rows, check_outcomes, check_rows
from heirloom.naming import checked_label
from heirloom.storage.archive import Content, check, parsing, take
from heirloom.transfer.bins import as_texts, checked_edges, from_texts, n_bins
from heirloom.transfer.memory import EnvelopeState, TaskMemory
from heirloom.transfer.setting import Setting
from heirloom.transfer.source import Source, check_rewards, check_values
from heirloom.transfer.visits import Visits
from heirloom.validation import truth, whole_number

OPTIONS = ("n_states", "n_actions", "capacity", "keep", "state_names", "action_names")
MOST_VISITS = 2**53  # of a pair in all tasks; more are not exact as a float64
COUNTS = ("n_tasks", "n_dropped", "n_candidates", "n_first", "n_kept_first")

M = TypeVar("M", bound=TaskMemory)


def packed(memory: TaskMemory, besides: TaskMemory | None = None) -> Content:
    """Convert a memory to a header and arrays, without the sources that `besides` has, too.

    With `besides`, names and what numbers the states are left out: they change nothing.
    """
    options = {name: getattr(memory, name) for name in OPTIONS}
    TaskMemory(**options)  # raises an error if an attribute was changed to what cannot be loaded
    if besides is not None:
        options |= {"state_names": None, "action_names": None}
    theirs = {} if besides is None else {id(source) for source in besides.stored}
    sources = [source for source in memory.stored if id(source) not in theirs]
    shared = [source.task for source in memory.stored if id(source) in theirs]
    among_sources, among_first = (
        {one.task for one in group} for group in (memory._sources, memory._first)
    )
    header = {
        **options,
        **{name: getattr(memory, name) for name in COUNTS},
        "setting": None if memory.setting is None else setting_options(memory.setting),
        "labels": [[source.label, source.time] for source in sources],
        "edges": memory.edges if besides is None else None,
        "numbers": _numbers(memory) if besides is None else None,
        "learned": {name: n_compared for name, (_, n_compared) in memory.learned.items()},
        "envelopes": list(memory.envelopes),
        "shared": [
            [task, task in among_sources, task in among_first, memory.uses.get(task, 0)]
            for task in shared
        ],
    }
    arrays = _packed_sources(memory, sources)
    arrays |= {f"learned/{name}": largest for name, (largest, _) in memory.learned.items()}
    for name, (E, scores, tasks) in memory.envelopes.items():
        seen = tasks <= memory.n_tasks  # not the score of a task that was interrupted
        parts = {"E": E, "scores": scores[seen], "tasks": tasks[seen]}
        arrays |= {f"envelope/{name}/{part}": array for part, array in parts.items()}
    if memory.max_Q is not None:
        arrays["max_Q"] = memory.max_Q
    arrays |= zip(("visits/outcomes", "visits/times"), memory.visits.outcomes, strict=True)
    arrays["visits/rewards"] = memory.visits.reward_sums
    return Content(header, arrays)


def _numbers(memory: TaskMemory) -> dict[str, Any] | None:
    """Return the numbers of observations; None if there are none, or they cannot be read again."""
    try:
        return None if memory.numbers is None else as_texts(memory.numbers)
    except InvalidArgument:
        return None


def _packed_sources(memory: TaskMemory, sources: list[Source]) -> dict[str, np.ndarray]:
    def per_pair(rows: list[Any], dtype: type) -> np.ndarray:
        return np.array(rows, dtype).reshape(-1, memory.n_pairs)

    kept, first = ({one.task for one in group} for group in (memory._sources, memory._first))
    everywhere = np.ones(memory.n_pairs, dtype=bool)
    masks = [everywhere if one.available is None else one.available for one in sources]
    rows = [source.rows for source in sources]
    seen = [one.outcomes for one in sources if one.outcomes is not None]
    none = np.zeros(memory.n_pairs)
    n_seen = [none if one.outcomes is None else np.diff(one.outcomes.first) for one in sources]
    return {
        "task": np.array([source.task for source in sources], np.int64),
        "is_source": np.array([source.task in kept for source in sources], np.bool_),
        "is_first": np.array([source.task in first for source in sources], np.bool_),
        "uses": np.array([memory.uses.get(source.task, 0) for source in sources], np.int64),
        "n_known": np.array([source.n_known for source in sources], np.int64),
        "known": per_pair([each.known for each in rows], np.bool_),
        "counts": per_pair([each.counts for each in rows], np.int64),
        "available": per_pair(masks, np.bool_),
        "R": per_pair([each.R for each in rows], np.float64),
        "ends": per_pair([each.ends for each in rows], np.float64),
        "Q": per_pair([source.Q for source in sources], np.float64),
        "lengths": per_pair([each.lengths for each in rows], np.int32),
        "successors": joined([each.successors for each in rows], np.int32),
        "p": joined([each.p for each in rows], np.float64),
        "has_outcomes": np.array([source.outcomes is not None for source in sources], np.bool_),
        "outcomes/lengths": per_pair(n_seen, np.int32),
        "outcomes/states": joined([each.states for each in seen], np.int32),
        "outcomes/times": joined([each.times for each in seen], np.int64),
        "outcomes/R": joined([each.R for each in seen], np.float64),
        "outcomes/varies": joined([each.varies for each in seen], np.bool_),
    }


def unpacked(cls: type[M], content: Content, where: str, besides: TaskMemory | None = None) -> M:
    """Restore the memory of a memory file or of an agent file; raise `InvalidFile` if invalid.

    `besides` is that with which it was packed.
    """
    with parsing(where, "memory"):
        header, arrays = content
        header = header.get("memory", header)
        memory = cls(**{name: header[name] for name in OPTIONS})
        for name in COUNTS:
            setattr(memory, name, whole_number(name, header[name], least=0, most=math.inf))
        if header["setting"] is not None:
            memory.bind(Setting(**header["setting"]))
        if header["edges"] is not None:
            memory.edges = checked_edges(header["edges"])
            n_states = n_bins(memory.edges)
            check(n_states == memory.n_states, f"the edges make {n_states} bins")
        if header.get("numbers") is not None:
            memory.numbers = from_texts(header["numbers"])
        _restore_statistics(memory, header, arrays)
        _restore_sources(memory, header["labels"], arrays)
        _share(memory, header["shared"], besides)
        return memory


def _share(memory: TaskMemory, shared: list[Any], besides: TaskMemory | None) -> None:
    """Add the stored tasks that another memory has, too."""
    theirs = {} if besides is None else {source.task: source for source in besides.stored}
    for task, among_sources, among_first, used in shared:
        check(task <= memory.n_tasks, f"task {task} is not one of the memory")
        if truth("is_source", among_sources):
            memory._sources.append(theirs[task])
            memory.uses[task] = whole_number("uses", used, least=0)
        if truth("is_first", among_first):
            memory._first.append(theirs[task])
    for sources in (memory._sources, memory._first):
        sources.sort(key=lambda source: source.task)
        check(len({one.task for one in sources}) == len(sources), "a task is stored twice")


def setting_options(setting: Setting) -> dict[str, Any]:
    """Return the arguments of the constructor of a setting."""
    return {field.name: getattr(setting, field.name) for field in fields(setting) if field.init}


def _restore_statistics(
    memory: TaskMemory, header: dict[str, Any], arrays: dict[str, np.ndarray]
) -> None:
    """Restore what a memory knows of all tasks, whether they are stored or not."""
    shape = (memory.n_pairs,)
    if memory.n_tasks:
        memory.max_Q = _values(take(arrays, "max_Q", np.float64, shape), memory.setting)
    memory.visits = _visits(memory, arrays)
    for name, n_compared in header["learned"].items():
        largest = take(arrays, f"learned/{name}", np.float64, shape)
        check(_is_finite(largest) and (largest >= 0).all(), f"learned/{name} has an invalid entry")
        n_compared = whole_number(name, n_compared, least=0, most=memory.n_tasks)
        memory.learned[name] = largest, n_compared
    for name in header["envelopes"]:
        E = take(arrays, f"envelope/{name}/E", np.float64, shape)
        scores = take(arrays, f"envelope/{name}/scores", np.float64, (-1,))
        tasks = take(arrays, f"envelope/{name}/tasks", np.int64, scores.shape)
        check(_is_finite(E) and _is_finite(scores), f"envelope/{name} is not finite")
        _check_tasks(tasks, memory.n_tasks)
        memory.envelopes[name] = EnvelopeState(E, scores, tasks)


def _visits(memory: TaskMemory, arrays: dict[str, np.ndarray]) -> Visits:
    """Return the visits of all tasks."""
    outcomes = take(arrays, "visits/outcomes", np.int64, (-1,))
    times = take(arrays, "visits/times", np.int64, outcomes.shape)
    rewards = take(arrays, "visits/rewards", np.float64, (2, memory.n_pairs))
    n_outcomes = memory.n_states + 1
    in_range = ((outcomes >= 0) & (outcomes < memory.n_pairs * n_outcomes)).all()
    check(in_range, "an entry of visits/outcomes is not an outcome of a pair")
    check((outcomes[1:] > outcomes[:-1]).all(), "visits/outcomes do not increase")
    check((times > 0).all(), "an entry of visits/times is not positive")
    counts = np.bincount(outcomes // n_outcomes, times, minlength=1)  # as floats, without overflow
    check(counts.max() <= MOST_VISITS, f"a pair has more than {MOST_VISITS} visits")
    check(_is_finite(rewards), "visits/rewards has an entry that is not finite")
    visits = Visits.of_sums(memory.n_states, outcomes, times, rewards)
    check(_is_finite(visits.rows.R), "a mean reward of all visits is not finite")
    if memory.setting is not None:
        check_rewards(visits.rows, memory.setting)
    return visits


def _restore_sources(memory: TaskMemory, labels: list[Any], arrays: dict[str, np.ndarray]) -> None:
    """Restore the stored tasks, which are sources, first tasks, or both."""
    sources = _sources(memory, arrays)
    shape = (len(sources),)
    is_source, is_first = (take(arrays, n, np.bool_, shape) for n in ("is_source", "is_first"))
    uses = take(arrays, "uses", np.int64, shape)
    check((uses >= 0).all(), "uses has a negative entry")
    groups = zip(sources, labels, is_source, is_first, uses.tolist(), strict=True)
    for source, (label, time), among_sources, among_first, used in groups:
        if label or time:
            texts = {"label": checked_label("label", label), "time": checked_label("time", time)}
            source = source._with(**texts)
        if among_sources:
            memory._sources.append(source)
            memory.uses[source.task] = used
        if among_first:
            memory._first.append(source)


def _sources(memory: TaskMemory, arrays: dict[str, np.ndarray]) -> list[Source]:
    """Return the stored tasks, without labels; their arrays are views of the arrays of the file."""
    tasks = take(arrays, "task", np.int64, (-1,))
    _check_tasks(tasks, memory.n_tasks)
    n_known = take(arrays, "n_known", np.int64, tasks.shape)
    check((n_known >= 0).all(), "n_known has a negative entry")
    shape = tasks.size, memory.n_pairs
    known, available = (take(arrays, name, np.bool_, shape) for name in ("known", "available"))
    counts = take(arrays, "counts", np.int64, shape)
    R, ends, Q = (take(arrays, name, np.float64, shape) for name in ("R", "ends", "Q"))
    lengths = take(arrays, "lengths", np.int32, shape).astype(np.int64)
    successors = take(arrays, "successors", np.int32, (-1,))
    p = take(arrays, "p", np.float64, successors.shape)
    # Rows are stored task by task, so all tasks together are checked like a single one.
    last = np.cumsum(lengths).reshape(shape)
    first = last - lengths
    per_pair = (array.reshape(-1) for array in (known, counts, R, ends, first, last))
    rows = Rows._make((*per_pair, successors, p))
    check_rows("rows", rows, memory.n_states)
    if memory.setting is not None:
        check_rewards(rows, memory.setting)
    V = frozen(
        _values(Q, memory.setting).reshape(-1, memory.n_states, memory.n_actions).max(axis=2)
    )
    check(_is_finite(V), "a state has no action")
    check(not (available & np.isneginf(Q)).any(), "Q is -infinity at an available action")
    check(not (rows.exist.reshape(shape) & ~available).any(), "a visited action is not available")
    least = counts.sum(axis=0, dtype=np.float64)  # whole numbers could overflow
    check((memory.visits.counts >= least).all(), "a pair has fewer visits than in stored tasks")
    outcomes = _outcomes(memory, rows, arrays)
    starts = first[:, :1]
    own_first, own_last = frozen(first - starts), frozen(last - starts)  # they count from 0
    has_all = available.all(axis=1).tolist()
    sources = []
    for i, (task, visits) in enumerate(zip(tasks.tolist(), n_known.tolist(), strict=True)):
        own = slice(first[i, 0], last[i, -1])
        of_pairs = known[i], counts[i], R[i], ends[i], own_first[i], own_last[i]
        rows = Rows(*of_pairs, successors[own], p[own])
        mask = None if has_all[i] else available[i]
        sources.append(Source._of_valid(rows, Q[i], V[i], task, visits, mask, outcomes[i]))
    return sources


def _outcomes(
    memory: TaskMemory, rows: Rows, arrays: dict[str, np.ndarray]
) -> list[Outcomes | None]:
    """Return the outcomes of each stored task; `rows` are those of all tasks together."""
    n_pairs = memory.n_pairs
    n_tasks = rows.counts.size // n_pairs
    recorded = take(arrays, "has_outcomes", np.bool_, (n_tasks,))
    lengths = take(arrays, "outcomes/lengths", np.int32, (n_tasks, n_pairs))
    states = take(arrays, "outcomes/states", np.int32, (-1,))
    per_outcome = {"times": np.int64, "R": np.float64, "varies": np.bool_}
    parts = [take(arrays, f"outcomes/{n}", type_, states.shape) for n, type_ in per_outcome.items()]
    first = np.append(0, np.cumsum(lengths, dtype=np.int64))
    seen = Outcomes(first, states, *parts)
    is_recorded = np.repeat(recorded, n_pairs)
    counts, exist = np.where(is_recorded, rows.counts, 0), is_recorded & rows.exist
    check_outcomes(seen, counts, exist, memory.n_states)
    if memory.setting is not None:
        check_rewards(rows, memory.setting, seen)
    starts = first[::n_pairs].tolist()
    outcomes: list[Outcomes | None] = [None] * n_tasks
    for i in np.flatnonzero(recorded).tolist():
        own = slice(starts[i], starts[i + 1])
        own_first = frozen(first[i * n_pairs : (i + 1) * n_pairs + 1] - starts[i])
        outcomes[i] = Outcomes._make((own_first, *(array[own] for array in seen[1:])))
    return outcomes


def _check_tasks(tasks: np.ndarray, n_tasks: int) -> None:
    """Raise `InvalidFile` unless these are increasing numbers from 1 to `n_tasks`."""
    in_range = ((tasks >= 1) & (tasks <= n_tasks)).all()
    is_increasing = (tasks[1:] > tasks[:-1]).all()
    check(in_range and is_increasing, f"task numbers do not increase between 1 and {n_tasks}")


def _values(Q: np.ndarray, setting: Setting | None) -> np.ndarray:
    """Return values, which may be -infinity where an action is missing, after checking them."""
    check((Q < np.inf).all(), "an entry of Q is infinite or not a number")
    if setting is not None:
        check_values(Q, setting)
    return Q


def _is_finite(array: np.ndarray) -> bool:
    return bool(np.isfinite(array).all())
