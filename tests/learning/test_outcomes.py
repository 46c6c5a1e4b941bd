"""What environments return: any type of number works, and anything else is an error in words."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Discrete
from gymnasium.wrappers import TimeLimit

import heirloom as hl

NAN = float("nan")


class Scripted(gym.Env):
    """Goes from state 0 to state 1 and back; `change` replaces parts of its third step."""

    observation_space, action_space = Discrete(4), Discrete(2)

    def __init__(self, **change):
        self.change, self.n = change, 0

    def reset(self, *, seed=None, options=None):
        self.s = 0
        return self.change.get("reset", (0, {}))

    def step(self, action):
        self.s, self.n = 1 - self.s, self.n + 1
        usual = {"observation": self.s, "reward": 0.5, "terminated": False, "truncated": False}
        if self.n != 3:
            return (*usual.values(), {})
        usual |= {"info": {}} | self.change
        return usual.get("step", tuple(usual[name] for name in (*list(usual)[:4], "info")))


class First:
    """Takes the first action, and keeps what it observes."""

    def begin_task(self):
        self.seen = []

    def act(self, s):
        assert type(s) is int
        return 0

    def observe(self, s, a, r, s_next, *, terminated):
        assert [type(x) for x in (s, a, r, s_next, terminated)] == [int, int, float, int, bool]
        self.seen.append((s_next, r, terminated))

    def end_task(self):
        pass


def agents():
    options = {"n_states": 4, "n_actions": 2, "gamma": 0.9, "seed": 0}
    return [First(), hl.RMax(n_known=5, **options), hl.QLearning(**options)]


@pytest.mark.parametrize(
    ("part", "value", "message"),
    [
        ("observation", 1.5, "1.5 as observation: expected a whole number from 0 to 3"),
        ("observation", "1", "'1' as observation"),
        ("observation", NAN, "nan as observation"),
        ("observation", np.inf, "inf as observation"),
        ("observation", None, "None as observation"),
        ("observation", 4, "4 as observation"),
        ("observation", -1, "-1 as observation"),
        ("observation", np.array([1]), r"array\(\[1\]\) as observation"),
        ("observation", np.array("1"), r"array\('1'.* as observation"),
        ("reward", "1", "'1' as reward: expected a finite number"),
        ("reward", None, "None as reward"),
        ("reward", 1j, "1j as reward"),
        ("reward", np.complex64(1), "as reward"),
        ("reward", NAN, "nan as reward"),
        ("reward", -np.inf, "-inf as reward"),
        ("reward", 10**400, "as reward"),
        ("reward", [0.5], r"\[0.5\] as reward"),
        ("terminated", "no", "'no' as terminated: expected True or False"),
        ("terminated", None, "None as terminated"),
        ("terminated", 2, "2 as terminated"),
        ("truncated", "no", "'no' as truncated"),
        ("info", None, "None as info: expected a dictionary"),
        ("step", (1, 0.5, False, {}), r"step returned \(1, 0.5, False, {}\): expected \(obs"),
        ("step", None, "step returned None"),
    ],
)
@pytest.mark.parametrize("which", range(3))
def test_unexpected_part_of_a_step_is_named_with_the_step(part, value, message, which):
    """The third step is the first one of the second episode, of two steps each."""
    env = Scripted(**{part: value})
    where = r"episode 2, step 1, action \d in state 0: .*"
    with pytest.raises(hl.errors.UnsupportedEnvironment, match=where + message):
        hl.learn(agents()[which], env, episodes=3, max_steps=2, seed=0)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (0, r"reset returned 0: expected \(observation, info\)"),
        ((0, {}, 1), "reset returned"),
        ((0.5, {}), "0.5 as observation"),
        (("0", {}), "'0' as observation"),
        (np.zeros(2), "as info"),
        ((0, None), "None as info"),
    ],
)
def test_unexpected_result_of_reset_is_an_error_that_names_the_episode(value, message):
    with pytest.raises(hl.errors.UnsupportedEnvironment, match="reset of episode 1: .*" + message):
        hl.learn(First(), Scripted(reset=value), episodes=1, max_steps=2)


@pytest.mark.parametrize("part", ["observation", "reward", "terminated", "truncated"])
@pytest.mark.parametrize(
    "kind",
    [int, float, bool, np.int64, np.uint8, np.float32, np.float64, np.bool_, np.array],
)
def test_number_or_truth_value_of_any_type_is_read(part, kind):
    """0 and 1 mean the same in every type, also False and True."""
    agent = First()
    for value in (0, 1):
        hl.learn(agent, Scripted(**{part: kind(value)}), episodes=2, max_steps=2, seed=0)
        wanted = {"observation": 1, "reward": 0.5, "terminated": False, part: value}
        if part != "truncated":
            assert agent.seen[2] == (wanted["observation"], wanted["reward"], wanted["terminated"])
        ended = part in ("terminated", "truncated") and value
        assert len(agent.seen) == (3 if ended else 4)


def test_unexpected_observation_behind_a_wrapper_is_named_with_the_step():
    for value in (1.5, "1", NAN):
        env = hl.wrappers.Numbered(Scripted(observation=value))
        with pytest.raises(
            hl.errors.UnsupportedEnvironment, match=r"episode 2, step 1.*(is not in|NaN)"
        ):
            hl.learn(First(), env, episodes=3, max_steps=2)
    with pytest.raises(
        hl.errors.UnsupportedEnvironment, match=r"episode 2, step 1, .*None as reward"
    ):
        hl.learn(First(), hl.wrappers.Numbered(Scripted(reward=None)), episodes=3, max_steps=2)


def test_observation_that_is_nan_is_no_state_of_its_own():
    env = hl.wrappers.Numbered(Scripted(observation=NAN), n_states=4)
    with pytest.raises(
        hl.errors.UnsupportedEnvironment, match=r"nan cannot be compared.*contains NaN"
    ):
        hl.learn(First(), env, episodes=3, max_steps=2)


def test_agent_can_resume_after_an_unexpected_step():
    env, agent = Scripted(reward=None), agents()[1]
    with pytest.raises(hl.errors.UnsupportedEnvironment, match="still in its task"):
        hl.learn(agent, env, episodes=3, max_steps=2, seed=0)
    hl.learn(agent, env, episodes=3, max_steps=2, resume=True)
    assert agent.memory.n_tasks == 1


def test_environment_without_a_time_limit_needs_max_steps():
    for env in (
        Scripted(),
        hl.wrappers.Numbered(Scripted()),
        gym.make("FrozenLake-v1", max_episode_steps=-1),
    ):
        with pytest.raises(
            hl.errors.InvalidArgument, match=r"declares no time limit.*give max_steps"
        ):
            hl.learn(First(), env, episodes=1)


def test_environment_that_declares_a_time_limit_needs_no_max_steps():
    declared = Scripted()
    declared.step = lambda action: (0, 0.0, False, True, {})
    declared.spec = gym.envs.registration.EnvSpec("Scripted-v0", max_episode_steps=1)
    for env in (
        TimeLimit(Scripted(), 5),
        hl.wrappers.Numbered(TimeLimit(Scripted(), 5)),
        gym.make("FrozenLake-v1"),
        hl.wrappers.Numbered(gym.make("FrozenLake-v1")),
        declared,
    ):
        assert hl.learn(First(), env, episodes=2).returns.size == 2


def test_exact_task_and_its_environment_need_max_steps_alike():
    ends = hl.TabularMDP([[0.0]], [[[1.0]]], gamma=0.9, terminates=[0])
    never = hl.TabularMDP([[0.0]], [[[1.0]]], gamma=0.9)
    for env in (ends, ends.to_gymnasium()):
        assert hl.learn(First(), env, episodes=2).n_steps == 2
    for env in (never, never.to_gymnasium()):
        with pytest.raises(hl.errors.InvalidArgument, match="give max_steps"):
            hl.learn(First(), env, episodes=2)
