"""What sources and a nearness say of each pair of a new task, as the kernels take it."""

from typing import NamedTuple

import numpy as np

from heirloom.arrays import BoolArray, FloatArray, IntArray, StateArray
from heirloom.kernels import nearness as kernels
from heirloom.kernels.learning import Near
from heirloom.transfer.memory import Source
from heirloom.transfer.nearness.knowledge import Nearness, Successors
from heirloom.transfer.setting import Setting

SAME = 1e-9  # a bound that is lower than v_max by less than this counts as v_max


class LearnerArrays(NamedTuple):
    """The values of the learner, and where to note which bound determines `U` at a pair."""

    V: FloatArray
    decider: IntArray
    number: int


class SourceRows(NamedTuple):
    """The known rows of all sources, ordered by pair: `start[k]:start[k + 1]` for pair k."""

    start: IntArray
    first: IntArray
    last: IntArray
    R: FloatArray
    ends: FloatArray
    tasks: IntArray
    successors: StateArray
    p: FloatArray


def near_rows(
    sources: list[Source], nearness: Nearness, setting: Setting, learner: LearnerArrays
) -> Near | None:
    """Return the bounds that `sources` and `nearness` give, or None if there are none."""
    n_states, n_pairs = setting.n_states, setting.n_pairs
    hi, epsilon = setting.reward_range[1], setting.epsilon
    rows = _rows_by_pair(sources, n_pairs)
    t = np.minimum(1.0, nearness.per_pair("transitions", n_pairs) + epsilon / 2)
    r = nearness.per_pair("rewards", n_pairs) + epsilon
    reward = np.full(n_pairs, hi)
    if nearness.highest_rewards is not None:
        reward = np.minimum(reward, nearness.per_pair("highest_rewards", n_pairs))
    n_rows = np.diff(rows.start)
    has_rows = n_rows > 0
    if rows.R.size:
        lowest = np.minimum.reduceat(rows.R, rows.start[:-1][has_rows])
        reward[has_rows] = np.minimum(reward[has_rows], lowest + r[has_rows])
    t[~has_rows] = 1.0
    any_successor = nearness.successors is None
    useful = (reward < hi) | (t < 1.0) | (not any_successor)
    pairs = np.flatnonzero(useful)
    if pairs.size == 0:
        return None
    rows = _distinct(rows)
    V = learner.V
    top = max(float(V.max()), 0.0) if setting.terminating else float(V.max())
    first, possible = nearness.successors or _no_successors(n_pairs)
    return Near(
        any_successor,
        setting.terminating,
        setting.v_max - SAME,
        learner.number,
        float(t[pairs].max()),
        pairs,
        reward,
        t,
        _may_end(nearness, setting),
        rows.start,
        rows.first,
        rows.last,
        rows.ends,
        rows.tasks,
        rows.successors,
        rows.p,
        first,
        possible,
        *_links(pairs, rows, t, nearness.successors, n_states),
        w=np.full(n_pairs, np.inf),
        best=np.full(n_pairs, -1),
        value=np.full(rows.first.size, -np.inf),
        seen=np.zeros(rows.first.size),
        decrease=np.zeros(n_pairs),
        top=np.array([top, 0.0, 0.0]),
        # If ⊥ has the largest value, it keeps it.
        n_top=np.array([(V == top).sum() or n_states + 1]),
        U=np.full(n_pairs, setting.v_max),
        source=np.zeros(n_pairs, dtype=np.int64),
        decider=learner.decider,
    )


def _rows_by_pair(sources: list[Source], n_pairs: int) -> SourceRows:
    known = [np.flatnonzero(source.known) for source in sources]
    sizes = np.array([source.rows.p.size for source in sources], dtype=np.int64)
    offsets = np.cumsum(sizes) - sizes
    pairs = _joined(known, np.int64)
    order = np.argsort(pairs, kind="stable")
    start = np.zeros(n_pairs + 1, dtype=np.int64)
    np.cumsum(np.bincount(pairs, minlength=n_pairs), out=start[1:])

    def gathered(name: str, dtype: type) -> np.ndarray:
        per_source = (
            getattr(source.rows, name)[k] for source, k in zip(sources, known, strict=True)
        )
        return _joined(list(per_source), dtype)[order]

    lengths = np.array([k.size for k in known], dtype=np.int64)
    shift = np.repeat(offsets, lengths)[order]
    tasks = np.repeat(np.array([source.task for source in sources], dtype=np.int64), lengths)
    return SourceRows(
        start=start,
        first=gathered("first", np.int64) + shift,
        last=gathered("last", np.int64) + shift,
        R=gathered("R", np.float64),
        ends=gathered("ends", np.float64),
        tasks=tasks[order],
        successors=_joined([source.rows.successors for source in sources], np.int32),
        p=_joined([source.rows.p for source in sources], np.float64),
    )


def _joined(arrays: list[np.ndarray], dtype: type) -> np.ndarray:
    return np.concatenate([np.empty(0, dtype=dtype), *arrays]).astype(dtype, copy=False)


def _distinct(rows: SourceRows) -> SourceRows:
    """Return the rows without those that equal another row of the same pair."""
    kept = np.empty(rows.first.size, dtype=bool)
    of_rows = rows.first, rows.last, rows.ends, rows.successors, rows.p
    kernels.drop_equal_rows(rows.start, *of_rows, kept)
    start = np.append(0, np.cumsum(kept))[rows.start]
    names = ("first", "last", "R", "ends", "tasks")
    return rows._replace(start=start, **{name: getattr(rows, name)[kept] for name in names})


def _no_successors(n_pairs: int) -> Successors:
    return Successors(np.zeros(n_pairs + 1, dtype=np.int64), np.empty(0, dtype=np.int32))


def _may_end(nearness: Nearness, setting: Setting) -> BoolArray:
    may_end = np.full(setting.n_pairs, setting.terminating)
    if nearness.terminates is not None:
        may_end &= nearness.per_pair("terminates", setting.n_pairs)
    return may_end


def _links(
    pairs: IntArray,
    rows: SourceRows,
    t: FloatArray,
    possible: Successors | None,
    n_states: int,
) -> tuple[IntArray, IntArray, FloatArray]:
    """Return for each state the pairs whose bound depends on it, and by how much at most."""
    first, states = possible or _no_successors(t.size)
    into = np.zeros(n_states + 1, dtype=np.int64)
    arguments = (
        *(pairs, rows.start, rows.first, rows.last, rows.successors, rows.p, t),
        *(first, states, possible is None, into),
    )
    kernels.link(*arguments, np.empty(0, dtype=np.int64), np.empty(0))
    np.cumsum(into, out=into)
    into_pair, into_weight = np.empty(int(into[-1]), dtype=np.int64), np.empty(int(into[-1]))
    if into_pair.size:
        kernels.link(*arguments, into_pair, into_weight)
    return into, into_pair, into_weight
