"""`certify`: returns of one fixed policy, which are never worth more than the policy."""

import math

import gymnasium as gym
import numpy as np
import pytest

import heirloom as hl
from heirloom.agents.candidates import best
from heirloom.errors import InvalidArgument, InvalidFile, InvalidTask, WrongOrder
from heirloom.storage import archive
from heirloom.transfer.memory_file import packed
from tests.domains import chain
from tests.strategies import (
    draw_available,
    draw_task,
    draw_transition_rewards,
    restricted,
    seeds,
)
from tests.streams import most

# Some of the random tasks have rewards of very different sizes.
pytestmark = pytest.mark.filterwarnings("ignore:mean rewards so far")


def agent_for(m, kind=hl.RMax, **options):
    of_task = {"n_states": m.n_states, "n_actions": m.n_actions, "gamma": m.gamma}
    of_task |= {"reward_range": m.reward_range, "terminating": m.terminating, "seed": 0}
    return kind(**of_task | options)


def drawn(seed):
    """Return a random task, which may terminate, lack actions and have negative rewards."""
    rng = np.random.default_rng(seed)
    m = draw_transition_rewards(rng) if rng.random() < 0.3 else draw_task(rng)
    return restricted(m, draw_available(rng, m)) if rng.random() < 0.4 else m


def value_of(m, policy):
    return float(m.start @ hl.evaluate(m, policy).V)


def the_candidate(agent):
    (candidate,) = agent.task.candidates
    return candidate


def loop(r, *, ends=False):
    """A task of one state, in which every step has the reward r, and may end the episode."""
    options = {"terminates": [0]} if ends else {}
    return hl.TabularMDP(
        R=[[r]], T=[[[1.0]]], gamma=0.9, reward_range=(min(r, 0), max(r, 0)), **options
    )


@pytest.mark.parametrize("seed", seeds(100))
def test_returns_are_on_average_worth_the_policy_at_most_and_what_is_cut_less(seed):
    m = drawn(seed)
    agent = agent_for(m, (hl.RMax, hl.UCBVI, hl.PSRL)[seed % 3])
    hl.learn(agent, m, episodes=5, max_steps=5, seed=seed)
    steps = (1, 4, 30)[seed % 3]
    hl.certify(agent, m, episodes=300, max_steps=steps, seed=seed)
    one = the_candidate(agent)
    x, value = np.array(one.returns), value_of(m, one.policy)
    noise = 5 * x.std() / math.sqrt(x.size) + 5 * (one.high - one.low) / x.size
    scale = max(abs(one.low), abs(one.high))
    assert one.low - 1e-9 * scale <= x.min()
    assert x.max() <= one.high + 1e-9 * scale
    assert x.mean() <= value + noise
    rest = m.gamma**steps * (hl.solve(m).V.max() - one.low)
    assert x.mean() >= value - rest - noise - 1e-9 * scale


def failures(n, delta):
    """Return in how many tasks a lower bound exceeds the value, after any number of episodes."""
    failed = 0
    for seed in range(n):
        m = drawn(seed)
        agent = agent_for(m)
        hl.learn(agent, m, episodes=3, max_steps=5, seed=seed)
        hl.certify(agent, m, episodes=30, max_steps=8, seed=seed)
        for one in agent.task.candidates:
            failed += one.lower(delta) > value_of(m, one.policy) + 1e-9
    return failed


def test_lower_bounds_exceed_values_in_few_tasks():
    assert failures(60, 1.0) <= most(3 / math.pi**2, 60)  # the share of the first candidate


@pytest.mark.slow
def test_lower_bounds_exceed_values_in_few_of_many_tasks():
    assert failures(1500, 1.0) <= most(3 / math.pi**2, 1500)


def test_lower_bound_comes_close_to_the_value_of_the_policy():
    m = chain(0.1)
    agent = agent_for(m)
    hl.learn(agent, m, episodes=200, max_steps=20, seed=0)
    hl.certify(agent, m, episodes=1000, max_steps=150, seed=0)
    one = the_candidate(agent)
    value = value_of(m, one.policy)
    assert 0 < 0.9 * value < one.lower(0.05) < value


def test_cut_episode_with_negative_rewards_counts_with_the_smallest_value_of_the_rest():
    m = loop(-1.0)
    agent = agent_for(m)
    agent.begin_task()
    hl.certify(agent, m, episodes=50, max_steps=3)
    one = the_candidate(agent)
    assert one.returns == pytest.approx([-10.0] * 50)
    assert one.lower(0.05) == one.low == pytest.approx(-10.0)


def test_nothing_is_added_after_an_end():
    m = loop(-1.0, ends=True)
    agent = agent_for(m)
    agent.begin_task()
    hl.certify(agent, m, episodes=200, max_steps=3)
    one = the_candidate(agent)
    assert one.returns == [-1.0] * 200
    assert -1.5 < one.lower(0.05) < -1.0


def test_steps_within_a_task_are_observed_by_the_agent():
    m = chain(0.1)
    agent = agent_for(m)
    agent.begin_task()
    hl.certify(agent, m, episodes=10, max_steps=20, seed=0)
    assert agent.model.own_counts.sum() == 200
    assert agent.known.any()
    agent.end_task()
    assert agent.memory.visits.counts.sum() == 200


def test_steps_after_the_end_of_a_task_count_in_its_model_and_change_nothing_else():
    m = chain(0.1)
    agent = agent_for(m)
    hl.learn(agent, m, episodes=50, max_steps=20, seed=0)
    before, Q = packed(agent.memory), agent.Q.copy()
    wide = agent.certificate(start=0, successors=hl.family_nearness([m]).successors)
    narrow = hl.certify(
        *(agent, m),
        **{"start": 0, "successors": hl.family_nearness([m]).successors},
        **{"episodes": 200, "max_steps": 20, "seed": 0},
    )
    assert agent.model.own_counts.sum() == 1000 + 4000
    assert narrow.optimum_at_most <= wide.optimum_at_most
    np.testing.assert_array_equal(agent.Q, Q)
    after = packed(agent.memory)
    assert after.header == before.header | {"n_candidates": 1}
    for name, array in before.arrays.items():
        np.testing.assert_array_equal(after.arrays[name], array)


def test_same_seed_gives_the_same_bits_and_each_call_its_own_episodes():
    m, found = chain(0.2), []
    options = {"policy": hl.solve(m).policy, "episodes": 20, "max_steps": 10, "seed": 7}
    for env in (m, m, m.to_gymnasium()):
        agent = agent_for(m)
        hl.learn(agent, m, episodes=20, max_steps=10, seed=7)
        for _ in range(2):
            hl.certify(agent, env, **options)
        found.append(the_candidate(agent).returns)
    assert found[0] == found[1] == found[2]
    assert len(found[0]) == 40
    assert found[0][:20] != found[0][20:]


def test_same_policy_start_and_time_limit_continue_a_candidate_and_others_are_new():
    m = chain(0.1)
    agent = agent_for(m)
    agent.begin_task()
    options = {"episodes": 2, "max_steps": 5, "seed": 0, "policy": np.zeros(5, dtype=int)}
    for changed in ({}, {}, {"policy": [0] * 5}, {"start": 0}, {"start": np.eye(5)[0]}):
        hl.certify(agent, m, **options | changed)
    hl.certify(agent, m, **options | {"policy": [1] * 5})
    hl.certify(agent, m, **options | {"max_steps": 6})
    assert [(one.number, len(one.returns)) for one in agent.task.candidates] == [
        *((1, 6), (2, 4), (3, 2), (4, 2))
    ]


def test_numbers_of_candidates_go_on_over_tasks_and_files(tmp_path):
    m = chain(0.1)
    agent = agent_for(m)
    options = {"episodes": 1, "max_steps": 5}
    agent.begin_task()
    hl.certify(agent, m, policy=[0] * 5, **options)
    hl.certify(agent, m, policy=[1] * 5, **options)
    agent.drop_task()
    agent.begin_task()
    assert agent.task.candidates == []
    hl.certify(agent, m, policy=[0] * 5, **options)
    agent.end_task()
    assert the_candidate(agent).number == 3
    agent.save(tmp_path / "agent.heirloom")
    agent.memory.save(tmp_path / "memory.heirloom")
    loaded = hl.RMax.load(tmp_path / "agent.heirloom")
    other = agent_for(m, memory=hl.TaskMemory.load(tmp_path / "memory.heirloom"))
    for one in (loaded, other):
        one.begin_task()
        hl.certify(one, m, **options)
        assert the_candidate(one).number == 4


@pytest.mark.parametrize("wrong", [-1, 0.5, None, "absent"])
def test_file_with_a_wrong_number_of_candidates_is_refused(wrong, tmp_path):
    content = packed(hl.TaskMemory(2, 2))
    content.header["n_candidates"] = wrong
    if wrong == "absent":
        del content.header["n_candidates"]
    archive.write(tmp_path / "memory.heirloom", "memory", content)
    with pytest.raises(InvalidFile, match="n_candidates"):
        hl.TaskMemory.load(tmp_path / "memory.heirloom")


class Failing(gym.Wrapper):
    """Raises an error in the second step of the third episode."""

    def __init__(self, env, error):
        super().__init__(env)
        self.error, self.episodes, self.steps = error, 0, 0

    def reset(self, **options):
        self.episodes, self.steps = self.episodes + 1, 0
        return super().reset(**options)

    def step(self, action):
        self.steps += 1
        if (self.episodes, self.steps) == (3, 2):
            raise self.error
        return super().step(action)


@pytest.mark.parametrize("error", [RuntimeError("no answer"), KeyboardInterrupt()])
def test_episode_that_fails_counts_with_the_smallest_return(error):
    m = chain(0.1)
    agent, env = agent_for(m), Failing(m.to_gymnasium(), error)
    agent.begin_task()
    with pytest.raises(type(error)) as raised:
        hl.certify(agent, env, policy=[1] * 5, episodes=10, max_steps=20)
    one = the_candidate(agent)
    assert one.returns[2] == one.low
    assert len(one.returns) == 3
    if isinstance(error, Exception):
        assert "step 2 of episode 3" in raised.value.__notes__[0]
    hl.certify(agent, env, policy=[1] * 5, episodes=10, max_steps=20)
    assert len(one.returns) == 13


def test_reward_outside_the_range_is_refused_within_and_after_a_task():
    m = chain(0.1)
    env = gym.wrappers.TransformReward(m.to_gymnasium(), lambda r: r + 2.0)
    agent = agent_for(m)
    agent.begin_task()
    for _ in range(2):
        with pytest.raises(InvalidArgument, match="outside the agent's reward_range"):
            hl.certify(agent, env, policy=[0] * 5, episodes=1, max_steps=3)
        if agent.in_task:
            agent.end_task()
    assert the_candidate(agent).returns == [0.0, 0.0]
    assert agent.model.own_counts.sum() == 0


@pytest.mark.parametrize("start", [1, [0.0, 0.5, 0.5, 0.0, 0.0]])
def test_start_that_episodes_contradict_is_refused(start):
    m = chain(0.1)
    agent = agent_for(m)
    agent.begin_task()
    with pytest.raises(InvalidArgument, match=r"began in state 0, which has probability 0 in st"):
        hl.certify(agent, m, start=start, episodes=2, max_steps=3)
    hl.certify(agent, m, start=0, episodes=2, max_steps=3)
    declared = best(agent.task.candidates, np.eye(5)[0], 0.05)
    assert declared.number == 2
    assert len(declared.returns) == 2


def test_default_policy_is_the_better_one_by_estimate_and_is_continued():
    m = chain(0.1)
    agent = agent_for(m)
    hl.learn(agent, m, episodes=200, max_steps=20, seed=0)
    options = {"max_steps": 30, "seed": 0, "start": 0}
    options["successors"] = hl.family_nearness([m]).successors
    for _ in range(3):
        hl.certify(agent, m, episodes=20, **options)
    one = the_candidate(agent)
    assert len(one.returns) == 60
    estimated = agent.model.to_mdp(gamma=m.gamma, unknown="pessimistic", terminating=False)
    values = [
        hl.evaluate(estimated, policy).V[0]
        for policy in (agent.policy, agent.certificate(start=0).policy)
    ]
    assert hl.evaluate(estimated, one.policy).V[0] >= max(values) - 1e-6
    assert not one.policy.flags.writeable


def test_much_better_policy_replaces_an_earlier_one():
    m = chain(0.1)
    agent = agent_for(m)
    agent.begin_task()
    hl.certify(agent, m, policy=[1] * 5, episodes=1, max_steps=20, seed=0)
    for i in range(20):
        hl.certify(agent, m, policy=[i % 2] * 5, episodes=20, max_steps=20, seed=0)
    hl.certify(agent, m, episodes=1, max_steps=20, start=0, seed=0)
    best_policy = hl.solve(m).policy
    assert value_of(m, agent.task.candidates[-1].policy) >= 0.9 * value_of(m, best_policy)


def masked():
    """A task of three states in a ring; in state 1 only action 1 exists."""
    T = np.zeros((3, 2, 3))
    T[[0, 1, 2], :, [1, 2, 0]] = 1.0
    available = np.array([[True, True], [False, True], [True, True]])
    return hl.TabularMDP(R=np.full((3, 2), 0.5), T=T, gamma=0.9, start=0, available=available)


@pytest.mark.parametrize("is_exact", [True, False])
@pytest.mark.parametrize("has_ended", [True, False])
def test_actions_that_do_not_exist_are_replaced_by_the_first_one_that_does(is_exact, has_ended):
    """The mask of state 1 is observed only when the policy reaches it."""
    m = masked()
    env = m if is_exact else m.to_gymnasium()
    agent = agent_for(m)
    agent.begin_task()
    if has_ended:
        agent.end_task()
    options = {"episodes": 2, "max_steps": 4, "masks": not is_exact}
    hl.certify(agent, env, policy=[0, 0, 0], **options)
    with pytest.raises(InvalidArgument, match="action 0 is not available in state 1"):
        hl.certify(agent, env, policy=[0, 0, 0], **options)
    hl.certify(agent, env, policy=[0, 1, 0], **options)
    one = the_candidate(agent)
    assert one.policy.tolist() == [0, 1, 0]
    assert len(one.returns) == 4
    assert agent.model.own_counts[1].tolist() == [0, 4]
    hl.certify(agent, env, **options)
    assert len(one.returns) == 6


class Own:
    def begin_task(self): ...

    def act(self, s):
        return 0

    def observe(self, s, a, r, s_next, *, terminated): ...

    def end_task(self): ...


def test_agents_without_a_model_are_refused():
    m = chain(0.1)
    table = hl.QLearning(n_states=5, n_actions=2, gamma=m.gamma, seed=0)
    for agent in (table, Own(), None):
        with pytest.raises(InvalidArgument, match=r"agent is .*: expected an agent that counts"):
            hl.certify(agent, m, episodes=1, max_steps=3)


def test_agent_without_a_task_is_refused():
    m = chain(0.1)
    with pytest.raises(WrongOrder, match="begin_task"):
        hl.certify(agent_for(m), m, episodes=1, max_steps=3)


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ({"policy": [0, 0]}, InvalidArgument, "policy has shape"),
        ({"policy": [0, 0, 0, 0, 2]}, InvalidArgument, r"policy\[4\] is 2"),
        ({"policy": np.full((5, 2), 0.5)}, InvalidArgument, "expected one action per state"),
        ({"policy": np.zeros(5)}, InvalidArgument, "policy has shape"),
        ({"episodes": 0}, InvalidArgument, "episodes is 0"),
        ({"max_steps": None}, InvalidArgument, "max_steps is None"),
        ({"delta": 0}, InvalidArgument, "delta is 0"),
        ({"start": 7}, InvalidTask, "start is state 7"),
        ({"masks": 1}, InvalidArgument, "masks is 1"),
        ({"seed": -1}, InvalidArgument, "seed is -1"),
        ({"rewards": "known"}, InvalidArgument, "rewards"),
        ({"prices": 1}, TypeError, "prices"),
    ],
)
def test_bad_input_is_refused_before_an_episode_begins(wrong, error, message):
    m = chain(0.1)
    agent = agent_for(m)
    agent.begin_task()
    with pytest.raises(error, match=message):
        hl.certify(agent, m, **{"episodes": 1, "max_steps": 3} | wrong)
    assert agent.task.candidates == []
    assert agent.memory.n_candidates == 0
    assert agent.model.own_counts.sum() == 0


def test_start_that_the_agent_was_told_is_that_of_rollouts():
    m = chain(0.1)
    agent = agent_for(m, start=0)
    hl.learn(agent, m, episodes=30, max_steps=20, seed=0)
    found = hl.certify(agent, m, episodes=100, max_steps=50, seed=0)
    assert found.lower_from == "rollouts"
    assert found.lower == agent.certificate(start=0).lower == agent.certificate().lower


def test_policy_is_chosen_by_all_visits_and_not_by_the_first_estimate_of_the_agent():
    m = hl.TabularMDP(R=[[0.1, 0.5]], T=[[[1.0], [1.0]]], gamma=0.9)
    agent = agent_for(m, n_known=1, refresh=None)
    agent.begin_task()
    for i in range(20):
        agent.observe(0, 0, 1.0 if i == 0 else 0.0, 0, terminated=False)
        agent.observe(0, 1, 0.5, 0, terminated=False)
    assert agent.policy.tolist() == [0]
    hl.certify(agent, m, episodes=1, max_steps=5, seed=0)
    assert the_candidate(agent).policy.tolist() == [1]


def test_candidates_with_other_starts_or_lengths_do_not_stop_learning_until_a_certificate():
    m = hl.TabularMDP(
        R=[[0.1, 0.0], [0.0, 1.0]], T=[[[1, 0], [0, 1]], [[1, 0], [0, 1]]], gamma=0.9, start=0
    )
    options = {
        "successors": np.array([[[1, 0], [0, 1]], [[1, 0], [0, 1]]], dtype=bool),
        "rewards": "per transition",
        "start": 0,
    }
    agent = agent_for(m, hl.CertifiedRMax, terminates=np.zeros((2, 2), dtype=bool), **options)
    agent.begin_task()
    hl.certify(agent, m, policy=[0, 0], episodes=2, max_steps=10, seed=0)
    record = hl.learn(agent, m, episodes=3000, max_steps=80, until=0.05, seed=0, resume=True)
    assert record.is_certified
    assert all(len(one.returns) <= 5 for one in agent.task.candidates if one.policy[0] == 0)
