"""Proposition 2: Q = min(v_max, U_1, …, U_m) off K, backed up through the model on K, is >= Q*.

The known set K is any set of pairs whose model is exact, and every U_i is any upper bound on Q*.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import heirloom as hl
from tests.partly_known import draw_deterministic_family, learned_exactly
from tests.reference import learned_models
from tests.strategies import draw_pair

ROUNDING = 1e-9


class Given(hl.Bound):
    """A bound that is fixed for the task, an array [s, a]."""

    def __init__(self, U):
        self.given = np.asarray(U, dtype=float).ravel()

    def begin_task(self, setting, model, memory):
        self.U = self.given.copy()
        return False


def draw_bounds(rng, Q_star, v_max):
    """Two upper bounds on Q*, tight at some pairs and loose at others."""
    return [
        np.minimum(v_max, Q_star + 1e-8 + 3 * rng.random(Q_star.shape) * rng.integers(0, 2))
        for _ in range(2)
    ]


def agent_for(m, bounds, **options):
    return hl.OptimisticAgent(
        bounds=[Given(U) for U in bounds],
        n_states=m.n_states,
        n_actions=m.n_actions,
        gamma=m.gamma,
        reward_range=m.reward_range,
        terminating=m.terminating,
        n_known=1,
        refresh=None,
        tol=1e-9,
        **options,
    )


@given(st.integers(0, 2**32 - 1))
def test_fixed_point_is_an_upper_bound_for_any_known_set_and_any_valid_bounds(seed):
    rng = np.random.default_rng(seed)
    m, _ = draw_pair(rng)
    sol = hl.solve(m)
    bounds = draw_bounds(rng, sol.Q, m.v_max)
    setting = agent_for(m, []).setting
    known = rng.random(m.R.shape) < rng.choice([0, 0.5, 1])
    U = np.minimum(m.v_max, np.min(bounds, axis=0)).ravel()
    Q = learned_models.optimistic_Q(learned_exactly(m, known).rows, U, setting)
    assert (Q.reshape(m.R.shape) >= sol.Q - sol.error - 1e-7).all()


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=40)
def test_values_of_an_agent_solve_the_equation_and_stay_above_q_star(seed):
    """After every update, on deterministic tasks, where one visit makes a pair known exactly."""
    rng = np.random.default_rng(seed)
    (m,) = draw_deterministic_family(rng, n_tasks=1, terminating=float(rng.choice([0, 0.3])))
    sol = hl.solve(m)
    bounds = draw_bounds(rng, sol.Q, m.v_max)
    U = np.minimum(m.v_max, np.min(bounds, axis=0))
    agent = agent_for(m, bounds, seed=rng)

    def check(*_):
        Q = np.array(agent.Q)
        expected = learned_models.optimistic_Q(agent.model.rows, U.ravel(), agent.setting)
        np.testing.assert_allclose(Q, expected.reshape(Q.shape), atol=2e-8)
        assert (Q[~agent.known] == U[~agent.known]).all()
        assert (Q >= sol.Q - sol.error - ROUNDING).all()

    hl.learn(agent, m, episodes=4, max_steps=8, seed=1, callback=check)
    assert agent.known.any()


def test_bound_below_q_star_makes_q_too_small():
    """The condition is needed: with U < Q* at one pair, Q is below Q* there and before it."""
    m = hl.TabularMDP([[0.0], [1.0]], [[[0, 1.0]], [[0, 1.0]]], gamma=0.5, start=0)
    agent = agent_for(m, [[[1.0], [0.5]]])
    hl.learn(agent, m, episodes=1, max_steps=1, seed=0)
    assert agent.Q[1, 0] == pytest.approx(0.5)
    assert agent.Q[0, 0] == pytest.approx(0.25)
    assert (hl.solve(m).Q > np.array(agent.Q)).all()
