"""`policy_table`: the policy of an agent with names, masks, visits, and what is certain."""

import gymnasium as gym
import numpy as np
import pytest

import heirloom as hl
from tests.strategies import seeds

NAMES = {"state_names": ["low", "high"], "action_names": ["buy", "sell", "wait"]}


def trade():
    T = np.zeros((2, 3, 2))
    T[:, 0, 1] = T[:, 1, 0] = 1.0
    T[0, 2, 0] = T[1, 2, 1] = 1.0
    R = np.array([[0.2, 0.0, 0.1], [0.0, 1.0, 0.1]])
    available = np.array([[True, False, True], [False, True, True]])
    return hl.TabularMDP(R * available, T, gamma=0.9, start=0, available=available, **NAMES)


def test_table_has_names_visits_and_values_and_respects_masks(tmp_path):
    m = trade()
    agent = hl.RMax(n_states=2, n_actions=3, gamma=0.9, seed=0)
    hl.learn(agent, m, episodes=20, max_steps=10, seed=0)
    table = hl.policy_table(agent)
    assert list(table.columns) == ["state", "action", "value", "visits", "certain"]
    assert list(table.state) == ["low", "high"]
    assert list(table.action) == ["buy", "sell"]
    assert (table.visits > 0).all()
    assert np.allclose(table.value, hl.solve(m).V)
    table.to_csv(tmp_path / "policy.csv", index=False)
    assert (
        (tmp_path / "policy.csv").read_text().startswith("state,action,value,visits,certain\nlow")
    )


class Opaque(gym.Wrapper):
    """An environment that does not give away its exact task."""


def test_masks_that_are_given_beforehand_exclude_actions_in_states_that_were_not_visited():
    T = np.zeros((3, 2, 3))
    T[:, :, 0] = 1.0
    available = np.ones((3, 2), dtype=bool)
    available[2, 0] = False
    m = hl.TabularMDP(np.full((3, 2), 0.5), T, gamma=0.9, start=0, available=available)
    env, options = Opaque(m.to_gymnasium()), {"episodes": 2, "max_steps": 5, "seed": 0}
    agent = hl.RMax(n_states=3, n_actions=2, gamma=0.9, seed=0)
    hl.learn(agent, env, masks=True, **options)
    assert hl.policy_table(agent).action[2] == 0  # state 2 was not reached
    hl.learn(agent, env, masks=True, available=available, **options)
    assert hl.policy_table(agent).action[2] == 1
    with pytest.raises(hl.errors.InvalidArgument, match="available is"):
        hl.learn(agent, env, available=np.zeros((3, 2), dtype=bool), **options)
    with pytest.raises(hl.errors.InvalidArgument, match="differs from the available actions"):
        hl.learn(agent, m, available=np.ones((3, 2), dtype=bool), **options)


def exact_knowledge(m):
    """What can happen in a task, and what it pays."""
    successors = m.T.toarray().reshape(m.n_states, m.n_actions, m.n_states) > 0
    return {"successors": successors, "rewards": m.R, "terminating": False}


@pytest.mark.parametrize("kind", [hl.RMax, hl.CertifiedRMax, hl.UCBVI, hl.PSRL])
@pytest.mark.parametrize("seed", seeds(10))
def test_choices_that_are_certain_are_optimal(kind, seed):
    """For each agent and length of learning; with enough visits, some choices are certain."""
    m = hl.garnet(4, 2, branching=2, gamma=0.8, seed=seed)
    best, states, n_certain = hl.solve(m), np.arange(4), []
    for episodes in (2, 20, 600):
        agent = kind(n_states=4, n_actions=2, gamma=0.8, seed=0, **exact_knowledge(m))
        hl.learn(agent, m, episodes=episodes, max_steps=50, seed=seed)
        for policy in (None, 1 - agent.policy):
            table = hl.policy_table(agent, policy=policy)
            chosen = best.Q[states, agent.policy if policy is None else policy]
            assert (chosen[table.certain] >= best.V[table.certain] - 1e-9).all()
            n_certain.append(int(table.certain.sum()))
    assert n_certain[0] == n_certain[1] == 0


def test_choice_becomes_certain_with_visits_and_by_what_is_declared():
    m = trade()
    options = {"n_states": 2, "n_actions": 3, "gamma": 0.9, "seed": 0}
    agent = hl.RMax(**options)
    hl.learn(agent, m, episodes=20, max_steps=10, seed=0)
    assert not hl.policy_table(agent).certain.any()
    known = {"successors": m.T.toarray().reshape(2, 3, 2) > 0, "terminates": False}
    before = agent.certificate(**known).gap
    assert hl.policy_table(agent, **known, rewards="per transition").certain.all()
    assert agent.certificate(**known).gap == before  # the table has no effect on the agent


def test_table_shows_any_policy_that_exists():
    m = trade()
    agent = hl.RMax(n_states=2, n_actions=3, gamma=0.9, seed=0)
    hl.learn(agent, m, episodes=20, max_steps=10, seed=0)
    assert list(hl.policy_table(agent, policy=[2, 2]).action) == ["wait", "wait"]
    for policy, message in (
        ([0, 0], "policy has action 0 in state 1, where it does not exist"),
        ([0, 3], "policy has action 3 in state 1: expected one from 0 to 2"),
        ([0], "policy is .*expected the number of one action for each of the 2 states"),
        ([0.5, 1], "policy is"),
    ):
        with pytest.raises(hl.errors.InvalidArgument, match=message):
            hl.policy_table(agent, policy=policy)


def test_other_agents_have_a_table_without_certainty():
    agent = hl.QLearning(n_states=2, n_actions=3, gamma=0.9, seed=0)
    hl.learn(agent, trade(), episodes=20, max_steps=10, seed=0)
    table = hl.policy_table(agent)
    assert not table.certain.any()
    assert list(table.state) == [0, 1]
    named = hl.policy_table(agent, state_names=["low", "high"], action_names=list("abc"))
    assert list(named.state) == ["low", "high"]
    assert list(named.action) == ["abc"[a] for a in table.action]
    with pytest.raises(hl.errors.InvalidArgument, match="state_names has 1 name for 2 states"):
        hl.policy_table(agent, state_names=["low"])
    with pytest.raises(hl.errors.InvalidArgument, match="agent is"):
        hl.policy_table(hl.FixedPolicy([0]))
