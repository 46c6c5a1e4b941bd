"""Bisimulation metrics between states of two tasks, and the bound on values that follows.

The metric is that of Ferns et al. (2004), between two tasks (Song et al., 2016; Tao et al., 2025):

    d(s, s̄) = max_a |R(s, a) - R̄(s̄, a)| + c W(T(s, a), T̄(s̄, a))

W is the Wasserstein distance between distributions over outcomes. Outcomes are the states and the
absorbing terminal state ⊥, whose reward is 0. W needs a distance between outcomes, the ground
metric. With `identity`, it is 0 between equal outcomes and 1 between others, so W is the total
variation. With `recursive`, it is d itself, so d is a fixed point.

With `identity`, the metric does not bound differences of values, and serves as a baseline. With
`recursive` and c = γ, it is the generalised bisimulation metric (`gbsm`), and |V*_M(s) - V*_M̄(s̄)|
<= d(s, s̄). Proof: let |V_M(s) - V_M̄(s̄)| <= d(s, s̄) for all outcomes, as is true for values that
are 0. One backup of both changes |Q_M(s, a) - Q_M̄(s̄, a)| to at most |R - R̄| + γ Σ plan d, for
every plan, and the maximum over the actions that both states have to at most d(s, s̄). States with
different actions have the largest distance that is possible. The limit of the backups is V*. ∎
"""

from collections.abc import Iterator
from typing import Literal, NamedTuple, get_args

import numpy as np
from scipy import sparse

from heirloom.arrays import FloatArray, IntArray, frozen
from heirloom.errors import IncompatibleTasks, InvalidArgument, NotConverged, is_installed, missing
from heirloom.mdp.available import SparseRows
from heirloom.mdp.tabular import TabularMDP, check_task
from heirloom.metrics.pseudometrics import inflation, tolerance_of
from heirloom.planning.certificate import ROUNDOFF, Tolerance, certify
from heirloom.planning.operators import Best, Problem
from heirloom.planning.policy_iteration import PolicyIteration
from heirloom.planning.solve import solve_with_rewards
from heirloom.validation import one_of, real_number
from heirloom.wording import counted, size_of_task

Ground = Literal["identity", "recursive"]
MAX_ITERATIONS = (
    100  # of policy iteration over plans; few suffice unless rounding prevents progress
)
MAX_APPLICATIONS = 1000  # of fixed plans, before their values are computed by policy iteration
ROUNDING = 1e-14  # relative decreases of this size may be rounding


def bisimulation_metric(
    m: TabularMDP,
    m_bar: TabularMDP,
    *,
    ground: Ground = "identity",
    c: float | None = None,
    tol: float | None = None,
) -> FloatArray:
    """Compute d(s, s̄) for all states of M and of M̄, [s, s̄].

    Args:
        m: a task, M.
        m_bar: a task with the same actions, M̄; for the ground metric "identity", also with the
            same states.
        ground: the ground metric, "identity" or "recursive".
        c: the weight of transitions, by default γ of M; below 1 if `ground` is "recursive".
        tol: the largest error of the recursive metric, including the rounding errors of mean
            rewards; by default 1e-6 times the width of the reward range. The result is never below
            its fixed point, except by rounding in transport plans and sums.

    With the ground metric "identity", the formula is evaluated in float64 without a certificate.

    An action that only one of two states has counts as the largest possible difference, and one
    that neither has does not count.
    """
    check_task(m)
    check_task(m_bar)
    one_of("ground", ground, get_args(Ground))
    if m.n_actions != m_bar.n_actions or (ground == "identity" and m.n_states != m_bar.n_states):
        raise IncompatibleTasks(
            f"one task has {size_of_task(m.n_states, m.n_actions)}, the other {m_bar.n_states} and "
            f"{m_bar.n_actions}: their actions must be the same, and for ground='identity' their "
            "states too"
        )
    expected = "expected the weight of transitions, 0 or more"
    c = m.gamma if c is None else real_number("c", c, expected, least=0)
    tolerance = tolerance_of(tol, m, m_bar)
    if ground == "identity":
        return _identity(m, m_bar, c)
    if c >= 1:
        raise InvalidArgument(f"c is {c}: expected a number below 1 for ground='recursive'")
    return _recursive(m, m_bar, c, tolerance.error).max(axis=2)[:-1, :-1]


def gbsm(m: TabularMDP, m_bar: TabularMDP, *, tol: float | None = None) -> FloatArray:
    """Compute `d(s, s̄) >= |V*_M(s) - V*_M̄(s̄)|`, the metric of Tao, Xu and You (2025), [s, s̄].

    It is the fixed point of `d(s, s̄) = max_a |R(s, a) - R̄(s̄, a)| + γ W(T(s, a), T̄(s̄, a); d)`, where
    W is the Wasserstein distance. The tasks have the same actions and γ, and may have different
    states. The result is above the fixed point by at most `tol`, rounding included; the default of
    `tol` is 1e-6 times the width of the reward range.

    It is symmetric, and satisfies the triangle inequality between tasks that have the same reward
    range and all may terminate, or none. States with different actions have the largest distance.
    """
    return _certified(m, m_bar, tol, 1.0).max(axis=2)


def gbsm_bound(m: TabularMDP, m_bar: TabularMDP, *, tol: float | None = None) -> FloatArray:
    """Compute `U(s, a) = min_s̄ Q*_M̄(s̄, a) + |R - R̄| + γ W(T(s, a), T̄(s̄, a); d) >= Q*_M`, [s, a].

    d is the metric `gbsm`, and s̄ runs over all states of M̄ that have the action, so that the tasks
    may have different states. The result is above the exact one by at most `tol`. It is -infinity
    where M lacks an action, and v_max where all states of M̄ do.
    """
    d = _certified(m, m_bar, tol, 0.5)
    source = solve_with_rewards(m_bar, None, Tolerance(tolerance_of(tol, m, m_bar).error / 4))
    Q = np.where(m_bar.available, source.Q + source.error, np.inf)
    U = np.nextafter(Q + d, np.inf).min(axis=1)  # rounded up
    U[np.isinf(U)] = m.v_max
    return np.where(m.available, U, -np.inf)


def _certified(m: TabularMDP, m_bar: TabularMDP, tol: float | None, share: float) -> FloatArray:
    """Return |R - R̄| + γ W(T, T̄; d) for `gbsm`, or up to a share of `tol` more, [s, s̄, a]."""
    check_task(m)
    check_task(m_bar)
    if (m.n_actions, m.gamma) != (m_bar.n_actions, m_bar.gamma):
        raise IncompatibleTasks(
            f"one task has {counted(m.n_actions, 'action')} and gamma={m.gamma}, the other "
            f"{m_bar.n_actions} and gamma={m_bar.gamma}: they must be the same"
        )
    error = share * tolerance_of(tol, m, m_bar).error
    # A sum over a plan has at most twice as many terms as a row, each rounded as a sum is.
    largest = _width(m, m_bar, end=True) / (1 - m.gamma)
    rounding = inflation(m, m_bar) ** 2 / ROUNDOFF * largest / (1 - m.gamma)
    d = _recursive(m, m_bar, m.gamma, _remaining_tolerance(error, 2 * rounding))
    return d[:-1, :-1] + rounding


def closest_states(d: FloatArray) -> IntArray:
    """Return for each row the closest column; ties go to the row's own index, then the first."""
    closest = d.argmin(axis=1)
    n = min(d.shape)
    same = np.arange(n)
    same_is_closest = d[same, same] <= d[same, closest[:n]]
    closest[:n][same_is_closest] = same[same_is_closest]
    return closest


def _identity(m: TabularMDP, m_bar: TabularMDP, c: float) -> FloatArray:
    from scipy.spatial.distance import cdist  # here, because loading it takes 0.17 s

    d = np.zeros((m.n_states, m_bar.n_states))
    for a in range(m.n_actions):
        rewards = np.abs(m.R[:, a, None] - m_bar.R[None, :, a])
        variation = cdist(_dense(m, a), _dense(m_bar, a), "cityblock") / 2
        has, has_bar = m.available[:, a, None], m_bar.available[None, :, a]
        differs = np.where(has ^ has_bar, _width(m, m_bar) + c, 0.0)
        np.maximum(d, np.where(has & has_bar, rewards + c * variation, differs), out=d)
    return d


def _width(m: TabularMDP, m_bar: TabularMDP, *, end: bool = False) -> float:
    """Return the width of the range of rewards; with `end`, 0 is one if a task terminates."""
    rewards = [*m.reward_range, *m_bar.reward_range]
    rewards += [0.0] if end and (m.terminating or m_bar.terminating) else []
    return max(rewards) - min(rewards)


def _dense(m: TabularMDP, a: int) -> FloatArray:
    """Return the distributions of an action over states and ⊥, [s, outcome]."""
    t = m.transitions
    dense = np.zeros((m.n_states, m.n_states + 1))
    chosen = t.pairs % t.n_actions == a
    ends = np.zeros(t.p.size, dtype=bool) if t.ends is None else t.ends
    outcomes = np.where(ends, m.n_states, t.successors)[chosen]
    np.add.at(dense, (t.pairs[chosen] // t.n_actions, outcomes), t.p[chosen])
    return dense


class _Row(NamedTuple):
    """The mean reward and the possible outcomes of a pair; ⊥ is outcome n_states.

    An action that is not available has no outcomes.
    """

    reward: float
    outcomes: IntArray
    p: FloatArray
    terminal: bool = False


def _recursive(m: TabularMDP, m_bar: TabularMDP, c: float, tol: float) -> FloatArray:
    """Compute |R - R̄| + c W(T, T̄; d) for the recursive metric d, the maximum over actions.

    The result is over all states and ⊥ of both tasks and over actions, [s, s̄, a]. It is computed by
    policy iteration over transport plans.

    Each iteration computes the cheapest plans for d, then d for these plans. It converges from
    above, because a plan that is not the cheapest costs more. Few iterations suffice, which matters
    because computing plans is slow: one linear program per pair of states and action.
    """
    if not is_installed("ot"):
        raise missing("the recursive metric", "wasserstein")
    rows, rows_bar = _rows(m), _rows(m_bar)
    shape = len(rows), len(rows_bar)
    pairs = [
        (row, row_bar)
        for rows_s in rows
        for rows_s_bar in rows_bar
        for row, row_bar in zip(rows_s, rows_s_bar, strict=True)
    ]
    error = _reward_errors(m, m_bar)
    largest = _width(m, m_bar, end=True) / (1 - c)
    rewards = np.array([_reward_distance(*rows, largest) for rows in pairs])
    rewards = (rewards + error.reshape(-1)).reshape(-1, m.n_actions)
    tol = _remaining_tolerance(tol, 2 * float(error.max()) / (1 - c))
    d = np.full(shape, rewards.max() / (1 - c))  # an upper bound on all distances
    for _ in range(MAX_ITERATIONS):
        plans = _cheapest_plans(pairs, d)
        improved = _apply(plans, rewards, c, d.reshape(-1))
        change = float(np.abs(improved - d.reshape(-1)).max())
        if c * change <= tol * (1 - c):
            return _of_actions(plans, rewards, c, d.reshape(-1)).reshape(*shape, -1)
        following = _values_of_plans(plans, rewards, c, improved, tol).reshape(shape)
        if (d - following).max() <= ROUNDING * d.max():
            break
        d = np.minimum(d, following)
    reached = c * change / (1 - c)
    raise NotConverged(
        f"tol={tol:g} cannot be certified for c={c}: float64 reached an error of {reached:.1g}; "
        f"ask for tol={2 * reached:.1g} or more"
    )


def _reward_distance(row: _Row, row_bar: _Row, largest: float) -> float:
    """Return the difference of mean rewards, or `largest` if only one state has the action.

    ⊥ has no actions, so that an action which the other state lacks does not count.
    """
    if row.p.size and row_bar.p.size:
        return abs(row.reward - row_bar.reward)
    has_one = (row.p.size and not row.terminal) or (row_bar.p.size and not row_bar.terminal)
    return largest if has_one else 0.0


def _values_of_plans(
    plans: sparse.csr_array, rewards: FloatArray, c: float, d: FloatArray, tol: float
) -> FloatArray:
    """Return d = max_a |R - R̄| + c Σ plan d for fixed plans, or more, from an upper bound `d`.

    If c is close to 1, it is computed as the value function of a task whose transitions are plans.
    """
    for _ in range(MAX_APPLICATIONS):
        following = _apply(plans, rewards, c, d)
        change, d = np.abs(following - d).max(), following
        if c * change <= tol * (1 - c) / 4:
            return d
    rows = SparseRows(
        frozen(plans.indptr.astype(np.int64)),
        frozen(plans.indices.astype(np.int32)),
        frozen(plans.data),
    )
    has_empty = bool((np.diff(rows.indptr) == 0).any())
    problem = Problem(frozen(rewards.reshape(-1)), rows, c, d.size, terminating=has_empty)
    V = PolicyIteration(problem).run_until(tol * (1 - c) / 16)
    result = certify(problem, Best(), V)
    return np.minimum(d, result.V + result.error)


def _reward_errors(m: TabularMDP, m_bar: TabularMDP) -> FloatArray:
    """Bound the rounding error of R(s, a) - R̄(s̄, a), [s, s̄, a]; states include ⊥."""
    error = np.zeros((m.n_states + 1, m_bar.n_states + 1, m.n_actions))
    error[:-1] += m.transitions.R_error.reshape(-1, 1, m.n_actions)
    error[:, :-1] += m_bar.transitions.R_error.reshape(1, -1, m.n_actions)
    return error


def _remaining_tolerance(tol: float, error: float) -> float:
    """Return `tol` - `error`; raise `NotConverged` unless it is positive."""
    if error < tol:
        return tol - error
    raise NotConverged(
        f"tol={tol:g} cannot be certified: rounding allows an error of about {error:.1g}; ask "
        f"for tol={2 * error:.1g} or more"
    )


def _apply(plans: sparse.csr_array, rewards: FloatArray, c: float, d: FloatArray) -> FloatArray:
    """Return max_a |R - R̄| + c Σ plan d, for fixed plans."""
    return _of_actions(plans, rewards, c, d).max(axis=1)


def _of_actions(
    plans: sparse.csr_array, rewards: FloatArray, c: float, d: FloatArray
) -> FloatArray:
    """Return |R - R̄| + c Σ plan d for each action, for fixed plans."""
    return rewards + c * (plans @ d).reshape(rewards.shape)


def _cheapest_plans(pairs: list[tuple[_Row, _Row]], d: FloatArray) -> sparse.csr_array:
    """Return the cheapest transport plan of each pair of rows, as one row over [s, s̄]."""
    data, columns, starts = [], [], [0]
    for row, row_bar in pairs:
        plan = _cheapest_plan(row, row_bar, d)
        used = np.nonzero(plan)
        data.append(plan[used])
        columns.append(row.outcomes[used[0]] * d.shape[1] + row_bar.outcomes[used[1]])
        starts.append(starts[-1] + used[0].size)
    arrays = np.concatenate(data), np.concatenate(columns), np.array(starts)
    return sparse.csr_array(arrays, shape=(len(pairs), d.size))


def _rows(m: TabularMDP) -> list[list[_Row]]:
    """Return the rows [s][a] of all states, then those of ⊥."""
    terminal = _Row(0.0, np.array([m.n_states]), np.ones(1), terminal=True)
    return [*_rows_of_states(m), [terminal] * m.n_actions]


def _rows_of_states(m: TabularMDP) -> Iterator[list[_Row]]:
    dense = [_dense(m, a) for a in range(m.n_actions)]
    for s in range(m.n_states):
        support = [np.flatnonzero(T[s]) for T in dense]
        yield [
            _Row(float(m.R[s, a]), outcomes, dense[a][s, outcomes] / (dense[a][s].sum() or 1.0))
            for a, outcomes in enumerate(support)
        ]


def _cheapest_plan(row: _Row, row_bar: _Row, d: FloatArray) -> FloatArray:
    """Return the mass moved from each outcome of `row` to each outcome of `row_bar`."""
    if row.p.size <= 1 or row_bar.p.size <= 1:  # there is only one plan, or no action
        return np.outer(row.p, row_bar.p)
    import ot

    cost = np.ascontiguousarray(d[np.ix_(row.outcomes, row_bar.outcomes)])
    return np.asarray(ot.emd(row.p, row_bar.p, cost))
