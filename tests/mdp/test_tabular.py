"""`TabularMDP`: the forms it is built from, its properties, and its immutability."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from scipy import sparse

import heirloom as hl
from heirloom.mdp.tabular import value_range
from tests.reference import exact
from tests.strategies import tasks

R = np.array([[0.0, 1.0], [0.5, 0.25], [0.0, 0.0]])
T = np.array(
    [
        [[0.5, 0.5, 0.0], [0.0, 0.25, 0.75]],
        [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]],
        [[0.0, 0.0, 1.0], [0.2, 0.3, 0.5]],
    ]
)
FLAT = sparse.csr_array(T.reshape(6, 3))
R_TRANSITION = np.arange(18).reshape(3, 2, 3) / 20


def assert_same_task(m, other):
    a, b = m.transitions, other.transitions
    for name in ("indptr", "successors", "p", "R", "rewards", "ends"):
        x, y = getattr(a, name), getattr(b, name)
        assert (x is None) == (y is None), name
        assert x is None or np.array_equal(x, y), name


class TestForms:
    def test_dense_and_sparse_arrays_give_the_same_task(self):
        m = hl.TabularMDP(R, T, gamma=0.9)
        for form in (FLAT, sparse.csr_matrix(FLAT), sparse.coo_array(FLAT), T.tolist()):
            assert_same_task(m, hl.TabularMDP(R.tolist(), form, gamma=0.9))
        assert np.array_equal(m.R, R)
        assert np.array_equal(m.T.toarray(), FLAT.toarray())
        assert m.T.shape == (6, 3)
        assert isinstance(m.T, sparse.csr_array)

    def test_mean_rewards_are_expectations_of_transition_rewards(self):
        m = hl.TabularMDP(R_TRANSITION, T, gamma=0.9)
        np.testing.assert_allclose(m.R, (T * R_TRANSITION).sum(axis=2))
        for form in (R_TRANSITION, sparse.csr_array(R_TRANSITION.reshape(6, 3))):
            assert_same_task(m, hl.TabularMDP(form, FLAT, gamma=0.9))

    def test_transition_rewards_that_ignore_the_successor_give_the_task_of_pair_rewards(self):
        spread = np.repeat(R[:, :, None], 3, axis=2)
        assert_same_task(hl.TabularMDP(R, T, gamma=0.9), hl.TabularMDP(spread, T, gamma=0.9))

    def test_terminal_states_give_the_task_whose_transitions_into_them_are_terminal(self):
        into = np.zeros(T.shape, dtype=bool)
        into[:, :, 1] = True
        m = hl.TabularMDP(R, T, gamma=0.9, terminates=into)
        for form in (
            [1],
            np.array([1]),
            [False, True, False],
            sparse.csr_array(into.reshape(6, 3)),
        ):
            assert_same_task(m, hl.TabularMDP(R, T, gamma=0.9, terminates=form))
        assert np.array_equal(m.ends, T[:, :, 1])
        np.testing.assert_allclose(m.T.toarray(), FLAT.toarray())

    def test_task_without_terminal_states_does_not_terminate(self):
        for none in (None, [], np.zeros(3, dtype=bool), np.zeros(T.shape, dtype=bool)):
            m = hl.TabularMDP(R, T, gamma=0.9, terminates=none)
            assert not m.terminating
            assert (m.ends == 0).all()

    def test_start_is_uniform_or_a_state_or_a_distribution(self):
        assert hl.TabularMDP(R, T, gamma=0.9).start == pytest.approx(np.full(3, 1 / 3))
        assert np.array_equal(hl.TabularMDP(R, T, gamma=0.9, start=2).start, [0, 0, 1])
        assert np.array_equal(
            hl.TabularMDP(R, T, gamma=0.9, start=[0.5, 0.25, 0.25]).start, [0.5, 0.25, 0.25]
        )

    def test_stored_zeros_of_a_sparse_matrix_are_not_transitions(self):
        stored = FLAT.copy()
        stored.data = stored.data.copy()
        padded = sparse.coo_array(
            (np.append(stored.data, 0.0), (np.append(stored.tocoo().row, 2), [*stored.indices, 2])),
            shape=(6, 3),
        )
        assert_same_task(hl.TabularMDP(R, FLAT, gamma=0.9), hl.TabularMDP(R, padded, gamma=0.9))

    def test_probabilities_that_sum_to_one_within_a_billionth_are_normalised(self):
        off = T * (1 + 5e-10)
        m = hl.TabularMDP(R, off, gamma=0.9)
        np.testing.assert_allclose(m.T.sum(axis=1), 1, rtol=0, atol=1e-15)

    def test_names_are_stored_as_tuples(self):
        m = hl.TabularMDP(R, T, gamma=0.9, state_names=list("abc"), action_names=["left", "right"])
        assert m.state_names == ("a", "b", "c")
        assert m.action_names == ("left", "right")

    def test_reward_range_none_is_the_smallest_that_contains_the_rewards(self):
        assert hl.TabularMDP(R, T, gamma=0.9, reward_range=None).reward_range == (R.min(), R.max())
        negative = hl.TabularMDP(R - 2, T, gamma=0.9, reward_range=None)
        assert negative.reward_range == (R.min() - 2, R.max() - 2)


class TestImmutability:
    def test_task_keeps_its_values_when_the_arrays_it_was_built_from_change(self):
        arrays = R.copy(), T.copy()
        flat = sparse.csr_array(arrays[1].reshape(6, 3))
        start = np.array([1.0, 0.0, 0.0])
        m, from_flat = (
            hl.TabularMDP(arrays[0], t, gamma=0.9, start=start) for t in (arrays[1], flat)
        )
        for array in (*arrays, flat.data, start):
            array[...] = 7
        assert_same_task(m, hl.TabularMDP(R, T, gamma=0.9))
        assert_same_task(from_flat, m)
        assert np.array_equal(m.start, [1, 0, 0])

    def test_arrays_are_read_only(self):
        m = hl.TabularMDP(R_TRANSITION, T, gamma=0.9, terminates=[1])
        t = m.transitions
        of_task, of_transitions = (
            (m.R, m.start, m.ends, m.T.data),
            (t.p, t.rewards, t.ends, t.R_error),
        )
        for array in (*of_task, *of_transitions, *t.continuing):
            with pytest.raises(ValueError, match="read-only"):
                array[...] = 0

    def test_task_keeps_its_values_when_a_returned_matrix_changes(self):
        m = hl.TabularMDP(R, T, gamma=0.9)
        returned = m.T
        returned.data = np.zeros(returned.data.size)
        assert np.array_equal(m.T.toarray(), FLAT.toarray())

    def test_attributes_cannot_be_set_or_deleted(self):
        m = hl.TabularMDP(R, T, gamma=0.9)
        with pytest.raises(AttributeError, match="immutable"):
            m.gamma = 0.5
        with pytest.raises(AttributeError, match="immutable"):
            del m.gamma

    def test_pickled_task_is_equal_and_immutable(self):
        m = hl.TabularMDP(R_TRANSITION, T, gamma=0.9, terminates=[1], start=1)
        assert m.ends.any()
        assert m.transitions.continuing.p.size
        copy = pickle.loads(pickle.dumps(m))
        assert_same_task(m, copy)
        assert (copy.gamma, copy.reward_range) == (m.gamma, m.reward_range)
        t = copy.transitions
        for array in (copy.R, copy.start, copy.ends, t.p, t.rewards, t.ends, *t.continuing):
            assert not array.flags.writeable
        assert np.array_equal(hl.solve(copy).Q, hl.solve(m).Q)


@given(tasks())
def test_successors_and_termination_form_one_distribution_per_pair(m):
    T = exact.dense(m).T
    np.testing.assert_allclose(T.sum(axis=2), 1, atol=1e-12)
    np.testing.assert_allclose(T[:, :, -1], m.ends, atol=1e-15)
    np.testing.assert_allclose(m.T.sum(axis=1), 1, atol=1e-12)


@pytest.mark.parametrize(
    ("reward_range", "terminating", "expected"),
    [
        ((0, 1), False, (0, 10)),
        ((0, 1), True, (0, 10)),
        ((-1, 1), True, (-10, 10)),
        ((-2, -1), False, (-20, -10)),
        ((-2, -1), True, (-20, -1)),
        ((1, 2), False, (10, 20)),
        ((1, 2), True, (1, 20)),
    ],
)
def test_value_range_allows_for_episodes_of_a_single_step(reward_range, terminating, expected):
    """By hand, at γ = 0.9: if tasks may terminate, an episode may consist of one reward."""
    assert value_range(reward_range, 0.9, terminating=terminating) == pytest.approx(expected)


@given(tasks())
def test_values_lie_in_the_value_range(m):
    sol = hl.solve(m)
    assert (sol.V >= m.v_min - sol.error).all()
    assert (sol.V <= m.v_max + sol.error).all()


def test_repr_shows_size_discount_factor_and_rewards():
    m = hl.TabularMDP(R, T, gamma=0.9, terminates=[1])
    assert repr(m) == (
        "TabularMDP(3 states, 2 actions, 10 transitions, 4 terminating, gamma=0.9, "
        "rewards 0 to 1 in (0, 1))"
    )


def test_sparse_tasks_are_never_converted_to_dense_arrays():
    """With 200,000 states an (S, A, S) array would take 320 GB."""
    n = 200_000
    ring = sparse.csr_array((np.ones(n), np.arange(1, n + 1) % n, np.arange(n + 1)), shape=(n, n))
    m = hl.TabularMDP(np.zeros((n, 1)), ring, gamma=0.9, terminates=[0], start=0)
    other = hl.TabularMDP(np.ones((n, 1)), ring, gamma=0.9, terminates=[1], start=0)
    assert hl.solve(m, tol=1e-3).V.max() == 0
    assert hl.local_pseudometric(m, other, tol=1e-2).max() <= 10 * 10
    assert hl.optimal_return(other, horizon=3) == pytest.approx(1.0)
    env = m.to_gymnasium()
    env.reset(seed=0)
    assert env.step(0)[0] == 1
