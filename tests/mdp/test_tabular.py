"""`TabularMDP`: the forms it is built from, what it holds, and that it stays as it is."""

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


def same(m, other):
    a, b = m.transitions, other.transitions
    for name in ("indptr", "successors", "p", "R", "rewards", "ends"):
        x, y = getattr(a, name), getattr(b, name)
        assert (x is None) == (y is None), name
        assert x is None or np.array_equal(x, y), name
    return True


class TestForms:
    def test_dense_and_sparse_are_the_same_task(self):
        m = hl.TabularMDP(R, T, gamma=0.9)
        for form in (FLAT, sparse.csr_matrix(FLAT), sparse.coo_array(FLAT), T.tolist()):
            assert same(m, hl.TabularMDP(R.tolist(), form, gamma=0.9))
        assert np.array_equal(m.R, R)
        assert np.array_equal(m.T.toarray(), FLAT.toarray())
        assert m.T.shape == (6, 3)
        assert isinstance(m.T, sparse.csr_array)

    def test_rewards_of_transitions_give_their_mean(self):
        m = hl.TabularMDP(R_TRANSITION, T, gamma=0.9)
        np.testing.assert_allclose(m.R, (T * R_TRANSITION).sum(axis=2))
        for form in (R_TRANSITION, sparse.csr_array(R_TRANSITION.reshape(6, 3))):
            assert same(m, hl.TabularMDP(form, FLAT, gamma=0.9))

    def test_rewards_that_do_not_depend_on_the_successor_are_those_of_pairs(self):
        spread = np.repeat(R[:, :, None], 3, axis=2)
        assert same(hl.TabularMDP(R, T, gamma=0.9), hl.TabularMDP(spread, T, gamma=0.9))

    def test_states_that_terminate_are_entered_by_transitions_that_do(self):
        into = np.zeros(T.shape, dtype=bool)
        into[:, :, 1] = True
        m = hl.TabularMDP(R, T, gamma=0.9, terminates=into)
        for form in (
            [1],
            np.array([1]),
            [False, True, False],
            sparse.csr_array(into.reshape(6, 3)),
        ):
            assert same(m, hl.TabularMDP(R, T, gamma=0.9, terminates=form))
        assert np.array_equal(m.ends, T[:, :, 1])
        np.testing.assert_allclose(m.T.toarray(), FLAT.toarray())

    def test_no_terminal_states_is_no_termination(self):
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

    def test_zeros_that_are_stored_are_no_transitions(self):
        stored = FLAT.copy()
        stored.data = stored.data.copy()
        padded = sparse.coo_array(
            (np.append(stored.data, 0.0), (np.append(stored.tocoo().row, 2), [*stored.indices, 2])),
            shape=(6, 3),
        )
        assert same(hl.TabularMDP(R, FLAT, gamma=0.9), hl.TabularMDP(R, padded, gamma=0.9))

    def test_probabilities_within_a_billionth_are_normalised(self):
        off = T * (1 + 5e-10)
        m = hl.TabularMDP(R, off, gamma=0.9)
        np.testing.assert_allclose(m.T.sum(axis=1), 1, rtol=0, atol=1e-15)

    def test_names(self):
        m = hl.TabularMDP(R, T, gamma=0.9, state_names="abc", action_names=["left", "right"])
        assert m.state_names == ("a", "b", "c")
        assert m.action_names == ("left", "right")

    def test_a_reward_range_that_is_not_given_widens_from_zero_and_one(self):
        assert hl.TabularMDP(R, T, gamma=0.9, reward_range=None).reward_range == (0, 1)
        wide = hl.TabularMDP(4 * R - 2, T, gamma=0.9, reward_range=None)
        assert wide.reward_range == (-2, 2)


class TestImmutability:
    def test_what_it_was_built_from_may_change(self):
        arrays = R.copy(), T.copy()
        flat = sparse.csr_array(arrays[1].reshape(6, 3))
        start = np.array([1.0, 0.0, 0.0])
        m, from_flat = (
            hl.TabularMDP(arrays[0], t, gamma=0.9, start=start) for t in (arrays[1], flat)
        )
        for array in (*arrays, flat.data, start):
            array[...] = 7
        assert same(m, hl.TabularMDP(R, T, gamma=0.9))
        assert same(from_flat, m)
        assert np.array_equal(m.start, [1, 0, 0])

    def test_arrays_are_read_only(self):
        m = hl.TabularMDP(R_TRANSITION, T, gamma=0.9, terminates=[1])
        t = m.transitions
        for array in (m.R, m.start, m.ends, m.T.data, t.p, t.rewards, t.ends, *t.continuing):
            with pytest.raises(ValueError, match="read-only"):
                array[...] = 0

    def test_a_changed_matrix_changes_no_task(self):
        m = hl.TabularMDP(R, T, gamma=0.9)
        taken = m.T
        taken.data = np.zeros(taken.data.size)
        assert np.array_equal(m.T.toarray(), FLAT.toarray())

    def test_attributes_cannot_be_set_or_deleted(self):
        m = hl.TabularMDP(R, T, gamma=0.9)
        with pytest.raises(AttributeError, match="immutable"):
            m.gamma = 0.5
        with pytest.raises(AttributeError, match="immutable"):
            del m.gamma

    def test_it_goes_to_another_process_and_stays_immutable(self):
        m = hl.TabularMDP(R_TRANSITION, T, gamma=0.9, terminates=[1], start=1)
        assert m.ends.any()
        assert m.transitions.continuing.p.size
        copy = pickle.loads(pickle.dumps(m))
        assert same(m, copy)
        assert (copy.gamma, copy.reward_range) == (m.gamma, m.reward_range)
        t = copy.transitions
        for array in (copy.R, copy.start, copy.ends, t.p, t.rewards, t.ends, *t.continuing):
            assert not array.flags.writeable
        assert np.array_equal(hl.solve(copy).Q, hl.solve(m).Q)


@given(tasks())
def test_rows_go_on_or_end(m):
    """What goes on, what ends and T agree, and T is a distribution."""
    on = exact.dense(m).T
    np.testing.assert_allclose(on.sum(axis=2), 1, atol=1e-12)
    np.testing.assert_allclose(on[:, :, -1], m.ends, atol=1e-15)
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
def test_value_range(reward_range, terminating, expected):
    """Where an episode may end at once, a reward of one sign may be the only one."""
    assert value_range(reward_range, 0.9, terminating=terminating) == pytest.approx(expected)


@given(tasks())
def test_values_lie_in_the_value_range(m):
    sol = hl.solve(m)
    assert (sol.V >= m.v_min - sol.error).all()
    assert (sol.V <= m.v_max + sol.error).all()


def test_repr_tells_what_it_is():
    m = hl.TabularMDP(R, T, gamma=0.9, terminates=[1])
    assert repr(m) == (
        "TabularMDP(3 states, 2 actions, 10 transitions, 4 terminating, gamma=0.9, "
        "rewards 0 to 1 in (0, 1))"
    )


def test_a_sparse_task_is_never_made_dense():
    """200,000 states: an (S, A, S) array would take 320 GB."""
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
