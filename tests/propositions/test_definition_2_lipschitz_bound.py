"""Definition 2: U_M̄ = Q*_M̄ + Δ is an upper bound on Q*_M."""

import numpy as np
import pytest
from hypothesis import given

import heirloom as hl
from tests.reference import exact
from tests.strategies import draw_pair, task_pairs


@given(task_pairs())
def test_lipschitz_bound_is_at_least_q_star(pair):
    m, m_bar = pair
    truth = hl.solve(m)
    assert (hl.lipschitz_bound(m, m_bar) >= truth.Q - truth.error).all()


@given(task_pairs())
def test_lipschitz_bound_agrees_with_the_reference_implementation(pair):
    m, m_bar = pair
    delta = np.minimum(exact.dissimilarity(m, m_bar), exact.dissimilarity(m_bar, m))
    U = hl.lipschitz_bound(m, m_bar)
    np.testing.assert_allclose(U, exact.optimal_Q(m_bar) + delta, atol=2e-6)


@pytest.mark.slow
def test_lipschitz_bound_is_at_least_q_star_in_exact_arithmetic():
    """Q* is computed in rational arithmetic, and no tolerance is added."""
    rng = np.random.default_rng(2)
    for _ in range(1000):
        m, m_bar = draw_pair(rng, most_states=4)
        U = hl.lipschitz_bound(m, m_bar, tol=1e-4)
        assert all(
            u >= q
            for bounds, truth in zip(U.tolist(), exact.exact_Q(m), strict=True)
            for u, q in zip(bounds, truth, strict=True)
        )
