"""Possible successors, which compiled code reads, are checked wherever they come from."""

import numpy as np
import pytest

import heirloom as hl
from heirloom.transfer.nearness.successors import Successors


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
        arrays([1, 1, 2], [0, 1]),
        arrays([], []),
        Successors(np.array([0.0, 1.0]), np.array([0], dtype=np.int32)),
    ],
    ids=["negative", "order", "repeated", "end", "decreasing", "start", "empty", "type"],
)
def test_arrays_of_successors_that_are_not_valid_are_refused(successors):
    with pytest.raises(hl.InvalidArgument, match="successors is not valid"):
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
    with pytest.raises(hl.InvalidArgument, match="successors is not valid"):
        hl.NearModels(**options)
