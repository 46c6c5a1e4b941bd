"""Returns over horizons far beyond convergence are computed in few steps."""

import numpy as np
import pytest

import heirloom as hl
from heirloom.kernels import values
from heirloom.planning import solve as planning
from tests.strategies import seeds


@pytest.fixture
def few_steps(monkeypatch):
    """Fail after 50,000 steps."""
    counted, improve = [0], values.improve

    def counted_improve(*arguments):
        counted[0] += 1
        assert counted[0] <= 50_000
        return improve(*arguments)

    monkeypatch.setattr(values, "improve", counted_improve)


@pytest.mark.parametrize("terminating", [0.0, 0.2])
@pytest.mark.parametrize("gamma", [0.0, 0.9, 1 - 1e-6])
def test_return_over_a_huge_horizon_is_the_optimal_value(gamma, terminating, few_steps):
    m = hl.garnet(20, 3, branching=3, gamma=gamma, terminating=terminating, seed=0)
    found, sol = hl.optimal_return(m, horizon=10**12), hl.solve(m)
    expected = (m.start * sol.V).sum()
    assert abs(found - expected) <= sol.error + 1e-10 * max(1.0, abs(expected))


def test_undiscounted_return_grows_linearly_with_a_huge_horizon(few_steps):
    """A cycle of three states that pays 1 once per round: one third per step, exactly."""
    T = np.eye(3)[[1, 2, 0]][:, None, :]
    m = hl.TabularMDP([[1.0], [0.0], [0.0]], T, gamma=0.9, start=0)
    for horizon in (3 * 10**9, 3 * 10**9 + 1, 3 * 10**9 + 2):
        found = hl.optimal_return(m, horizon=horizon, discounted=False)
        assert found == (horizon + 2) // 3


def test_undiscounted_return_of_a_terminating_task_is_finite(few_steps):
    m = hl.garnet(10, 2, branching=3, gamma=0.9, terminating=0.3, seed=1)
    short = hl.optimal_return(m, horizon=9000, discounted=False)
    assert hl.optimal_return(m, horizon=10**15, discounted=False) == pytest.approx(short, rel=1e-9)


@pytest.mark.parametrize("seed", seeds(10))
@pytest.mark.parametrize("discounted", [True, False])
def test_replaced_steps_change_the_return_by_no_more_than_rounding(seed, discounted, monkeypatch):
    """Compared with all steps; the limit is low, so that steps are replaced early."""
    rng = np.random.default_rng(seed)
    m = hl.garnet(
        int(rng.integers(1, 6)),
        int(rng.integers(1, 3)),
        branching=int(rng.integers(1, 2)),
        gamma=float(rng.choice([0.5, 0.99, 0.9999])),
        terminating=float(rng.choice([0.0, 0.3])),
        reward_range=(-1.0, 1.0),
        seed=rng,
    )
    policy = rng.integers(m.n_actions, size=m.n_states)
    horizon = int(rng.integers(2000, 5000))
    found = []
    for steps in (10**9, 20):
        monkeypatch.setattr(planning, "MIN_STEPS", steps)
        found.append(hl.expected_return(m, policy, horizon=horizon, discounted=discounted))
    assert found[1] == pytest.approx(found[0], rel=1e-11, abs=1e-11)
