"""Appendix: |Q*_M - Q*_M̄| <= Δ(M, M̄) = min over directions of max_sa D_sa / (1-γ)."""

import numpy as np
from hypothesis import given

import heirloom as hl
from tests.reference import exact
from tests.strategies import task_pairs, tasks


@given(task_pairs())
def test_global_pseudometric_bounds_the_gap_of_optimal_q_values(pair):
    m, m_bar = pair
    sol, sol_bar = hl.solve(m), hl.solve(m_bar)
    gap = np.abs(sol.Q - sol_bar.Q).max()
    assert gap <= hl.global_pseudometric(m, m_bar) + sol.error + sol_bar.error


@given(task_pairs())
def test_global_pseudometric_agrees_with_the_reference_implementation(pair):
    m, m_bar = pair
    directions = [
        exact.source_distance(a, b, exact.optimal_Q(b).max(axis=1)).max() / (1 - m.gamma)
        for a, b in ((m, m_bar), (m_bar, m))
    ]
    assert abs(hl.global_pseudometric(m, m_bar) - min(directions)) <= 2e-6


@given(task_pairs())
def test_global_pseudometric_is_symmetric_and_at_least_the_local_one(pair):
    m, m_bar = pair
    delta = hl.global_pseudometric(m, m_bar)
    assert delta == hl.global_pseudometric(m_bar, m)
    assert (hl.local_pseudometric(m, m_bar) <= delta + 1e-6).all()


@given(tasks())
def test_equal_tasks_are_at_global_distance_zero(m):
    assert hl.global_pseudometric(m, m) == 0
