"""D̂ and d̂ between partly known models: Propositions 3 and 4, with exact maxima."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import heirloom as hl
from heirloom.transfer.lipschitz.distance import WeightedL1
from heirloom.transfer.memory import Source
from heirloom.transfer.setting import Setting
from tests.reference import exact, learned_models
from tests.reference.lipschitz import Distances
from tests.strategies import draw_pair

seeds = st.integers(0, 2**32 - 1)


def learned_exactly(m, known):
    """Return a model in which the pairs `known` [s, a] are known and have the exact rows of `m`.

    The rows are written directly, because empirical probabilities would be multiples of 1/n.
    """
    model = hl.LearnedModel(m.n_states, m.n_actions, n_known=m.n_states)
    t = m.transitions
    model.arrays = model.arrays._replace(
        successors=np.empty(t.p.size, dtype=np.int32), p=np.empty(t.p.size)
    )
    a = model.arrays
    rows, size = t.continuing, 0
    for k in np.flatnonzero(known.ravel()):
        row = slice(rows.indptr[k], rows.indptr[k + 1])
        length = row.stop - row.start
        a.first[k], a.last[k] = size, size + length
        a.successors[size : size + length] = rows.successors[row]
        a.p[size : size + length] = rows.p[row]
        a.R[k], a.ends[k], a.known[k] = t.R[k], t.end_probability[k], True
        size += length
    return model


def draw_partly_known(rng, *, epsilon=0.0, most_states=4):
    """Draw two tasks, a partly known model of each, and the setting."""
    m, m_bar = draw_pair(rng, most_states=most_states)
    models = [
        learned_exactly(task, rng.random((m.n_states, m.n_actions)) < rng.choice([0, 0.5, 1]))
        for task in (m, m_bar)
    ]
    setting = Setting(
        n_states=m.n_states,
        n_actions=m.n_actions,
        gamma=m.gamma,
        reward_range=m.reward_range,
        terminating=m.terminating or m_bar.terminating or bool(rng.integers(2)),
        epsilon=epsilon,
        tol=1e-6,
    )
    return m, m_bar, *models, setting


def blur(model, setting, rng):
    """Move rewards by up to ε, and transitions among their outcomes by up to ε in L1 norm."""
    a = model.arrays
    lo, hi = setting.reward_range
    for k in np.flatnonzero(a.known):
        a.R[k] = np.clip(a.R[k] + setting.epsilon * rng.uniform(-1, 1), lo, hi)
        row = slice(a.first[k], a.last[k])
        p = np.append(a.p[row], a.ends[k])
        weights = rng.dirichlet(np.ones(p.size)) * (p > 0)
        p = (1 - setting.epsilon / 2) * p + setting.epsilon / 2 * weights / weights.sum()
        a.p[row], a.ends[k] = p[:-1], p[-1]


def measured(m, m_bar, V_bar, setting):
    """Return D̂ of the compiled kernel, over all pairs."""
    L1 = WeightedL1()
    weights = L1.weigh(V_bar, setting.n_states, setting)
    return L1.between(m, m_bar, weights, np.arange(setting.n_pairs), setting)


@given(seeds, st.sampled_from([0.0, 0.01, 0.5]))
def test_learned_distance_is_the_table_with_exact_maxima(seed, epsilon):
    """The maxima in closed form agree with maxima over all vertices; `least` is a lower bound."""
    rng = np.random.default_rng(seed)
    *_, model, model_bar, setting = draw_partly_known(rng, epsilon=epsilon)
    V_bar = setting.floor + rng.random(setting.n_states) * 10
    D = measured(model.rows, model_bar.rows, V_bar, setting)
    expected = learned_models.distance(model.rows, model_bar.rows, V_bar, setting)
    np.testing.assert_allclose(D, expected, atol=1e-10)
    assert (D >= WeightedL1().least(V_bar.max(), setting) - 1e-12).all()


@given(seeds, st.sampled_from([0.0, 0.01, 0.3]))
def test_proposition_3_learned_distance_bounds_the_distance_of_the_tasks(seed, epsilon):
    """For any known pairs with ε-accurate models, and any upper bound V̄ on the values of M̄."""
    rng = np.random.default_rng(seed)
    m, m_bar, model, model_bar, setting = draw_partly_known(rng, epsilon=epsilon)
    for learned in (model, model_bar):
        blur(learned, setting, rng)
    V_star = hl.solve(m_bar).V
    D = measured(model.rows, model_bar.rows, V_star + 1e-8 + rng.random(V_star.size), setting)
    assert (D.reshape(m.R.shape) >= exact.source_distance(m, m_bar, V_star) - 1e-9).all()


@given(seeds)
def test_distance_needs_only_the_heaviest_states(seed):
    """With more heaviest states than a row has successors, D̂ is the same as with all states."""
    rng = np.random.default_rng(seed)
    n = 40
    tasks = [hl.garnet(n, 2, branching=3, gamma=0.9, seed=rng) for _ in range(2)]
    rows = [learned_exactly(task, rng.random((n, 2)) < 0.7).rows for task in tasks]
    setting = Setting(n_states=n, n_actions=2, gamma=0.9, terminating=False)
    V, L1, pairs = np.round(10 * rng.random(n), 1), WeightedL1(), np.arange(2 * n)
    few_ranked, all_ranked = L1.weigh(V, 3, setting), L1.weigh(V, n, setting)
    assert few_ranked.heaviest.size < n == all_ranked.heaviest.size
    D = L1.between(*rows, few_ranked, pairs, setting)
    assert (D == L1.between(*rows, all_ranked, pairs, setting)).all()


@given(seeds, st.sampled_from([0.0, 0.05, 0.5, 3.0]))
@settings(max_examples=25)
def test_dissimilarity_is_solved_for_the_worst_case_within_epsilon(seed, epsilon):
    """One more sweep, with linear programs for the worst case, lowers d̂ by at most `slack`."""
    rng = np.random.default_rng(seed)
    *_, model, _, setting = draw_partly_known(rng, epsilon=epsilon, most_states=3)
    D = rng.random(setting.n_pairs)
    solved = Distances(D, setting)
    solved.lower(model.rows)
    d = learned_models.one_sweep(model.rows, D, solved.d, setting)
    assert (d <= solved.d + 1e-9).all()
    assert (d >= solved.d - setting.tol * (1 - setting.gamma) - 1e-9).all()
    assert solved.largest >= solved.d.max() - 1e-9


@given(seeds, st.sampled_from([0.0, 0.02, 0.08]))
@settings(max_examples=40)
def test_dissimilarity_is_at_most_that_of_the_paper(seed, epsilon):
    """The paper adds ε max d̂, which needs γ (1 + ε) < 1; the exact worst case is at most that."""
    rng = np.random.default_rng(seed)
    *_, model, _, setting = draw_partly_known(rng, epsilon=epsilon)
    if setting.gamma * (1 + epsilon) >= 1:
        return
    D = rng.random(setting.n_pairs)
    solved = Distances(D, setting)
    solved.lower(model.rows)
    known, _, T = learned_models.as_dense(model.rows, setting.n_states)

    def papers(d):
        d_state = np.append(d.reshape(setting.n_states, -1).max(axis=1), 0.0)
        largest = d_state.max()
        return D + setting.gamma * np.where(known, T @ d_state + epsilon * largest, largest)

    d = exact.fixed_point(papers, np.zeros(D.size), modulus=setting.gamma * (1 + epsilon), tol=1e-9)
    assert (solved.d <= d + setting.tol + 1e-8).all()


@given(seeds, st.sampled_from([0.0, 0.01, 0.3]))
def test_proposition_4_learned_dissimilarity_bounds_that_of_the_tasks(seed, epsilon):
    rng = np.random.default_rng(seed)
    m, m_bar, model, model_bar, setting = draw_partly_known(rng, epsilon=epsilon)
    for learned in (model, model_bar):
        blur(learned, setting, rng)
    V_bar = hl.solve(m_bar).V + 1e-8
    D = measured(model.rows, model_bar.rows, V_bar, setting)
    solved = Distances(D, setting)
    solved.lower(model.rows)
    assert (solved.d.reshape(m.R.shape) >= exact.dissimilarity(m, m_bar) - 1e-7).all()


def test_source_keeps_exactly_the_known_pairs():
    m = hl.garnet(5, 2, branching=2, gamma=0.9, seed=0, terminating=0.3)
    known = np.random.default_rng(1).random((5, 2)) < 0.5
    model = learned_exactly(m, known)
    source = Source.of(model, np.arange(10.0))
    kept, expected = (learned_models.as_dense(rows, 5) for rows in (source.rows, model.rows))
    for array, expected_array in zip(kept, expected, strict=True):
        assert np.array_equal(array, expected_array)
    assert source.rows.p.size == sum(len(model.successors(*pair)) for pair in np.argwhere(known))
    assert source.V.tolist() == [1, 3, 5, 7, 9]
    with pytest.raises(ValueError, match="read-only"):
        source.rows.p[:] = 0


def test_task_that_was_not_stored_does_not_count_as_compared(monkeypatch):
    """If storing a task is interrupted and it is dropped, the next task is compared instead."""
    options = {"n_states": 1, "n_actions": 2, "gamma": 0.0, "n_known": 1, "seed": 0}
    agent = hl.LRMax(p_min=0.5, delta=0.5, **options)
    first, lost, other = (
        hl.TabularMDP([[0.0, r]], np.ones((1, 2, 1)), gamma=0.0) for r in (0.0, 0.0, 1.0)
    )
    hl.learn(agent, first, episodes=4, max_steps=4, seed=0)
    with monkeypatch.context() as patched:
        patched.setattr(agent.memory, "add", interrupt)
        with pytest.raises(KeyboardInterrupt):
            hl.learn(agent, lost, episodes=4, max_steps=4, seed=0)
    agent.drop_task()
    hl.learn(agent, other, episodes=4, max_steps=4, seed=0)
    (largest, n_compared), *_ = agent.memory.learned.values()
    assert n_compared == agent.memory.n_tasks == 2
    assert largest[1] >= 1.0


def interrupt(*_):
    raise KeyboardInterrupt
