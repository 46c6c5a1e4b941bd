"""The sets of models that sources and a nearness give at each pair of a new task."""

from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from heirloom.arrays import BoolArray, FloatArray, IntArray
from heirloom.kernels import nearness as kernels
from heirloom.transfer.model_sets import ModelSets, SourceRows
from heirloom.transfer.nearness.knowledge import Nearness
from heirloom.transfer.setting import Setting
from heirloom.transfer.source import Source


def near_sets(sources: list[Source], nearness: Nearness, setting: Setting) -> ModelSets | None:
    """Return the sets of models that `sources` and `nearness` give, or None for no bound."""
    n_pairs = setting.n_pairs
    hi, epsilon = setting.reward_range[1], setting.epsilon
    t = np.minimum(1.0, nearness._per_pair("transitions", n_pairs) + epsilon / 2)
    r = nearness._per_pair("rewards", n_pairs) + epsilon
    may_end = _may_end(nearness, setting)
    # An episode that cannot end at once has a smaller value, if all rewards are negative.
    continues = ~may_end & (hi + setting.gamma * setting.v_max < setting.v_max - setting.same)
    if not continues.any() and _is_useless(nearness, setting, r, t):
        return None
    rows = _rows_by_pair(sources, n_pairs)
    reward = np.full(n_pairs, hi)
    if nearness.highest_rewards is not None:
        reward = np.minimum(reward, nearness._per_pair("highest_rewards", n_pairs))
    return ModelSets(
        reward=np.minimum(reward, rows.lowest_rewards + r),
        t=t,
        rows=rows,
        successors=nearness.successors,
        may_end=may_end,
    )


def _is_useless(nearness: Nearness, setting: Setting, r: FloatArray, t: FloatArray) -> bool:
    """Return whether no source can give a bound, so that none need be looked at."""
    lo, hi = setting.reward_range
    knows_more = nearness.successors is not None or nearness.highest_rewards is not None
    return not knows_more and bool((t >= 1.0).all()) and bool((lo + r >= hi).all())


def reward_tasks(
    sources: list[Source], nearness: Nearness, setting: Setting, pairs: IntArray
) -> IntArray:
    """Return the task whose mean reward bounds the reward of each of `pairs`; 0 if none does.

    It is the first task with the lowest mean reward, unless the reward range or `highest_rewards`
    gives a smaller bound.
    """
    n_pairs = setting.n_pairs
    bound = np.full(pairs.size, setting.reward_range[1])
    if nearness.highest_rewards is not None:
        bound = np.minimum(bound, nearness._per_pair("highest_rewards", n_pairs)[pairs])
    r = nearness._per_pair("rewards", n_pairs)[pairs] + setting.epsilon
    tasks = np.zeros(pairs.size, dtype=np.int64)
    for source in sources:
        of_source = np.where(source.known[pairs], source.rows.R[pairs] + r, np.inf)
        lower = of_source < bound
        tasks[lower], bound[lower] = source.task, of_source[lower]
    return tasks


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
        rows, pairs = source.rows, np.flatnonzero(source.known)
        first, last, ends = rows.first[pairs], rows.last[pairs], rows.ends[pairs]
        hashes = np.empty(pairs.size, dtype=np.uint64)
        kernels.hash_rows(first, last, ends, rows.successors, rows.p, hashes)
        found = _GATHERED[source] = KnownRows(pairs, first, last, rows.R[pairs], ends, hashes)
    return found


def _rows_by_pair(sources: list[Source], n_pairs: int) -> SourceRows:
    """Return the rows of all sources by pair, without those that equal another of the same pair."""
    all_rows = [gathered(source) for source in sources]
    sizes = np.array([source.rows.p.size for source in sources], dtype=np.int64)
    lengths = np.array([one.pairs.size for one in all_rows], dtype=np.int64)
    pairs = _joined([one.pairs for one in all_rows], np.int64)
    order = np.argsort(pairs, kind="stable")
    start = np.zeros(n_pairs + 1, dtype=np.int64)
    np.cumsum(np.bincount(pairs, minlength=n_pairs), out=start[1:])
    R = _joined([one.R for one in all_rows], np.float64)[order]
    kept = np.empty(pairs.size, dtype=bool)
    hashes = _joined([one.hashes for one in all_rows], np.uint64)[order]
    kernels.drop_equal_rows(start, hashes, kept)
    lowest = np.full(n_pairs, np.inf)
    has_rows = np.diff(start) > 0
    if R.size:
        lowest[has_rows] = np.minimum.reduceat(R, start[:-1][has_rows])
    order = order[kept]
    shift = np.repeat(np.cumsum(sizes) - sizes, lengths)[order]
    tasks = np.repeat(np.array([source.task for source in sources], dtype=np.int64), lengths)
    return SourceRows(
        start=np.append(0, np.cumsum(kept))[start],
        lowest_rewards=lowest,
        first=_joined([one.first for one in all_rows], np.int64)[order] + shift,
        last=_joined([one.last for one in all_rows], np.int64)[order] + shift,
        ends=_joined([one.ends for one in all_rows], np.float64)[order],
        tasks=tasks[order],
        successors=_joined([source.rows.successors for source in sources], np.int32),
        p=_joined([source.rows.p for source in sources], np.float64),
    )


def _joined(arrays: list[np.ndarray], dtype: type) -> np.ndarray:
    return np.concatenate([np.empty(0, dtype=dtype), *arrays]).astype(dtype, copy=False)


def _may_end(nearness: Nearness, setting: Setting) -> BoolArray:
    may_end = np.full(setting.n_pairs, setting.terminating)
    if nearness.terminates is not None:
        may_end &= nearness._per_pair("terminates", setting.n_pairs)
    return may_end
