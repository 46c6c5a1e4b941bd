"""The bounds that sources and a nearness give at each pair of a new task, as kernel arguments."""

from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from heirloom.arrays import BoolArray, FloatArray, IntArray, StateArray
from heirloom.kernels import nearness as kernels
from heirloom.kernels.counting import NOT_LISTED
from heirloom.kernels.solving import Near, Values
from heirloom.mdp.tabular import value_range
from heirloom.transfer.nearness.knowledge import Nearness
from heirloom.transfer.nearness.successors import Successors, no_successors
from heirloom.transfer.setting import Setting
from heirloom.transfer.source import Source

ROUNDING = 1e-12  # of the probability of termination


class SourceRows(NamedTuple):
    """The known rows of all sources, ordered by pair: `start[k]:start[k + 1]` for pair k.

    `lowest_rewards` is the smallest mean reward of each pair in any source, or infinity.
    """

    start: IntArray
    lowest_rewards: FloatArray
    first: IntArray
    last: IntArray
    ends: FloatArray
    tasks: IntArray
    successors: StateArray
    p: FloatArray


def near_rows(
    sources: list[Source],
    nearness: Nearness,
    setting: Setting,
    values: Values,
    *,
    number: int = 1,
    available: BoolArray | None = None,
) -> Near | None:
    """Return the bounds that `sources` and `nearness` give, or None if there are none.

    `number` is that of the bound in `values.decider`. `available` marks the pairs of actions that
    exist, None for all.
    """
    n_states, n_pairs = setting.n_states, setting.n_pairs
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
    reward = np.minimum(reward, rows.lowest_rewards + r)
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
