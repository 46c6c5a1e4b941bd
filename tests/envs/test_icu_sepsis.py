"""ICU-Sepsis: its published returns, and hospitals that are as near as they say."""

import sys

import numpy as np
import pytest

import heirloom as hl
from heirloom.envs import icu_sepsis as icu

pytestmark = pytest.mark.skipif(
    icu.tables_path() is None, reason="needs `pip install --no-deps icu-sepsis`"
)


def survival(m, policy):
    return hl.expected_return(m, policy, horizon=500, discounted=False)


def test_returns_of_random_expert_and_optimal_treatment_are_the_published_ones():
    m = icu.icu_sepsis()
    sol = hl.solve(m)
    assert sol.error < 1e-6
    assert survival(m, np.full((716, 25), 1 / 25)) == pytest.approx(0.78, abs=0.005)
    assert survival(m, icu.expert_policy()) == pytest.approx(0.78, abs=0.005)
    assert survival(m, sol.policy) == pytest.approx(0.875, abs=0.0005)
    assert "icu_sepsis" not in sys.modules


def test_any_two_hospitals_are_as_near_as_their_family_says():
    family = icu.Hospitals(difference=0.1)
    near = family.nearness
    between = hl.family_nearness([icu.icu_sepsis(), *(family.hospital(i) for i in range(3))])
    assert (between.transitions <= near.transitions).all()
    assert (between.rewards <= near.rewards + 1e-290).all()  # an allowance for rounding
    assert between.transitions.max() > 0.05
    assert np.array_equal(between.successors.states, near.successors.states)


def test_hospital_has_distributions_and_follows_from_its_number():
    one, again, other = icu.hospital(1), icu.hospital(1), icu.hospital(2)
    assert np.array_equal(one.transitions.p, again.transitions.p)
    assert not np.array_equal(one.transitions.p, other.transitions.p)
    assert np.asarray(one.T.sum(axis=1)).ravel() == pytest.approx(1.0)


def test_invalid_difference_is_reported():
    with pytest.raises(hl.InvalidArgument, match="difference is 2"):
        icu.hospital(1, difference=2)
