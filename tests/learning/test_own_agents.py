"""Agents of one's own in `learn`: the four methods are enough, and two more things are optional."""

import gymnasium as gym
import numpy as np
import pytest

import heirloom as hl
from tests.domains import corridor

M = corridor(5, 0.9).task
TASKS = {
    "task": M,
    "environment": M.to_gymnasium(),
    "with a time limit": M.to_gymnasium(max_episode_steps=3),
}


class FourVerbs:
    """An agent with the four methods, and nothing else."""

    def begin_task(self):
        self.n_seen = 0

    def act(self, s):
        return 1

    def observe(self, s, a, r, s_next, *, terminated):
        self.n_seen += 1

    def end_task(self):
        self.ended = True


class Diary(FourVerbs):
    """An agent that writes down when episodes begin and how steps end."""

    def begin_task(self):
        self.pages = []

    def begin_episode(self):
        self.pages.append([])

    def observe(self, s, a, r, s_next, *, terminated, truncated):
        assert type(terminated) is bool
        assert type(truncated) is bool
        self.pages[-1].append((terminated, truncated))


GO, TERMINATED, TRUNCATED = (False, False), (True, False), (False, True)


@pytest.mark.parametrize("env", TASKS.values(), ids=TASKS)
@pytest.mark.parametrize("record", [None, True])
def test_agent_with_only_four_methods_learns(env, record):
    agent = FourVerbs()
    result = hl.learn(agent, env, episodes=6, max_steps=3, seed=0, record=record)
    assert agent.n_seen == result.n_steps == 18
    assert agent.ended
    assert result.returns.tolist() == [0.0] * 6
    if record:
        assert (result.recording.n_states, result.recording.n_actions) == (5, 2)


def test_discounted_returns_of_an_agent_without_gamma_are_those_of_the_task():
    """The discount factor of an exact task is known, that of an environment is not."""
    exact = hl.learn(FourVerbs(), M, episodes=2, max_steps=9, seed=0)
    assert exact.discounted_returns == pytest.approx([0.9**3] * 2)
    environment = hl.learn(FourVerbs(), M.to_gymnasium(), episodes=2, max_steps=9, seed=0)
    assert environment.returns.tolist() == exact.returns.tolist()
    assert np.isnan(environment.discounted_returns).all()


def test_attributes_that_an_agent_has_are_compared_with_the_task():
    for name, value in (("n_states", 4), ("n_actions", 3), ("gamma", 0.5)):
        agent = FourVerbs()
        setattr(agent, name, value)
        with pytest.raises(hl.errors.IncompatibleTasks, match=str(value)):
            hl.learn(agent, M, episodes=1, max_steps=1)


@pytest.mark.parametrize("verb", ["begin_task", "act", "observe", "end_task"])
def test_missing_method_is_named(verb):
    kind = type("Incomplete", (FourVerbs,), {verb: None})
    with pytest.raises(hl.errors.InvalidArgument, match=f"has no method '{verb}'"):
        hl.learn(kind(), M, episodes=1, max_steps=1)


@pytest.mark.parametrize("env", TASKS.values(), ids=TASKS)
def test_begin_episode_is_called_and_observe_is_given_truncated(env):
    agent = Diary()
    hl.learn(agent, env, episodes=3, max_steps=3, seed=0)
    assert agent.pages == [[GO, GO, TRUNCATED]] * 3


def test_end_of_the_task_is_not_truncation_and_both_can_happen_at_once():
    agent = Diary()
    hl.learn(agent, M, episodes=2, max_steps=9, seed=0)
    assert agent.pages == [[GO, GO, GO, TERMINATED]] * 2
    hl.learn(agent, M, episodes=1, max_steps=4, seed=0)
    limited = Diary()
    hl.learn(limited, M.to_gymnasium(max_episode_steps=4), episodes=1, seed=0)
    assert agent.pages == limited.pages == [[GO, GO, GO, (True, True)]]


def test_truncation_by_the_environment_itself_is_given():
    class Impatient(gym.Wrapper):
        def step(self, action):
            s, r, terminated, _, info = self.env.step(action)
            return s, r, terminated, np.bool_(s == 2), info

    agent = Diary()
    hl.learn(agent, Impatient(M.to_gymnasium()), episodes=1, max_steps=9, seed=0)
    assert agent.pages == [[GO, TRUNCATED]]


def test_begin_episode_of_a_class_derived_from_an_agent_of_heirloom_is_called():
    """Compiled code, which runs `RMax` on exact tasks, would not call it."""

    class Counting(hl.RMax):
        n_episodes = 0

        def begin_episode(self):
            self.n_episodes += 1

    options = {"n_states": 5, "n_actions": 2, "gamma": 0.9, "n_known": 1, "seed": 0}
    agent, plain = Counting(**options), hl.RMax(**options)
    counted, compiled = (
        hl.learn(each, M, episodes=20, max_steps=9, seed=0) for each in (agent, plain)
    )
    assert agent.n_episodes == 20
    assert np.array_equal(counted.returns, compiled.returns)
    assert np.array_equal(agent.Q, plain.Q)


def test_agent_that_passes_any_argument_on_is_not_given_truncated():
    class Outer(FourVerbs):
        def begin_task(self):
            self.inner = FourVerbs()
            self.inner.begin_task()

        def observe(self, *step, **options):
            return self.inner.observe(*step, **options)

    agent = Outer()
    hl.learn(agent, M, episodes=2, max_steps=3, seed=0)
    assert agent.inner.n_seen == 6
