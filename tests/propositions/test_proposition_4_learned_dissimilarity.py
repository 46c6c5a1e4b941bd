"""Proposition 4, with the exact worst case: d̂_sa(M ‖ M̄) is an upper bound on d_sa(M ‖ M̄).

It is the fixed point of d̂ = D̂ + γ max_T Σ T max d̂ over the T within ε of T̂ where the model of M
is known, and of d̂ = D̂ + γ max d̂ where it is not. Û = Q̄ + min(d̂(M ‖ M̄), d̂(M̄ ‖ M)) is then an
upper bound on Q*_M.
"""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import heirloom as hl
from tests.partly_known import blur, draw_partly_known
from tests.propositions.test_proposition_3_learned_model_distance import learned_distance
from tests.reference import exact, learned_models
from tests.reference.lipschitz import Distances

seeds = st.integers(0, 2**32 - 1)


def dissimilarity(m, m_bar, V_bar, setting):
    """d̂ between partly known models, over pairs."""
    solved = Distances(learned_distance(m.rows, m_bar.rows, V_bar, setting), setting)
    solved.lower(m.rows)
    return solved.d


@given(seeds, st.sampled_from([0.0, 0.01, 0.3]))
def test_learned_dissimilarity_is_at_least_the_dissimilarity_of_the_tasks(seed, epsilon):
    rng = np.random.default_rng(seed)
    m, m_bar, model, model_bar, setting = draw_partly_known(rng, epsilon=epsilon)
    for partly_known in (model, model_bar):
        blur(partly_known, setting, rng)
    d = dissimilarity(model, model_bar, hl.solve(m_bar).V + 1e-8, setting)
    assert (d.reshape(m.R.shape) >= exact.dissimilarity(m, m_bar) - 1e-7).all()


@given(seeds, st.sampled_from([0.0, 0.01, 0.3]))
def test_source_values_plus_the_smaller_dissimilarity_are_at_least_q_star(seed, epsilon):
    rng = np.random.default_rng(seed)
    m, m_bar, model, model_bar, setting = draw_partly_known(rng, epsilon=epsilon)
    for partly_known in (model, model_bar):
        blur(partly_known, setting, rng)
    sol, source = hl.solve(m), hl.solve(m_bar)
    to_source = dissimilarity(model, model_bar, source.V + 1e-8, setting)
    from_source = dissimilarity(model_bar, model, sol.V + 1e-8, setting)
    U = source.Q + np.minimum(to_source, from_source).reshape(m.R.shape)
    assert (U >= sol.Q - sol.error - source.error - 1e-7).all()


@given(seeds, st.sampled_from([0.0, 0.05, 0.5, 3.0]))
@settings(max_examples=25)
def test_learned_dissimilarity_solves_the_worst_case_over_the_ball(seed, epsilon):
    """A linear program over the distributions within ε lowers d̂ nowhere by more than its slack."""
    rng = np.random.default_rng(seed)
    *_, model, _, setting = draw_partly_known(rng, epsilon=epsilon, most_states=3)
    D = rng.random(setting.n_pairs)
    solved = Distances(D, setting)
    solved.lower(model.rows)
    after = learned_models.one_sweep(model.rows, D, solved.d, setting)
    assert (after <= solved.d + 1e-9).all()
    assert (after >= solved.d - setting.tol * (1 - setting.gamma) - 1e-9).all()
    assert solved.largest >= solved.d.max() - 1e-9


@given(seeds, st.sampled_from([0.0, 0.02, 0.08]))
@settings(max_examples=40)
def test_learned_dissimilarity_is_never_above_the_papers(seed, epsilon):
    """The paper adds ε max d̂ and needs γ (1 + ε) < 1; the worst case is at most that."""
    rng = np.random.default_rng(seed)
    *_, model, _, setting = draw_partly_known(rng, epsilon=epsilon)
    if setting.gamma * (1 + epsilon) >= 1:
        return
    D = rng.random(setting.n_pairs)
    solved = Distances(D, setting)
    solved.lower(model.rows)
    known, _, T = learned_models.as_dense(model.rows, setting.n_states)

    def papers(d):
        worst = np.append(d.reshape(setting.n_states, -1).max(axis=1), 0.0)
        return D + setting.gamma * np.where(known, T @ worst + epsilon * worst.max(), worst.max())

    d = exact.fixed_point(papers, np.zeros(D.size), modulus=setting.gamma * (1 + epsilon), tol=1e-9)
    assert (solved.d <= d + setting.tol + 1e-8).all()
