"""`Binned`: real observations as numbered bins, and edges that are saved."""

import json

import gymnasium as gym
import numpy as np
import pytest

import heirloom as hl
from heirloom.transfer.memory_file import packed, unpacked

EDGES = [[-0.9, -0.5, 0.0], [0.0]]


def binned(edges=EDGES):
    return hl.wrappers.Binned(gym.make("MountainCar-v0"), edges=edges)


def test_every_bin_contains_its_middle_and_its_lower_edge():
    env = binned()
    assert env.n_states == 8
    seen = set()
    for s in range(env.n_states):
        bounds = [(max(lo, -2.0), min(hi, 2.0)) for lo, hi in env.bin_of(s)]
        assert env.state_of([(lo + hi) / 2 for lo, hi in bounds]) == s
        assert env.state_of(np.array([lo for lo, _ in bounds])) == s
        seen.add(s)
    assert seen == set(range(8))


def test_numbers_agree_with_a_c_ordered_array_of_bins():
    rng = np.random.default_rng(0)
    edges = [np.sort(rng.normal(size=n)).tolist() for n in (3, 0, 5, 1)]
    env = hl.wrappers.Binned(gym.make("CartPole-v1"), edges=edges)
    for x in rng.normal(size=(200, 4)):
        places = [sum(edge <= value for edge in row) for value, row in zip(x, edges, strict=True)]
        assert env.state_of(x) == np.ravel_multi_index(places, (4, 1, 6, 2))


def test_infinite_observations_are_in_the_outer_bins_and_nan_is_refused():
    env = binned()
    assert env.state_of([-np.inf, np.inf]) == 1
    with pytest.raises(hl.errors.UnsupportedEnvironment, match="none of them NaN"):
        env.state_of([np.nan, 0.0])


def test_agents_learn_in_a_binned_environment():
    env = binned()
    agent = hl.RMax(n_states=8, n_actions=3, gamma=0.9, n_known=2, reward_range=(-1.0, 0.0), seed=0)
    record = hl.learn(agent, env, episodes=2, max_steps=30, seed=0)
    assert record.returns.shape == (2,)
    assert agent.known.any()


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ([[0.0]], "edges has 1 entry: expected one for each of the 2 dimensions"),
        ([[1.0, 0.0], []], r"edges\[0\] is \[1.0, 0.0\]: expected finite numbers in increasing"),
        ([[0.0, 0.0], []], r"edges\[0\] is"),
        ([[], [np.inf]], r"edges\[1\] is"),
        ([["x"], []], r"edges\[0\] is not an array of real numbers"),
        (3, "edges is 3: expected a list with the edges of each dimension"),
        ([np.arange(1e5), np.arange(1e5)], "edges make 10,000,200,001 bins"),
    ],
)
def test_invalid_edges_are_reported(edges, message):
    with pytest.raises(hl.errors.InvalidArgument, match=message):
        binned(edges)


def test_discrete_observations_are_refused_with_the_name_of_the_right_wrapper():
    with pytest.raises(hl.errors.UnsupportedEnvironment, match=r"Numbered\(env\)"):
        hl.wrappers.Binned(gym.make("Blackjack-v1"), edges=[[0.5]])


def test_error_for_real_observations_names_binned():
    agent = hl.RMax(n_states=8, n_actions=3, gamma=0.9, n_known=1)
    with pytest.raises(
        hl.errors.UnsupportedEnvironment, match=r"heirloom\.wrappers\.Binned\(env, edges=\[\.\.\.\]"
    ):
        hl.learn(agent, gym.make("MountainCar-v0"), episodes=1, max_steps=1)


def test_edges_are_saved_with_the_agent_and_with_its_memory(tmp_path):
    env = binned([[-0.9, 0.1 + 0.2], [], [0.0]][::2])
    agent = hl.RMax(n_states=env.n_states, n_actions=3, gamma=0.9, n_known=2, reward_range=(-1, 0))
    hl.learn(agent, gym.wrappers.TimeLimit(env, 5), episodes=1, seed=0)
    agent.save(tmp_path / "agent")
    agent.memory.save(tmp_path / "memory")
    for memory in (
        hl.OptimisticAgent.load(tmp_path / "agent").memory,
        hl.TaskMemory.load(tmp_path / "memory"),
    ):
        again = binned(memory.edges)
        assert [row.tolist() for row in again.edges] == [row.tolist() for row in env.edges]


def test_agent_refuses_other_bins_and_stays_usable():
    env, other = binned([[-0.9], [0.0]]), binned([[-0.9], [0.1]])
    agent = hl.RMax(n_states=4, n_actions=3, gamma=0.9, n_known=2, reward_range=(-1, 0))
    for _ in range(2):
        hl.learn(agent, env, episodes=1, max_steps=5, seed=0)
        with pytest.raises(
            hl.errors.IncompatibleTasks, match=r"bins of .* edges=agent.memory.edges"
        ):
            hl.learn(agent, other, episodes=1, max_steps=5, seed=0)
    assert agent.memory.n_tasks == 2


@pytest.mark.parametrize("edges", [[[0.0, 0.0]], [[0.0]], "none", [["a"]], 3])
def test_file_with_invalid_edges_is_refused(edges, tmp_path):
    memory = hl.TaskMemory(4, 2)
    memory.edges = ()
    content = packed(memory)
    names = json.dumps({"edges": edges}).encode()
    content.arrays["names"] = np.frombuffer(names, dtype=np.uint8)
    with pytest.raises(hl.errors.InvalidFile):
        unpacked(hl.TaskMemory, content, "the file")
