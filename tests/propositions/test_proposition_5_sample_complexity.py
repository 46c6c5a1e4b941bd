"""Proposition 5: the samples needed grow with |{s, a: U(s, a) >= V*(s) - ε}|.

With exact models the argument is this. The agent takes an action with the largest Q(s, a) >= V*(s),
up to the tie x, and U >= Q, so it tries only pairs with U >= V* - x. An episode that meets no
unknown pair has at least the value that Q says, minus x / (1-γ), which is optimal up to ties. So
the number of other episodes is at most the number of pairs that the proposition counts. All of that
is tested on deterministic tasks with n_known = 1.
"""

import numpy as np
import pytest

import heirloom as hl
from tests.partly_known import draw_deterministic_family
from tests.strategies import seeds

STEPS = 80  # what follows is worth at most 0.9^80 v_max = 0.002


def agents_for(tasks, rng):
    """RMax, and LRMax with a valid prior that has learned all tasks but the last."""
    m = tasks[0]
    options = {"n_states": m.n_states, "n_actions": m.n_actions, "gamma": m.gamma}
    options |= {"n_known": 1, "refresh": None}
    rmax = hl.RMax(**options, seed=rng)
    lrmax = hl.LRMax(**options, d_max=hl.metrics.family_distance(tasks), seed=rng)
    for source in tasks[:-1]:
        hl.learn(lrmax, source, episodes=30, max_steps=2 * m.n_states, seed=1)
    return {"RMax": rmax, "LRMax": lrmax}


def face(agent, m, rng, *, episodes=40):
    """Learn a task step by step; returns the pairs tried, and the loss of each episode."""
    sol, env = hl.solve(m), m.to_gymnasium()
    tried, losses = np.zeros(m.R.shape, dtype=bool), []
    agent.begin_task()
    for _ in range(episodes):
        s, _ = env.reset(seed=int(rng.integers(2**31)))
        first, discount, value = s, 1.0, 0.0
        for _ in range(STEPS):
            a = agent.act(s)
            tried[s, a] = True
            s_next, r, terminated, _, _ = env.step(a)
            agent.observe(s, a, r, s_next, terminated=terminated)
            value, discount, s = value + discount * r, discount * m.gamma, s_next
            if terminated:
                discount = 0.0
                break
        losses.append(sol.V[first] - value - discount * m.v_max)
    agent.end_task()
    return tried, np.array(losses)


@pytest.mark.parametrize("name", ["RMax", "LRMax"])
@pytest.mark.parametrize("seed", seeds(15))
def test_agent_tries_only_pairs_that_the_proposition_counts(name, seed):
    rng = np.random.default_rng([5, seed])
    tasks = draw_deterministic_family(rng, terminating=0.2)
    agent = agents_for(tasks, rng)[name]
    agent.begin_task()
    counted = hl.pairs_to_learn(agent.U, tasks[-1], epsilon=1e-6)
    agent.drop_task()
    tried, _ = face(agent, tasks[-1], rng)
    assert counted[tried].all()


@pytest.mark.parametrize("name", ["RMax", "LRMax"])
@pytest.mark.parametrize("seed", seeds(15))
def test_episodes_that_are_not_optimal_are_at_most_the_pairs_counted(name, seed):
    """The loss is a lower bound: what follows the last step is taken to be worth v_max."""
    rng = np.random.default_rng([6, seed])
    tasks = draw_deterministic_family(rng, terminating=0.2)
    agent = agents_for(tasks, rng)[name]
    agent.begin_task()
    counted = int(hl.pairs_to_learn(agent.U, tasks[-1], epsilon=1e-6).sum())
    agent.drop_task()
    _, losses = face(agent, tasks[-1], rng, episodes=counted + 20)
    assert (losses > 1e-6).sum() <= counted


def test_transfer_counts_fewer_pairs_on_some_tasks_and_more_on_none():
    fewer = 0
    for seed in range(20):
        rng = np.random.default_rng([7, seed])
        tasks = draw_deterministic_family(rng)
        count = {}
        for name, agent in agents_for(tasks, rng).items():
            agent.begin_task()
            count[name] = int(hl.pairs_to_learn(agent.U, tasks[-1], epsilon=0.01).sum())
        assert count["LRMax"] <= count["RMax"]
        fewer += count["LRMax"] < count["RMax"]
    assert fewer > 10


def test_lower_bounds_never_count_more_pairs():
    rng = np.random.default_rng(0)
    for _ in range(30):
        m = hl.garnet(5, 2, branching=2, gamma=0.9, seed=rng)
        U = np.minimum(hl.solve(m).Q + rng.uniform(0, 3, m.R.shape), m.v_max)
        lower = np.maximum(U - rng.uniform(0, 1, m.R.shape), hl.solve(m).Q)
        counted, counted_lower = (hl.pairs_to_learn(u, m, epsilon=0.1) for u in (U, lower))
        assert counted[counted_lower].all()


def test_exact_values_count_only_the_nearly_optimal_pairs():
    m = hl.garnet(6, 3, branching=2, gamma=0.9, seed=1)
    Q = hl.solve(m, tol=1e-9).Q
    counted = hl.pairs_to_learn(Q, m, epsilon=1e-6)
    assert counted.sum() == m.n_states
    assert (counted.argmax(axis=1) == Q.argmax(axis=1)).all()
    assert hl.pairs_to_learn(np.full(Q.shape, m.v_max), m, epsilon=0.0).all()
