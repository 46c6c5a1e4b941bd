"""The lower bounds of rollouts are lower bounds, at all times at once, and close to the mean."""

import itertools
import math

import numpy as np
import pytest

from heirloom.agents.candidates import Candidate, best, lower_mean, range_of_returns
from heirloom.errors import InvalidArgument
from heirloom.kernels import betting
from heirloom.mdp.tabular import value_range
from heirloom.transfer.setting import Setting
from tests.streams import most

LOW, HIGH = -3.0, 5.0


def bernoulli(p):
    return p, lambda rng, n: (rng.random(n) < p).astype(float)


def two_point(a, b, p):
    """A stream of a, and b with probability p."""
    return a + (b - a) * p, lambda rng, n: np.where(rng.random(n) < p, b, a)


def falling(rng, n):
    """Draw numbers whose conditional mean depends on the number before, and is 0.5 at most."""
    u, y = rng.random(n), np.empty(n)
    for i in range(n):
        y[i] = float(u[i] < (0.5 if i == 0 or y[i - 1] == 1 else 0.45))
    return y


STREAMS = {
    "tiny": bernoulli(0.002),
    "even": bernoulli(0.5),
    "near 1": bernoulli(0.995),
    "beta": (0.75, lambda rng, n: rng.beta(6, 2, n)),
    "narrow": (0.2, lambda rng, n: rng.beta(40, 160, n)),
    "constant": (0.3, lambda rng, n: np.full(n, 0.3)),
    "two points": two_point(0.1, 0.9, 0.05),
    "dependent": (0.5, falling),
}


def refutations(name, epsilon, streams, length):
    """Return in how many streams the true mean is refuted after any number of numbers.

    Bounds are larger than the mean in the same streams, because no capital increases with m.
    """
    mu, draw = STREAMS[name]
    rng, capital = np.random.default_rng(1), np.empty(betting.FRACTIONS.size)
    return sum(
        betting.is_refuted(draw(rng, length), mu, 1 / epsilon, capital) for _ in range(streams)
    )


@pytest.mark.parametrize("name", STREAMS)
def test_bounds_are_below_the_mean_at_all_times_with_the_stated_probability(name):
    (mu, draw), rng, n, epsilon = STREAMS[name], np.random.default_rng(0), 1000, 0.2
    failed = 0
    for _ in range(n):
        x = LOW + (HIGH - LOW) * draw(rng, 1000)
        failed += lower_mean(x, LOW, HIGH, math.log(1 / epsilon)) > LOW + (HIGH - LOW) * mu
    assert failed <= most(epsilon, n)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.5, 0.02])
@pytest.mark.parametrize("name", [name for name in STREAMS if name != "dependent"])
def test_long_streams_refute_the_mean_with_at_most_the_stated_probability(name, epsilon):
    assert refutations(name, epsilon, 10_000, 10_000) <= most(epsilon, 10_000)


@pytest.mark.parametrize("name", STREAMS)
def test_bounds_never_fall_and_reach_the_largest_bound_of_all_prefixes(name):
    x = STREAMS[name][1](np.random.default_rng(3), 300)
    bounds = [lower_mean(x[:n], 0.0, 1.0, 3.0) for n in range(0, 301, 20)]
    assert bounds[0] == 0.0
    assert (np.diff(bounds) >= 0).all()


def test_bound_of_frequent_successes_is_closer_than_that_of_hoeffding_for_one_time():
    rng, n, log_inverse = np.random.default_rng(0), 1000, math.log(100)
    gaps, hoeffding = [], math.sqrt(log_inverse / (2 * n))
    for _ in range(50):
        x = (rng.random(n) < 0.9).astype(float)
        gaps.append(x.mean() - lower_mean(x, 0.0, 1.0, log_inverse))
    assert np.mean(gaps) < 0.85 * hoeffding
    assert max(gaps) < 1.1 * hoeffding


def test_bound_of_numbers_that_vary_little_is_a_fifth_from_the_mean_of_hoeffding():
    rng, n, log_inverse = np.random.default_rng(0), 1000, math.log(100)
    x = rng.beta(40, 160, n)
    gap = x.mean() - lower_mean(x, 0.0, 1.0, log_inverse)
    assert gap < 0.2 * math.sqrt(log_inverse / (2 * n))


def test_bound_of_equal_numbers_converges_like_1_over_n():
    for value in (0.01, 0.3, 0.9, 1.0):
        for n in (100, 1000, 10_000):
            bound = lower_mean(np.full(n, value), 0.0, 1.0, math.log(100))
            assert value * (1 - 8 / n) - 1e-7 < bound < value


def test_a_million_numbers_give_a_bound_close_to_their_mean():
    x = (np.random.default_rng(0).random(1_000_000) < 0.5).astype(float)
    assert 0.498 < lower_mean(x, 0.0, 1.0, math.log(100)) < 0.5


def test_bounds_without_information_are_the_smallest_possible_number():
    assert lower_mean(np.empty(0), LOW, HIGH, 3.0) == LOW
    assert lower_mean(np.full(100, LOW), LOW, HIGH, 3.0) == LOW
    assert lower_mean(np.full(100, 2.0), 2.0, 2.0, 3.0) == 2.0
    assert lower_mean(np.full(100, HIGH), LOW, HIGH, 1e4) == LOW


def test_numbers_above_the_range_count_as_the_largest_one():
    x = np.array([0.5, 3.0, 0.2, 9.0] * 50)
    assert lower_mean(x, 0.0, 1.0, 3.0) == lower_mean(np.minimum(x, 1.0), 0.0, 1.0, 3.0)


@pytest.mark.parametrize("wrong", [-0.1, math.nan, -math.inf])
def test_numbers_below_the_range_are_refused(wrong):
    with pytest.raises(InvalidArgument, match="expected numbers of at least low"):
        lower_mean(np.array([0.5, wrong]), 0.0, 1.0, 3.0)


def candidate(number=1, start=None, returns=()):
    return Candidate(number, np.zeros(2, dtype=np.int64), start, 0.0, 1.0, list(returns))


def test_shares_of_all_candidates_sum_to_half_of_delta():
    returns = [0.5, 0.6] * 50
    shares = [6 * (0.1 / 2) / (math.pi * i) ** 2 for i in range(1, 1001)]
    assert 0.0499 < sum(shares) < 0.05
    for number in (1, 2, 1000):
        share = math.log(1 / shares[number - 1])
        expected = lower_mean(np.array(returns), 0.0, 1.0, share)
        assert candidate(number, returns=returns).lower(0.1) == pytest.approx(expected, abs=1e-6)
    with pytest.raises(InvalidArgument, match="delta is 0"):
        candidate().lower(0)


def test_best_candidate_has_the_largest_bound_among_those_with_the_same_start():
    at_0, at_1 = np.array([1.0, 0.0]), np.array([0.0, 1.0])
    observed = [candidate(1, None, [0.2] * 50), candidate(2, None, [0.8] * 50)]
    declared = [candidate(3, at_0, [0.9] * 50), candidate(4, at_0)]
    everything = [*observed, *declared]
    assert best(everything, None, 0.05) is observed[1]
    assert best(everything, at_0.copy(), 0.05) is declared[0]
    assert best(everything, at_1, 0.05) is None
    assert best([], None, 0.05) is None


@pytest.mark.parametrize("terminating", [False, True])
@pytest.mark.parametrize("reward_range", [(0, 1), (-1, 0), (-2, 3), (1, 2), (-2, -1), (1, 1)])
def test_range_of_returns_contains_every_return_and_is_attained(reward_range, terminating):
    gamma, most_steps = 0.8, 4
    options = {"reward_range": reward_range, "terminating": terminating}
    low, high = range_of_returns(Setting(1, 1, gamma, **options), most_steps)
    v_min, _ = value_range(reward_range, gamma, terminating=terminating)
    found = [v_min]  # an episode that fails
    for steps in range(1, most_steps + 1):
        for rewards in itertools.product(reward_range, repeat=steps):
            total = sum(gamma**k * r for k, r in enumerate(rewards))
            found.append(total + gamma**steps * v_min)
            if terminating:
                found.append(total)
    assert min(found) == pytest.approx(low)
    assert max(found) == pytest.approx(high)
    _, unlimited = range_of_returns(Setting(1, 1, gamma, **options), None)
    assert unlimited >= high - 1e-12


def test_range_of_returns_does_not_depend_on_a_given_v_max():
    given, free = (Setting(1, 1, 0.9, v_max=v_max) for v_max in (0.1, math.inf))
    assert range_of_returns(given, 10) == range_of_returns(free, 10)
