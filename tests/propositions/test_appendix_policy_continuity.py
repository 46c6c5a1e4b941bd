"""Appendix: |V^π_M - V^π_M̄| <= Δ^π_s and |Q^π_M - Q^π_M̄| <= Δ^π_sa, for any stochastic π.

Lemmas 2 and 3: both are unique fixed points.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import heirloom as hl
from tests.reference import exact
from tests.strategies import draw_pair, draw_policy, pairs_and_policies


def check(m, m_bar, pi):
    sol, sol_bar = hl.evaluate(m, pi), hl.evaluate(m_bar, pi)
    slack = sol.error + sol_bar.error
    assert (np.abs(sol.V - sol_bar.V) <= hl.policy_v_pseudometric(m, m_bar, pi) + slack).all()
    assert (np.abs(sol.Q - sol_bar.Q) <= hl.policy_q_pseudometric(m, m_bar, pi) + slack).all()


@given(pairs_and_policies())
def test_policy_pseudometrics_bound_the_gaps_of_the_policys_values(example):
    check(*example)


@given(pairs_and_policies())
def test_policy_pseudometrics_agree_with_the_reference_implementation(example):
    m, m_bar, pi = example
    to_source, from_source = (
        exact.policy_dissimilarity(m, m_bar, pi),
        exact.policy_dissimilarity(m_bar, m, pi),
    )
    Q = np.minimum(to_source, from_source)
    V = np.minimum((pi * to_source).sum(axis=1), (pi * from_source).sum(axis=1))
    np.testing.assert_allclose(hl.policy_q_pseudometric(m, m_bar, pi), Q, atol=2e-6)
    np.testing.assert_allclose(hl.policy_v_pseudometric(m, m_bar, pi), V, atol=2e-6)


@given(pairs_and_policies(), st.floats(-1e3, 1e3))
def test_policy_dissimilarities_are_unique_fixed_points(example, anywhere):
    """Lemmas 2 and 3: iteration from any starting point converges to the same solution."""
    m, m_bar, pi = example
    D = exact.source_distance(m, m_bar, (pi * exact.policy_Q(m_bar, pi)).sum(axis=1))
    _, T, gamma = exact.dense(m)
    of_states = exact.fixed_point(
        lambda d: (pi * (D + gamma * exact.after(T, d))).sum(axis=1),
        np.full(m.n_states, anywhere),
        modulus=gamma,
        tol=1e-9,
    )
    of_pairs = exact.fixed_point(
        lambda d: D + gamma * exact.after(T, (pi * d).sum(axis=1)),
        np.full(D.shape, anywhere),
        modulus=gamma,
        tol=1e-9,
    )
    expected = exact.policy_dissimilarity(m, m_bar, pi)
    np.testing.assert_allclose(of_pairs, expected, atol=1e-8)
    np.testing.assert_allclose(of_states, (pi * expected).sum(axis=1), atol=1e-8)
    assert (hl.policy_q_pseudometric(m, m_bar, pi) <= of_pairs + 2e-6).all()
    assert (hl.policy_v_pseudometric(m, m_bar, pi) <= of_states + 2e-6).all()


@given(pairs_and_policies())
def test_policy_pseudometrics_are_symmetric_and_zero_for_equal_tasks(example):
    m, m_bar, pi = example
    for metric in (hl.policy_v_pseudometric, hl.policy_q_pseudometric):
        assert (metric(m, m_bar, pi) == metric(m_bar, m, pi)).all()
        assert (metric(m, m, pi) == 0).all()


@given(pairs_and_policies())
def test_deterministic_policy_can_be_given_as_actions(example):
    m, m_bar, pi = example
    actions = pi.argmax(axis=1)
    as_probabilities = np.eye(m.n_actions)[actions]
    for metric in (hl.policy_v_pseudometric, hl.policy_q_pseudometric):
        assert (metric(m, m_bar, actions) == metric(m, m_bar, as_probabilities)).all()


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_policy_pseudometrics_bound_the_gaps_on_thousands_of_pairs(block):
    rng = np.random.default_rng([3, block])
    for _ in range(200):
        m, m_bar = draw_pair(rng, most_states=12)
        check(m, m_bar, draw_policy(rng, m))
