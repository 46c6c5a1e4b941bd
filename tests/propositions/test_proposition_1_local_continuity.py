"""Proposition 1: |Q*_M - Q*_M̄| <= Δ_sa(M, M̄) = min(d_sa(M ‖ M̄), d_sa(M̄ ‖ M))."""

import numpy as np
import pytest
from hypothesis import given

import heirloom as hl
from tests.reference import exact
from tests.strategies import draw_pair, task_pairs, tasks


def check(m, m_bar):
    """The proposition, with no slack but the error of the values it speaks of."""
    one, other = hl.solve(m), hl.solve(m_bar)
    gap = np.abs(one.Q - other.Q)
    for d in (hl.dissimilarity(m, m_bar), hl.dissimilarity(m_bar, m)):
        assert (gap <= d + one.error + other.error).all()
    delta = hl.local_pseudometric(m, m_bar)
    assert (gap <= delta + one.error + other.error).all()
    return gap, delta


@given(task_pairs())
def test_it_bounds_the_gap_of_optimal_q_values(pair):
    check(*pair)


@given(task_pairs())
def test_it_is_the_smaller_dissimilarity_and_symmetric(pair):
    m, m_bar = pair
    delta = hl.local_pseudometric(m, m_bar)
    smaller = np.minimum(hl.dissimilarity(m, m_bar), hl.dissimilarity(m_bar, m))
    assert (delta == smaller).all()
    assert (hl.local_pseudometric(m_bar, m) == delta).all()
    assert (delta >= 0).all()


@given(tasks())
def test_equal_tasks_are_at_distance_zero(m):
    assert (hl.local_pseudometric(m, m) == 0).all()


def test_it_is_attained_where_only_rewards_differ():
    """Two one-state tasks that pay 1 and 0.25: the gap is 0.75 / (1-γ), and so is Δ."""
    m = hl.TabularMDP([[1.0]], [[[1.0]]], gamma=0.9)
    m_bar = hl.TabularMDP([[0.25]], [[[1.0]]], gamma=0.9)
    assert hl.local_pseudometric(m, m_bar) == pytest.approx(np.array([[7.5]]), abs=1e-6)


def test_without_the_shift_it_fails_on_negative_rewards():
    """Negative values as weights would put two tasks at a distance below their gap.

    In M the bad state is entered, in M̄ it is left: weights V̄ = (-10, 0) give D = -9 there.
    """
    R = [[0.0], [-1.0]]
    m = hl.TabularMDP(R, [[[0, 1.0]], [[0, 1.0]]], gamma=0.9, reward_range=(-1, 0))
    m_bar = hl.TabularMDP(R, [[[1.0, 0]], [[0, 1.0]]], gamma=0.9, reward_range=(-1, 0))
    V_bar = hl.solve(m_bar).V
    unshifted = 0.9 * np.abs((m.T - m_bar.T).toarray()) @ V_bar
    assert unshifted[0] < 0
    gap, delta = check(m, m_bar)
    assert gap[0, 0] == pytest.approx(9.0)
    assert delta[0, 0] >= 9.0


def test_tasks_of_different_reward_ranges():
    """The weights are shifted by the lesser end of both ranges, whichever way round."""
    rng = np.random.default_rng(5)
    for _ in range(50):
        m = hl.garnet(4, 2, branching=2, gamma=0.9, seed=rng, reward_range=(-1, 0))
        other = hl.garnet(4, 2, branching=2, gamma=0.9, seed=rng, reward_range=(0, 1))
        check(m, other)
        expected = np.minimum(exact.dissimilarity(m, other), exact.dissimilarity(other, m))
        np.testing.assert_allclose(hl.local_pseudometric(m, other), expected, atol=2e-6)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(20))
def test_it_bounds_the_gap_on_thousands_of_pairs(block):
    rng = np.random.default_rng([1, block])
    for _ in range(300):
        check(*draw_pair(rng, most_states=12))
