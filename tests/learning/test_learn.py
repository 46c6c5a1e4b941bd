"""`learn`: episodes, limits, interruptions, environments."""

import gymnasium as gym
import numpy as np
import pytest

import heirloom as hl
from heirloom.transfer.lipschitz.known_rows import KnownRows
from tests.domains import corridor, one_state

M = hl.garnet(30, 3, branching=3, gamma=0.9, seed=0)
OPTIONS = {"n_states": 30, "n_actions": 3, "gamma": 0.9, "n_known": 2}


def agent(**options):
    return hl.RMax(**{**OPTIONS, "seed": 0, **options})


def test_a_record_tells_what_happened():
    record = hl.learn(agent(), M, episodes=50, max_steps=7, seed=0)
    assert record.returns.shape == record.discounted_returns.shape == (50,)
    assert record.n_steps == 350
    assert (np.diff(record.update_steps) > 0).all()
    assert (record.discounted_returns <= record.returns).all()
    assert repr(record).startswith("Record(50 episodes, 350 steps, ")


def test_discounting():
    """Paid 1 a step for three steps."""
    one = hl.RMax(n_states=1, n_actions=1, gamma=0.9, n_known=1)
    task = hl.TabularMDP([[1.0]], [[[1.0]]], gamma=0.9)
    record = hl.learn(one, task, episodes=2, max_steps=3, seed=0)
    assert record.returns.tolist() == [3, 3]
    assert record.discounted_returns == pytest.approx([2.71, 2.71])
    assert record.update_steps.tolist() == [1]


def test_episodes_end_by_themselves():
    m = corridor(5, 0.9).task
    walker = hl.RMax(n_states=5, n_actions=2, gamma=0.9, n_known=1, seed=0)
    record = hl.learn(walker, m, episodes=30, seed=0)
    assert record.returns.tolist() == [1] * 30
    assert record.n_steps < 30 * 30


def test_a_task_is_stored_at_its_end():
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
    def test_a_callback_is_told_of_episodes(self, env):
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
        silent = hl.learn(agent(), env, episodes=250, max_steps=7, seed=0)
        assert np.array_equal(record.returns, silent.returns)

    def test_an_interrupted_task_is_gone_on_with(self, env):
        """What was learned before the interruption is still there, and the task is one task."""

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
        with pytest.raises(hl.WrongOrder, match="a task is going on"):
            hl.learn(learner, env, episodes=80, max_steps=7, seed=1)
        hl.learn(learner, env, episodes=80, max_steps=7, seed=1, resume=True)
        assert (learner.model.counts >= counts).all()
        assert learner.memory.n_tasks == 1
        with pytest.raises(hl.WrongOrder, match="no task to resume"):
            hl.learn(learner, env, episodes=80, max_steps=7, seed=1, resume=True)


@pytest.mark.parametrize("env", [M, M.to_gymnasium()], ids=["compiled", "step by step"])
def test_a_callback_is_told_of_the_last_episode_also_by_agents_that_pause(env):
    """A pair may become known in the very last step."""
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


def test_an_update_that_was_interrupted_is_made_up_for():
    """A pair that became known just before an interruption is settled when the task goes on."""

    class Fragile(hl.Constant):
        broken = False

        def begin_task(self, setting, model, memory):
            super().begin_task(setting, model, memory)
            return True

        def refine(self, change):
            if self.broken:
                self.broken = False
                raise KeyboardInterrupt
            self.told.append(change.pair)
            return super().refine(change)

    bound = Fragile()
    bound.told = []
    learner = hl.OptimisticAgent(bounds=[bound], **OPTIONS, seed=0)
    learner.begin_task()
    bound.broken = True
    learner.observe(0, 0, 0.0, 0, terminated=False)
    with pytest.raises(KeyboardInterrupt):
        learner.observe(0, 0, 0.0, 0, terminated=False)
    assert learner.known[0, 0]
    assert learner.Q[0, 0] == pytest.approx(10)
    assert bound.told == []
    learner.task.resume()
    assert bound.told == [0]
    assert learner.Q[0, 0] == pytest.approx(9)


def test_gymnasium_environments():
    """FrozenLake without slipping is learned, by steps and from its exact model."""
    env = gym.make("FrozenLake-v1", is_slippery=False)
    options = {"n_states": 16, "n_actions": 4, "gamma": 0.95, "n_known": 1, "seed": 0}
    by_steps = hl.RMax(**options)
    record = hl.learn(by_steps, env, episodes=200, seed=0)
    assert (record.returns[-20:] == 1).all()
    m = hl.TabularMDP.from_gymnasium(env, gamma=0.95)
    record = hl.learn(hl.RMax(**options), m, episodes=200, max_steps=100, seed=0)
    assert (record.returns[-20:] == 1).all()


@pytest.mark.parametrize(
    ("env", "options", "error", "message"),
    [
        (one_state(0.9, 1.0).task, {}, hl.IncompatibleTasks, "the task has 1 states and 1 actions"),
        (M, {"gamma": 0.5}, hl.IncompatibleTasks, "gamma is 0.5 for the agent and 0.9"),
        (
            M,
            {"reward_range": (0, 0.1)},
            hl.IncompatibleTasks,
            "outside of the agent's reward_range",
        ),
        (gym.make("CartPole-v1"), {}, hl.UnsupportedEnvironment, "observation space"),
        (gym.make("FrozenLake-v1"), {}, hl.IncompatibleTasks, "the task has 16 states"),
        (None, {}, hl.UnsupportedEnvironment, "not a Gymnasium environment"),
    ],
)
def test_tasks_that_do_not_fit(env, options, error, message):
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
def test_bad_arguments(options, message):
    learner = agent()
    with pytest.raises(hl.InvalidArgument, match=message):
        hl.learn(learner, M, **{"episodes": 1, "max_steps": 1, "seed": 0, **options})
    assert not learner.in_task


def test_an_update_interrupted_while_the_model_grows_is_made_up_for(monkeypatch):
    """The arrays of a larger model are taken as a whole, or not at all."""
    ring = np.roll(np.eye(300), 1, axis=1)[:, None, :]
    m = hl.TabularMDP(np.linspace(0, 1, 300)[:, None], ring, gamma=0.9, start=0)
    options = {"n_states": 300, "n_actions": 1, "gamma": 0.9, "n_known": 1}
    length = {"episodes": 40, "max_steps": 20, "seed": 0}
    plain, agent = (hl.LRMax(d_max=0.05, seed=0, **options) for _ in range(2))
    for one in (plain, agent):
        hl.learn(one, m, **length)
    of_task = KnownRows.of_task
    interrupted = []

    def fragile(arrays, index):
        if arrays.p.size > 256 and not interrupted:
            interrupted.append(True)
            raise KeyboardInterrupt
        return of_task(arrays, index)

    agent.begin_task()
    env = m.to_gymnasium()
    s, _ = env.reset(seed=0)
    monkeypatch.setattr(KnownRows, "of_task", fragile)
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
    plain.begin_task()
    for step in steps:
        plain.observe(*step, terminated=False)
    np.testing.assert_allclose(plain.U, agent.U, atol=1e-8)
    np.testing.assert_allclose(plain.Q, agent.Q, atol=1e-8)
