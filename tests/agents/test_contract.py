"""The contract of an agent, for every algorithm of the registry `ALGORITHMS`."""

import gymnasium as gym
import numpy as np
import pytest

import heirloom as hl
from heirloom.agents.algorithm_options import TaskKnowledge
from heirloom.agents.algorithms import ALGORITHMS
from heirloom.envs.inventory import prices

FAMILY = prices()
REQUIRED_OPTIONS = {"n_known": 2, "beta": 1.0}
LENGTH = {"episodes": 10, "max_steps": 20}


def masked_task(seed):
    """Return a task of four states that lacks actions, and terminates now and then."""
    rng = np.random.default_rng(seed)
    available = np.array([[1, 1, 0], [0, 1, 1], [1, 1, 1], [1, 0, 1]], dtype=bool)
    T = np.where(available[:, :, None], rng.dirichlet(np.ones(4), (4, 3)), 0.0)
    R = np.where(available, rng.random((4, 3)), 0.0)
    return hl.TabularMDP(R, T, gamma=0.9, available=available, terminates=[3], start=0)


MASKED = hl.FiniteFamily({"first": masked_task(0), "second": masked_task(1)})


class WithoutTask(gym.Wrapper):
    """An environment that does not say which exact task it simulates."""

    @property
    def unwrapped(self):
        return self


@pytest.fixture(params=ALGORITHMS)
def algorithm(request):
    """The name of an algorithm; a test with this fixture runs once for each of the registry."""
    return request.param


def make(name, seed=0, tasks=3, family=FAMILY):
    """Return an agent with only the required options, and the tasks that it will face."""
    drawn = [family.draw(np.random.default_rng(i)) for i in range(tasks)]
    kind = ALGORITHMS[name]
    fields = kind.options.model_fields
    options = {key: v for key, v in REQUIRED_OPTIONS.items() if key in fields}
    known = TaskKnowledge(
        family.options, family.p_min, lambda: family.d_max, lambda: family.nearness, drawn
    )
    return kind.make(options, known, np.random.default_rng(seed)), drawn


def learned(name, seed=0):
    agent, tasks = make(name, seed)
    records = [hl.learn(agent, m, episodes=10, max_steps=20, seed=i) for i, m in enumerate(tasks)]
    return agent, np.array([record.returns for record in records])


def test_summary_of_an_algorithm_is_one_line(algorithm):
    summary = ALGORITHMS[algorithm].summary
    assert summary.endswith(".")
    assert "\n" not in summary


def test_same_seed_gives_identical_returns_over_several_tasks(algorithm):
    (agent, returns), (_, same_seed), (_, other_seed) = (learned(algorithm, s) for s in (0, 0, 1))
    assert np.isfinite(returns).all()
    assert np.array_equal(returns, same_seed)
    assert not np.array_equal(returns, other_seed)
    assert (agent.n_states, agent.n_actions, agent.gamma) == (11, 6, FAMILY.gamma)


@pytest.mark.parametrize("family", [FAMILY, MASKED], ids=["prices", "masked"])
def test_tasks_and_their_gymnasium_environments_give_identical_results(algorithm, family):
    """Compiled code, for a `TabularMDP`, agrees to the bit with steps in its environment."""
    (agent, tasks), (stepped_agent, _) = (make(algorithm, family=family) for _ in range(2))
    record = {"first": 2, "last": 1}
    for i, m in enumerate(tasks):
        compiled = hl.learn(agent, m, **LENGTH, seed=i, record=record)
        env = m.to_gymnasium()
        stepped = hl.learn(stepped_agent, env, **LENGTH, seed=i, masks=family is MASKED)
        assert np.array_equal(compiled.returns, stepped.returns)
        assert np.array_equal(compiled.discounted_returns, stepped.discounted_returns)
        assert np.array_equal(agent.Q, stepped_agent.Q)


def test_missing_actions_are_never_taken(algorithm):
    agent, tasks = make(algorithm, family=MASKED)
    for i, m in enumerate(tasks):
        assert np.isfinite(hl.learn(agent, m, **LENGTH, seed=i).returns).all()
        assert np.array_equal(agent.Q == -np.inf, ~m.available)
        assert not agent.greedy[~m.available].any()


def test_masks_that_are_seen_state_by_state_are_obeyed(algorithm):
    """The environment refuses missing actions, and only its `info` says which ones exist."""
    agent, tasks = make(algorithm, family=MASKED)
    for i, m in enumerate(tasks):
        env = WithoutTask(m.to_gymnasium())
        hl.learn(agent, env, **LENGTH, seed=i, masks=True)
        seen = (agent.Q == -np.inf).any(axis=1)
        assert np.array_equal(agent.Q[seen] == -np.inf, ~m.available[seen])


def test_saved_agent_continues_with_the_same_bits(algorithm, tmp_path):
    if algorithm == "BisimulationTransfer":
        pytest.skip("it is given the models of all its tasks, which its file would need")
    (agent, tasks), (same, _) = make(algorithm), make(algorithm)
    for i, m in enumerate(tasks[:-1]):
        for one in (agent, same):
            hl.learn(one, m, **LENGTH, seed=i)
    agent.save(tmp_path / "agent.npz")
    loaded = type(agent).load(tmp_path / "agent.npz")
    records = [hl.learn(one, tasks[-1], **LENGTH, seed=9) for one in (loaded, same)]
    assert np.array_equal(records[0].returns, records[1].returns)
    assert np.array_equal(loaded.Q, same.Q)
    assert loaded._uniforms.next() == same._uniforms.next()


def test_one_spec_runs_all_algorithms(tmp_path):
    agents = []
    for name, kind in ALGORITHMS.items():
        fields = kind.options.model_fields
        required = {key: value for key, value in REQUIRED_OPTIONS.items() if key in fields}
        agents.append({"name": name, "algorithm": name, **required})
    options = {"name": "all", "tasks": 2, "episodes": 3, "steps": 5, "repetitions": 1, "seed": 0}
    spec = hl.ExperimentSpec(family={"name": "prices"}, agents=agents, **options)
    result = hl.run(spec, tmp_path, jobs=1)
    assert np.isfinite(result.returns).all()


def test_act_of_a_derived_class_is_called():
    """Compiled code, which replaces `act` of `OptimisticAgent`, does not run such an agent."""

    class AlwaysFirst(hl.RMax):
        def act(self, s):
            return 0

    agent = AlwaysFirst(n_known=2, seed=0, **FAMILY.options)
    hl.learn(agent, FAMILY.first, episodes=5, max_steps=10, seed=0)
    assert agent.model.counts[:, 1:].sum() == 0


def test_acting_does_not_learn(algorithm):
    agent, (m, *_) = make(algorithm)
    agent.begin_task()
    before = agent.Q.copy()
    actions = [agent.act(s % m.n_states) for s in range(100)]
    assert all(0 <= a < m.n_actions for a in actions)
    assert np.array_equal(agent.Q, before)


def test_methods_called_out_of_order_raise_wrong_order(algorithm):
    agent, _ = make(algorithm)
    for method in (
        lambda: agent.act(0),
        lambda: agent.observe(0, 0, -1.0, 0, terminated=False),
        agent.end_task,
    ):
        with pytest.raises(hl.errors.WrongOrder):
            method()
    agent.begin_task()
    with pytest.raises(hl.errors.WrongOrder):
        agent.begin_task()


def test_policy_is_greedy(algorithm):
    agent, _ = learned(algorithm)
    assert agent.greedy.shape == (11, 6)
    assert agent.greedy[np.arange(11), agent.policy].all()
