"""Definition 1: D^f_sa(M, M̄) = |R - R̄| + Σ f |T - T̄| is a pseudometric between models."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import heirloom as hl
from tests.domains import coin, one_state
from tests.reference import exact
from tests.strategies import task_pairs, task_triples, tasks


def weights(m, seed):
    rng = np.random.default_rng(seed)
    return rng.random(m.n_states) * 10 * (rng.random(m.n_states) < 0.7), 10 * rng.random()


seeds = st.integers(0, 2**32 - 1)


@given(task_pairs(), seeds)
def test_model_pseudometric_agrees_with_the_reference_implementation(pair, seed):
    m, m_bar = pair
    f, f_end = weights(m, seed)
    D = hl.model_pseudometric(m, m_bar, f, f_end=f_end)
    np.testing.assert_allclose(D, exact.model_distance(m, m_bar, f, f_end), atol=1e-12)


@given(task_pairs(), seeds)
def test_model_pseudometric_is_nonnegative_and_symmetric(pair, seed):
    m, m_bar = pair
    f, f_end = weights(m, seed)
    D = hl.model_pseudometric(m, m_bar, f, f_end=f_end)
    assert (D >= 0).all()
    assert (hl.model_pseudometric(m_bar, m, f, f_end=f_end) == D).all()


@given(tasks(), seeds)
def test_task_is_at_distance_zero_from_itself(m, seed):
    f, f_end = weights(m, seed)
    assert (hl.model_pseudometric(m, m, f, f_end=f_end) == 0).all()


@given(task_triples(), seeds)
def test_model_pseudometric_satisfies_the_triangle_inequality(triple, seed):
    x, y, z = triple
    f, f_end = weights(x, seed)

    def D(m, m_bar):
        return hl.model_pseudometric(m, m_bar, f, f_end=f_end)

    assert (D(x, z) <= D(x, y) + D(y, z) + 1e-12).all()


def test_termination_probabilities_are_weighted_by_f_end():
    often, seldom = coin(0.9, 0.5, 1.0).task, coin(0.9, 0.25, 1.0).task
    D = hl.model_pseudometric(often, seldom, [8.0, 100.0], f_end=3.0)
    assert D[0, 0] == 0.25 * 8.0 + 0.25 * 3.0
    assert D[1, 0] == 0


@pytest.mark.parametrize("f", [[1.0, 1.0], [-1.0], [np.nan], [[1.0]], "no"])
def test_weights_that_are_negative_or_of_the_wrong_shape_are_refused(f):
    m = one_state(0.9, 1.0).task
    with pytest.raises(hl.errors.InvalidArgument, match="f"):
        hl.model_pseudometric(m, m, f)


def test_negative_weight_of_termination_is_refused():
    m = one_state(0.9, 1.0).task
    for f_end in (-1, None, "x", [1.0, 2.0], np.nan):
        with pytest.raises(hl.errors.InvalidArgument, match="f_end is"):
            hl.model_pseudometric(m, m, [1.0], f_end=f_end)
