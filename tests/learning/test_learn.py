"""`learn`: records, episodes, callbacks, interruptions and invalid arguments."""

import gymnasium as gym
import numpy as np
import pytest

import heirloom as hl
from heirloom.transfer.lipschitz import all_sources
from tests.domains import corridor, one_state

M = hl.garnet(30, 3, branching=3, gamma=0.9, seed=0)
OPTIONS = {"n_states": 30, "n_actions": 3, "gamma": 0.9, "n_known": 2}


def agent(**options):
    return hl.RMax(**{**OPTIONS, "seed": 0, **options})


def test_record_has_one_return_per_episode_and_one_step_per_update():
    record = hl.learn(agent(), M, episodes=50, max_steps=7, seed=0)
    assert record.returns.shape == record.discounted_returns.shape == (50,)
    assert record.n_steps == 350
    assert (np.diff(record.update_steps) > 0).all()
    assert (record.discounted_returns <= record.returns).all()
    assert repr(record).startswith("Record(50 episodes, 350 steps, ")


def test_returns_are_the_plain_and_the_discounted_sum_of_rewards():
    """1 + 1 + 1 = 3; discounted, 1 + 0.9 + 0.81 = 2.71."""
    learner = hl.RMax(n_states=1, n_actions=1, gamma=0.9, n_known=1)
    task = hl.TabularMDP([[1.0]], [[[1.0]]], gamma=0.9)
    record = hl.learn(learner, task, episodes=2, max_steps=3, seed=0)
    assert record.returns.tolist() == [3, 3]
    assert record.discounted_returns == pytest.approx([2.71, 2.71])
    assert record.update_steps.tolist() == [1]


def test_episodes_of_a_terminating_task_need_no_max_steps():
    m = corridor(5, 0.9).task
    learner = hl.RMax(n_states=5, n_actions=2, gamma=0.9, n_known=1, seed=0)
    record = hl.learn(learner, m, episodes=30, seed=0)
    assert record.returns.tolist() == [1] * 30
    assert record.n_steps < 30 * 30


def test_learn_stores_the_task_in_the_memory():
    learner = agent()
    hl.learn(learner, M, episodes=50, max_steps=7, seed=0)
    (source,) = learner.memory.sources
    assert np.array_equal(source.Q, learner.Q.ravel())
    assert np.array_equal(source.known, learner.known.ravel())
    assert repr(learner.memory).startswith(
        "TaskMemory(n_states=30, n_actions=3, tasks seen: 1, kept"
    )


@pytest.mark.parametrize("env", [M, M.to_gymnasium()], ids=["compiled", "step by step"])
class TestProgress:
    def test_callback_gets_increasing_numbers_of_episodes_and_does_not_change_results(self, env):
        calls = []
        record = hl.learn(
            agent(),
            env,
            episodes=250,
            max_steps=7,
            seed=0,
            callback=lambda done, total: calls.append((done, total)),
        )
        assert calls[-1] == (250, 250)
        assert [done for done, _ in calls] == sorted({done for done, _ in calls})
        assert len(calls) >= 100
        without_callback = hl.learn(agent(), env, episodes=250, max_steps=7, seed=0)
        assert np.array_equal(record.returns, without_callback.returns)

    def test_interrupted_task_can_be_resumed(self, env):
        """The agent keeps what it learned before the interruption, and stores one task."""

        class Stop(Exception):
            pass

        def stop(done, total):
            if done >= 20:
                raise Stop

        learner = agent()
        with pytest.raises(Stop):
            hl.learn(learner, env, episodes=100, max_steps=7, seed=0, callback=stop)
        counts = learner.model.counts.copy()
        assert counts.sum() > 0
        assert learner.memory.n_tasks == 0
        with pytest.raises(hl.errors.WrongOrder, match=r"begin_task\(\) was called within a task"):
            hl.learn(learner, env, episodes=80, max_steps=7, seed=1)
        hl.learn(learner, env, episodes=80, max_steps=7, seed=1, resume=True)
        assert (learner.model.counts >= counts).all()
        assert learner.memory.n_tasks == 1
        with pytest.raises(hl.errors.WrongOrder, match="no task to resume"):
            hl.learn(learner, env, episodes=80, max_steps=7, seed=1, resume=True)


@pytest.mark.parametrize("env", [M, M.to_gymnasium()], ids=["compiled", "step by step"])
def test_callback_is_called_after_the_last_episode_of_an_agent_that_refines_bounds(env):
    """Compiled code returns at each update; a pair may become known in the very last step."""
    for seed in range(10):
        learner = hl.LRMax(d_max=0.5, **{**OPTIONS, "n_known": 1}, seed=seed)
        hl.learn(learner, env, episodes=3, max_steps=5, seed=seed)
        calls = []
        hl.learn(
            learner,
            env,
            episodes=4,
            max_steps=1,
            seed=seed,
            callback=lambda done, total, calls=calls: calls.append(done),
        )
        assert calls == [1, 2, 3, 4]


def test_interrupted_update_is_completed_by_resume():
    """Bounds and Q are updated for a pair that became known just before the interruption."""

    class Interrupted(hl.bounds.Constant):
        interrupts = False

        def begin_task(self, setting, model, memory):
            super().begin_task(setting, model, memory)
            return True

        def refine(self, change):
            if self.interrupts:
                self.interrupts = False
                raise KeyboardInterrupt
            self.refined_pairs.append(change.pair)
            return super().refine(change)

    bound = Interrupted()
    bound.refined_pairs = []
    learner = hl.OptimisticAgent(bounds=[bound], **OPTIONS, seed=0)
    learner.begin_task()
    bound.interrupts = True
    learner.observe(0, 0, 0.0, 0, terminated=False)
    with pytest.raises(KeyboardInterrupt):
        learner.observe(0, 0, 0.0, 0, terminated=False)
    assert learner.known[0, 0]
    assert learner.Q[0, 0] == pytest.approx(10)
    assert bound.refined_pairs == []
    learner.task.resume()
    assert bound.refined_pairs == [0]
    assert learner.Q[0, 0] == pytest.approx(9)


def test_rmax_solves_frozen_lake_as_environment_and_as_exact_model():
    env = gym.make("FrozenLake-v1", is_slippery=False)
    options = {"n_states": 16, "n_actions": 4, "gamma": 0.95, "n_known": 1, "seed": 0}
    record = hl.learn(hl.RMax(**options), env, episodes=200, seed=0)
    assert (record.returns[-20:] == 1).all()
    m = hl.TabularMDP.from_gymnasium(env, gamma=0.95)
    record = hl.learn(hl.RMax(**options), m, episodes=200, max_steps=100, seed=0)
    assert (record.returns[-20:] == 1).all()


@pytest.mark.parametrize(
    ("env", "options", "error", "message"),
    [
        (
            one_state(0.9, 1.0).task,
            {},
            hl.errors.IncompatibleTasks,
            "the task has 1 state and 1 action",
        ),
        (M, {"gamma": 0.5}, hl.errors.IncompatibleTasks, "gamma is 0.5 for the agent and 0.9"),
        (
            M,
            {"reward_range": (0, 0.1)},
            hl.errors.IncompatibleTasks,
            "outside the agent's reward_range",
        ),
        (gym.make("CartPole-v1"), {}, hl.errors.UnsupportedEnvironment, "observation space"),
        (gym.make("FrozenLake-v1"), {}, hl.errors.IncompatibleTasks, "the task has 16 states"),
        (None, {}, hl.errors.UnsupportedEnvironment, "not a Gymnasium environment"),
    ],
)
def test_task_that_does_not_fit_the_agent_is_rejected(env, options, error, message):
    learner = agent(**options)
    with pytest.raises(error, match=message):
        hl.learn(learner, env, episodes=1, max_steps=1, seed=0)
    assert not learner.in_task


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"episodes": 0}, "episodes is 0"),
        ({"max_steps": 0}, "max_steps is 0"),
        ({"max_steps": None}, "the task never terminates: give max_steps"),
        ({"episodes": 1.5}, "episodes is 1.5"),
        ({"seed": -1}, "seed is -1"),
        ({"seed": np.random.default_rng(0)}, "seed is Generator"),
    ],
)
def test_invalid_arguments_are_rejected(options, message):
    learner = agent()
    with pytest.raises(hl.errors.InvalidArgument, match=message):
        hl.learn(learner, M, **{"episodes": 1, "max_steps": 1, "seed": 0, **options})
    assert not learner.in_task


def test_update_interrupted_while_the_model_grows_is_completed_by_resume(monkeypatch):
    """The bound replaces all arrays of the model at once, so it never mixes old and new ones."""
    ring = np.roll(np.eye(300), 1, axis=1)[:, None, :]
    m = hl.TabularMDP(np.linspace(0, 1, 300)[:, None], ring, gamma=0.9, start=0)
    options = {"n_states": 300, "n_actions": 1, "gamma": 0.9, "n_known": 1}
    length = {"episodes": 40, "max_steps": 20, "seed": 0}
    uninterrupted, agent = (hl.LRMax(d_max=0.05, seed=0, **options) for _ in range(2))
    for learner in (uninterrupted, agent):
        hl.learn(learner, m, **length)
    of_task = all_sources._models_of_task
    interrupted = []

    def interrupt_once(arrays, index):
        if arrays.p.size > 256 and not interrupted:
            interrupted.append(True)
            raise KeyboardInterrupt
        return of_task(arrays, index)

    agent.begin_task()
    env = m.to_gymnasium()
    s, _ = env.reset(seed=0)
    monkeypatch.setattr(all_sources, "_models_of_task", interrupt_once)
    steps = []
    for _ in range(400):
        s_next, r, *_ = env.step(0)
        steps.append((s, 0, float(r), int(s_next)))
        try:
            agent.observe(*steps[-1], terminated=False)
        except KeyboardInterrupt:
            agent.task.resume()
        s = s_next
    assert interrupted
    uninterrupted.begin_task()
    for step in steps:
        uninterrupted.observe(*step, terminated=False)
    np.testing.assert_allclose(uninterrupted.U, agent.U, atol=1e-8)
    np.testing.assert_allclose(uninterrupted.Q, agent.Q, atol=1e-8)
