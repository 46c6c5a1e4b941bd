"""Every sample size, number of tasks and complexity of the paper: formulas, without any model.

How many visits make a pair known, how many tasks make what they have in common trustworthy, and how
much there is to compute. Numbers of tasks assume that tasks are drawn independently from a finite
family, each with probability at least `p_min`; what follows from them holds with probability 1 - δ.
"""

import math
from collections.abc import Callable
from fractions import Fraction

from heirloom.errors import InvalidArgument
from heirloom.validation import (
    Range,
    check_gamma,
    check_range,
    positive_probability,
    real_number,
    whole_number,
)

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


def n_known_for(
    n_states: int,
    n_actions: int,
    *,
    epsilon: float,
    delta: float,
    n_sources: int = 0,
    reward_range: Range = (0.0, 1.0),
    terminating: bool = True,
) -> int:
    """How many visits make all known pairs of N sources and of the task ε-accurate.

    With probability 1 - δ every mean reward is within ε, and every distribution of outcomes within
    ε in L1 norm (Hoeffding; Weissman et al., 2003):

        max( (hi-lo)² ln(2/δ') / (2 ε²),  2 (ln(2^n - 2) - ln δ') / ε² ),   δ' = δ / (2 (N+1) S A),

    with n outcomes: the states, and ⊥ if tasks may terminate. One outcome has nothing to learn.
    """
    n_pairs = whole_number("n_states", n_states) * whole_number("n_actions", n_actions)
    n_sources = whole_number("n_sources", n_sources, least=0)
    epsilon = real_number("epsilon", epsilon, "an accuracy is a positive number", above=0)
    delta = positive_probability("delta", delta)
    lo, hi = check_range(reward_range)
    if not 1e-8 <= epsilon / max(hi - lo, 1.0):
        raise InvalidArgument(
            f"epsilon is {epsilon}: with rewards in ({lo:g}, {hi:g}) that takes over 1e15 visits"
        )
    log_delta = math.log(delta) - math.log(2 * (n_sources + 1) * n_pairs)
    visits = (hi - lo) ** 2 * (math.log(2) - log_delta) / (2 * epsilon**2)
    n_outcomes = n_states + (1 if terminating else 0)
    if n_outcomes > 1:
        # ln(2^n - 2) = n ln 2 + ln(1 - 2^(1-n)), without the power
        subsets = n_outcomes * math.log(2) + math.log1p(-(2.0 ** (1 - n_outcomes)))
        visits = max(visits, 2 * (subsets - log_delta) / epsilon**2)
    return max(1, math.ceil(visits))


def dynamic_programs(n_states: int, n_actions: int, n_sources: int) -> int:
    """S A (2N + 1): how many dynamic programs a task takes at most, with N sources."""
    pairs = whole_number("n_states", n_states) * whole_number("n_actions", n_actions)
    return pairs * (2 * whole_number("n_sources", n_sources, least=0) + 1)


def value_iterations(gamma: float, precision: float) -> int:
    """⌈ln(1 / (ε_Q (1-γ))) / (1-γ)⌉: sweeps of value iteration for a dynamic program."""
    gamma = check_gamma(gamma)
    precision = real_number("precision", precision, "it is a positive number", above=0)
    return max(0, math.ceil(math.log(1 / (precision * (1 - gamma))) / (1 - gamma)))


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
