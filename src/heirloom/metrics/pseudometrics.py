"""Distances between tasks with known models, and the bounds on values that follow from them.

Every distance between tasks is a certified upper bound: true value <= result <= true value + `tol`,
rounding included. So the result bounds the same differences of values as the true distance. The
default of `tol`, which is in the units of rewards, is 1e-6 times the width of the reward range, the
widest of all tasks; or where float64 arithmetic cannot certify this, at most a millionth of the
largest distance. `model_pseudometric` is the exception: it evaluates a formula, without `tol`.
True values are those of tasks with the given rewards and the normalised probabilities, which are
float64 numbers, in exact arithmetic.

Values are used as weights of probabilities, which must not be negative. With lo the smaller lower
end of both reward ranges, `c = min(0, lo / (1-γ))` is a lower bound on all values, and W = V - c
replaces V. The absorbing terminal state ⊥, whose value is 0, has the weight -c. If no reward is
negative, c = 0 and the formulas are those of the paper.

A pair that only one of two tasks has: the other task says nothing, so D is that of an unknown
model, and the difference of the values of the state is bounded by v_max - V, with V the value in
the task that lacks the action. A pair that neither has does not count. docs/guarantees.md has the
proofs.

The names are the paper's, but `Δ` is not a pseudometric: it violates the triangle inequality.
"""

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import ArrayLike

from heirloom.arrays import BoolArray, FloatArray, frozen
from heirloom.errors import IncompatibleTasks, InvalidArgument, NotConverged
from heirloom.kernels import distances
from heirloom.mdp.available import rows_of, stand_ins
from heirloom.mdp.tabular import TabularMDP, check_task, reward_scale
from heirloom.mdp.transitions import Transitions
from heirloom.planning.certificate import ROUNDOFF, Certified, Tolerance, fixed_point, quotient
from heirloom.planning.operators import Best, Problem
from heirloom.planning.solve import evaluate_with_rewards, solve_with_rewards
from heirloom.validation import real_number, weights

TOLERANCE = 1e-6  # in units of the range of rewards

Solver = Callable[[TabularMDP, FloatArray | None, Tolerance], Certified]
"""Computes the values of a task, optimal or of a policy, for given rewards and tolerance."""


def model_pseudometric(
    m: TabularMDP, m_bar: TabularMDP, f: ArrayLike, *, f_end: float = 0.0
) -> FloatArray:
    """`D^f_sa(M, M̄) = |R - R̄| + Σ_s' f(s') |T - T̄|`, over all (s, a) (Definition 1).

    The sum runs over the states and the absorbing terminal state ⊥, the successor of terminal
    transitions, which has the weight `f_end`. The result is rounded: with at most n transitions per
    pair, its error is at most 2^-53 (2n + 16) times (result + `f_end`), plus the rounding errors of
    both mean rewards. Where only one task has an action, the other one counts as unknown; where
    neither has it, the result is 0.
    """
    check_comparable(m, m_bar)
    W = np.array(weights("f", f, (m.n_states,), "one weight per state"))
    f_end = real_number("f_end", f_end, "expected a weight, 0 or more", least=0)
    D = np.empty(m.n_states * m.n_actions)
    distances.weigh_differences(
        *m.transitions.continuing, *m_bar.transitions.continuing, frozen(W), D
    )
    D = D.reshape(m.R.shape) + np.abs(m.R - m_bar.R) + f_end * np.abs(m.ends - m_bar.ends)
    return _with_unknown(D, m, m_bar, W, f_end) if _lack_actions(m, m_bar) else D


def dissimilarity(m: TabularMDP, m_bar: TabularMDP, *, tol: float | None = None) -> FloatArray:
    """`d_sa(M ‖ M̄)`, the fixed point of `d = D^{γV*_M̄} + γ Σ_s' T max_a' d` (Proposition 1).

    Where only one task has an action, d is v_max minus the value of the state in the other task;
    where neither has it, d is 0.
    """
    check_comparable(m, m_bar)
    return _dissimilarity(m, m_bar, solve_with_rewards, tolerance_of(tol, m, m_bar)).Q


def local_pseudometric(m: TabularMDP, m_bar: TabularMDP, *, tol: float | None = None) -> FloatArray:
    """`Δ_sa(M, M̄) = min(d_sa(M ‖ M̄), d_sa(M̄ ‖ M)) >= |Q*_M - Q*_M̄|` (Proposition 1).

    The inequality is about pairs that both tasks have.
    """
    to_source, from_source = _both_directions(m, m_bar, solve_with_rewards, tol)
    return np.minimum(to_source.Q, from_source.Q)


def global_pseudometric(m: TabularMDP, m_bar: TabularMDP, *, tol: float | None = None) -> float:
    """`Δ(M, M̄) >= |Q*_M - Q*_M̄|`, the minimum of `max_sa D_sa / (1-γ)` over both directions."""
    check_comparable(m, m_bar)
    tolerance = tolerance_of(tol, m, m_bar)
    return min(
        _global_dissimilarity(m, m_bar, tolerance), _global_dissimilarity(m_bar, m, tolerance)
    )


def policy_v_pseudometric(
    m: TabularMDP, m_bar: TabularMDP, policy: ArrayLike, *, tol: float | None = None
) -> FloatArray:
    """`Δ^π_s(M, M̄) >= |V^π_M - V^π_M̄|`, for a policy [s] or [s, a].

    It is the minimum over both directions of the fixed point of
    `d = Σ_a π (D^{γV^π_M̄} + γ Σ_s' T d)`.
    """
    to_source, from_source = _both_directions(m, m_bar, _evaluation_of(policy), tol)
    return np.minimum(to_source.V, from_source.V)


def policy_q_pseudometric(
    m: TabularMDP, m_bar: TabularMDP, policy: ArrayLike, *, tol: float | None = None
) -> FloatArray:
    """`Δ^π_sa(M, M̄) >= |Q^π_M - Q^π_M̄|`, for a policy [s] or [s, a].

    It is the minimum over both directions of the fixed point of `d = D^{γV^π_M̄} + γ Σ_s'a' T π d`.
    """
    to_source, from_source = _both_directions(m, m_bar, _evaluation_of(policy), tol)
    return np.minimum(to_source.Q, from_source.Q)


def family_distance(tasks: Iterable[TabularMDP], *, tol: float | None = None) -> FloatArray:
    """The largest `D^{γV*_M̄}_sa(M, M̄)` between any two of `tasks`, [s, a]: a valid prior.

    With negative rewards the weights are V*_M̄ - c, as everywhere in this module. Tasks are compared
    at the pairs that both have.
    """
    tasks = list(tasks) if isinstance(tasks, Iterable) else []
    if not tasks:
        raise InvalidArgument(
            "tasks is empty or not iterable: expected a list of one or more tasks"
        )
    for i, m in enumerate(tasks):
        check_task(m, f"tasks[{i}]")
        check_comparable(tasks[0], m)
    lo = min(m.reward_range[0] for m in tasks)
    tolerance = tolerance_of(tol, *tasks)
    D, excess = np.zeros(tasks[0].R.shape), 0.0
    for m_bar in tasks:
        values = solve_with_rewards(m_bar, None, tolerance.loose(1 / 16))
        for m in tasks:
            D_of_pair, excess_of_pair = _distance_between(m, m_bar, values, lo)
            D_of_pair = np.where(m.available & m_bar.available, D_of_pair, 0.0)
            np.maximum(D, D_of_pair, out=D)
            excess = max(excess, excess_of_pair)
    _check(tolerance, excess, D)
    return D


def lipschitz_bound(m: TabularMDP, m_bar: TabularMDP, *, tol: float | None = None) -> FloatArray:
    """`U_M̄(s, a) = Q*_M̄ + Δ_sa(M, M̄) >= Q*_M` (Definition 2).

    It is -infinity where M lacks an action, and v_max where only M̄ does. Actions that M lacks are
    no part of a maximum, so the distance may be smaller than `local_pseudometric`.
    """
    check_comparable(m, m_bar)
    tolerance = tolerance_of(tol, m, m_bar)
    source = solve_with_rewards(m_bar, None, tolerance.loose(1 / 8))
    to_source = _dissimilarity(m, m_bar, solve_with_rewards, tolerance.loose(1 / 2), m)
    from_source = _dissimilarity(m_bar, m, solve_with_rewards, tolerance.loose(1 / 2), m)
    # `+ error` makes the sum an upper bound; the distance includes an allowance for its rounding.
    U = source.Q + source.error + np.minimum(to_source.Q, from_source.Q)
    _check(tolerance, 2 * source.error + max(to_source.error, from_source.error), U)
    if _lack_actions(m, m_bar):
        U = np.where(m_bar.available, U, max(m.v_max, m_bar.v_max))
        U[~m.available] = -np.inf
    return U


def tolerance_of(tol: float | None, *tasks: TabularMDP) -> Tolerance:
    """Return a strict tolerance of `tol`, or if it is None, the default for these tasks."""
    return Tolerance.of(tol, TOLERANCE * max(reward_scale(m.reward_range) for m in tasks))


def check_comparable(m: TabularMDP, m_bar: TabularMDP) -> None:
    """Raise `IncompatibleTasks` unless both tasks have the same states, actions and γ."""
    check_task(m)
    check_task(m_bar)
    for attribute in ("n_states", "n_actions", "gamma"):
        value, value_bar = getattr(m, attribute), getattr(m_bar, attribute)
        if value != value_bar:
            raise IncompatibleTasks(
                f"{attribute} is {value} in one task and {value_bar} in the other: "
                "compared tasks must have the same states, actions and discount factor"
            )
    for attribute in ("state_names", "action_names"):
        names, names_bar = getattr(m, attribute) or (), getattr(m_bar, attribute) or ()
        for i, (name, name_bar) in enumerate(zip(names, names_bar, strict=False)):
            if name != name_bar:
                raise IncompatibleTasks(
                    f"{attribute}[{i}] is {name!r} in one task and {name_bar!r} in the other: "
                    "compared tasks must number their states and actions in the same order"
                )


def _evaluation_of(policy: ArrayLike) -> Solver:
    """Return the evaluation of a policy, which must take actions that both tasks have."""
    return lambda m, R, tol: evaluate_with_rewards(m, R, policy, tol)


def _both_directions(
    m: TabularMDP, m_bar: TabularMDP, values_of: Solver, tol: float | None
) -> tuple[Certified, Certified]:
    check_comparable(m, m_bar)
    tolerance = tolerance_of(tol, m, m_bar)
    return (
        _dissimilarity(m, m_bar, values_of, tolerance),
        _dissimilarity(m_bar, m, values_of, tolerance),
    )


def _dissimilarity(
    m: TabularMDP,
    m_bar: TabularMDP,
    values_of: Solver,
    tolerance: Tolerance,
    target: TabularMDP | None = None,
) -> Certified:
    """Upper bounds on the dissimilarity d(M ‖ M̄), for pairs (Q) and for states (V).

    The dissimilarity is the value function of M with rewards D, so `values_of` computes it. If
    `target` is one of the tasks, actions that it lacks are no part of a maximum.
    """
    D, excess = _distance_to_source(m, m_bar, values_of, tolerance.loose((1 - m.gamma) / 16))
    if _lack_actions(m, m_bar) and values_of is solve_with_rewards:
        both = (m.available & m_bar.available).reshape(-1)
        gap = _gaps(m, m_bar, tolerance.loose((1 - m.gamma) / 16), target)
        d = _solve_dissimilarity(m, both, D.reshape(-1), gap, tolerance.loose(1 / 6))
        excess += 2 * (1 - m.gamma) * tolerance.error / 16
    else:
        d = values_of(m, D.reshape(-1), tolerance.loose(1 / 6))
    error = quotient(excess, _contraction(m, m_bar)) + 2 * d.error
    _check(tolerance, error, d.Q)
    return Certified(d.Q + d.error, d.V + d.error, error)


def _global_dissimilarity(m: TabularMDP, m_bar: TabularMDP, tolerance: Tolerance) -> float:
    D, excess = _distance_to_source(
        m, m_bar, solve_with_rewards, tolerance.loose((1 - m.gamma) / 8)
    )
    contraction = _contraction(m, m_bar)
    largest = quotient(float(D.max()), contraction) * (1 + 4 * ROUNDOFF)
    too_much = 8 * ROUNDOFF + 1 - contraction / (1 - m.gamma)
    _check(tolerance, quotient(excess, contraction) + too_much * largest, largest)
    return largest


def _distance_to_source(
    m: TabularMDP, m_bar: TabularMDP, values_of: Solver, tol: Tolerance
) -> tuple[FloatArray, float]:
    """Upper bound on D_sa(M ‖ M̄), weighted by the values of M̄ within `tol`; and its error."""
    lo = min(m.reward_range[0], m_bar.reward_range[0])
    return _distance_between(m, m_bar, values_of(m_bar, None, tol), lo)


def _distance_between(
    m: TabularMDP, m_bar: TabularMDP, source: Certified, lo: float
) -> tuple[FloatArray, float]:
    """Upper bound on D_sa(M ‖ M̄), weighted by the values of M̄, and its error.

    No reward of either task is below `lo`.
    """
    c = min(0.0, lo) / (1 - m.gamma)
    W = np.maximum(source.V + source.error - c, 0.0)
    error = difference_error(m.transitions, m_bar.transitions).reshape(m.R.shape)
    D = model_pseudometric(m, m_bar, m.gamma * W, f_end=-m.gamma * c) + error
    enlarged = inflation(m, m_bar)
    D = np.where(D > 0, D * (1 + enlarged) - enlarged * m.gamma * c, 0.0)
    # W is too large by at most 2 * source.error, and Σ |T - T̄| is at most 2.
    excess = 4 * m.gamma * source.error + 2 * enlarged * (D.max() - m.gamma * c)
    excess += 2 * error.max()
    return D, float(excess)


def inflation(m: TabularMDP, m_bar: TabularMDP) -> float:
    """Bound the relative rounding error of a sum over a row, and of the sum 1 of a stored row."""
    longest = max(int(np.diff(task.transitions.indptr).max()) for task in (m, m_bar))
    return ROUNDOFF * (2 * longest + 16)


def _contraction(m: TabularMDP, m_bar: TabularMDP) -> float:
    """Return 1-γ, lowered because rows that sum to slightly more than 1 contract less than γ."""
    return 1 - m.gamma * (1 + inflation(m, m_bar))


def _check(tolerance: Tolerance, error: float, values: FloatArray | float) -> None:
    """Raise `NotConverged` unless the tolerance admits this error of `values`."""
    largest = float(np.max(values))
    if not (tolerance.admits(error, largest) and np.isfinite(error)):
        raise NotConverged(
            f"tol={tolerance.error:g} cannot be certified for results up to {largest:.3g}: "
            f"float64 allows an error of about {error:.1g}; ask for tol={2 * error:.1g} or more"
        )


def difference_error(t: Transitions, t_bar: Transitions) -> FloatArray:
    """Bound the rounding error of R - R̄ per pair.

    Where a pair has the same transitions in both tasks, the exact difference is 0, unless stored
    rewards are themselves rounded.
    """
    error = t.R_error + t_bar.R_error
    if t is t_bar:
        return np.zeros_like(error)
    if error.any():
        same = _same_rows(t, t_bar)
        error[same] = np.minimum(error[same], t.rewards_error + t_bar.rewards_error)
    return error


def _same_rows(t: Transitions, t_bar: Transitions) -> BoolArray:
    """Whether each pair has the same successors, probabilities, rewards and terminations."""
    lengths = np.diff(t.indptr)
    same = (t.R == t_bar.R) & (lengths == np.diff(t_bar.indptr))
    if same.any():
        compared, compared_bar = same[t.pairs], same[t_bar.pairs]
        pairs = np.repeat(np.flatnonzero(same), lengths[same])
        for of_task, of_other in zip(_columns(t), _columns(t_bar), strict=True):
            same[pairs[of_task[compared] != of_other[compared_bar]]] = False
    return same


def _columns(t: Transitions) -> tuple[np.ndarray, ...]:
    rewards = t.R[t.pairs] if t.rewards is None else t.rewards
    ends = np.zeros(t.p.size, dtype=bool) if t.ends is None else t.ends
    return t.successors, t.p, rewards, ends


def _lack_actions(*tasks: TabularMDP) -> bool:
    """Whether one of the tasks lacks an action."""
    return any(m.transitions.available is not None for m in tasks)


def _with_unknown(
    D: FloatArray, m: TabularMDP, m_bar: TabularMDP, f: FloatArray, f_end: float
) -> FloatArray:
    """Return D with the largest possible distance where one task lacks a pair, 0 where both do.

    That is the width of the range of rewards, plus the two largest weights of outcomes.
    """
    lo = min(m.reward_range[0], m_bar.reward_range[0])
    hi = max(m.reward_range[1], m_bar.reward_range[1])
    heaviest = np.sort(np.append(f, f_end))[-2:]
    one = m.available ^ m_bar.available
    both = m.available & m_bar.available
    return np.where(both, D, np.where(one, hi - lo + heaviest.sum(), 0.0))


def _gaps(
    m: TabularMDP, m_bar: TabularMDP, tol: Tolerance, target: TabularMDP | None
) -> FloatArray:
    """Return v_max - V at pairs that only one task has, V being that of the other; else NaN.

    If `target` is one of the tasks, pairs that it lacks are left out. The result is above the exact
    one by at most twice the tolerance.
    """
    v_max = max(m.v_max, m_bar.v_max)
    result = np.full(m.R.shape, np.nan)
    for one, other in ((m, m_bar), (m_bar, m)):
        only = one.available & ~other.available
        if only.any() and target is not other:
            values = solve_with_rewards(other, None, tol)
            width = np.maximum(v_max - values.V + values.error, 0.0)
            result[only] = np.broadcast_to(width[:, None], only.shape)[only]
    return result.reshape(-1)


def _solve_dissimilarity(
    m: TabularMDP, both: BoolArray, D: FloatArray, gap: FloatArray, tol: Tolerance
) -> Certified:
    """Return the fixed point of d = D + γ Σ T max d at pairs in `both`, d = `gap` at others.

    The maximum is over these pairs only; all arguments are over pairs. Elsewhere d is 0.
    """
    counts = both | ~np.isnan(gap)
    replaced = stand_ins(counts, m.n_actions)
    rows = rows_of(m.transitions.continuing, replaced)
    fixed = ~both[replaced]
    kept = np.repeat(~fixed, np.diff(rows.indptr))
    indptr = np.append(0, np.cumsum(np.where(fixed, 0, np.diff(rows.indptr))))
    rows = type(rows)(frozen(indptr), frozen(rows.successors[kept]), frozen(rows.p[kept]))
    rewards = np.where(both, D, np.where(np.isnan(gap), 0.0, gap))
    terminating = m.terminating or bool(fixed.any())
    problem = Problem(frozen(rewards[replaced]), rows, m.gamma, m.n_states, terminating)
    solved = fixed_point(problem, Best(), tol)
    return Certified(np.where(counts.reshape(m.R.shape), solved.Q, 0.0), solved.V, solved.error)
