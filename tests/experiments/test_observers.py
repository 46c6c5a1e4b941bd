"""What is measured of bounds changes nothing, and counts what it says."""

import numpy as np
import pytest

import heirloom as hl
from heirloom.experiments.job import run_job
from heirloom.experiments.observers import OBSERVERS, LipschitzUse, OptimalAfter
from heirloom.experiments.spec import ExperimentSpec
from heirloom.learning.lifetime import late_update, learn_tasks, optimal_returns
from tests.agents.test_agents import COMMON, tight_tasks


def learned_in(d_max, episodes, observer=None):
    """LRMax after two tasks, and what it did in them."""
    agent = hl.LRMax(d_max=d_max, **COMMON, seed=0)
    options = {"episodes": episodes, "steps": 10, "seed": 0, "name": "x", "repetition": 0}
    return agent, learn_tasks(agent, tight_tasks(2), **options, observer=observer)


@pytest.mark.parametrize("d_max", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("name", OBSERVERS)
def test_observing_changes_no_bit(name, d_max):
    observer = OBSERVERS[name]()
    (one, plain), (other, observed) = learned_in(d_max, 150), learned_in(d_max, 150, observer)
    for what in plain:
        assert np.array_equal(plain[what], observed[what], equal_nan=True)
    assert np.array_equal(one.Q, other.Q)
    assert np.array_equal(one.U, other.U)
    assert len(observer.measured) == 2
    shape = np.shape(observer.measured[0])
    sizes = [size(tight_tasks(1)[0]) for _, size in observer.own_dimension.values()]
    assert shape == tuple(sizes)


def test_a_prior_of_zero_is_always_tighter_and_a_large_one_never():
    fractions = []
    for d_max in (0.0, 0.2, 0.5, 19.0):
        observer = LipschitzUse()
        learned_in(d_max, 300, observer)
        assert np.isnan(observer.measured[0])
        fractions.append(observer.measured[1])
    assert fractions[0] == 1.0
    assert fractions == sorted(fractions, reverse=True)
    assert fractions[-1] < 0.05


def test_where_the_agent_has_a_bound_the_measured_one_is_that():
    """At pairs that are unknown in the task; where it is known the agent needs none."""
    observer = LipschitzUse()
    agent, _ = learned_in(0.2, 100, observer)
    (transfer,) = agent.bounds[0].transfers
    unknown = ~agent.known.ravel()
    U = (transfer.source.Q + observer._distance(transfer))[unknown]
    assert transfer.U[unknown] == pytest.approx(U, abs=1e-6)
    assert (observer._distance(transfer)[~unknown] >= 0).all()


@pytest.mark.parametrize("algorithm", ["LRMax", "LRMaxQInit"])
def test_measuring_a_learned_prior_changes_no_bit(algorithm):
    given = {
        "name": "x",
        "family": {"name": "corridor"},
        "agents": [{"algorithm": algorithm, "n_known": 1, "delta": 0.5}],
        "tasks": 6,
        "distinct_tasks": 2,
        "episodes": 20,
        "steps": 11,
    }
    plain = run_job(ExperimentSpec.read(given), 0, 0)
    measured = run_job(ExperimentSpec.read({**given, "measure": "lipschitz_use"}), 0, 0)
    assert np.array_equal(plain["returns"], measured["returns"])
    assert np.isfinite(measured["lipschitz_use"][-1])


def test_a_policy_that_becomes_optimal_for_good():
    """Optimal, not, and then optimal again: only the last time counts."""

    class Fake:
        greedy = np.ones((2, 2), dtype=bool)

    m = hl.TabularMDP(
        [[0.0, 0.0], [1.0, 1.0]], [[[1, 0], [0, 1]], [[0, 1], [1, 0]]], gamma=0.9, start=0
    )
    observer, agent = OptimalAfter(), Fake()
    observer.begin_task(agent, m)
    good, bad = np.array([[False, True], [True, False]]), np.array([[True, True], [True, False]])
    for episode, greedy in enumerate((good, bad, good, good), start=1):
        agent.greedy = greedy
        observer.after_episode(episode)
    observer.end_task()
    assert observer.measured == [3]
    observer.begin_task(agent, m)
    agent.greedy = bad  # equal actions, one of which is not optimal
    observer.after_episode(1)
    observer.end_task()
    assert np.isnan(observer.measured[1])


def test_the_mean_time_of_the_last_updates():
    assert late_update(np.arange(1, 101)) == np.arange(51, 101).mean()
    assert late_update(np.array([4, 6])) == 5
    assert np.isnan(late_update(np.empty(0, dtype=np.int64)))


def test_best_returns_of_tasks_that_come_again():
    one, other = tight_tasks(2)
    best = optimal_returns([one, other, one, one.to_gymnasium()], 10, discounted=True)
    assert best[0] == best[2] == hl.optimal_return(one, horizon=10)
    assert np.isnan(best[3])
