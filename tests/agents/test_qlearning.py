"""Q-learning, and its transfer by states that behave alike."""

import numpy as np
import pytest

import heirloom as hl
from tests.domains import corridor, stay_or_go

OPTIONS = {"n_states": 2, "n_actions": 2, "gamma": 0.9}


def test_it_learns_what_is_optimal():
    for domain in (corridor(5, 0.9), stay_or_go(0.9)):
        m = domain.task
        agent = hl.QLearning(
            n_states=m.n_states, n_actions=2, gamma=0.9, learning_rate=0.5, exploration=0.5, seed=0
        )
        hl.learn(agent, m, episodes=3000, max_steps=20, seed=0)
        visited = agent.Q.any(axis=1)
        assert agent.Q[visited] == pytest.approx(domain.Q[visited], abs=1e-3)


def test_a_step_moves_a_part_of_the_way():
    agent = hl.QLearning(**OPTIONS, learning_rate=0.25, initial_Q=[[1.0, 2.0], [3.0, 4.0]])
    agent.begin_task()
    assert agent.observe(0, 1, 0.5, 1, terminated=False) is False
    assert agent.Q[0, 1] == 2.0 + 0.25 * (0.5 + 0.9 * 4.0 - 2.0)
    agent.observe(0, 0, 0.5, 1, terminated=True)
    assert agent.Q[0, 0] == 1.0 + 0.25 * (0.5 - 1.0)
    agent.end_task()
    assert agent.policy.tolist() == [1, 1]
    agent.begin_task()
    assert agent.Q.tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_exploration_and_equal_actions():
    agent = hl.QLearning(n_states=1, n_actions=4, gamma=0.9, exploration=0.4, seed=0)
    agent.begin_task()
    chosen = np.bincount([agent.act(0) for _ in range(8000)], minlength=4) / 8000
    assert chosen == pytest.approx(0.25, abs=0.02)
    agent.observe(0, 2, 1.0, 0, terminated=True)
    chosen = np.bincount([agent.act(0) for _ in range(8000)], minlength=4) / 8000
    assert chosen == pytest.approx([0.1, 0.1, 0.7, 0.1], abs=0.02)


def test_the_same_seed_gives_the_same_bits():
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
        ({"initial_Q": np.nan}, "initial_Q is not finite"),
        ({"gamma": 1}, "gamma is 1"),
        ({"seed": -1}, "seed is -1"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(hl.InvalidArgument, match=message):
        hl.QLearning(**{**OPTIONS, **options})


def test_verbs_out_of_order_and_bad_steps():
    agent = hl.QLearning(**OPTIONS)
    for verb in (
        lambda: agent.act(0),
        lambda: agent.observe(0, 0, 0.0, 0, terminated=False),
        agent.end_task,
    ):
        with pytest.raises(hl.WrongOrder):
            verb()
    agent.begin_task()
    with pytest.raises(hl.WrongOrder):
        agent.begin_task()
    with pytest.raises(hl.InvalidArgument, match="state 2: there are 0 to 1"):
        agent.act(2)
    for step, message in (
        ((2, 0, 0.0, 0), "state 2"),
        ((0, 5, 0.0, 0), "action 5"),
        ((0, 0, 0.0, -1), "next state -1"),
        ((0, 0, np.inf, 0), "reward of state 0 and action 0 is inf"),
    ):
        with pytest.raises(hl.InvalidArgument, match=message):
            agent.observe(*step, terminated=False)


@pytest.mark.parametrize("ground", ["identity", "recursive"])
def test_states_that_behave_alike_give_their_values(ground):
    """A task whose states were renumbered, matched by what they are paid."""
    R = np.array([[0.0, 0.1], [0.5, 0.6], [0.9, 0.2]])
    T = np.zeros((3, 2, 3))
    T[:, :, 0] = 1.0
    order = [0, 2, 1]
    source = hl.TabularMDP(R, T, gamma=0.9)
    target = hl.TabularMDP(R[order], T[order], gamma=0.9)
    agent = hl.BisimulationTransfer(source, target, ground=ground, seed=0)
    assert agent.initial_Q == pytest.approx(hl.solve(target).Q, abs=1e-7)
    assert agent.n_states == 3


def test_values_of_ones_own():
    m = stay_or_go(0.9).task
    agent = hl.BisimulationTransfer(m, m, Q=[[1.0, 2.0], [3.0, 4.0]])
    assert agent.initial_Q.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    with pytest.raises(hl.InvalidArgument, match=r"Q has shape \(2,\)"):
        hl.BisimulationTransfer(m, m, Q=[1.0, 2.0])
