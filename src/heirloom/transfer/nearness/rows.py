"""The bounds that sources and a nearness give at each pair of a new task, as kernel arguments."""

from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from heirloom.arrays import BoolArray, FloatArray, IntArray, StateArray
from heirloom.kernels import nearness as kernels
from heirloom.kernels.counting import NOT_LISTED
from heirloom.kernels.solving import Near, Values
from heirloom.mdp.rows import Rows
from heirloom.mdp.tabular import value_range
from heirloom.transfer.memory import ALL_TASKS, TaskMemory
from heirloom.transfer.nearness.knowledge import Nearness
from heirloom.transfer.nearness.successors import Successors, no_successors
from heirloom.transfer.radii import Radii
from heirloom.transfer.setting import Setting
from heirloom.transfer.source import Source

ROUNDING = 1e-12  # of the probability of termination


class SourceRows(NamedTuple):
    """What earlier tasks say about each pair: rows near to that of the task, ordered by pair.

    Pair k has the rows `start[k]:start[k + 1]`. `lowest_rewards` is its smallest mean reward in any
    of them before equal rows were dropped, or infinity, and `reward_tasks` says where it is from.
    `tasks` says from where each row is: the number of a task, or what a memory calls several
    tasks (`TaskMemory.source_name`). Each row is within `eta[k]` and `tau[k]` of what the nearness
    speaks about, in mean reward and in total variation.
    """

    start: IntArray
    lowest_rewards: FloatArray
    reward_tasks: IntArray
    first: IntArray
    last: IntArray
    ends: FloatArray
    tasks: IntArray
    successors: StateArray
    p: FloatArray
    eta: FloatArray
    tau: FloatArray


def near_rows(
    rows: SourceRows,
    nearness: Nearness,
    setting: Setting,
    values: Values,
    *,
    number: int = 1,
    available: BoolArray | None = None,
) -> Near | None:
    """Return the bounds that earlier tasks and `nearness` give, or None if there are none.

    `number` is that of the bound in `values.decider`. `available` marks the pairs of actions that
    exist, None for all.
    """
    n_states, n_pairs = setting.n_states, setting.n_pairs
    hi = setting.reward_range[1]
    t = np.minimum(1.0, nearness._per_pair("transitions", n_pairs) + rows.tau)
    may_end = _may_end(nearness, setting)
    continues = _continues(may_end, setting)
    reward = np.minimum(
        highest_rewards(nearness, setting),
        rows.lowest_rewards + (nearness._per_pair("rewards", n_pairs) + rows.eta),
    )
    t[np.diff(rows.start) == 0] = 1.0
    any_successor = nearness.successors is None
    useful = (reward < hi) | (t < 1.0) | (not any_successor) | continues
    # No expected value is below that of the task of which all rewards are the smallest possible.
    lowest = value_range(setting.reward_range, setting.gamma, terminating=setting.terminating)[0]
    useful &= reward + setting.gamma * min(lowest, 0.0) < setting.v_max
    if available is not None:
        useful &= available
    pairs = np.flatnonzero(useful)
    if pairs.size == 0:
        return None
    first, possible = nearness.successors or no_successors(n_pairs)
    # Mass of ⊥ has to move if the task does not terminate; if it is more than t, the model of the
    # source or the nearness is not accurate.
    pair = np.repeat(np.arange(n_pairs), np.diff(rows.start))
    leaves = ~may_end[pair] & (rows.ends <= t[pair] + ROUNDING)
    return Near(
        any_successor=any_successor,
        all_may_end=bool(may_end.all()),
        on_known=not values.falls,
        limit=setting.v_max - setting.same,
        number=number,
        pairs=pairs,
        reward=reward,
        t=t,
        may_end=may_end,
        rows=rows.start,
        first=rows.first,
        last=rows.last,
        ends=np.where(leaves, -rows.ends, rows.ends),
        tasks=rows.tasks,
        successors=rows.successors,
        p=rows.p,
        possible_first=first,
        possible=possible,
        best=np.full(n_pairs, -1),
        value=np.full(rows.first.size, -np.inf),
        seen=np.zeros(rows.first.size),
        decrease=np.zeros(n_pairs),
        **_links(pairs, rows, t, nearness.successors, n_states, falls=bool(values.falls)),
        U=np.full(n_pairs, setting.v_max),
        source=np.zeros(n_pairs, dtype=np.int64),
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
    return bool(_continues(_may_end(nearness, setting), setting).any())


def highest_rewards(nearness: Nearness, setting: Setting) -> FloatArray:
    """Return the largest mean reward of each pair that is possible whatever the sources are."""
    highest = np.full(setting.n_pairs, setting.reward_range[1])
    if nearness.highest_rewards is None:
        return highest
    return np.minimum(highest, nearness._per_pair("highest_rewards", setting.n_pairs))


def _continues(may_end: BoolArray, setting: Setting) -> BoolArray:
    """Return where an episode cannot end at once, and has a smaller value because of that.

    That is so if all rewards are negative.
    """
    continued = setting.reward_range[1] + setting.gamma * setting.v_max
    return ~may_end & (continued < setting.v_max - setting.same)


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
    pairs = _joined([one.pairs for one in known], np.int64)
    order = np.argsort(pairs, kind="stable")
    start = np.zeros(n_pairs + 1, dtype=np.int64)
    np.cumsum(np.bincount(pairs, minlength=n_pairs), out=start[1:])
    R = _joined([one.R for one in known], np.float64)[order]
    tasks = np.repeat(np.array([part.task for part in parts], dtype=np.int64), lengths)[order]
    kept = np.empty(pairs.size, dtype=bool)
    hashes = _joined([one.hashes for one in known], np.uint64)[order]
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
        first=_joined([one.first for one in known], np.int64)[order] + shift,
        last=_joined([one.last for one in known], np.int64)[order] + shift,
        ends=_joined([one.ends for one in known], np.float64)[order],
        tasks=tasks[kept],
        successors=_joined([part.rows.successors for part in parts], np.int32),
        p=_joined([part.rows.p for part in parts], np.float64),
        eta=radii.rewards,
        tau=radii.transitions,
    )


def _joined(arrays: list[np.ndarray], dtype: type) -> np.ndarray:
    return np.concatenate([np.empty(0, dtype=dtype), *arrays]).astype(dtype, copy=False)


def _may_end(nearness: Nearness, setting: Setting) -> BoolArray:
    may_end = np.full(setting.n_pairs, setting.terminating)
    if nearness.terminates is not None:
        may_end &= nearness._per_pair("terminates", setting.n_pairs)
    return may_end


def _links(
    pairs: IntArray,
    rows: SourceRows,
    t: FloatArray,
    possible: Successors | None,
    n_states: int,
    *,
    falls: bool,
) -> dict[str, np.ndarray]:
    """Return those fields of `Near` that say on which states the bound of each pair depends."""
    first, states = possible or no_successors(t.size)
    arguments = (
        *(pairs, rows.start, rows.first, rows.last, rows.successors, rows.p, t),
        *(first, states, possible is None, not falls, n_states),
    )
    n_pairs = t.size
    links, witness_weight = np.zeros(n_pairs + 1, dtype=np.int64), np.zeros(n_pairs)
    # Updates read links in no order, so that small numbers save time.
    small: type = np.int32
    kernels.link(*arguments, links, np.empty(0, dtype=small), np.empty(0), witness_weight)
    np.cumsum(links, out=links)
    if max(int(links[-1]), n_pairs) > np.iinfo(small).max:
        small = np.int64
    link_state: np.ndarray = np.empty(int(links[-1]), dtype=small)
    link_weight = np.empty(link_state.size)
    if link_state.size:
        kernels.link(*arguments, links, link_state, link_weight, witness_weight)
    n_witnesses = n_pairs if falls and possible is not None else 0
    return {
        "links": links,
        "link_state": link_state,
        "link_weight": link_weight,
        "link_pair": np.repeat(np.arange(n_pairs, dtype=small), np.diff(links)),
        "next_link": np.full(link_state.size, NOT_LISTED, dtype=small),
        "into": np.full(n_states, -1),
        "listed": np.zeros(n_pairs, dtype=bool),
        "witness_weight": witness_weight,
        "witness": np.full(n_witnesses, -1),
        "next_witness": np.full(n_witnesses, -1),
        "last_witness": np.full(n_witnesses, -1),
        "witness_into": np.full(n_states, -1),
    }
