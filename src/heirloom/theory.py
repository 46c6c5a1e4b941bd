"""Sample sizes, numbers of tasks and computational complexities of the paper, as formulas.

The numbers of tasks assume that tasks are drawn independently from a finite family in which each
task has probability at least `p_min`.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import get_args

from heirloom.choices import Scope
from heirloom.errors import InvalidArgument
from heirloom.validation import (
    Range,
    check_gamma,
    check_range,
    check_refresh,
    one_of,
    positive_probability,
    real_number,
    truth,
    whole_number,
)

ROUNDING = 1e-9  # relative difference below which a comparison in float64 is not reliable
SMALLEST = 1e-300  # smallest probability of a task whose number of draws float64 can represent
LARGE = 1e100  # numbers whose squares are still far below the largest float64
MAX_EXACT_DRAWS = 10_000  # largest number of draws for which numbers are compared as fractions


def tasks_for_max_q(p_min: float, delta: float, *, scope: Scope = "task") -> int:
    """Return the smallest m with `(1 - p_min)^m <= δ`, or with `(1 - p_min)^m / p_min <= δ`.

    Then, with probability at least 1 - δ, m drawn tasks include a given task of the family, such as
    the one that is drawn next. The second is for the scope "lifetime": they include all tasks of
    the family, of which there are at most 1 / p_min. MaxQInit and a learned prior are used after m
    tasks.
    """
    p_min, delta = _checked(p_min, delta)
    one_of("scope", scope, get_args(Scope))
    if scope == "task":
        return _smallest(
            lambda m: _at_most(_missed(p_min, m), delta, m, lambda p: (1 - p) ** m, p_min)
        )
    return _smallest(
        lambda m: _at_most(_missed(p_min, m) / p_min, delta, m, lambda p: (1 - p) ** m / p, p_min)
    )


def tasks_for_distance(p_min: float, delta: float) -> int:
    """Return the smallest m with `2 (1 - p_min)^m - (1 - 2 p_min)^m <= δ`.

    Then m drawn tasks include two given tasks of the family with probability at least 1 - δ. This
    is the count of Proposition 7, which is not enough for a maximum over all pairs of tasks
    (erratum 10); agents use `tasks_for_max_q`. If p_min > 1/2 the family has a single task, and the
    result is that of `tasks_for_max_q`.
    """
    p_min, delta = _checked(p_min, delta)
    if p_min > 0.5:
        return tasks_for_max_q(p_min, delta)

    def enough(m: int) -> bool:
        failure = 2 * _missed(p_min, m) - _missed(2 * p_min, m)
        return _at_most(failure, delta, m, lambda p: 2 * (1 - p) ** m - (1 - 2 * p) ** m, p_min)

    return _smallest(enough)


def n_known_for(
    n_states: int,
    n_actions: int,
    *,
    epsilon: float,
    delta: float,
    n_sources: int = 0,
    reward_range: Range = (0.0, 1.0),
    terminating: bool = True,
    refresh: float | None = None,
) -> int:
    """Return the number of visits that makes known pairs of N sources and the task ε-accurate.

    With probability 1 - δ, every empirical mean reward is within ε of the true one, and every
    empirical distribution of outcomes within ε in L1 norm (Hoeffding; Weissman et al., 2003), if
    each pair is estimated once, after this number of visits:

        max( (hi - lo)² ln(2/δ') / (2 ε²),  2 (ln(2^n - 2) - ln δ') / ε² ),
        δ' = δ / (2 (N+1) S A),

    where n is the number of outcomes: the states, plus ⊥ if tasks may terminate. With n = 1 there
    is no second term.

    With `refresh`, the factor of an agent that estimates known pairs again, it holds for the
    estimates from this and all larger numbers of visits at once, so at every look and at the end of
    a task, whatever the factor is: `ln(1 / (1 - e^(-2 ε² / (hi - lo)²)))` is added to the first
    logarithm, and `ln(1 / (1 - e^(-ε²/2)))` to the second.
    """
    n_states = whole_number("n_states", n_states)
    n_pairs = n_states * whole_number("n_actions", n_actions)
    n_sources = whole_number("n_sources", n_sources, least=0)
    epsilon = real_number("epsilon", epsilon, "expected a positive number", above=0)
    delta = positive_probability("delta", delta)
    lo, hi = check_range(reward_range)
    if not 1e-8 <= epsilon / max(hi - lo, 1.0):
        raise InvalidArgument(
            f"epsilon is {epsilon}: with rewards in ({lo:g}, {hi:g}), more than 1e15 visits would "
            "be necessary; choose a larger epsilon"
        )
    log_delta = math.log(delta) - math.log(2 * (n_sources + 1) * n_pairs)
    is_frozen = check_refresh(refresh) is None
    rate = 2 * min(epsilon / (hi - lo), LARGE) ** 2 if hi > lo else math.inf
    visits = _visits(math.log(2) - log_delta, rate, is_frozen=is_frozen)
    n_outcomes = n_states + (1 if truth("terminating", terminating) else 0)
    if n_outcomes > 1:
        # ln(2^n - 2) = n ln 2 + ln(1 - 2^(1-n)): 2^n would overflow
        log_subsets = n_outcomes * math.log(2) + math.log1p(-(2.0 ** (1 - n_outcomes)))
        rate = min(epsilon, LARGE) ** 2 / 2
        visits = max(visits, _visits(log_subsets - log_delta, rate, is_frozen=is_frozen))
    return max(1, math.ceil(visits))


def _visits(log_ratio: float, rate: float, *, is_frozen: bool) -> float:
    """Return the n with c e^(-rate n) = δ', given ln(c/δ').

    Unless it is frozen, the sum of c e^(-rate m) over all m >= n, c e^(-rate n) / (1 - e^(-rate)),
    is δ'.
    """
    return (log_ratio - (0.0 if is_frozen else math.log(-math.expm1(-rate)))) / rate


def dynamic_programs(n_states: int, n_actions: int, n_sources: int) -> int:
    """Return S A (2N + 1): the maximal number of dynamic programs in a task, with N sources."""
    pairs = whole_number("n_states", n_states) * whole_number("n_actions", n_actions)
    return pairs * (2 * whole_number("n_sources", n_sources, least=0) + 1)


def value_iterations(gamma: float, precision: float) -> int:
    """Return `⌈ln(1 / (ε_Q (1-γ))) / (1-γ)⌉`: sweeps of value iteration per dynamic program."""
    gamma = check_gamma(gamma)
    precision = real_number("precision", precision, "expected a positive number", above=0)
    smallest = precision * (1 - gamma)
    # Where 1 / smallest is not a float64, its logarithm is computed from those of the factors.
    is_tiny = smallest < 1e-300
    log = -math.log(precision) - math.log(1 - gamma) if is_tiny else math.log(1 / smallest)
    return max(0, math.ceil(log / (1 - gamma)))


def _missed(p: float, m: int) -> float:
    """Return (1 - p)^m, the probability that m draws miss an event; accurate for tiny p."""
    return math.exp(m * math.log1p(-p)) if p < 1 else 0.0


def _at_most(
    failure: float, delta: float, m: int, exact_failure: Callable[[Fraction], Fraction], p: float
) -> bool:
    """Return whether a probability of failure is at most δ.

    If both are so close that rounding matters, the probability is computed as a fraction,
    `exact_failure(p)`. With more than `MAX_EXACT_DRAWS` draws that is too slow, and the answer is
    no: m may then exceed the smallest one slightly.
    """
    if abs(failure - delta) > ROUNDING * delta:
        return failure < delta
    return m <= MAX_EXACT_DRAWS and exact_failure(Fraction(p)) <= Fraction(delta)


def _checked(p_min: float, delta: float) -> tuple[float, float]:
    p_min, delta = positive_probability("p_min", p_min), positive_probability("delta", delta)
    if p_min < SMALLEST:
        raise InvalidArgument(f"p_min is {p_min}: expected a probability, {SMALLEST:g} or more")
    return p_min, delta


def _smallest(enough: Callable[[int], bool]) -> int:
    """Return the smallest m >= 1 with `enough(m)`, which must be monotone in m, by bisection."""
    m = 1
    while not enough(m):
        m *= 2
    low = m // 2  # 0, or not enough
    while m - low > 1:
        middle = (low + m) // 2
        low, m = (low, middle) if enough(middle) else (middle, m)
    return m
