"""`ValueDistance`: values of earlier tasks plus a bound on how far optimal values differ."""

import numpy as np
import pytest

import heirloom as hl
from heirloom.agents.algorithms import ALGORITHMS
from heirloom.bounds import ValueDistance

OPTIONS = {"n_states": 1, "n_actions": 3, "gamma": 0.0, "n_known": 1, "terminating": False}


def arms(*rewards):
    """One state whose optimal values are the rewards of its actions."""
    T = np.ones((1, len(rewards), 1))
    return hl.TabularMDP([rewards], T, gamma=0.0, reward_range=(0, 1))


def after(*tasks, beta, **options):
    """Return an agent that has learned every pair of `tasks` and begun another task."""
    agent = hl.MFRL(beta=beta, seed=0, explore=1.0, **{**OPTIONS, **options})
    for m in tasks:
        hl.learn(agent, m, episodes=1, max_steps=50, seed=0)
    agent.begin_task()
    return agent


def test_bound_is_the_smallest_value_of_a_source_plus_beta():
    agent = after(arms(0.1, 0.5, 0.8), arms(0.3, 0.4, 0.9), beta=np.array([[0.2, 0.0, 0.3]]))
    np.testing.assert_allclose(agent.U, [[0.3, 0.4, 1.0]], atol=1e-9)
    assert agent.bounds[0].sources_used().tolist() == [1, 2, 0]
    assert "valid if optimal values of two tasks differ by at most beta" in str(agent.explain())


def test_first_task_has_no_bound():
    assert (after(beta=0.0).U == 1).all()


def test_action_that_a_source_lacks_or_did_not_show_has_no_bound():
    lacking = hl.TabularMDP(
        [[0.1, 0.2, 0.0]],
        np.array([[[1.0], [1.0], [0.0]]]),
        gamma=0.0,
        reward_range=(0, 1),
        available=[[True, True, False]],
    )
    agent = after(lacking, beta=0.1)
    np.testing.assert_allclose(agent.U, [[0.2, 0.3, 1.0]], atol=1e-9)
    model = agent.model
    source = hl.bounds.Source(
        agent.memory.sources[0].rows, np.array([0.1, 0.2, 0.5]), np.array([0.5]),
        available=np.array([True, True, False]),
    )  # fmt: skip
    memory = hl.TaskMemory(1, 3)
    memory.add(source)
    bound = ValueDistance(beta=0.1)
    bound.begin_task(agent.setting, model, memory)
    assert bound.U[2] == 1.0


def test_agent_continues_from_its_file_with_the_same_beta(tmp_path):
    beta = np.array([[0.2, 0.0, 0.3]])
    agent = after(arms(0.1, 0.5, 0.8), beta=beta)
    agent.end_task()
    agent.save(tmp_path / "agent")
    loaded = hl.MFRL.load(tmp_path / "agent")
    assert np.array_equal(loaded.bounds[0].beta, beta)
    for each in (agent, loaded):
        hl.learn(each, arms(0.2, 0.4, 0.7), episodes=3, max_steps=2, seed=1)
    assert np.array_equal(agent.Q, loaded.Q)


@pytest.mark.parametrize(
    ("beta", "message"),
    [
        (-0.1, "beta is -0.1: expected one difference for all pairs, or one per pair"),
        ([[0.1, np.nan, 0.1]], "beta contains nan"),
        (np.zeros((2, 2)), r"beta has shape \(2, 2\): expected a number, or shape \(1, 3\)"),
    ],
)
def test_invalid_beta_is_rejected(beta, message):
    with pytest.raises(hl.errors.InvalidArgument, match=message):
        hl.MFRL(beta=beta, **OPTIONS)


def test_spec_must_give_beta():
    fields = ALGORITHMS["MFRL"].options.model_fields
    assert fields["beta"].is_required()
    assert not ALGORITHMS["MaxQInit"].options.model_fields["p_min"].is_required()
