"""Returns over a finite horizon, also over horizons of many more steps than can be computed.

Let V_h be the values over h steps, T the operator that maps V_h to V_(h+1), and d = V_h - V_(h-m).
T is monotone, and adding a constant c to V adds γ c to T V if rows sum to 1. Therefore

    V_(h+jm) - V_h  lies between  w min d  and  w max d,    w = γ^m + γ^2m + ... + γ^jm.

If the span of d is no more than the rounding errors of m steps, the midpoint replaces j m steps,
with an error no larger than the rounding errors of these steps. This finds values that converge,
that grow by the same amount in each step, or that repeat such a pattern with period m. If
transitions may terminate, min d and max d include 0, the change of the value of the terminal state.
"""

import numpy as np

from heirloom.arrays import FloatArray
from heirloom.kernels import values
from heirloom.planning.operators import Problem

MIN_STEPS = 10_000  # all steps of shorter horizons are computed
ROUNDOFF = 2.0**-53


def values_over(problem: Problem, horizon: int, *, discounted: bool) -> FloatArray:
    """Return the values of states over `horizon` steps.

    Ctrl-C is handled after each step.
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
