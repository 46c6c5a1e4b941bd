"""Names of states, actions and tasks: where they come from, where they show, and what they are."""

import datetime

import gymnasium as gym
import numpy as np
import pytest

import heirloom as hl
from heirloom.envs.grid import grid_world
from heirloom.envs.maintenance import ACTIONS, STATES, Machines
from heirloom.naming import all_different, with_name
from heirloom.wrappers import Numbered

HOSTILE = "a\x1b[31m\nb"
FAMILY = Machines()
OPTIONS = {"n_known": 3, "seed": 0, **FAMILY.options}
NEAR = hl.Nearness(rewards=0.0, transitions=0.0)
BUDGET = {"episodes": 15, "max_steps": 21, "seed": 0}


def weeks(n, seed=0):
    rng = np.random.default_rng(seed)
    return [FAMILY.draw(rng) for _ in range(n)]


def without_names(m):
    return hl.TabularMDP.from_transitions(
        m.transitions, gamma=m.gamma, start=m.start, reward_range=m.reward_range
    )


def learned(make=hl.LRMax, *, named=True, n=3, **options):
    agent = make(**OPTIONS, **options)
    for i, m in enumerate(weeks(n)):
        texts = {"label": f"order {i}", "time": f"week {i + 12}"} if named else {}
        hl.learn(agent, m if named else without_names(m), **BUDGET, **texts)
    return agent


def test_names_come_from_lists_arrays_and_functions():
    R, T = np.zeros((2, 2)), np.full((2, 2, 2), 0.5)
    for names in (["a", "b"], np.array(["a", "b"]), lambda i: "ab"[i]):
        m = hl.TabularMDP(R, T, gamma=0.9, state_names=names, action_names=names)
        assert m.state_names == m.action_names == ("a", "b")
    for names, message in (
        (["a"], "state_names has 1 name for 2 states"),
        (lambda i: "a", "state_names has the name 'a' twice"),
        (3, "state_names is 3: expected a list of names"),
    ):
        with pytest.raises(hl.errors.InvalidTask, match=message):
            hl.TabularMDP(R, T, gamma=0.9, state_names=names)


def test_names_come_from_gymnasium():
    lake = hl.TabularMDP.from_gymnasium(gym.make("FrozenLake-v1"), gamma=0.9)
    assert lake.action_names == ("left", "down", "right", "up")
    m = weeks(1)[0]
    env = m.to_gymnasium(max_episode_steps=5)
    assert hl.TabularMDP.from_gymnasium(env, gamma=0.9).state_names == STATES
    env.unwrapped.__class__ = type("Odd", (type(env.unwrapped),), {"state_names": ["x"]})
    assert hl.TabularMDP.from_gymnasium(env, gamma=0.9).state_names is None


def test_numbered_and_binned_environments_name_their_states():
    cards = Numbered(gym.make("Blackjack-v1"))
    assert cards.state_names[cards.state_of((12, 10, 0))] == "(12, 10, 0)"
    assert cards.action_names == ("stick", "hit")
    seen = Numbered(gym.make("Blackjack-v1"), n_states=3)
    seen.state_of((12, 10, 0))
    assert seen.state_names == ("(12, 10, 0)", "not seen yet [1]", "not seen yet [2]")
    car = hl.wrappers.Binned(gym.make("MountainCar-v0"), edges=[[-0.5, 0.0], []])
    assert car.state_names == ("0: below -0.5", "0: [-0.5, 0)", "0: from 0")
    assert car.action_names is None


def test_npz_files_may_hold_names(tmp_path):
    path = tmp_path / "task.npz"
    np.savez(path, R=np.zeros((1, 1)), T=np.ones((1, 1, 1)), gamma=0.5, state_names=["only"])
    assert hl.TabularMDP.from_npz(path).state_names == ("only",)


@pytest.mark.parametrize("make", [hl.RMax, hl.LRMaxQInit])
def test_names_and_labels_change_nothing_that_is_learned(make):
    options = {} if make is hl.RMax else {"d_max": FAMILY.d_max, "p_min": 0.2}
    named, plain = (learned(make, named=named, **options) for named in (True, False))
    assert np.array_equal(named.Q, plain.Q)
    assert np.array_equal(named.U, plain.U)
    for one, other in zip(named.memory.sources, plain.memory.sources, strict=True):
        assert np.array_equal(one.Q, other.Q)
        assert all(map(np.array_equal, one.rows, other.rows))


def test_agent_learns_the_same_names_from_a_task_and_from_its_environment():
    m = weeks(1)[0]
    agents = [hl.RMax(**OPTIONS) for _ in range(2)]
    for agent, env in zip(agents, (m, m.to_gymnasium()), strict=True):
        hl.learn(agent, env, **BUDGET)
        assert agent.memory.state_names == STATES
        assert agent.memory.action_names == ACTIONS


def test_label_and_time_of_a_source_show_in_the_memory_and_the_explanation():
    agent = learned(d_max=10.0, n=2)
    assert [(s.label, s.time) for s in agent.memory.sources] == [
        ("order 0", "week 12"),
        ("order 1", "week 13"),
    ]
    lines = repr(agent.memory).splitlines()
    assert len(lines) == 3
    assert lines[1].startswith("  task 1 (order 0, week 12): ")
    assert repr(agent.memory.sources[0]).startswith("Source(task 1 (order 0, week 12): ")
    explanation = agent.explain()
    assert "task 1 (order 0, week 12)" in repr(explanation)
    assert explanation.why(3, 2).startswith("Q(3 (wear 3), 2 (repair)) = ")
    assert explanation.why("wear 3", "repair") == explanation.why(3, 2)
    with pytest.raises(hl.errors.InvalidArgument, match="s is 'wear 9': expected one of the names"):
        explanation.why("wear 9", "repair")


def test_exports_have_names_as_coordinates():
    agent = learned(n=2)
    for dataset in (agent.explain().to_xarray(), hl.audit(agent.memory).to_xarray()):
        assert dataset.state_name.values.tolist() == list(STATES)
        assert dataset.action_name.values.tolist() == list(ACTIONS)
        assert dataset.sel(state=3).sizes == {"action": 4}


def test_audit_and_warning_name_pairs_and_tasks():
    agent = hl.NearRMax(nearness=NEAR, exact=True, **OPTIONS)
    first, second = weeks(2)
    hl.learn(agent, first, **BUDGET, label="order 0")
    with pytest.warns(
        hl.errors.RefutedKnowledgeWarning, match=r"1 \(order 0\) and 2 .*state \d \(\w+"
    ):
        hl.learn(agent, second, **BUDGET, label="order 1")
    text = repr(hl.audit(agent.memory, NEAR, exact=True))
    assert "1 (order 0) and 2 (order 1)" in " ".join(text.split())
    (found, *_) = hl.audit(agent.memory, NEAR, exact=True).contradictions
    assert STATES[found.state] in str(found)
    assert ACTIONS[found.action] in str(found)


def test_names_and_labels_are_saved_with_memories_and_agents(tmp_path):
    agent = learned(n=2, memory=hl.TaskMemory(len(STATES), len(ACTIONS), capacity=1, keep="latest"))
    agent.save(tmp_path / "agent")
    agent.memory.save(tmp_path / "memory")
    for memory in (
        hl.LRMax.load(tmp_path / "agent").memory,
        hl.TaskMemory.load(tmp_path / "memory"),
    ):
        assert (memory.state_names, memory.action_names) == (STATES, ACTIONS)
        assert [(s.task, s.label, s.time) for s in memory.sources] == [(2, "order 1", "week 13")]


def test_file_without_names_has_the_same_bytes_as_before_names_existed(tmp_path):
    agent = learned(named=False, n=1)
    agent.memory.save(tmp_path / "memory")
    with np.load(tmp_path / "memory") as file:
        assert "names" not in file.files
    assert hl.TaskMemory.load(tmp_path / "memory").state_names is None


def test_stored_task_can_be_labelled_later():
    memory = learned(named=False, n=2).memory
    memory.label(1, "first", time=datetime.date(2024, 5, 1))
    assert memory.task_name(1) == "1 (first, 2024-05-01)"
    memory.label(1)
    assert memory.task_name(1) == "1"
    with pytest.raises(
        hl.errors.InvalidArgument, match="task is 3, which is not stored: expected one of"
    ):
        memory.label(3, "x")


@pytest.mark.parametrize("text", [HOSTILE, "\ud800", "=1+1", "x" * 200])
def test_hostile_names_and_labels_are_kept_and_escaped(text, tmp_path):
    m = weeks(1)[0]
    named = hl.TabularMDP.from_transitions(
        m.transitions,
        gamma=m.gamma,
        reward_range=m.reward_range,
        action_names=[text, "b", "c", "d"],
    )
    agent = hl.LRMax(d_max=1.0, **OPTIONS)
    hl.learn(agent, named, **BUDGET, label=text)
    agent.memory.save(tmp_path / "memory")
    memory = hl.TaskMemory.load(tmp_path / "memory")
    assert memory.action_names[0] == memory.sources[0].label == text
    agent.begin_task()
    explanation = agent.explain()
    for shown in (repr(memory), repr(explanation), explanation.why(0, 0), repr(memory.sources[0])):
        assert all(line.isprintable() for line in shown.splitlines())
    assert len(repr(memory).splitlines()) == 2


def test_label_that_is_no_text_or_cannot_be_stored_is_refused_before_the_task_begins():
    agent, m = hl.RMax(**OPTIONS), weeks(1)[0]
    for texts, message in (
        ({"label": 3}, "label is 3: expected a text of at most 200 characters"),
        ({"time": "x" * 201}, "time is .*expected a text of at most 200 characters, or a date"),
    ):
        with pytest.raises(hl.errors.InvalidArgument, match=message):
            hl.learn(agent, m, **BUDGET, **texts)
        assert not agent.in_task
    sizes = {"n_states": m.n_states, "n_actions": m.n_actions, "gamma": m.gamma}
    with pytest.raises(
        hl.errors.InvalidArgument, match=r"label was given, but end_task\(\) of QLearning"
    ):
        hl.learn(hl.QLearning(seed=0, **sizes), m, **BUDGET, label="x")


def test_long_memories_list_their_latest_sources():
    m = grid_world(["SG"], gamma=0.9)
    agent = hl.RMax(n_states=2, n_actions=4, gamma=0.9, n_known=1, seed=0)
    for _ in range(35):
        hl.learn(agent, m, episodes=1, max_steps=1, seed=0)
    lines = repr(agent.memory).splitlines()
    assert lines[1] == "  (5 earlier sources)"
    assert len(lines) == 32


def test_equal_names_are_made_different():
    assert all_different(["a", "b", "a"]) == ("a [0]", "b", "a [2]")
    assert len(set(all_different(["a", "a", "a [0]"]))) == 3
    assert with_name(3, None) == "3"


@pytest.mark.parametrize("in_environment", [False, True])
def test_task_that_numbers_states_or_actions_in_another_order_is_refused(in_environment):
    names = ["stay", "go"]
    R, T = np.eye(2), np.full((2, 2, 2), 0.5)
    first = hl.TabularMDP(R, T, gamma=0.9, action_names=names)
    for other in (
        hl.TabularMDP(R, T, gamma=0.9, action_names=names[::-1]),
        hl.TabularMDP(R, T, gamma=0.9, state_names=["right", "left"], action_names=names),
    ):
        agent = hl.RMax(n_states=2, n_actions=2, gamma=0.9, n_known=1, seed=0)
        hl.learn(agent, first, episodes=1, max_steps=3, seed=0)
        agent.memory.set_names(state_names=["left", "right"])
        task = other.to_gymnasium() if in_environment else other
        with pytest.raises(
            hl.errors.IncompatibleTasks, match="has the number 0 in this task and 1 in"
        ):
            hl.learn(agent, task, episodes=1, max_steps=3, seed=0)
        renamed = hl.TabularMDP(R, T, gamma=0.9, action_names=["wait", "go"])
        hl.learn(agent, renamed, episodes=1, max_steps=3, seed=0)
        assert agent.memory.action_names == ("wait", "go")


@pytest.mark.parametrize("names", ["ab", ["a", None]])
def test_text_and_missing_names_are_refused(names):
    with pytest.raises(hl.errors.InvalidTask, match="action_names"):
        hl.TabularMDP(np.eye(2), np.full((2, 2, 2), 0.5), gamma=0.9, action_names=names)


def test_label_is_kept_when_an_interrupted_task_is_resumed():
    agent = hl.RMax(n_states=2, n_actions=2, gamma=0.9, n_known=1, seed=0)
    m = hl.TabularMDP(np.eye(2), np.full((2, 2, 2), 0.5), gamma=0.9)

    def stop(done, episodes):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        hl.learn(agent, m, episodes=5, max_steps=3, seed=0, label="Lyon", callback=stop)
    hl.learn(agent, m, episodes=5, max_steps=3, seed=0, resume=True, time="week 12")
    assert agent.memory.sources[0].name == "1 (Lyon, week 12)"


def test_refutation_names_both_tasks():
    tasks = [hl.grid_world(["S.G"], gamma=0.9, goal_rewards=reward) for reward in (1.0, 0.4)]
    nearness = hl.Nearness(rewards=0.1, transitions=0.0)
    agent = hl.NearRMax(
        nearness=nearness, n_states=3, n_actions=4, gamma=0.9, n_known=1, exact=True, seed=0
    )
    hl.learn(agent, tasks[0], episodes=30, max_steps=10, seed=0, label="Lyon")
    with pytest.warns(
        hl.errors.RefutedKnowledgeWarning, match=r"tasks 1 \(Lyon\) and 2 \(Paris\) differ"
    ):
        hl.learn(agent, tasks[1], episodes=30, max_steps=10, seed=0, label="Paris")


def test_memory_counts_pairs_that_exist():
    available = [[True, False], [True, True]]
    m = hl.TabularMDP(np.eye(2), np.full((2, 2, 2), 0.5), gamma=0.9, available=available)
    agent = hl.RMax(n_states=2, n_actions=2, gamma=0.9, n_known=1, seed=0)
    hl.learn(agent, m, episodes=20, max_steps=10, seed=0)
    assert "task 1: 3 of 3 pairs known" in repr(agent.memory)
    assert "0 of 3 pairs known in at least two" in repr(hl.audit(agent.memory))
