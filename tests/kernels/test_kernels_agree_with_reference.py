"""Kernels of Bellman sweeps and of distances agree with dense numpy references on random tasks."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from heirloom.arrays import frozen
from heirloom.kernels import distances, values
from tests.reference import exact
from tests.strategies import task_pairs, tasks

seeds = st.integers(0, 2**32 - 1)


def parts(m, seed):
    """Return the arguments of the kernels, random values V, and the reference Q for them."""
    V = np.random.default_rng(seed).normal(size=m.n_states) * 10
    R, T, gamma = exact.dense(m)
    arguments = (m.transitions.R, *m.transitions.continuing, m.gamma)
    return arguments, V, R + gamma * exact.after(T, V)


@given(tasks(), seeds)
def test_improve_maximises_over_actions(m, seed):
    """V_new and policy are those of a dense Bellman update; the changes are its range."""
    arguments, V, Q = parts(m, seed)
    V_new, policy = np.empty(m.n_states), np.empty(m.n_states, dtype=np.int32)
    lowest, highest = values.improve(*arguments, V, V_new, policy, values.FORWARDS)
    np.testing.assert_allclose(V_new, Q.max(axis=1), atol=1e-12)
    np.testing.assert_allclose(Q[np.arange(m.n_states), policy], Q.max(axis=1), atol=1e-12)
    assert lowest == (V_new - V).min()
    assert highest == (V_new - V).max()


@given(tasks(), seeds, st.floats(0, 1))
def test_nearly_optimal_pairs_are_found_and_give_the_same_values(m, seed, gap):
    """They are counted, listed and copied, and a sweep over them alone gives the same values."""
    (R, *rows, gamma), V, _ = parts(m, seed)
    states = np.repeat(np.arange(m.n_states, dtype=np.int32), m.n_actions)
    V_new, q = np.empty(m.n_states), np.empty(R.size)
    lowest, highest = values.improve_among(states, R, *rows, gamma, V, V_new, q)
    Q = q.reshape(m.n_states, m.n_actions)
    np.testing.assert_allclose(Q, parts(m, seed)[2], atol=1e-12)
    assert (V_new == Q.max(axis=1)).all()
    assert (lowest, highest) == ((V_new - V).min(), (V_new - V).max())

    expected = np.flatnonzero(q >= V_new[states] - gap)
    pairs = np.empty(values.count_near(states, q, V_new, gap) + 1, dtype=np.int64)
    values.find_near(states, q, V_new, gap, pairs)
    pairs = pairs[:-1]
    assert pairs.tolist() == expected.tolist()

    indptr = np.append(0, np.cumsum(np.diff(rows[0])[pairs]))
    successors, p = np.empty(indptr[-1], dtype=np.int32), np.empty(indptr[-1])
    values.copy_rows(*rows, pairs, indptr, successors, p)
    for i, k in enumerate(pairs):
        old, new = slice(*rows[0][k : k + 2]), slice(*indptr[i : i + 2])
        assert successors[new].tolist() == rows[1][old].tolist()
        assert p[new].tolist() == rows[2][old].tolist()

    q_near, V_near = np.empty(pairs.size), np.empty(m.n_states)
    values.improve_among(states[pairs], R[pairs], indptr, successors, p, gamma, V, V_near, q_near)
    assert (q_near == q[pairs]).all()
    assert (V_near == V_new).all()


@given(tasks(), seeds, st.booleans())
def test_improve_in_place_uses_new_values_at_once(m, seed, backwards):
    arguments, V, _ = parts(m, seed)
    R, T, gamma = exact.dense(m)
    expected = V.copy()
    for s in range(m.n_states)[:: -1 if backwards else 1]:
        expected[s] = (R[s] + gamma * exact.after(T[s], expected)).max()
    values.improve(*arguments, V, V, np.empty(m.n_states, dtype=np.int32), backwards)
    np.testing.assert_allclose(V, expected, atol=1e-11)


@given(tasks(), seeds)
def test_follow_evaluates_one_step_of_a_policy(m, seed):
    arguments, V, Q = parts(m, seed)
    policy = np.random.default_rng(seed).integers(m.n_actions, size=m.n_states, dtype=np.int32)
    V_new = np.empty(m.n_states)
    lowest, highest = values.follow(*arguments, policy, V, V_new)
    np.testing.assert_allclose(V_new, Q[np.arange(m.n_states), policy], atol=1e-12)
    assert lowest == (V_new - V).min()
    assert highest == (V_new - V).max()


@given(tasks(), seeds, st.booleans())
def test_follow_in_place_solves_self_transitions(m, seed, backwards):
    arguments, V, _ = parts(m, seed)
    R, T, gamma = exact.dense(m)
    policy = np.random.default_rng(seed).integers(m.n_actions, size=m.n_states, dtype=np.int32)
    expected = V.copy()
    for s in range(m.n_states)[:: -1 if backwards else 1]:
        a, loop = policy[s], T[s, policy[s], s]
        others = exact.after(T[s, a], expected) - loop * expected[s]
        expected[s] = (R[s, a] + gamma * others) / (1 - gamma * loop)
    values.follow_in_place(*arguments, policy, V, backwards)
    np.testing.assert_allclose(V, expected, atol=1e-10)


@given(tasks(), seeds)
def test_maximise_takes_the_first_of_equal_actions(m, seed):
    Q = np.random.default_rng(seed).integers(3, size=(m.n_states, m.n_actions)).astype(float)
    V, policy = np.empty(m.n_states), np.empty(m.n_states, dtype=np.int64)
    values.maximise(Q.reshape(-1), V, policy)
    assert (V == Q.max(axis=1)).all()
    assert (policy == Q.argmax(axis=1)).all()


@given(tasks(), seeds)
def test_back_up_returns_q_and_sums_of_rows(m, seed):
    arguments, V, expected = parts(m, seed)
    Q, sums = np.empty(expected.size), np.empty(expected.size)
    values.back_up(*arguments, frozen(V), Q, sums)
    np.testing.assert_allclose(Q, expected.ravel(), atol=1e-12)
    np.testing.assert_allclose(sums, exact.dense(m).T[:, :, :-1].sum(axis=2).ravel(), atol=1e-15)


def test_back_up_keeps_small_terms_of_a_long_sum():
    """One large value and a million small ones: a plain sum would lose the small ones."""
    n = 1_000_000
    p = np.full(n, 1.0 / n)
    V = np.full(n, 1e-10)
    V[0] = 1e10
    arguments = np.zeros(1), np.array([0, n]), np.arange(n, dtype=np.int32), p
    Q, sums = np.empty(1), np.empty(1)
    values.back_up(*arguments, 0.5, frozen(V), Q, sums)
    assert abs(Q[0] - 0.5 * (1e10 + (n - 1) * 1e-10) / n) <= 2e-12
    assert abs(sums[0] - 1) <= 1e-15


@given(task_pairs(), seeds)
def test_weigh_differences_sums_weighted_differences_of_rows(pair, seed):
    m, m_bar = pair
    f = np.random.default_rng(seed).random(m.n_states) * 10
    D = np.empty(m.n_states * m.n_actions)
    distances.weigh_differences(
        *m.transitions.continuing, *m_bar.transitions.continuing, frozen(f), D
    )
    expected = exact.model_distance(m, m_bar, f) - np.abs(m.R - m_bar.R)
    np.testing.assert_allclose(D.reshape(m.R.shape), expected, atol=1e-12)
