"""What every algorithm of the registry must do."""

import numpy as np
import pytest

import heirloom as hl
from heirloom.agents.algorithm_options import TaskKnowledge
from heirloom.agents.algorithms import ALGORITHMS
from heirloom.envs.inventory import prices

FAMILY = prices()
NEEDED = {"n_known": 2}


@pytest.fixture(params=ALGORITHMS)
def algorithm(request):
    return request.param


def make(name, seed=0, tasks=3):
    """An agent with as few options as the algorithm needs, and the tasks that it will face."""
    drawn = [FAMILY.draw(np.random.default_rng(i)) for i in range(tasks)]
    model = ALGORITHMS[name]
    options = model(**{key: NEEDED[key] for key in NEEDED if key in model.model_fields})
    known = TaskKnowledge(FAMILY.options, FAMILY.p_min, lambda: FAMILY.d_max, drawn)
    return options.make(known, np.random.default_rng(seed)), drawn


def learned(name, seed=0):
    agent, tasks = make(name, seed)
    records = [hl.learn(agent, m, episodes=10, max_steps=20, seed=i) for i, m in enumerate(tasks)]
    return agent, np.array([record.returns for record in records])


def test_an_algorithm_has_a_summary_of_one_line(algorithm):
    summary = ALGORITHMS[algorithm].summary()
    assert summary.endswith(".")
    assert "\n" not in summary


def test_an_agent_learns_tasks_in_a_row_and_the_same_seed_gives_the_same_bits(algorithm):
    (agent, returns), (_, again), (_, other) = (learned(algorithm, s) for s in (0, 0, 1))
    assert np.isfinite(returns).all()
    assert np.array_equal(returns, again)
    assert not np.array_equal(returns, other)
    assert (agent.n_states, agent.n_actions, agent.gamma) == (11, 6, FAMILY.gamma)


def test_a_task_and_its_environment_give_the_same_bits(algorithm):
    """Compiled or step by step: an exact task is learned like the environment made of it."""
    agents = [make(algorithm)[0] for _ in range(2)]
    _, (m, *_) = make(algorithm)
    length = {"episodes": 10, "max_steps": 20, "seed": 0}
    one, other = (
        hl.learn(agent, env, **length)
        for agent, env in zip(agents, (m, m.to_gymnasium()), strict=True)
    )
    assert np.array_equal(one.returns, other.returns)
    assert np.array_equal(agents[0].Q, agents[1].Q)


def test_a_derived_agent_that_acts_otherwise_is_not_compiled_away():
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


def test_verbs_have_an_order(algorithm):
    agent, _ = make(algorithm)
    for verb in (lambda: agent.act(0), agent.end_task, lambda: observe(agent)):
        with pytest.raises(hl.WrongOrder):
            verb()
    agent.begin_task()
    with pytest.raises(hl.WrongOrder):
        agent.begin_task()


def observe(agent):
    agent.observe(0, 0, -1.0, 0, terminated=False)


def test_greedy_actions_and_policy_can_be_read(algorithm):
    agent, _ = learned(algorithm)
    assert agent.greedy.shape == (11, 6)
    assert agent.greedy[np.arange(11), agent.policy].all()
