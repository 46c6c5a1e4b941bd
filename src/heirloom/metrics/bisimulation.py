"""How far states of two tasks are from behaving alike (Ferns et al., 2004; Song et al., 2016).

    d(s, s̄) = max_a |R(s, a) - R̄(s̄, a)| + c W(T(s, a), T̄(s̄, a))

W is the Wasserstein distance of distributions over outcomes: the states, and the sink ⊥, which is
paid nothing and stays. It needs a distance of outcomes, the ground metric: `identity`, where two
outcomes are 0 apart if they are the same state and 1 otherwise, so that W is the total variation;
or `recursive`, where they are d apart, which makes d a fixed point.

Unlike the metrics of `pseudometrics`, this one bounds no gap of optimal values between two tasks
that are matched by it: it is here to be compared with.
"""

from collections.abc import Iterator
from typing import Literal, NamedTuple, get_args

import numpy as np
from scipy import sparse

from heirloom.arrays import FloatArray, IntArray
from heirloom.errors import IncompatibleTasks, InvalidArgument
from heirloom.mdp.tabular import TabularMDP, check_task
from heirloom.validation import real_number

Ground = Literal["identity", "recursive"]


def bisimulation_metric(
    m: TabularMDP,
    m_bar: TabularMDP,
    *,
    ground: Ground = "identity",
    c: float | None = None,
    tol: float = 1e-6,
) -> FloatArray:
    """d(s, s̄) for the states of M and of M̄, [s, s̄].

    Args:
        m: a task.
        m_bar: another, with the same actions; with the identity, over the same states too.
        ground: the distance of outcomes.
        c: the weight of transitions, γ of M by default; below 1 if the metric is recursive.
        tol: how far above its fixed point the recursive metric may be.
    """
    check_task(m)
    check_task(m_bar)
    if ground not in get_args(Ground):
        raise InvalidArgument(f"ground is {ground!r}: it is 'identity' or 'recursive'")
    if m.n_actions != m_bar.n_actions or (ground == "identity" and m.n_states != m_bar.n_states):
        raise IncompatibleTasks(
            f"one task has {m.n_states} states and {m.n_actions} actions, the other "
            f"{m_bar.n_states} and {m_bar.n_actions}: actions must be the same, and with the "
            "ground metric 'identity' states too"
        )
    what = "the weight of transitions is a number from 0 up"
    c = m.gamma if c is None else real_number("c", c, what, least=0)
    tol = real_number("tol", tol, "an error is a positive number", above=0)
    if ground == "identity":
        return _identity(m, m_bar, c)
    if c >= 1:
        raise InvalidArgument(f"c is {c}: below 1 the recursive metric is a fixed point")
    return _recursive(m, m_bar, c, tol)


def closest_states(d: FloatArray) -> IntArray:
    """For each row the closest column: of equally close ones the same number, or the first."""
    closest = d.argmin(axis=1)
    n = min(d.shape)
    same = np.arange(n)
    stays = d[same, same] <= d[same, closest[:n]]
    closest[:n][stays] = same[stays]
    return closest


def _identity(m: TabularMDP, m_bar: TabularMDP, c: float) -> FloatArray:
    from scipy.spatial.distance import cdist  # which takes a sixth of a second to load

    d = np.zeros((m.n_states, m_bar.n_states))
    for a in range(m.n_actions):
        rewards = np.abs(m.R[:, a, None] - m_bar.R[None, :, a])
        variation = cdist(_dense(m, a), _dense(m_bar, a), "cityblock") / 2
        np.maximum(d, rewards + c * variation, out=d)
    return d


def _dense(m: TabularMDP, a: int) -> FloatArray:
    """The distributions over states and ⊥ of an action, [s, outcome]."""
    t = m.transitions
    dense = np.zeros((m.n_states, m.n_states + 1))
    chosen = t.pairs % t.n_actions == a
    ends = np.zeros(t.p.size, dtype=bool) if t.ends is None else t.ends
    outcomes = np.where(ends, m.n_states, t.successors)[chosen]
    np.add.at(dense, (t.pairs[chosen] // t.n_actions, outcomes), t.p[chosen])
    return dense


class _Row(NamedTuple):
    """What a pair pays on average, and its possible outcomes; ⊥ has the last number."""

    reward: float
    outcomes: IntArray
    p: FloatArray


def _recursive(m: TabularMDP, m_bar: TabularMDP, c: float, tol: float) -> FloatArray:
    """Fix the plans that move mass, solve for d, improve the plans, until nothing improves.

    That comes from above: a plan that is not the cheapest one costs more. It is policy iteration,
    so plans are improved a few times only; they are what takes long, one linear program for each
    pair of states and each action.
    """
    rows, rows_bar = _rows(m), _rows(m_bar)
    shape = len(rows), len(rows_bar)
    pairs = [
        (row, row_bar)
        for of_s in rows
        for of_s_bar in rows_bar
        for row, row_bar in zip(of_s, of_s_bar, strict=True)
    ]
    rewards = np.array([abs(row.reward - row_bar.reward) for row, row_bar in pairs])
    rewards = rewards.reshape(-1, m.n_actions)
    d = np.full(shape, rewards.max() / (1 - c))  # no distance is larger: this is from above
    while True:
        moved = _plans(pairs, d)
        improved = _applied(moved, rewards, c, d.reshape(-1))
        if c * np.abs(improved - d.reshape(-1)).max() <= tol * (1 - c):
            return improved.reshape(shape)[:-1, :-1]
        change = np.inf
        while c * change > tol * (1 - c) / 4:
            following = _applied(moved, rewards, c, improved)
            change, improved = np.abs(following - improved).max(), following
        d = improved.reshape(shape)


def _applied(moved: sparse.csr_array, rewards: FloatArray, c: float, d: FloatArray) -> FloatArray:
    """max_a |R - R̄| + c Σ plan d, with the plans as they are."""
    return (rewards + c * (moved @ d).reshape(rewards.shape)).max(axis=1)


def _plans(pairs: "list[tuple[_Row, _Row]]", d: FloatArray) -> sparse.csr_array:
    """The cheapest plan that moves each row to its counterpart, one row each over [s, s̄]."""
    data, columns, starts = [], [], [0]
    for row, row_bar in pairs:
        plan = _plan(row, row_bar, d)
        used = np.nonzero(plan)
        data.append(plan[used])
        columns.append(row.outcomes[used[0]] * d.shape[1] + row_bar.outcomes[used[1]])
        starts.append(starts[-1] + used[0].size)
    arrays = np.concatenate(data), np.concatenate(columns), np.array(starts)
    return sparse.csr_array(arrays, shape=(len(pairs), d.size))


def _rows(m: TabularMDP) -> list[list[_Row]]:
    """The rows of all states, and of ⊥."""
    sink = _Row(0.0, np.array([m.n_states]), np.ones(1))
    return [*_rows_of_states(m), [sink] * m.n_actions]


def _rows_of_states(m: TabularMDP) -> Iterator[list[_Row]]:
    dense = [_dense(m, a) for a in range(m.n_actions)]
    for s in range(m.n_states):
        support = [np.flatnonzero(T[s]) for T in dense]
        yield [
            _Row(float(m.R[s, a]), outcomes, dense[a][s, outcomes] / dense[a][s].sum())
            for a, outcomes in enumerate(support)
        ]


def _plan(row: _Row, row_bar: _Row, d: FloatArray) -> FloatArray:
    """How much mass goes from each outcome of a row to each of its counterpart."""
    if row.p.size == 1 or row_bar.p.size == 1:  # there is one way to move it
        return np.outer(row.p, row_bar.p)
    import ot

    cost = np.ascontiguousarray(d[np.ix_(row.outcomes, row_bar.outcomes)])
    return np.asarray(ot.emd(row.p, row_bar.p, cost))
