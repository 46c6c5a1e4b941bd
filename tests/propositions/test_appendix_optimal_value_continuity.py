"""Appendix: |V*_M(s) - V*_M̄(s)| <= max_a Δ_sa(M, M̄)."""

import numpy as np
from hypothesis import given

import heirloom as hl
from tests.strategies import task_pairs


@given(task_pairs())
def test_local_pseudometric_bounds_the_gap_of_optimal_values(pair):
    m, m_bar = pair
    sol, sol_bar = hl.solve(m), hl.solve(m_bar)
    bound = hl.local_pseudometric(m, m_bar).max(axis=1)
    assert (np.abs(sol.V - sol_bar.V) <= bound + sol.error + sol_bar.error).all()
