"""Distances between tasks whose models are known, and the bounds they give on values.

Every distance of tasks is a certified upper bound: true value <= result <= true value + `tol`,
rounding included. So what is proved of the true distance, that it bounds a gap of values, holds
for the result. By default `tol` is 1e-6, or where doubles cannot certify that much, a millionth of
the largest distance at most. The distance of models solves for nothing: it is its formula.

Values enter as weights of probabilities and must not be negative. With lo the lesser end of both
reward ranges, `c = min(0, lo / (1-γ))` is at most any value, and W = V - c takes the place of V;
the sink ⊥ of terminating transitions, whose value is 0, weighs -c. For rewards from 0 up c = 0,
and this is the paper.

The names are the paper's. `Δ` is not a pseudometric, though: it violates the triangle inequality.
"""

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import ArrayLike

from heirloom.arrays import FloatArray, frozen
from heirloom.errors import IncompatibleTasks, InvalidArgument, NotConverged
from heirloom.kernels import distances
from heirloom.mdp.tabular import TabularMDP, check_task
from heirloom.planning.certificate import ROUNDOFF, Certified, Tolerance
from heirloom.planning.solve import evaluate_with_rewards, solve_with_rewards
from heirloom.validation import real_number, weights

TOLERANCE = 1e-6

Solver = Callable[[TabularMDP, FloatArray | None, Tolerance], Certified]
"""The values of a task with given rewards to a given error, of the best policy or of one."""


def model_pseudometric(
    m: TabularMDP, m_bar: TabularMDP, f: ArrayLike, *, f_end: float = 0.0
) -> FloatArray:
    """D^f_sa(M, M̄) = |R - R̄| + Σ_s' f(s') |T - T̄|, over all (s, a) (Definition 1).

    The sum runs over the states and the sink ⊥, to which terminating transitions lead and which
    weighs `f_end`.
    """
    check_comparable(m, m_bar)
    W = np.array(weights("f", f, (m.n_states,), "a weight a state"))
    f_end = real_number("f_end", f_end, "the weight of the sink is a number from 0 up", least=0)
    D = np.empty(m.n_states * m.n_actions)
    distances.weigh_differences(
        *m.transitions.continuing, *m_bar.transitions.continuing, frozen(W), D
    )
    return D.reshape(m.R.shape) + np.abs(m.R - m_bar.R) + f_end * np.abs(m.ends - m_bar.ends)


def dissimilarity(m: TabularMDP, m_bar: TabularMDP, *, tol: float | None = None) -> FloatArray:
    """d_sa(M ‖ M̄): the fixed point of d = D^{γV*_M̄} + γ Σ_s' T max_a' d (Proposition 1)."""
    check_comparable(m, m_bar)
    return _dissimilarity(m, m_bar, _best, Tolerance.of(tol, TOLERANCE)).Q


def local_pseudometric(m: TabularMDP, m_bar: TabularMDP, *, tol: float | None = None) -> FloatArray:
    """Δ_sa(M, M̄) = min(d_sa(M ‖ M̄), d_sa(M̄ ‖ M)) >= |Q*_M - Q*_M̄| (Proposition 1)."""
    there, back = _both_ways(m, m_bar, _best, tol)
    return np.minimum(there.Q, back.Q)


def global_pseudometric(m: TabularMDP, m_bar: TabularMDP, *, tol: float | None = None) -> float:
    """Δ(M, M̄): the smaller of max_sa D_sa / (1-γ) in both directions; bounds |Q*_M - Q*_M̄|."""
    check_comparable(m, m_bar)
    tolerance = Tolerance.of(tol, TOLERANCE)
    return min(
        _global_dissimilarity(m, m_bar, tolerance), _global_dissimilarity(m_bar, m, tolerance)
    )


def policy_v_pseudometric(
    m: TabularMDP, m_bar: TabularMDP, policy: ArrayLike, *, tol: float | None = None
) -> FloatArray:
    """Δ^π_s(M, M̄) >= |V^π_M - V^π_M̄|, for a policy [s] or [s, a].

    The smaller, in both directions, of the fixed points of d = Σ_a π (D^{γV^π_M̄} + γ Σ_s' T d).
    """
    there, back = _both_ways(m, m_bar, _of(policy), tol)
    return np.minimum(there.V, back.V)


def policy_q_pseudometric(
    m: TabularMDP, m_bar: TabularMDP, policy: ArrayLike, *, tol: float | None = None
) -> FloatArray:
    """Δ^π_sa(M, M̄) >= |Q^π_M - Q^π_M̄|, for a policy [s] or [s, a].

    The smaller, in both directions, of the fixed points of d = D^{γV^π_M̄} + γ Σ_s'a' T π d.
    """
    there, back = _both_ways(m, m_bar, _of(policy), tol)
    return np.minimum(there.Q, back.Q)


def family_distance(tasks: Iterable[TabularMDP], *, tol: float | None = None) -> FloatArray:
    """The largest D^{γV*_M̄}_sa(M, M̄) of any two tasks, [s, a]: a prior D_max that holds.

    With rewards below 0 the weights are V*_M̄ - c, as in all of this module.
    """
    tasks = list(tasks) if isinstance(tasks, Iterable) else []
    if not tasks:
        raise InvalidArgument("there are no tasks: give a list of one or more")
    for m in tasks:
        check_comparable(tasks[0], m)
    lo = min(m.reward_range[0] for m in tasks)
    tolerance = Tolerance.of(tol, TOLERANCE)
    D, excess = np.zeros(tasks[0].R.shape), 0.0
    for m_bar in tasks:
        values = _best(m_bar, None, tolerance.loose(1 / 16))
        for m in tasks:
            one, above = _distance_between(m, m_bar, values, lo)
            np.maximum(D, one, out=D)
            excess = max(excess, above)
    _check(tolerance, excess, D)
    return D


def lipschitz_bound(m: TabularMDP, m_bar: TabularMDP, *, tol: float | None = None) -> FloatArray:
    """U_M̄(s, a) = Q*_M̄ + Δ_sa(M, M̄) >= Q*_M (Definition 2)."""
    check_comparable(m, m_bar)
    tolerance = Tolerance.of(tol, TOLERANCE)
    source = _best(m_bar, None, tolerance.loose(1 / 8))
    there = _dissimilarity(m, m_bar, _best, tolerance.loose(1 / 2))
    back = _dissimilarity(m_bar, m, _best, tolerance.loose(1 / 2))
    # `+ error` puts the sum above its true value; the distance has room for the rounding.
    U = source.Q + source.error + np.minimum(there.Q, back.Q)
    _check(tolerance, 2 * source.error + max(there.error, back.error), U)
    return U


def check_comparable(m: TabularMDP, m_bar: TabularMDP) -> None:
    """Raise `IncompatibleTasks` unless both have the same states, actions and discount factor."""
    check_task(m)
    check_task(m_bar)
    for what in ("n_states", "n_actions", "gamma"):
        one, other = getattr(m, what), getattr(m_bar, what)
        if one != other:
            raise IncompatibleTasks(
                f"{what} is {one} in one task and {other} in the other: "
                "only tasks over the same states and actions with the same discount are compared"
            )
    for what in ("state_names", "action_names"):
        names, names_bar = getattr(m, what) or (), getattr(m_bar, what) or ()
        for i, (one, other) in enumerate(zip(names, names_bar, strict=False)):
            if one != other:
                raise IncompatibleTasks(
                    f"{what}[{i}] is {one!r} in one task and {other!r} in the other: "
                    "number states and actions alike in tasks that are compared"
                )


def _best(m: TabularMDP, R: FloatArray | None, tol: Tolerance) -> Certified:
    return solve_with_rewards(m, R, tol)


def _of(policy: ArrayLike) -> Solver:
    return lambda m, R, tol: evaluate_with_rewards(m, R, policy, tol)


def _both_ways(
    m: TabularMDP, m_bar: TabularMDP, values_of: Solver, tol: float | None
) -> tuple[Certified, Certified]:
    check_comparable(m, m_bar)
    tolerance = Tolerance.of(tol, TOLERANCE)
    return (
        _dissimilarity(m, m_bar, values_of, tolerance),
        _dissimilarity(m_bar, m, values_of, tolerance),
    )


def _dissimilarity(
    m: TabularMDP, m_bar: TabularMDP, values_of: Solver, tolerance: Tolerance
) -> Certified:
    """The dissimilarity of M from M̄ from above, for pairs (Q) and for states (V).

    It is the value in M of being paid D, which is why solvers compute it.
    """
    D, excess = _distance_to_source(m, m_bar, values_of, tolerance.loose((1 - m.gamma) / 16))
    d = values_of(m, D.reshape(-1), tolerance.loose(1 / 6))
    error = excess / (1 - m.gamma) + 2 * d.error
    _check(tolerance, error, d.Q)
    return Certified(d.Q + d.error, d.V + d.error, error)


def _global_dissimilarity(m: TabularMDP, m_bar: TabularMDP, tolerance: Tolerance) -> float:
    D, excess = _distance_to_source(m, m_bar, _best, tolerance.loose((1 - m.gamma) / 8))
    largest = D.max() / (1 - m.gamma) * (1 + 4 * ROUNDOFF)
    _check(tolerance, excess / (1 - m.gamma) + 8 * ROUNDOFF * largest, largest)
    return float(largest)


def _distance_to_source(
    m: TabularMDP, m_bar: TabularMDP, values_of: Solver, tol: Tolerance
) -> tuple[FloatArray, float]:
    """D_sa(M ‖ M̄) from above, weighted by the values of M̄ within `tol`; and its own error."""
    lo = min(m.reward_range[0], m_bar.reward_range[0])
    return _distance_between(m, m_bar, values_of(m_bar, None, tol), lo)


def _distance_between(
    m: TabularMDP, m_bar: TabularMDP, source: Certified, lo: float
) -> tuple[FloatArray, float]:
    """D_sa(M ‖ M̄) from above, weighted by the values of M̄, where no reward is below `lo`."""
    c = min(0.0, lo) / (1 - m.gamma)
    W = np.maximum(source.V + source.error - c, 0.0)
    D = model_pseudometric(m, m_bar, m.gamma * W, f_end=-m.gamma * c)
    longest = max(int(np.diff(task.transitions.indptr).max()) for task in (m, m_bar))
    # Roundings of a sum of `longest` terms of one sign, and of rows that sum to 1 only nearly.
    inflation = ROUNDOFF * (2 * longest + 16)
    D = np.where(D > 0, D * (1 + inflation) - inflation * m.gamma * c, 0.0)
    # W is at most 2 error too large, and Σ |T - T̄| is at most 2.
    excess = 4 * m.gamma * source.error + 2 * inflation * (D.max() - m.gamma * c)
    return D, float(excess)


def _check(tolerance: Tolerance, error: float, values: FloatArray) -> None:
    """Raise `NotConverged` unless an error of `values` will do."""
    largest = float(np.max(values))
    if not tolerance.admits(error, largest):
        raise NotConverged(
            f"tol={tolerance.error:g} cannot be certified for results up to {largest:.3g}: the "
            f"error that doubles allow is about {error:.1g}; ask for tol={2 * error:.1g} or more"
        )
