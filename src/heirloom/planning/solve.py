"""Optimal values, values of policies, and expected returns over a finite horizon."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from heirloom.arrays import FloatArray, IntArray, frozen
from heirloom.errors import InvalidArgument
from heirloom.kernels import values
from heirloom.mdp.available import action_text
from heirloom.mdp.from_arrays import rewards_of
from heirloom.mdp.tabular import TabularMDP, check_task, reward_scale
from heirloom.mdp.transitions import SUM_TOLERANCE
from heirloom.planning.certificate import ROUNDOFF, Certified, Tolerance, fixed_point
from heirloom.planning.operators import Best, PolicyMean, Problem, greedy
from heirloom.validation import truth, whole_number

# In units of the range of rewards; where it is much wider than the rewards of the task, in units of
# WIDER times their range.
TOLERANCE = 1e-8
WIDER = 1000
MIN_STEPS = 10_000  # all steps of shorter horizons are computed


@dataclass(frozen=True, eq=False)
class Solution:
    """Values of a task with a certified error.

    Every entry of `Q` and of `V` is within `error` of its true value, rounding included. The true
    values are those of the given rewards and the normalised probabilities, both float64 numbers, in
    exact arithmetic. From `solve`, `policy` is greedy with respect to `Q` (the first of equal
    actions); from `evaluate`, it is the policy that was given. `Q` is -infinity where an action is
    not available, which no policy chooses.
    """

    Q: FloatArray
    V: FloatArray
    policy: IntArray | FloatArray
    error: float

    def __repr__(self) -> str:
        n_states, n_actions = self.Q.shape
        lowest = self.Q.min(initial=np.inf, where=np.isfinite(self.Q))
        return (
            f"Solution({n_states:,} x {n_actions:,} values from {lowest:.6g} to "
            f"{self.Q.max():.6g}, error {self.error:.1e})"
        )


def solve(m: TabularMDP, *, tol: float | None = None) -> Solution:
    """Compute the optimal values of `m`, with `|Q - Q*| <= error <= tol`, and their greedy policy.

    `tol` is in the units of rewards. Its default is 1e-8 times the width of the reward range, and
    at most 1e-5 times that of the rewards of `m`; or where float64 arithmetic cannot certify this,
    at most a millionth of the largest value. Raises `NotConverged` if the tolerance cannot be
    certified.
    """
    Q, V, error = solve_with_rewards(m, None, _tolerance(tol, m))
    Q[~m.available] = -np.inf
    return Solution(frozen(Q), frozen(V), frozen(greedy(Q)[1]), error)


def evaluate(m: TabularMDP, policy: ArrayLike, *, tol: float | None = None) -> Solution:
    """Compute the values of a policy in `m`, with `|Q - Q^π| <= error <= tol`.

    `policy` has one action per state, [s], or probabilities of actions, [s, a]; `tol` is as in
    `solve`.
    """
    Q, V, error = evaluate_with_rewards(m, None, policy, _tolerance(tol, m))
    Q[~m.available] = -np.inf
    return Solution(frozen(Q), frozen(V), frozen(np.array(policy)), error)


def solve_with_rewards(m: TabularMDP, R: FloatArray | None, tol: Tolerance) -> Certified:
    """Return the optimal values of `m`; R[s * A + a], if given, replaces its rewards.

    A missing action has the value of the first available action of its state.
    """
    return fixed_point(_problem(m, R), Best(), tol, R_error=_error_of(m, R))


def evaluate_with_rewards(
    m: TabularMDP, R: FloatArray | None, policy: ArrayLike, tol: Tolerance
) -> Certified:
    """Return the values of a policy in `m`; R[s * A + a], if given, replaces its rewards.

    A missing action has the value of the first available action of its state.
    """
    problem = _problem(m, R)
    return fixed_point(problem, PolicyMean(read_policy(policy, m)), tol, R_error=_error_of(m, R))


def expected_return(
    m: TabularMDP, policy: ArrayLike, *, horizon: int, discounted: bool = True
) -> float:
    """Return the expected return of a policy over `horizon` steps from the start distribution.

    The time is proportional to `horizon`, until the values of states change by the same amount in
    each step, or repeat such a pattern.
    """
    problem = _problem(m)
    chain = PolicyMean(read_policy(policy, m)).restrict(problem)
    return _return(m, chain, horizon=horizon, discounted=discounted)


def optimal_return(m: TabularMDP, *, horizon: int, discounted: bool = True) -> float:
    """Return the largest expected return over `horizon` steps from the start distribution.

    The maximum is over all policies, including those that depend on the number of steps left. The
    time is as in `expected_return`.
    """
    return _return(m, _problem(m), horizon=horizon, discounted=discounted)


def read_policy(policy: ArrayLike, m: TabularMDP) -> FloatArray:
    """Return a policy as probabilities [s, a]; raise `InvalidArgument` unless it fits `m`."""
    try:
        given: Any = np.asarray(policy)
    except ValueError as error:
        raise InvalidArgument(f"policy is not an array: {error}") from None
    shape = (m.n_states, m.n_actions)
    if given.shape == shape[:1] and given.dtype.kind in "iu":
        outside = np.flatnonzero((given < 0) | (given >= m.n_actions))
        if outside.size:
            s = outside[0]
            raise InvalidArgument(
                f"policy[{s}] is {given[s]}: expected an action from 0 to {m.n_actions - 1}"
            )
        pi = np.zeros(shape)
        pi[np.arange(m.n_states), given] = 1.0
        _check_available(pi, m)
        return pi
    if given.shape != shape or given.dtype.kind not in "biuf":
        raise InvalidArgument(
            f"policy has shape {given.shape} and type {given.dtype}: expected one action per "
            f"state, whole numbers of shape ({m.n_states},), or probabilities of shape {shape}"
        )
    pi = given.astype(np.float64)
    bad = np.flatnonzero(~(np.isfinite(pi) & (pi >= 0)).all(axis=1))
    if bad.size:
        raise InvalidArgument(
            f"policy[{bad[0]}] is {pi[bad[0]]}: expected probabilities, from 0 to 1"
        )
    sums = pi.sum(axis=1)
    worst = int(np.abs(sums - 1).argmax())
    if abs(sums[worst] - 1) > SUM_TOLERANCE:
        raise InvalidArgument(
            f"policy[{worst}] sums to {sums[worst]:.12g}, not 1: divide it by its sum, in float64"
        )
    _check_available(pi, m)
    return pi / sums[:, None]


def _check_available(pi: FloatArray, m: TabularMDP) -> None:
    """Raise `InvalidArgument` if the policy takes an action that is not available."""
    if m.transitions.available is None:
        return
    missing = np.argwhere((pi > 0) & ~m.available)
    if missing.size:
        s, a = (int(i) for i in missing[0])
        raise InvalidArgument(f"policy[{s}]: {action_text(s, a, m.available[s])}")


def _tolerance(tol: float | None, m: TabularMDP) -> Tolerance:
    check_task(m)
    rewards = rewards_of(m.transitions)[0]
    of_rewards = reward_scale((float(rewards.min()), float(rewards.max())))
    return Tolerance.of(tol, TOLERANCE * min(reward_scale(m.reward_range), WIDER * of_rewards))


def _problem(m: TabularMDP, R: FloatArray | None = None) -> Problem:
    """Return the task as a problem, in which missing actions are copies of available ones."""
    check_task(m)
    t = m.transitions
    R = t.R if R is None else frozen(R)
    if t.available is not None:
        R = frozen(R[t.stand_ins])
    return Problem(R, t.completed, m.gamma, m.n_states, m.terminating)


def _error_of(m: TabularMDP, R: FloatArray | None) -> float:
    """Return the largest rounding error of the mean rewards of `m`; given rewards are exact."""
    return float(m.transitions.R_error.max()) if R is None else 0.0


def _return(m: TabularMDP, problem: Problem, *, horizon: int, discounted: bool) -> float:
    horizon = whole_number("horizon", horizon, least=0)
    discounted = truth("discounted", discounted)
    V = _values_over(problem, horizon, discounted=discounted)
    # Not `m.start @ V`: the rounding of BLAS depends on the number of threads.
    return float((m.start * V).sum())


def _values_over(problem: Problem, horizon: int, *, discounted: bool) -> FloatArray:
    """Return the values of states over `horizon` steps, which may be more than can be computed.

    Let V_h be the values over h steps, T the operator that maps V_h to V_(h+1), and
    d = V_h - V_(h-m). T is monotone, and adding a constant c to V adds γ c to T V if rows sum to 1.
    Therefore

        V_(h+jm) - V_h  lies between  w min d  and  w max d,    w = γ^m + γ^2m + ... + γ^jm.

    If the span of d is no more than the rounding errors of m steps, the midpoint replaces j m
    steps, with an error no larger than the rounding errors of these steps. This finds values that
    converge, that grow by the same amount in each step, or that repeat such a pattern with period
    m. If transitions may terminate, min d and max d include 0, the change of the value of the
    terminal state. Ctrl-C is handled after each step.
    """
    R, rows, gamma, n_states, terminating = problem
    gamma = gamma if discounted else 1.0
    horizon = min(horizon, 1) if gamma == 0 else horizon
    V, V_next = np.zeros(n_states), np.empty(n_states)
    policy = np.zeros(n_states, dtype=np.int32)
    earlier, at, step, left = V, 0, 0, horizon
    while left > 0:
        values.improve(R, *rows, gamma, V, V_next, policy, values.FORWARDS)
        V, V_next = V_next, V
        step, left = step + 1, left - 1
        if step < MIN_STEPS:
            continue
        if step >= 2 * at:  # compare with the values after MIN_STEPS, 2 MIN_STEPS, ... steps
            earlier, at = V.copy(), step
            continue
        period = step - at
        if left >= period:
            change, precise = _change(V, earlier, period, terminating=terminating)
            if precise:
                repeats, left = divmod(left, period)
                V = V + change * _weight(gamma, period, repeats)
                V_next = np.empty(n_states)
    return V


def _change(
    V: FloatArray, earlier: FloatArray, period: int, *, terminating: bool
) -> tuple[float, bool]:
    """Return the midpoint of V - earlier, and whether its span is no more than rounding."""
    # The first state is compared first, because most comparisons fail there.
    rounding = 2 * ROUNDOFF * period * max(float(V.max()), -float(V.min()))
    first = V[0] - earlier[0]
    if terminating and abs(first) > rounding:
        return 0.0, False
    d = V - earlier
    lo, hi = float(d.min()), float(d.max())
    if terminating:
        lo, hi = min(lo, 0.0), max(hi, 0.0)
    return (lo + hi) / 2, hi - lo <= rounding


def _weight(gamma: float, period: int, repeats: int) -> float:
    """Return γ^m + γ^2m + ... + γ^jm, for the period m and j repeats."""
    if gamma == 1.0:
        return float(repeats)
    log = period * np.log(gamma)
    return float(np.exp(log) * np.expm1(repeats * log) / np.expm1(log))
