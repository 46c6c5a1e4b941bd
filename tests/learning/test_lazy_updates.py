"""Updates that back up greedy pairs only give the values of updates that back up all pairs."""

import numpy as np
import pytest

import heirloom as hl
from heirloom.transfer import program
from tests.strategies import RANGES, mixed, seeds


def random_tasks(rng, gamma):
    n_states, n_actions = int(rng.integers(2, 9)), int(rng.integers(1, 5))
    options = {
        "branching": int(rng.integers(1, min(n_states, 4) + 1)),
        "gamma": gamma,
        "terminating": float(rng.choice([0.0, 0.2])),
        "reward_range": RANGES[rng.integers(len(RANGES))],
    }
    first, *others = (hl.garnet(n_states, n_actions, **options, seed=rng) for _ in range(3))
    t = rng.choice([0.0, 0.1, 0.5])
    return [first, *(mixed(first, other, rewards=0.1, transitions=t) for other in others)]


def agents_for(tasks, seed):
    """RMax, and NearRMax with and without knowledge of the possible successors."""
    m, near = tasks[0], hl.family_nearness(tasks)
    options = {
        "n_states": m.n_states,
        "n_actions": m.n_actions,
        "gamma": m.gamma,
        "reward_range": m.reward_range,
        "terminating": m.terminating,
        "n_known": 2,
        "refresh": None,  # otherwise all pairs are backed up
        "seed": seed,
    }
    any_successor = hl.Nearness(rewards=near.rewards, transitions=near.transitions)
    yield hl.RMax(**options)
    yield hl.NearRMax(nearness=near, **options)
    yield hl.NearRMax(nearness=any_successor, **options)


@pytest.mark.parametrize("gamma", [0.5, 0.95])
@pytest.mark.parametrize("seed", seeds(10))
def test_lazy_updates_give_the_same_values_and_returns_as_updates_of_all_pairs(
    seed, gamma, monkeypatch
):
    rng = np.random.default_rng(seed)
    tasks = random_tasks(rng, gamma)
    found = []
    for limit in (program.MAX_PLAIN_GAMMA, 0.0):
        monkeypatch.setattr(program, "MAX_PLAIN_GAMMA", limit)
        learned = []
        for agent in agents_for(tasks, seed):
            for i, m in enumerate(tasks):
                record = hl.learn(agent, m, episodes=8, max_steps=20, seed=i)
                learned.append((record.returns, agent.Q.copy(), agent.U.copy()))
        found.append(learned)
    scale = max(1.0, *(abs(x) for x in tasks[0].reward_range)) / (1 - gamma)
    for eager, lazy in zip(*found, strict=True):
        assert np.array_equal(eager[0], lazy[0])
        for values, others in zip(eager[1:], lazy[1:], strict=True):
            assert values == pytest.approx(others, abs=1e-9 * scale)


@pytest.mark.parametrize("seed", range(4))
def test_values_that_are_read_during_a_task_are_above_those_at_its_end_and_change_nothing(
    seed,
):
    tasks = random_tasks(np.random.default_rng(seed), 0.999)
    for reader, other in zip(agents_for(tasks, seed), agents_for(tasks, seed), strict=True):
        for i, m in enumerate(tasks):
            read = []
            hl.learn(
                reader,
                m,
                episodes=8,
                max_steps=20,
                seed=i,
                callback=lambda *_, agent=reader, read=read: read.append((agent.Q, agent.U)),
                every=1,
            )
            hl.learn(other, m, episodes=8, max_steps=20, seed=i)
            assert np.array_equal(reader.Q, other.Q)
            assert np.array_equal(reader.U, other.U)
            for Q, _ in read:
                assert (Q >= reader.Q - 1e-9).all()
