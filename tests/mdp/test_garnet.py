"""`garnet`: random tasks have the requested size, branching, rewards and termination."""

import numpy as np
import pytest

import heirloom as hl
from tests.mdp.test_tabular import assert_same_task


def test_task_has_the_requested_size_branching_and_reward_range():
    m = hl.garnet(40, 3, branching=5, gamma=0.9, seed=0, reward_range=(-2, -1))
    assert (np.diff(m.transitions.indptr) == 5).all()
    assert (m.n_states, m.n_actions, m.gamma) == (40, 3, 0.9)
    assert m.reward_range == (-2, -1)
    assert -2 <= m.R.min() < m.R.max() <= -1
    assert not m.terminating


def test_tasks_with_one_successor_are_deterministic():
    m = hl.garnet(40, 3, branching=1, gamma=0.9, seed=0)
    assert (m.transitions.p == 1).all()


def test_transitions_terminate_with_the_requested_probability():
    m = hl.garnet(400, 3, branching=5, gamma=0.9, seed=0, terminating=0.3)
    assert m.transitions.ends.mean() == pytest.approx(0.3, abs=0.03)
    assert (hl.garnet(9, 1, branching=2, gamma=0.9, seed=0, terminating=1).ends == 1).all()


def test_successors_are_drawn_uniformly():
    m = hl.garnet(5, 2000, branching=3, gamma=0.9, seed=0)
    np.testing.assert_allclose(np.bincount(m.transitions.successors) / 30_000, 0.2, atol=0.01)


def test_seed_and_generator_determine_the_task():
    def task(seed):
        return hl.garnet(10, 2, branching=3, gamma=0.9, seed=seed)

    assert_same_task(task(5), task(5))
    rng = np.random.default_rng(5)
    assert_same_task(task(5), task(rng))
    assert not np.array_equal(task(5).R, task(rng).R)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_states": 0}, "n_states is 0"),
        ({"n_actions": 0}, "n_actions is 0"),
        ({"branching": 0}, "branching is 0: expected a whole number from 1 to 10"),
        ({"n_states": 2.5}, "n_states is 2.5"),
        ({"seed": -1}, "seed is -1"),
        ({"seed": "a"}, "seed is 'a'"),
        ({"terminating": None}, "terminating is None"),
        ({"branching": 11}, "branching is 11"),
        ({"terminating": 1.5}, "terminating is 1.5"),
        ({"gamma": 1}, "gamma is 1"),
        ({"reward_range": (1, 0)}, "reward_range is"),
    ],
)
def test_arguments_outside_their_range_are_rejected(changes, message):
    options = {"n_states": 10, "n_actions": 2, "branching": 3, "gamma": 0.9, "seed": 0, **changes}
    with pytest.raises(hl.errors.InvalidArgument, match=message):
        hl.garnet(**options)
