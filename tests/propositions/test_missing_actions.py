"""Distances and bounds between tasks that lack different actions (docs/guarantees.md)."""

import numpy as np
import pytest
from hypothesis import given

import heirloom as hl
from tests.strategies import draw_masked_pair, masked_pairs

ROUNDING = 1e-6


def check_pair(m, m_bar):
    """Assert that all distances and bounds between two tasks are valid."""
    Q, Q_bar = hl.solve(m).Q, hl.solve(m_bar).Q
    both = m.available & m_bar.available
    gap, gap_V = np.abs(Q[both] - Q_bar[both]), np.abs(Q.max(axis=1) - Q_bar.max(axis=1))
    local, largest = hl.local_pseudometric(m, m_bar), hl.global_pseudometric(m, m_bar)
    assert (gap <= local[both] + ROUNDING).all()
    assert (gap_V <= local.max(axis=1) + ROUNDING).all()
    assert (gap <= largest + ROUNDING).all()
    assert (gap_V <= largest + ROUNDING).all()
    U = hl.lipschitz_bound(m, m_bar)
    assert (U >= Q - ROUNDING).all()
    assert (U[~m.available] == -np.inf).all()


@given(masked_pairs())
def test_distances_and_bounds_are_valid_if_tasks_lack_actions(pair):
    check_pair(*pair)


@pytest.mark.slow
def test_distances_and_bounds_are_valid_in_many_tasks_that_lack_actions():
    rng = np.random.default_rng(20)
    for _ in range(400):
        check_pair(*draw_masked_pair(rng))


def arms(rewards, available):
    """Return a task with one state and one reward per action."""
    T = np.ones((1, len(rewards), 1))
    return hl.TabularMDP([rewards], T, gamma=0.9, available=[available])


def test_action_that_only_the_target_has_is_not_left_out_of_the_maximum():
    """The models agree where they can be compared, but the other action of the target is better."""
    source, target = arms([0.0, 0.0], [True, False]), arms([0.0, 1.0], [True, True])
    U, Q = hl.lipschitz_bound(target, source), hl.solve(target).Q
    assert Q[0] == pytest.approx([9.0, 10.0])
    assert (U >= Q - ROUNDING).all()
    assert U[0, 0] == pytest.approx(9.0)
    assert U[0, 1] == pytest.approx(10.0)


def test_action_that_the_target_lacks_is_no_part_of_a_maximum():
    source, target = arms([0.5, 1.0], [True, True]), arms([0.5, 0.0], [True, False])
    U = hl.lipschitz_bound(target, source)
    assert U[0, 0] == pytest.approx(hl.solve(source).Q[0, 0])
    assert U[0, 1] == -np.inf


@pytest.mark.parametrize("ground", ["identity", "recursive"])
def test_states_with_different_actions_are_as_far_apart_as_possible(ground):
    one, two = arms([0.5, 0.5], [True, False]), arms([0.5, 0.5], [True, True])
    assert hl.metrics.bisimulation_metric(one, one, ground=ground) == pytest.approx(0.0, abs=1e-6)
    far = hl.metrics.bisimulation_metric(one, two, ground=ground)[0, 0]
    assert far == pytest.approx(1.9 if ground == "identity" else 10.0, abs=1e-5)
