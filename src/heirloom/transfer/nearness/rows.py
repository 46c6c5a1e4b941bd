"""The sets of models that sources and a nearness give at each pair of a new task."""

from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from heirloom.arrays import BoolArray, FloatArray, IntArray, joined
from heirloom.kernels import nearness as kernels
from heirloom.mdp.rows import Rows
from heirloom.transfer.memory import ALL_TASKS, TaskMemory
from heirloom.transfer.model_sets import ModelSets, SourceRows, continues
from heirloom.transfer.nearness.knowledge import Nearness
from heirloom.transfer.radii import Radii
from heirloom.transfer.setting import Setting
from heirloom.transfer.source import Source


def near_sets(rows: SourceRows, nearness: Nearness, setting: Setting) -> ModelSets:
    """Return the sets of models that earlier tasks and `nearness` give."""
    n_pairs = setting.n_pairs
    reward = rows.lowest_rewards + (nearness._per_pair("rewards", n_pairs) + rows.eta)
    return ModelSets(
        reward=np.minimum(highest_rewards(nearness, setting), reward),
        t=np.minimum(1.0, nearness._per_pair("transitions", n_pairs) + rows.tau),
        rows=rows,
        successors=nearness.successors,
        may_end=_may_end(nearness, setting),
    )


def can_help(nearness: Nearness, setting: Setting) -> bool:
    """Return whether a nearness can give a bound; otherwise no source need be looked at."""
    (lo, hi), n_pairs = setting.reward_range, setting.n_pairs
    if nearness.successors is not None or nearness.highest_rewards is not None:
        return True
    if (nearness._per_pair("transitions", n_pairs) + setting.epsilon / 2 < 1.0).any():
        return True
    if (lo + (nearness._per_pair("rewards", n_pairs) + setting.epsilon) < hi).any():
        return True
    return bool(continues(_may_end(nearness, setting), setting).any())


def highest_rewards(nearness: Nearness, setting: Setting) -> FloatArray:
    """Return the largest mean reward of each pair that is possible whatever the sources are."""
    highest = np.full(setting.n_pairs, setting.reward_range[1])
    if nearness.highest_rewards is None:
        return highest
    return np.minimum(highest, nearness._per_pair("highest_rewards", setting.n_pairs))


class KnownRows(NamedTuple):
    """The known pairs of a source in ascending order, and their rows."""

    pairs: IntArray
    first: IntArray
    last: IntArray
    R: FloatArray
    ends: FloatArray
    hashes: NDArray[np.uint64]


# A source serves many tasks: its rows are gathered once.
_GATHERED: WeakKeyDictionary[Source, KnownRows] = WeakKeyDictionary()


def gathered(source: Source) -> KnownRows:
    """Return the known rows of a source."""
    found = _GATHERED.get(source)
    if found is None:
        found = _GATHERED[source] = _known_rows(source.rows, source.known)
    return found


def _known_rows(rows: Rows, known: BoolArray) -> KnownRows:
    pairs = np.flatnonzero(known)
    first, last, ends = rows.first[pairs], rows.last[pairs], rows.ends[pairs]
    hashes = np.empty(pairs.size, dtype=np.uint64)
    kernels.hash_rows(first, last, ends, rows.successors, rows.p, hashes)
    return KnownRows(pairs, first, last, rows.R[pairs], ends, hashes)


class _Part(NamedTuple):
    """Rows of one task, or of several together, which `task` stands for."""

    task: int
    rows: Rows
    known: KnownRows


def rows_of_memory(memory: TaskMemory, setting: Setting, radii: Radii | None = None) -> SourceRows:
    """Return what all earlier tasks say about each pair.

    These are the known rows of each source if models are declared to be accurate, and otherwise
    one row per pair that is estimated from all visits of all tasks.
    """
    sources = list(memory.sources)
    if setting.is_accurate:
        return rows_of_sources(sources, setting)
    return pooled_rows(memory.pooled, ALL_TASKS, sources, setting, radii)


def rows_of_sources(sources: list[Source], setting: Setting) -> SourceRows:
    """Return the known rows of each source, which are accurate to the ε of the setting."""
    parts = [_Part(source.task, source.rows, gathered(source)) for source in sources]
    eta, tau = (np.full(setting.n_pairs, x) for x in (setting.epsilon, setting.epsilon / 2))
    return _rows_by_pair(parts, Radii(eta, tau))


def pooled_rows(
    pooled: Rows, task: int, sources: list[Source], setting: Setting, radii: Radii | None
) -> SourceRows:
    """Return one row per pair, estimated from all visits that `task` stands for.

    Rows of sources that were given instead of estimated belong to no visit. They are separate rows,
    unless there are `radii`, which they would not have.
    """
    parts = [_Part(task, pooled, _known_rows(pooled, pooled.known))]
    if radii is not None:
        return _rows_by_pair(parts, radii)
    for source in sources:
        if source.has_given_rows:
            given = _known_rows(source.rows, source.known & (source.rows.counts == 0))
            parts.append(_Part(source.task, source.rows, given))
    return _rows_by_pair(parts, Radii(np.zeros(setting.n_pairs), np.zeros(setting.n_pairs)))


def _rows_by_pair(parts: list[_Part], radii: Radii) -> SourceRows:
    """Return all rows by pair, without those that equal another of the same pair."""
    n_pairs, known = radii.rewards.size, [part.known for part in parts]
    sizes = np.array([part.rows.p.size for part in parts], dtype=np.int64)
    lengths = np.array([one.pairs.size for one in known], dtype=np.int64)
    pairs = joined([one.pairs for one in known], np.int64)
    order = np.argsort(pairs, kind="stable")
    start = np.zeros(n_pairs + 1, dtype=np.int64)
    np.cumsum(np.bincount(pairs, minlength=n_pairs), out=start[1:])
    R = joined([one.R for one in known], np.float64)[order]
    tasks = np.repeat(np.array([part.task for part in parts], dtype=np.int64), lengths)[order]
    kept = np.empty(pairs.size, dtype=bool)
    hashes = joined([one.hashes for one in known], np.uint64)[order]
    kernels.drop_equal_rows(start, hashes, kept)
    lowest, reward_tasks = np.full(n_pairs, np.inf), np.zeros(n_pairs, dtype=np.int64)
    has_rows = np.diff(start) > 0
    if R.size:
        lowest[has_rows] = np.minimum.reduceat(R, start[:-1][has_rows])
        pairs = pairs[order]
        of_lowest = np.flatnonzero(R == lowest[pairs])[::-1]  # the first row is written last
        reward_tasks[pairs[of_lowest]] = tasks[of_lowest]
    order = order[kept]
    shift = np.repeat(np.cumsum(sizes) - sizes, lengths)[order]
    return SourceRows(
        start=np.append(0, np.cumsum(kept))[start],
        lowest_rewards=lowest,
        reward_tasks=reward_tasks,
        first=joined([one.first for one in known], np.int64)[order] + shift,
        last=joined([one.last for one in known], np.int64)[order] + shift,
        ends=joined([one.ends for one in known], np.float64)[order],
        tasks=tasks[kept],
        successors=joined([part.rows.successors for part in parts], np.int32),
        p=joined([part.rows.p for part in parts], np.float64),
        eta=radii.rewards,
        tau=radii.transitions,
    )


def _may_end(nearness: Nearness, setting: Setting) -> BoolArray:
    may_end = np.full(setting.n_pairs, setting.terminating)
    if nearness.terminates is not None:
        may_end &= nearness._per_pair("terminates", setting.n_pairs)
    return may_end
