"""Proposition 3, with exact maxima: D̂_sa(M ‖ M̄) is an upper bound on D_sa(M ‖ M̄).

The models of both tasks are known in part, within ε, and V̄ is any upper bound on V*_M̄.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import heirloom as hl
from heirloom.transfer.lipschitz.distance import measure, weigh
from tests.partly_known import blur, draw_partly_known, learned_exactly
from tests.reference import exact, learned_models
from tests.reference.lipschitz import least_distance

seeds = st.integers(0, 2**32 - 1)


def learned_distance(m, m_bar, V_bar, setting):
    """D̂ by the compiled kernel, over all pairs."""
    weights = weigh(V_bar, setting.n_states, setting)
    return measure(m, m_bar, weights, np.arange(setting.n_pairs), setting)


@given(seeds, st.sampled_from([0.0, 0.01, 0.3]))
def test_learned_distance_is_at_least_the_distance_of_the_tasks(seed, epsilon):
    rng = np.random.default_rng(seed)
    m, m_bar, model, model_bar, setting = draw_partly_known(rng, epsilon=epsilon)
    for partly_known in (model, model_bar):
        blur(partly_known, setting, rng)
    V_star = hl.solve(m_bar).V
    V_bar = V_star + 1e-8 + rng.random(V_star.size)
    D = learned_distance(model.rows, model_bar.rows, V_bar, setting)
    assert (D.reshape(m.R.shape) >= exact.source_distance(m, m_bar, V_star) - 1e-9).all()


@given(seeds, st.sampled_from([0.0, 0.01, 0.5]))
def test_learned_distance_takes_each_maximum_exactly(seed, epsilon):
    """It equals the table of the four cases, where the reference looks at all vertices."""
    rng = np.random.default_rng(seed)
    *_, model, model_bar, setting = draw_partly_known(rng, epsilon=epsilon)
    V_bar = setting.floor + rng.random(setting.n_states) * 10
    D = learned_distance(model.rows, model_bar.rows, V_bar, setting)
    expected = learned_models.distance(model.rows, model_bar.rows, V_bar, setting)
    np.testing.assert_allclose(D, expected, atol=1e-10)
    assert (D >= least_distance(V_bar.max(), setting) - 1e-12).all()


@given(seeds)
def test_learned_distance_does_not_increase_when_more_is_known(seed):
    rng = np.random.default_rng(seed)
    m, m_bar, model, _, setting = draw_partly_known(rng)
    V_bar = hl.solve(m_bar).V + 1e-8
    less = rng.random(m.R.shape) < 0.5
    more = less | (rng.random(m.R.shape) < 0.5)
    D_less, D_more = (
        learned_distance(model.rows, learned_exactly(m_bar, known).rows, V_bar, setting)
        for known in (less, more)
    )
    assert (D_more <= D_less + 1e-12).all()


@pytest.mark.slow
def test_learned_distance_is_an_upper_bound_with_probability_one_minus_delta():
    """Models sampled `n_known_for(ε, δ)` times per pair, two tasks of 3 states, 200 repetitions."""
    epsilon, delta, repetitions = 0.2, 0.1, 200
    rng = np.random.default_rng(3)
    options = {"epsilon": epsilon, "delta": delta, "n_sources": 1}
    violations = 0
    for _ in range(repetitions):
        m, m_bar = (hl.garnet(3, 2, branching=2, gamma=0.9, seed=rng) for _ in range(2))
        n_known = hl.theory.n_known_for(3, 2, **options, terminating=False)
        models = [sampled(task, n_known, rng) for task in (m, m_bar)]
        setting = hl.bounds.Setting(
            n_states=3, n_actions=2, gamma=0.9, terminating=False, epsilon=epsilon
        )
        V_star = hl.solve(m_bar).V
        D = learned_distance(models[0].rows, models[1].rows, V_star + 1e-8, setting)
        violations += bool((D.reshape(3, 2) < exact.source_distance(m, m_bar, V_star)).any())
    assert violations <= delta * repetitions


def sampled(m, n_known, rng):
    """A learned model in which every pair was visited `n_known` times."""
    model = hl.LearnedModel(m.n_states, m.n_actions, n_known=n_known)
    T = m.T.toarray().reshape(m.n_states, m.n_actions, -1)
    for s in range(m.n_states):
        for a in range(m.n_actions):
            for s_next in rng.choice(m.n_states, size=n_known, p=T[s, a]).tolist():
                model.observe(s, a, float(m.R[s, a]), s_next, terminated=False)
    return model
