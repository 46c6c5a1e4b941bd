"""The contract of an agent, for every algorithm of the registry `ALGORITHMS`."""

import numpy as np
import pytest

import heirloom as hl
from heirloom.agents.algorithm_options import TaskKnowledge
from heirloom.agents.algorithms import ALGORITHMS
from heirloom.envs.inventory import prices

FAMILY = prices()
REQUIRED_OPTIONS = {"n_known": 2, "beta": 1.0}


@pytest.fixture(params=ALGORITHMS)
def algorithm(request):
    """The name of an algorithm; a test with this fixture runs once for each of the registry."""
    return request.param


def make(name, seed=0, tasks=3):
    """Return an agent with only the required options, and the tasks that it will face."""
    drawn = [FAMILY.draw(np.random.default_rng(i)) for i in range(tasks)]
    kind = ALGORITHMS[name]
    fields = kind.options.model_fields
    options = {key: v for key, v in REQUIRED_OPTIONS.items() if key in fields}
    known = TaskKnowledge(
        FAMILY.options, FAMILY.p_min, lambda: FAMILY.d_max, lambda: FAMILY.nearness, drawn
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


def test_task_and_its_gymnasium_environment_give_identical_results(algorithm):
    """Compiled code, for a `TabularMDP`, agrees to the bit with steps in its environment."""
    agents = [make(algorithm)[0] for _ in range(2)]
    _, (m, *_) = make(algorithm)
    length = {"episodes": 10, "max_steps": 20, "seed": 0}
    compiled, stepped = (
        hl.learn(agent, env, **length)
        for agent, env in zip(agents, (m, m.to_gymnasium()), strict=True)
    )
    assert np.array_equal(compiled.returns, stepped.returns)
    assert np.array_equal(agents[0].Q, agents[1].Q)


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
