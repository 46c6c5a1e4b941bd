"""Fixed points of Bellman operators, each with a certificate of its error.

The certificate does not depend on how V was computed. It rests on one backup of V with compensated
sums, which gives Q' and V' = choice(Q'). Let r bound their rounding errors, including those of the
mean rewards, let lo <= V' - V <= hi, and let the rows of T, as stored, sum to 1 within η. Then

    γ/(1-γ) lo - slack  <=  Q* - Q'  <=  γ/(1-γ) hi + slack,
    slack = (r + γ η max(|lo|, |hi|) / (1-γ)) / (1 - γ (1 + η)),

which are MacQueen's bounds (1966) with an allowance for floating-point rounding. The midpoint of
the two sides is returned, and half their distance is its error.

If transitions may terminate, lo and hi would have to include 0, because the value of the absorbing
terminal state ⊥ does not change. The contraction property is used instead. With α = γ times the
largest row sum of T, and β = γ times the largest entry of choice(row sums),

    |Q* - Q'|  <=  α (max(|lo|, |hi|) + r) / (1-β) + r,

and Q' itself is returned, so that pairs that always terminate keep their exact values.
"""

from typing import NamedTuple

import numpy as np

from heirloom.arrays import FloatArray, frozen
from heirloom.errors import NotConverged
from heirloom.kernels import values
from heirloom.planning.operators import Choice, Problem
from heirloom.planning.policy_iteration import PolicyIteration
from heirloom.validation import real_number

ROUNDOFF = 2.0**-53
SUBNORMAL = 1e-300  # absolute allowance: rounding errors of subnormal numbers are not relative
# Fractions of the tolerance that policy iteration aims at, one after the other: the certified error
# includes rounding, so an estimated error within the tolerance may not be small enough.
TARGETS = 4.0 ** -np.arange(5)


class Certified(NamedTuple):
    """Values of pairs, Q[s, a], and of states, V[s], each within `error` of the fixed point."""

    Q: FloatArray
    V: FloatArray
    error: float


class Tolerance(NamedTuple):
    """The error to certify, and whether it is strict.

    If it is not strict and float64 arithmetic cannot certify it, a millionth of the largest value
    is accepted instead.
    """

    error: float
    strict: bool = True

    @classmethod
    def of(cls, tol: float | None, default: float) -> "Tolerance":
        """Return a strict tolerance of `tol`, or if it is None, the default, not strict."""
        if tol is None:
            return cls(default, strict=False)
        expected = "expected a positive number, the error to certify"
        return cls(real_number("tol", tol, expected, above=0))

    def loose(self, fraction: float) -> "Tolerance":
        """Return a fraction of it, not strict: for an intermediate result, checked at the end."""
        return Tolerance(fraction * self.error, strict=False)

    def admits(self, error: float, largest: float) -> bool:
        """Whether `error` is small enough for values of absolute value up to `largest`."""
        return error <= self.error or (not self.strict and error <= 1e-6 * largest)


def fixed_point(
    problem: Problem, choice: Choice, tol: Tolerance, *, R_error: float = 0.0
) -> Certified:
    """Return the fixed point V = choice(R + γ T V) and its Q = R + γ T V, both within `tol`.

    The exact rewards are within `R_error` of R, and errors refer to them. Raises `NotConverged` if
    float64 arithmetic cannot certify this error.
    """
    iteration = PolicyIteration(choice.restrict(problem))
    for target in tol.error * TARGETS:
        result = certify(problem, choice, iteration.run_until(target), R_error=R_error)
        if result.error <= tol.error:
            return result
        if iteration.exhausted:
            break
        if iteration.stuck and tol.admits(result.error, float(np.abs(result.Q).max())):
            return result
    if tol.admits(result.error, float(np.abs(result.Q).max())):
        return result
    reason = "float64 allows an error of about"
    if iteration.exhausted:
        reason = f"{iteration.work:.0f} sweeps reached an error of"
    remedy = "float64 gives no error bound; use a smaller gamma"
    if np.isfinite(result.error):
        remedy = f"{reason} {result.error:.1g}; ask for tol={2 * result.error:.1g} or more"
    raise NotConverged(
        f"tol={tol.error:g} cannot be certified for gamma={problem.gamma} and values up to "
        f"{np.abs(result.V).max():.3g}: {remedy}"
    )


def certify(problem: Problem, choice: Choice, V: FloatArray, *, R_error: float = 0.0) -> Certified:
    """Return the best estimate of the fixed point that one backup of `V` gives, and its error.

    `R_error` is as in `fixed_point`.
    """
    R, rows, gamma, n_states, terminating = problem
    Q, sums = np.empty((2, n_states, problem.n_actions))
    values.back_up(R, *rows, gamma, frozen(V), Q.reshape(-1), sums.reshape(-1))
    change = choice(Q) - V
    lo, hi = float(change.min()), float(change.max())
    largest = max(abs(lo), abs(hi))
    sum_error = (2 + choice.roundings) * ROUNDOFF
    scale = _largest(R) + gamma * _largest(V)
    rounding = ROUNDOFF * ((8 + choice.roundings) * (scale + R_error) + 2 * largest) + R_error
    if terminating:
        alpha = gamma * (sums.max() + sum_error)
        beta = gamma * (choice(sums).max() + sum_error)
        midpoint, error = 0.0, quotient(alpha * (largest + rounding), 1 - beta) + rounding
    else:
        eta = max(sums.max() - 1, 1 - sums.min()) + sum_error
        factor = gamma / (1 - gamma)
        midpoint, error = factor * (lo + hi) / 2, factor * (hi - lo) / 2
        error += quotient(rounding + factor * eta * largest, 1 - gamma * (1 + eta))
    Q += midpoint
    error += ROUNDOFF * (4 + choice.roundings) * (_largest(Q) + abs(midpoint))
    if scale > 0:
        error += SUBNORMAL / (1 - gamma)
    return Certified(Q, choice(Q), float(error))


def _largest(X: FloatArray) -> float:
    """Return max |X|; two passes over X are faster than a copy of it."""
    return max(abs(float(X.min())), abs(float(X.max())))


def quotient(error: float, contraction: float) -> float:
    """Return error / contraction, or infinity if rounding leaves no contraction."""
    return error / contraction if contraction > 0 else np.inf
