"""How many tasks must be seen before what they have in common is trusted.

Both numbers assume that tasks are drawn independently from a finite family, each with probability
at least `p_min`; what follows from them holds with probability 1 - δ over the draw.
"""

import math
from collections.abc import Callable
from fractions import Fraction

from heirloom.arguments import positive_probability

ROUNDING = 1e-9
EXACT = 10_000  # up to so many draws a probability is computed as a fraction, if need be


def tasks_for_max_q(p_min: float, delta: float) -> int:
    """The least m with (1 - p_min)^m <= δ: any one task of the family was then seen."""
    _check(p_min, delta)
    return _least(lambda m: _at_most(_unseen(p_min, m), delta, m, lambda p: (1 - p) ** m, p_min))


def tasks_for_distance(p_min: float, delta: float) -> int:
    """The least m with 2 (1 - p_min)^m - (1 - 2 p_min)^m <= δ: any two were then seen.

    Above 1/2 there can be one task only, and having seen it is enough.
    """
    _check(p_min, delta)
    if p_min > 0.5:
        return tasks_for_max_q(p_min, delta)

    def enough(m: int) -> bool:
        failure = 2 * _unseen(p_min, m) - _unseen(2 * p_min, m)
        return _at_most(failure, delta, m, lambda p: 2 * (1 - p) ** m - (1 - 2 * p) ** m, p_min)

    return _least(enough)


def _unseen(p: float, m: int) -> float:
    """(1 - p)^m, the probability that m draws miss something, for the smallest p and largest m."""
    return math.exp(m * math.log1p(-p)) if p < 1 else 0.0


def _at_most(
    value: float, delta: float, m: int, exactly: Callable[[Fraction], Fraction], p: float
) -> bool:
    """Whether a probability of failure is at most δ; where rounding could decide, exactly."""
    if abs(value - delta) > ROUNDING * delta:
        return value < delta
    return m <= EXACT and exactly(Fraction(p)) <= Fraction(delta)


def _check(p_min: float, delta: float) -> None:
    positive_probability("p_min", p_min)
    positive_probability("delta", delta)


def _least(enough: Callable[[int], bool]) -> int:
    """The least m from 1 on that is enough; more is always enough too."""
    m = 1
    while not enough(m):
        m *= 2
    low = m // 2  # not enough, or 0
    while m - low > 1:
        middle = (low + m) // 2
        low, m = (low, middle) if enough(middle) else (middle, m)
    return m
