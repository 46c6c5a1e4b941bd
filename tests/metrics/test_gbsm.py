"""The generalised bisimulation metric bounds differences of values, and is a pseudometric."""

import numpy as np
import pytest

import heirloom as hl
from heirloom.metrics import bisimulation_metric, gbsm, gbsm_bound
from tests.strategies import (
    draw_available,
    draw_masked_pair,
    draw_pair,
    draw_shape,
    draw_task,
    restricted,
    seeds,
)

TOL = 1e-7
RUNS = [
    pytest.param(60),
    pytest.param(1500, marks=pytest.mark.slow),
    pytest.param(20_000, marks=pytest.mark.full),
]


def draw_small_pair(rng):
    """Draw two tasks, related in some way, with masks in a third of draws, or of other sizes."""
    kind = rng.integers(3)
    if kind == 0:
        return draw_masked_pair(rng)
    if kind == 1:
        return draw_pair(rng, most_states=4)
    shape = draw_shape(rng, most_states=4)
    n_states = int(rng.integers(1, 5))
    other = shape._replace(n_states=n_states, branching=min(shape.branching, n_states))
    return draw_task(rng, shape), draw_task(rng, other)


def scaled_tol(*tasks):
    """A tolerance that float64 can certify for values of this size."""
    return TOL * max(1.0, *(abs(v) for m in tasks for v in (m.v_min, m.v_max)))


@pytest.mark.parametrize("runs", RUNS)
def test_metric_bounds_differences_of_values_and_the_bound_is_above_q_star(runs):
    rng = np.random.default_rng([1, runs])
    below_v_max = 0
    for _ in range(runs):
        m, m_bar = draw_small_pair(rng)
        tol = scaled_tol(m, m_bar)
        sol, sol_bar = hl.solve(m), hl.solve(m_bar)
        error = sol.error + sol_bar.error
        d = gbsm(m, m_bar, tol=tol)
        assert (np.abs(sol.V[:, None] - sol_bar.V[None, :]) <= d + error).all()
        U = gbsm_bound(m, m_bar, tol=tol)
        assert (U >= sol.Q - sol.error).all()
        assert (np.isneginf(U) == ~m.available).all()
        if m.available.all() and m_bar.available.all():
            assert (U.max(axis=1) <= (sol_bar.V + d).min(axis=1) + 2 * tol).all()
        below_v_max += bool((U < m.v_max - tol).any())
    assert below_v_max > runs / 10


def draw_three(rng):
    """Draw tasks whose numbers of states and available actions differ; all may end, or none."""
    while True:
        shape, tasks = draw_shape(rng), []
        for n_states in rng.integers(1, 5, size=3).tolist():
            branching = min(shape.branching, n_states)
            m = draw_task(rng, shape._replace(n_states=n_states, branching=branching))
            tasks.append(restricted(m, draw_available(rng, m)))
        if len({m.terminating for m in tasks}) == 1:
            return tasks


@pytest.mark.parametrize("seed", seeds(200))
def test_metric_is_symmetric_and_satisfies_the_triangle_inequality(seed):
    m1, m2, m3 = draw_three(np.random.default_rng(seed))
    tol = scaled_tol(m1, m2, m3)
    d12, d13, d32 = (gbsm(*pair, tol=tol) for pair in ((m1, m2), (m1, m3), (m3, m2)))
    assert (d12 <= (d13[:, :, None] + d32[None, :, :]).min(axis=1) + tol).all()
    np.testing.assert_allclose(gbsm(m2, m1, tol=tol).T, d12, atol=tol)
    assert (np.diag(gbsm(m1, m1, tol=tol)) <= tol).all()


@pytest.mark.parametrize("seed", range(6))
def test_metric_is_the_recursive_bisimulation_metric_with_weight_gamma(seed):
    rng = np.random.default_rng(seed)
    m, m_bar = draw_pair(rng, most_states=4)
    tol = scaled_tol(m, m_bar)
    d = gbsm(m, m_bar, tol=tol)
    other = bisimulation_metric(m, m_bar, ground="recursive", tol=tol / 10)
    np.testing.assert_allclose(d, other, atol=1.1 * tol)


def test_bound_from_the_same_task_with_other_numbers_of_states_is_its_optimal_values():
    """The Lipschitz bound compares states of the same number, and is far above them."""
    m = hl.garnet(6, 2, branching=2, gamma=0.9, seed=0)
    order = np.array([3, 0, 5, 1, 2, 4])
    T = m.T.toarray().reshape(6, 2, 6)[order][:, :, order]
    m_bar = hl.TabularMDP(m.R[order], T, gamma=0.9)
    Q = hl.solve(m).Q
    np.testing.assert_allclose(gbsm_bound(m, m_bar), Q, atol=1e-5)
    assert (hl.lipschitz_bound(m, m_bar) > Q + 1).any()


def test_states_with_different_actions_have_the_largest_distance_if_tasks_terminate():
    """V = 5 where action 0 stays, and V̄ = 0.25 where action 1 terminates; the range is narrow."""
    options = {"gamma": 0.9, "reward_range": (0.25, 0.5)}
    stays = hl.TabularMDP([[0.5, 0.0]], [[[1.0], [0.0]]], available=[[True, False]], **options)
    ends = hl.TabularMDP(
        [[0.0, 0.25]], [[[0.0], [1.0]]], available=[[False, True]], terminates=[0], **options
    )
    assert hl.solve(stays).V[0] - hl.solve(ends).V[0] == pytest.approx(4.75)
    assert gbsm(stays, ends)[0, 0] >= 4.75
    assert bisimulation_metric(stays, ends, ground="recursive")[0, 0] >= 4.75
    assert gbsm_bound(stays, ends)[0, 0] == stays.v_max


def test_tasks_with_other_actions_or_discount_factors_are_rejected():
    m = hl.garnet(3, 2, branching=2, gamma=0.9, seed=0)
    for other in (
        hl.garnet(3, 1, branching=2, gamma=0.9, seed=0),
        hl.garnet(3, 2, branching=2, gamma=0.8, seed=0),
    ):
        with pytest.raises(hl.errors.IncompatibleTasks, match="they must be the same"):
            gbsm(m, other)
    with pytest.raises(hl.errors.NotConverged, match="ask for tol="):
        gbsm_bound(m, m, tol=1e-15)
