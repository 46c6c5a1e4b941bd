"""Lemma 1: d = D^{γV*_M̄} + γ Σ T max d has a unique solution, which `dissimilarity` returns."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import heirloom as hl
from tests.reference import exact
from tests.strategies import task_pairs, tasks


@given(task_pairs())
def test_dissimilarity_agrees_with_iteration_from_zero(pair):
    m, m_bar = pair
    d, expected = hl.dissimilarity(m, m_bar), exact.dissimilarity(m, m_bar)
    assert (d >= expected - 1e-8 * (1 + expected)).all()
    assert (d <= expected + 1e-6 + 1e-8 * (1 + expected)).all()


@given(task_pairs(), st.floats(-1e3, 1e3))
def test_iteration_from_any_starting_point_converges_to_the_dissimilarity(pair, anywhere):
    m, m_bar = pair
    D = exact.source_distance(m, m_bar, exact.optimal_Q(m_bar).max(axis=1))
    _, T, gamma = exact.dense(m)
    d = exact.fixed_point(
        lambda d: D + gamma * exact.after(T, d.max(axis=1)),
        np.full(D.shape, anywhere),
        modulus=gamma,
        tol=1e-9,
    )
    np.testing.assert_allclose(hl.dissimilarity(m, m_bar), d, atol=2e-6)


@given(tasks())
def test_dissimilarity_of_a_task_from_itself_is_zero(m):
    assert (hl.dissimilarity(m, m) == 0).all()


@given(task_pairs(), st.sampled_from([1e-2, 1e-4, 1e-6]))
def test_dissimilarity_exceeds_the_fixed_point_by_at_most_its_tolerance(pair, tol):
    m, m_bar = pair
    d, finer = hl.dissimilarity(m, m_bar, tol=tol), hl.dissimilarity(m, m_bar, tol=tol / 50)
    assert (d <= finer + tol).all()
    assert (d >= finer - tol / 50).all()
