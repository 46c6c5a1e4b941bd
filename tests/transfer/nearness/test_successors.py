"""Possible successors, which compiled code reads, are checked wherever they come from."""

import numpy as np
import pytest
from numba import typeof

import heirloom as hl
from heirloom.transfer.memory import Source
from heirloom.transfer.nearness.successors import Successors
from tests.partly_known import learned_exactly


def arrays(first, states):
    return Successors(np.array(first, dtype=np.int64), np.array(states, dtype=np.int32))


@pytest.mark.parametrize(
    "successors",
    [
        arrays([0, 1, 2], [0, -1]),
        arrays([0, 2, 2], [1, 0]),
        arrays([0, 2, 2], [1, 1]),
        arrays([0, 1, 5], [0, 1]),
        arrays([0, 3, 2], [0, 1]),
        arrays([0, 2**62 + 1, -(2**62), 2], [0, 1]),
        arrays([1, 1, 2], [0, 1]),
        arrays([], []),
        Successors(np.array([0.0, 1.0]), np.array([0], dtype=np.int32)),
    ],
    ids=[
        "negative",
        "order",
        "repeated",
        "end",
        "decreasing",
        "wrapping",
        "start",
        "empty",
        "type",
    ],
)
def test_arrays_of_successors_that_are_not_valid_are_refused(successors):
    with pytest.raises(hl.errors.InvalidArgument, match="successors is not valid"):
        hl.Nearness(rewards=0, transitions=0, successors=successors)


def test_successors_of_a_nearness_can_be_given_to_another():
    mask = np.random.default_rng(0).random((4, 2, 4)) < 0.5
    near = hl.Nearness(rewards=0, transitions=0, successors=mask)
    again = hl.Nearness(rewards=1, transitions=0, successors=near.successors)
    for one, other in zip(near.successors, again.successors, strict=True):
        assert np.array_equal(one, other)
        assert not other.flags.writeable


def test_agent_file_with_repeated_successors_is_refused(tmp_path):
    mask = np.ones((2, 1, 2), dtype=bool)
    near = hl.Nearness(rewards=0, transitions=0, successors=mask)
    agent = hl.NearRMax(nearness=near, n_states=2, n_actions=1, gamma=0.9, n_known=1)
    options = dict(agent.bounds[0].options())
    options["successors_states"] = np.array([0, 0, 0, 0], dtype=np.int32)
    with pytest.raises(hl.errors.InvalidArgument, match="successors is not valid"):
        hl.NearModels(**options)


def test_knowledge_of_successors_does_not_compile_kernels_again():
    """Arrays of kernels have the same types with and without it."""
    m = hl.garnet(4, 2, branching=2, gamma=0.9, seed=0)
    with_successors = hl.family_nearness([m, m])
    without = hl.Nearness(
        rewards=with_successors.rewards,
        transitions=with_successors.transitions,
        highest_rewards=with_successors.highest_rewards,
    )
    types = []
    for nearness in (with_successors, without):
        sizes = {"n_states": 4, "n_actions": 2, "gamma": 0.9, "reward_range": m.reward_range}
        agent = hl.NearRMax(nearness=nearness, n_known=1, exact=True, seed=0, **sizes)
        agent.memory.add(
            Source.of(learned_exactly(m, np.ones((4, 2), dtype=bool)), np.full(8, m.v_max))
        )
        agent.begin_task()
        learner = agent._task
        types.append([typeof(tuple(part)) for part in (learner._near, learner.watch.check)])
    assert types[0] == types[1]
