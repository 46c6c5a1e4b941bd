"""Mean rewards of pairs are computed accurately, and their rounding error is bounded."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import heirloom as hl
from heirloom.envs.inventory import prices
from heirloom.kernels import means
from heirloom.mdp.transitions import Entries
from tests.mdp.test_gymnasium import env_with
from tests.reference import exact
from tests.strategies import draw_outcomes, draw_shape, draw_task, task_of

seeds = st.integers(0, 2**32 - 1)


def assert_certified(m, truth):
    """Every mean reward is within `R_error` of the exact one, and correct to the last place."""
    t = m.transitions
    for R, error, r in zip(t.R.tolist(), t.R_error.tolist(), truth, strict=True):
        assert abs(Fraction(R) - r) <= Fraction(error)
        assert abs(Fraction(R) - r) <= Fraction(math.ulp(R)) / 2 + Fraction(1e-22)


@given(seeds)
def test_mean_rewards_are_correctly_rounded_and_certified(seed):
    rng = np.random.default_rng(seed)
    shape = draw_shape(rng, most_states=9)
    m = task_of(draw_outcomes(rng, shape), shape)
    assert_certified(m, exact.exact_mean_rewards(m))


@given(seeds)
def test_error_also_covers_the_mean_that_is_not_divided_by_the_sum_of_probabilities(seed):
    rng = np.random.default_rng(seed)
    shape = draw_shape(rng, most_states=9)
    m = task_of(draw_outcomes(rng, shape), shape)
    t = m.transitions
    if t.rewards is None:
        return
    products = [
        Fraction(p) * Fraction(r) for p, r in zip(t.p.tolist(), t.rewards.tolist(), strict=True)
    ]
    for k in range(t.R.size):
        undivided = sum(products[t.indptr[k] : t.indptr[k + 1]], Fraction(0))
        assert abs(Fraction(float(t.R[k])) - undivided) <= Fraction(float(t.R_error[k]))


@given(seeds)
def test_mean_rewards_of_merged_outcomes_are_certified(seed):
    """The exact rewards are the means of the outcomes that were merged, not their rounded means."""
    rng = np.random.default_rng(seed)
    shape = draw_shape(rng, most_states=4)
    outcomes = draw_outcomes(rng, shape, merging=True)
    m = task_of(outcomes, shape)
    assert_certified(m, exact.exact_merged_rewards(m, outcomes))
    t = m.transitions
    assert t.rewards is None or t.rewards_error <= 2.0**-53 * np.abs(t.rewards).max()


def test_rewards_that_cancel_leave_a_tiny_mean():
    """The exact mean is 2^-26, although products of rewards and probabilities are 2.5e8."""
    R, T = [[[1e9, -1e9 / 3]], [[0, 0]]], [[[0.25, 0.75]], [[0, 1]]]
    m = hl.TabularMDP(R, T, gamma=0, reward_range=(-1e9, 1e9))
    assert m.R[0, 0] == 2.0**-26
    assert m.transitions.R_error.max() < 1e-20


def test_merged_rewards_that_cancel_leave_a_tiny_mean():
    """Both successors have outcomes with different rewards, whose means are not float64 numbers."""
    outcomes = [(0.25, 0, 1e9, False), (0.5, 0, 1.0, False)]
    outcomes += [(0.125, 1, -2e9, False), (0.125, 1, 0.0, False)]
    table = {0: {0: outcomes}, 1: {0: [(1.0, 1, 0.0, False)]}}
    env = env_with(2, P=table, initial_state_distrib=[1.0, 0.0])
    m = hl.TabularMDP.from_gymnasium(env, gamma=0.5)
    assert m.R[0, 0] == 0.5
    assert 0 < m.transitions.rewards_error < 1e-7
    assert m.transitions.R_error.max() < 1e-20


def test_tasks_with_one_reward_per_pair_have_no_rounding_error():
    rng = np.random.default_rng(0)
    for _ in range(20):
        t = draw_task(rng).transitions
        assert t.rewards is None
        assert (t.R_error == 0).all()
        assert t.rewards_error == 0
    spread = np.repeat(rng.random((3, 2))[:, :, None], 3, axis=2)
    m = hl.TabularMDP(spread, rng.dirichlet(np.ones(3), (3, 2)), gamma=0.9)
    assert np.array_equal(m.R, spread[:, :, 0])
    assert (m.transitions.R_error == 0).all()


def test_mean_of_rewards_that_are_merged_and_equal_is_exact():
    outcomes = [(0.1, 0, 0.7, False), (0.2, 0, 0.7, False), (0.7, 1, 0.7, True)]
    table = {0: {0: outcomes}, 1: {0: [(1.0, 1, 0.0, False)]}}
    env = env_with(2, P=table, initial_state_distrib=[1.0, 0.0])
    t = hl.TabularMDP.from_gymnasium(env, gamma=0.9).transitions
    assert t.R.tolist() == [0.7, 0.0]
    assert (t.R_error == 0).all()
    assert t.rewards_error == 0


def test_mean_rewards_are_within_the_rewards_of_their_pair():
    t = prices().draw(np.random.default_rng(0)).transitions
    assert t.rewards is not None
    lowest = np.minimum.reduceat(t.rewards, t.indptr[:-1])
    highest = np.maximum.reduceat(t.rewards, t.indptr[:-1])
    assert (lowest <= t.R).all()
    assert (t.R <= highest).all()


def weigh(weights, x):
    """Return mean, low, error and excess of one row."""
    results = np.empty((4, 1))
    indptr = np.array([0, len(x)])
    means.weigh(np.array(weights), np.array(x), np.empty(0), indptr, *results)
    return results[:, 0].tolist()


@pytest.mark.parametrize("n", [2, 3, 10, 1000, 20_000])
@pytest.mark.parametrize("largest", [1e-300, 1.0, 1e12, 1e300])
def test_error_bound_of_a_weighted_mean_is_true_for_long_rows(n, largest):
    rng = np.random.default_rng(n)
    x = rng.choice([-1, 1], n) * largest * 10.0 ** -rng.uniform(0, 30, n)
    x[n // 2 :] = -x[: n - n // 2]  # large terms nearly cancel
    weights = rng.random(n) + 1e-3
    weights[n // 2 :] = weights[: n - n // 2] * (1 + 1e-15 * rng.normal(size=n - n // 2))
    mean, low, error, excess = weigh(weights, x)
    truth = exact.mean(zip(weights.tolist(), x.tolist(), strict=True))
    assert abs(Fraction(mean) + Fraction(low) - truth) <= Fraction(error)
    total = sum(Fraction(w) for w in weights.tolist())
    assert abs(Fraction(excess) + 1 - total) <= total / 2**52
    assert error <= 1e-22 * largest + 1e-300


@given(
    st.lists(
        st.tuples(
            st.floats(2**-1074, 1.0),
            st.floats(-1e300, 1e300),
        ),
        min_size=1,
        max_size=8,
    )
)
def test_error_bound_of_a_weighted_mean_is_true_for_any_float64_numbers(terms):
    """Weights and values include subnormal numbers, whose products underflow."""
    weights, x = zip(*terms, strict=True)
    mean, low, error, _ = weigh(weights, x)
    truth = exact.mean(terms)
    assert min(x) <= mean <= max(x)
    assert abs(Fraction(mean) + Fraction(low) - truth) <= Fraction(error)


@pytest.mark.parametrize("successor", [0, 1])
def test_rewards_too_large_for_the_computation_are_rejected(successor):
    """Also if outcomes are merged whose mean is small."""
    outcomes = Entries(
        pairs=np.array([0, 0, 1]),
        successors=np.array([0, successor, 1]),
        p=np.array([0.5, 0.5, 1.0]),
        rewards=np.array([1.1e300, -1.1e300, 0.0]),
        ends=np.zeros(3, dtype=bool),
    )
    shape = draw_shape(np.random.default_rng(0))._replace(n_states=2, n_actions=1, gamma=0.0)
    with pytest.raises(
        hl.errors.InvalidTask, match=r"R\[s=0, a=0, s'=0\] is 1.1e\+300: .* at most 1e\+300"
    ):
        task_of(outcomes, shape)
