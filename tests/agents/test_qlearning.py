"""Q-learning, and transfer of its initial values between states that behave alike."""

import numpy as np
import pytest

import heirloom as hl
from tests.domains import corridor, stay_or_go

OPTIONS = {"n_states": 2, "n_actions": 2, "gamma": 0.9}


def test_q_learning_converges_to_optimal_values():
    for domain in (corridor(5, 0.9), stay_or_go(0.9)):
        m = domain.task
        agent = hl.QLearning(
            n_states=m.n_states, n_actions=2, gamma=0.9, learning_rate=0.5, exploration=0.5, seed=0
        )
        hl.learn(agent, m, episodes=3000, max_steps=20, seed=0)
        visited = agent.Q.any(axis=1)
        assert agent.Q[visited] == pytest.approx(domain.Q[visited], abs=1e-3)


def test_step_updates_q_by_the_learning_rate():
    """By hand: 2 + (0.5 + 0.9 * 4 - 2) / 4 = 2.525; terminal: 1 + (0.5 - 1) / 4 = 0.875."""
    agent = hl.QLearning(**OPTIONS, learning_rate=0.25, initial_Q=[[1.0, 2.0], [3.0, 4.0]])
    agent.begin_task()
    assert agent.observe(0, 1, 0.5, 1, terminated=False) is False
    assert agent.Q[0, 1] == pytest.approx(2.525)
    agent.observe(0, 0, 0.5, 1, terminated=True)
    assert agent.Q[0, 0] == pytest.approx(0.875)
    agent.end_task()
    assert agent.policy.tolist() == [1, 1]
    agent.begin_task()
    assert agent.Q.tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_actions_are_epsilon_greedy_with_ties_broken_uniformly():
    """With ε = 0.4 and 4 actions, a single greedy action has the probability 0.6 + 0.4 / 4."""
    agent = hl.QLearning(n_states=1, n_actions=4, gamma=0.9, exploration=0.4, seed=0)
    agent.begin_task()
    chosen = np.bincount([agent.act(0) for _ in range(8000)], minlength=4) / 8000
    assert chosen == pytest.approx(0.25, abs=0.02)
    agent.observe(0, 2, 1.0, 0, terminated=True)
    chosen = np.bincount([agent.act(0) for _ in range(8000)], minlength=4) / 8000
    assert chosen == pytest.approx([0.1, 0.1, 0.7, 0.1], abs=0.02)


def test_same_seed_gives_identical_returns():
    m = corridor(5, 0.9).task
    runs = [
        hl.learn(
            hl.QLearning(n_states=5, n_actions=2, gamma=0.9, seed=3),
            m,
            episodes=50,
            max_steps=9,
            seed=1,
        ).returns
        for _ in range(2)
    ]
    assert np.array_equal(*runs)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"learning_rate": 0}, "learning_rate is 0"),
        ({"exploration": 1.1}, "exploration is 1.1"),
        ({"initial_Q": [1.0, 2.0]}, r"initial_Q has shape \(2,\)"),
        ({"initial_Q": np.nan}, "initial_Q has values that are not finite"),
        ({"gamma": 1}, "gamma is 1"),
        ({"seed": -1}, "seed is -1"),
    ],
)
def test_invalid_options_are_rejected(options, message):
    with pytest.raises(hl.errors.InvalidArgument, match=message):
        hl.QLearning(**{**OPTIONS, **options})


def test_invalid_states_actions_and_rewards_are_rejected():
    agent = hl.QLearning(**OPTIONS)
    agent.begin_task()
    with pytest.raises(
        hl.errors.InvalidArgument, match="state is 2: expected a whole number from 0 to 1"
    ):
        agent.act(2)
    for step, message in (
        ((2, 0, 0.0, 0), "state is 2"),
        ((0, 5, 0.0, 0), "action is 5"),
        ((0, 0, 0.0, -1), "next state is -1"),
        ((0, 0, np.inf, 0), "reward of state 0 and action 0 is inf"),
    ):
        with pytest.raises(hl.errors.InvalidArgument, match=message):
            agent.observe(*step, terminated=False)


@pytest.mark.parametrize("ground", ["identity", "recursive"])
def test_renumbered_states_get_their_optimal_values(ground):
    """The target is the source with renumbered states, which differ by their rewards."""
    R = np.array([[0.0, 0.1], [0.5, 0.6], [0.9, 0.2]])
    T = np.zeros((3, 2, 3))
    T[:, :, 0] = 1.0
    order = [0, 2, 1]
    source = hl.TabularMDP(R, T, gamma=0.9)
    target = hl.TabularMDP(R[order], T[order], gamma=0.9)
    agent = hl.BisimulationTransfer(source, target, ground=ground, seed=0)
    assert agent.initial_Q == pytest.approx(hl.solve(target).Q, abs=1e-7)
    assert agent.n_states == 3


def test_user_defined_source_values_are_transferred():
    m = stay_or_go(0.9).task
    agent = hl.BisimulationTransfer(m, m, Q=[[1.0, 2.0], [3.0, 4.0]])
    assert agent.initial_Q.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    with pytest.raises(hl.errors.InvalidArgument, match=r"Q has shape \(2,\)"):
        hl.BisimulationTransfer(m, m, Q=[1.0, 2.0])
    with pytest.raises(hl.errors.InvalidArgument, match="not finite"):
        hl.BisimulationTransfer(m, m, Q=[[1.0, 2.0], [3.0, np.inf]])
    with pytest.raises(hl.errors.IncompatibleTasks, match=r"gamma is 0.9 in the source and 0.5"):
        hl.BisimulationTransfer(m, stay_or_go(0.5).task)


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ({"s": 0.0}, "state is 0.0"),
        ({"a": True}, "action is True"),
        ({"s_next": True}, "next state is True: expected a whole number from 0 to 1"),
        ({"s_next": 2}, "next state is 2"),
        ({"r": "x"}, "the reward of state 0 and action 0 is 'x'"),
        ({"terminated": "no"}, "terminated is 'no': expected True or False"),
    ],
)
def test_invalid_steps_are_rejected(step, message):
    agent = hl.QLearning(**OPTIONS)
    agent.begin_task()
    with pytest.raises(hl.errors.InvalidArgument, match=message):
        agent.observe(**{"s": 0, "a": 0, "r": 0.5, "s_next": 1, "terminated": False, **step})
    assert not agent.Q.any()
