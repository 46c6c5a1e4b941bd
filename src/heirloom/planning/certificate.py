"""Fixed points of Bellman operators, each with a certificate of its error.

Whatever led to V, the result rests on a backup of it in careful arithmetic: Q', and V' for it. Let
r bound their rounding errors, lo <= V' - V <= hi, and let the rows of T sum to 1 within η. Then

    γ/(1-γ) lo - slack  <=  Q* - Q'  <=  γ/(1-γ) hi + slack,
    slack = (r + γ η max(|lo|, |hi|) / (1-γ)) / (1 - γ (1 + η)),

which are MacQueen's bounds (1966) with room for floating point. The middle of the two sides is
returned, and half their distance is its error.

Where episodes may end, lo and hi would have to include 0, for the value of the sink ⊥ does not
change. There the contraction alone serves. With α = γ times the largest sum of a row, and β = γ
times the largest that the choice of actions makes of them,

    |Q* - Q'|  <=  α (max(|lo|, |hi|) + r) / (1-β) + r,

and Q' itself is returned, so that ends keep their exact values.
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
SUBNORMAL = 1e-300  # where numbers are so small that roundings are no longer relative
# What the approach aims at, as parts of the tolerance, until the certificate leaves room for it.
TARGETS = 4.0 ** -np.arange(5)


class Certified(NamedTuple):
    """Values of pairs [s, a] and of states [s], each within `error` of the fixed point."""

    Q: FloatArray
    V: FloatArray
    error: float


class Tolerance(NamedTuple):
    """The error to certify, and whether it is strict.

    If it is not, and doubles cannot certify as much, a millionth of the largest value will do.
    """

    error: float
    strict: bool = True

    @classmethod
    def of(cls, tol: float | None, default: float) -> "Tolerance":
        """What a caller asked for, strictly; or the default, which is not strict."""
        if tol is None:
            return cls(default, strict=False)
        what = "the error to certify is a positive number"
        return cls(real_number("tol", tol, what, above=0))

    def loose(self, part: float) -> "Tolerance":
        """A part of it, not strict: for a step on the way to what is checked at the end."""
        return Tolerance(part * self.error, strict=False)

    def admits(self, error: float, largest: float) -> bool:
        """Whether an error will do where values are as large as `largest`."""
        return error <= self.error or (not self.strict and error <= 1e-6 * largest)


def fixed_point(problem: Problem, choice: Choice, tol: Tolerance) -> Certified:
    """The fixed point V = choice(R + γ T V) within `tol`, and the Q that goes with it.

    Raises `NotConverged` where doubles cannot certify as much.
    """
    approach = PolicyIteration(choice.restrict(problem))
    for target in tol.error * TARGETS:
        result = certify(problem, choice, approach.until(target))
        if result.error <= tol.error:
            return result
    if tol.admits(result.error, float(np.abs(result.Q).max())):
        return result
    raise NotConverged(
        f"tol={tol.error:g} cannot be certified for gamma={problem.gamma:g} and values up to "
        f"{np.abs(result.V).max():.3g}: the error that doubles allow is about {result.error:.1g}; "
        f"ask for tol={2 * result.error:.1g} or more"
    )


def certify(problem: Problem, choice: Choice, V: FloatArray) -> Certified:
    """The best that one backup of `V` tells of the fixed point, and its error."""
    R, rows, gamma, n_states, ending = problem
    Q, sums = np.empty((2, n_states, problem.n_actions))
    values.back_up(R, *rows, gamma, frozen(V), Q.reshape(-1), sums.reshape(-1))
    change = choice(Q) - V
    lo, hi = float(change.min()), float(change.max())
    largest = max(abs(lo), abs(hi))
    off = (2 + choice.roundings) * ROUNDOFF
    scale = _largest(R) + gamma * _largest(V)
    rounding = ROUNDOFF * ((8 + choice.roundings) * scale + 2 * largest)
    if ending:
        alpha, beta = gamma * (sums.max() + off), gamma * (choice(sums).max() + off)
        middle, error = 0.0, _quotient(alpha * (largest + rounding), 1 - beta) + rounding
    else:
        eta = max(sums.max() - 1, 1 - sums.min()) + off
        factor = gamma / (1 - gamma)
        middle, error = factor * (lo + hi) / 2, factor * (hi - lo) / 2
        error += _quotient(rounding + factor * eta * largest, 1 - gamma * (1 + eta))
    Q += middle
    error += ROUNDOFF * (4 + choice.roundings) * (_largest(Q) + abs(middle))
    if scale > 0:
        error += SUBNORMAL / (1 - gamma)
    return Certified(Q, choice(Q), float(error))


def _largest(X: FloatArray) -> float:
    """The largest |X|, without a copy of X: making one would take longer than looking twice."""
    return max(abs(float(X.min())), abs(float(X.max())))


def _quotient(error: float, contraction: float) -> float:
    """Error / contraction, where rounding may leave no contraction at all."""
    return error / contraction if contraction > 0 else np.inf
