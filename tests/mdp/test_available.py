"""Actions that are not available: how a task is built, solved, simulated and stored."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from scipy import sparse

import heirloom as hl
from tests.strategies import masked_pairs

R = np.array([[0.5, np.nan], [1.0, 0.25]])
T = np.array([[[0.0, 1.0], [7.0, -1.0]], [[1.0, 0.0], [0.0, 1.0]]])
AVAILABLE = np.array([[True, False], [True, True]])
TABLE = {0: {0: [(1.0, 1, 0.5, False)]}, 1: {0: [(1.0, 0, 1.0, False)], 1: [(1.0, 1, 0.25, False)]}}


def optimal_values(m):
    """Solve V(s) = max R + γ Σ T V over the available actions, by policy iteration."""
    rows = m.transitions.continuing
    T = sparse.csr_array((rows.p, rows.successors, rows.indptr), shape=(m.R.size, m.n_states))
    states, policy = np.arange(m.n_states), m.available.argmax(axis=1)
    for _ in range(30):
        P = T.toarray()[states * m.n_actions + policy]
        V = np.linalg.solve(np.eye(m.n_states) - m.gamma * P, m.R[states, policy])
        Q = np.where(m.available, m.R + m.gamma * (T @ V).reshape(m.R.shape), -np.inf)
        better = Q.max(axis=1) > V + 1e-12
        if not better.any():
            break
        policy = np.where(better, Q.argmax(axis=1), policy)
    return Q


@given(masked_pairs())
def test_solution_is_the_maximum_over_available_actions(pair):
    for m in pair:
        solution = hl.solve(m)
        available = m.available
        gap = np.abs(solution.Q[available] - optimal_values(m)[available])
        assert gap.max() <= solution.error + 1e-9
        assert (solution.Q[~available] == -np.inf).all()
        assert available[np.arange(m.n_states), solution.policy].all()
        evaluated = hl.evaluate(m, solution.policy)
        assert np.abs(evaluated.V - solution.V).max() <= evaluated.error + solution.error + 1e-9
        returns = hl.expected_return(m, solution.policy, horizon=3), hl.optimal_return(m, horizon=3)
        assert returns[0] <= returns[1] + 1e-9


@given(masked_pairs())
def test_files_pickles_tables_and_callables_preserve_missing_actions(tmp_path_factory, pair):
    m = pair[0]
    path = tmp_path_factory.mktemp("task") / "task.heirloom"
    m.save(path)
    others = [hl.TabularMDP.load(path), pickle.loads(pickle.dumps(m))]
    table = m.to_gymnasium().unwrapped.P
    options = {"gamma": m.gamma, "reward_range": m.reward_range, "start": m.start}
    others.append(hl.TabularMDP.from_gymnasium(m.to_gymnasium(), **options))
    others.append(
        hl.TabularMDP.from_callable(
            lambda s, a: table[s].get(a), m.n_states, m.n_actions, **options
        )
    )
    for other in others:
        assert np.array_equal(other.available, m.available)
        assert not other.available.flags.writeable
        assert np.array_equal(other.R, m.R)
        np.testing.assert_allclose(other.ends, m.ends, rtol=1e-15)
        np.testing.assert_allclose(other.T.toarray(), m.T.toarray(), rtol=1e-15)


def test_arrays_are_ignored_where_an_action_is_missing(tmp_path):
    m = hl.TabularMDP(R, T, gamma=0.9, available=AVAILABLE)
    assert m.R.tolist() == [[0.5, 0.0], [1.0, 0.25]]
    assert m.T[[1]].sum() == 0
    assert "3 of 4 pairs available" in repr(m)
    np.savez(tmp_path / "m.npz", R=R, T=T, available=AVAILABLE)
    loaded = hl.TabularMDP.from_npz(tmp_path / "m.npz", gamma=0.9)
    assert np.array_equal(loaded.available, AVAILABLE)
    per_transition = np.repeat(R[:, :, None], 2, axis=2)
    other = hl.TabularMDP(per_transition, T, gamma=0.9, available=AVAILABLE)
    assert np.array_equal(other.R, m.R)
    everywhere = hl.TabularMDP([[0.0]], [[[1.0]]], gamma=0.9, available=[[True]])
    assert everywhere.transitions.available is None


def test_callable_is_not_called_where_an_action_is_missing():
    def row(s, a):
        assert AVAILABLE[s, a]
        return TABLE[s][a]

    m = hl.TabularMDP.from_callable(row, 2, 2, gamma=0.9, available=AVAILABLE)
    assert np.array_equal(m.available, AVAILABLE)


def test_simulation_marks_and_refuses_missing_actions():
    m = hl.TabularMDP(R, T, gamma=0.9, available=AVAILABLE, start=0)
    env = m.to_gymnasium()
    _, info = env.reset(seed=0)
    assert info["action_mask"].tolist() == [1, 0]
    assert env.unwrapped.action_masks().tolist() == [True, False]
    with pytest.raises(
        hl.errors.InvalidArgument, match="action 1 is not available in state 0: the avail"
    ):
        env.step(1)
    assert env.step(0)[4]["action_mask"].tolist() == [1, 1]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: hl.TabularMDP(R, T, gamma=0.9, available=~AVAILABLE), "state 1 has no available"),
        (lambda: hl.TabularMDP(R, T, gamma=0.9, available=[True]), "expected booleans"),
        (lambda: hl.TabularMDP(R, T, gamma=0.9, available=[[1, 0], [1, 1]]), "expected booleans"),
        (
            lambda: hl.TabularMDP.from_callable(lambda s, a: None, 2, 2, gamma=0.9),
            "state 0 has no available action",
        ),
        (
            lambda: hl.TabularMDP.from_callable(
                lambda s, a: TABLE[s].get(a), 2, 2, gamma=0.9, available=AVAILABLE | True
            ),
            r"T\[s=0, a=1\] sums to 0, not 1",
        ),
    ],
)
def test_bad_mask_is_an_error(make, message):
    with pytest.raises(hl.errors.InvalidTask, match=message):
        make()


def test_policy_with_a_missing_action_is_an_error():
    m = hl.TabularMDP(R, T, gamma=0.9, available=AVAILABLE)
    for policy in ([1, 0], [[0.5, 0.5], [1.0, 0.0]]):
        with pytest.raises(hl.errors.InvalidArgument, match="action 1 is not available in state 0"):
            hl.evaluate(m, policy)


@given(masked_pairs())
def test_family_nearness_compares_pairs_that_both_tasks_have(pair):
    near = hl.family_nearness(pair)
    both = pair[0].available & pair[1].available
    assert (np.abs(pair[0].R - pair[1].R)[both] <= near.rewards[both]).all()
    assert (near.rewards[~both] <= 1e-12).all()
    assert (near.transitions[~both] == 0).all()
    for m, m_bar in (pair, pair[::-1]):
        U, Q = hl.near_bound(m, m_bar, near), hl.solve(m).Q
        assert (U >= Q - 1e-6).all()
        assert (U[~m.available] == -np.inf).all()
