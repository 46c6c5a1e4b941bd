"""How many tasks are enough."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import heirloom as hl

probabilities = st.floats(1e-3, 1.0)


@given(probabilities, probabilities)
def test_max_q_needs_the_least_number_that_is_enough(p_min, delta):
    m = hl.tasks_for_max_q(p_min, delta)
    p = Fraction(p_min)
    assert (1 - p) ** m <= delta
    assert m == 1 or (1 - p) ** (m - 1) > delta


@given(st.floats(1e-3, 0.5), probabilities)
@example(p_min=0.5, delta=0.25)
@example(p_min=0.4790565952338352, delta=0.9999999999999999)
def test_distances_need_the_least_number_that_is_enough(p_min, delta):
    """In exact arithmetic."""
    p = Fraction(p_min)

    def failure(m):
        return 2 * (1 - p) ** m - (1 - 2 * p) ** m

    m = hl.tasks_for_distance(p_min, delta)
    assert failure(m) <= delta
    assert m == 1 or failure(m - 1) > delta


def test_where_max_q_starts_in_the_papers_experiment():
    """Erratum 4: δ = 0.05 starts it at task 15; the reported start at 12 belongs to δ = 0.1."""
    assert hl.tasks_for_max_q(1 / 5, 0.05) + 1 == 15
    assert hl.tasks_for_max_q(1 / 5, 0.1) + 1 == 12


@pytest.mark.parametrize("p_min", [1e-6, 1e-10, 1e-17])
def test_tiny_probabilities(p_min):
    """About ln(1/δ) / p_min tasks, however small p_min is."""
    assert hl.tasks_for_max_q(p_min, 0.05) * p_min == pytest.approx(np.log(20), rel=1e-3)
    assert hl.tasks_for_distance(p_min, 0.05) * p_min == pytest.approx(3.676, rel=1e-3)


def test_the_probability_that_two_tasks_were_seen():
    """By enumeration of all draws of four tasks out of three."""
    both = np.mean([{0, 1} <= set(drawn) for drawn in itertools.product(range(3), repeat=4)])
    assert 2 * (2 / 3) ** 4 - (1 / 3) ** 4 == pytest.approx(1 - both)


@pytest.mark.parametrize("bad", [0, -0.1, 1.1, None, "often", np.nan])
def test_probabilities(bad):
    for call in (hl.tasks_for_max_q, hl.tasks_for_distance):
        with pytest.raises(hl.InvalidArgument, match="p_min is"):
            call(bad, 0.1)
        with pytest.raises(hl.InvalidArgument, match="delta is"):
            call(0.1, bad)
