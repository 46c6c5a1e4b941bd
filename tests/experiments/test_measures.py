"""Observers leave the results unchanged, and measure what their docstrings define."""

import numpy as np
import pytest

import heirloom as hl
from heirloom.experiments.job import draw_tasks, run_job
from heirloom.experiments.measures import (
    KINDS,
    OBSERVERS,
    Certified,
    LipschitzUse,
    OptimalAfter,
    Transfer,
)
from heirloom.experiments.spec import ExperimentSpec
from heirloom.learning.lifetime import late_update, learn_tasks, optimal_returns
from tests.agents.test_agents import COMMON, tight_tasks


def learn_two_tasks(d_max, episodes, observer=None):
    """Return an LRMax agent after two tasks, and its results."""
    agent = hl.LRMax(d_max=d_max, **COMMON, seed=0)
    options = {"episodes": episodes, "steps": 10, "seed": 0, "name": "x", "repetition": 0}
    return agent, learn_tasks(agent, tight_tasks(2), **options, observer=observer)


@pytest.mark.parametrize("d_max", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("measure", OBSERVERS)
def test_observer_leaves_the_results_identical(measure, d_max):
    observer = OBSERVERS[measure]()
    agent, results = learn_two_tasks(d_max, 150)
    observed_agent, observed_results = learn_two_tasks(d_max, 150, observer)
    for name in results:
        assert np.array_equal(results[name], observed_results[name], equal_nan=True)
    assert np.array_equal(agent.Q, observed_agent.Q)
    assert np.array_equal(agent.U, observed_agent.U)
    sizes = {name: size(tight_tasks(1)[0]) for name, (_, size) in observer.own_dimension.items()}
    for name, variable in observer.variables.items():
        own = tuple(sizes[dimension] for dimension in variable.dimensions[3:])
        assert np.shape(observer.measured[name]) == (2, *own)


def test_lipschitz_use_is_1_for_a_prior_of_0_and_decreases_with_the_prior():
    fractions = []
    for d_max in (0.0, 0.2, 0.5, 19.0):
        observer = LipschitzUse()
        learn_two_tasks(d_max, 300, observer)
        assert np.isnan(observer.measured["lipschitz_use"][0])
        fractions.append(observer.measured["lipschitz_use"][1])
    assert fractions[0] == 1.0
    assert fractions == sorted(fractions, reverse=True)
    assert fractions[-1] < 0.05


def test_measured_bound_is_the_bound_of_the_agent_at_unknown_pairs():
    """At pairs that are known in the task, the agent computes no bound."""
    observer = LipschitzUse()
    agent, _ = learn_two_tasks(0.2, 100, observer)
    (transfer,) = agent.bounds[0].transfers
    unknown = ~agent.known.ravel()
    U = (transfer.source.Q + observer._distance(transfer))[unknown]
    assert transfer.U[unknown] == pytest.approx(U, abs=1e-6)
    assert (observer._distance(transfer)[~unknown] >= 0).all()


@pytest.mark.parametrize("algorithm", ["LRMax", "LRMaxQInit"])
def test_measuring_leaves_returns_identical_when_the_prior_is_learned(algorithm):
    settings = {
        "name": "x",
        "family": {"name": "corridor"},
        "agents": [{"algorithm": algorithm, "n_known": 1, "delta": 0.5}],
        "tasks": 6,
        "distinct_tasks": 2,
        "episodes": 20,
        "steps": 11,
    }
    plain = run_job(ExperimentSpec.read(settings), 0, 0)
    measured = run_job(ExperimentSpec.read({**settings, "measure": "lipschitz_use"}), 0, 0)
    assert np.array_equal(plain["returns"], measured["returns"])
    assert np.isfinite(measured["lipschitz_use"][-1])


def test_optimal_after_counts_from_the_last_change_to_an_optimal_policy():
    """The policy is optimal, then not, then optimal again until the end."""

    class FakeAgent:
        greedy = np.ones((2, 2), dtype=bool)

    m = hl.TabularMDP(
        [[0.0, 0.0], [1.0, 1.0]], [[[1, 0], [0, 1]], [[0, 1], [1, 0]]], gamma=0.9, start=0
    )
    observer, agent = OptimalAfter(), FakeAgent()
    observer.begin_task(agent, m)
    good, bad = np.array([[False, True], [True, False]]), np.array([[True, True], [True, False]])
    for episode, greedy in enumerate((good, bad, good, good), start=1):
        agent.greedy = greedy
        observer.after_episode(episode)
    observer.end_task()
    assert observer.measured["optimal_after"] == [3]
    observer.begin_task(agent, m)
    agent.greedy = bad  # two greedy actions in the start state, one of which is not optimal
    observer.after_episode(1)
    observer.end_task()
    assert np.isnan(observer.measured["optimal_after"][1])


@pytest.mark.parametrize("algorithm", ["RMax", "LRMax", "LRMaxQInit", "NearRMax", "QLearning"])
def test_transfer_counts_the_pairs_that_each_bound_and_source_decided(algorithm):
    observer = Transfer()
    options = {"n_known": 1, "epsilon": 0.01}
    if algorithm.startswith("LRMax"):
        options["d_max"] = 0.1
        options |= {"p_min": 0.5, "delta": 0.5} if algorithm == "LRMaxQInit" else {}
    elif algorithm == "NearRMax":
        options["nearness"] = hl.Nearness(rewards=0.2, transitions=0.1)
    elif algorithm == "QLearning":
        options = {}
    agent = getattr(hl, algorithm)(n_states=121, n_actions=4, gamma=0.9, **options, seed=0)
    learn_tasks(
        agent,
        tight_tasks(3),
        episodes=40,
        steps=10,
        seed=0,
        name="x",
        repetition=0,
        observer=observer,
    )
    measured = {name: np.array(values) for name, values in observer.measured.items()}
    if algorithm == "QLearning":
        assert all((values == -1).all() for values in measured.values())
        return
    n_pairs = agent.n_states * agent.n_actions
    assert (measured["bound_pairs"].sum(axis=1) == n_pairs).all()
    explained = agent.explain()
    counts = np.bincount(explained.bound.reshape(-1), minlength=len(explained.names) - 1)
    by_name = dict(zip(explained.names, counts, strict=False))
    for kind, n in zip(KINDS, measured["bound_pairs"][-1], strict=True):
        assert n == sum(m for name, m in by_name.items() if name.partition(",")[0] == kind)
    found = dict(zip(measured["source_task"][-1], measured["source_pairs"][-1], strict=True))
    for task in (1, 2):
        of_task = sum(n for name, n in by_name.items() if name.endswith(f", task {task}"))
        assert found.get(task, 0) == of_task
    assert measured["dropped_sources"][-1] == len(explained.dropped)
    assert (measured["source_task"][0] == 0).all()
    assert (measured["refutations"] >= 0).all()


def test_late_update_is_the_mean_time_of_the_last_50_updates():
    assert late_update(np.arange(1, 101)) == 75.5
    assert late_update(np.array([4, 6])) == 5
    assert np.isnan(late_update(np.empty(0, dtype=np.int64)))


def test_optimal_returns_are_those_of_each_task_and_nan_without_a_model():
    first, second = tight_tasks(2)
    best = optimal_returns([first, second, first, first.to_gymnasium()], 10, discounted=True)
    assert best[0] == best[2] == hl.optimal_return(first, horizon=10)
    assert best[1] == hl.optimal_return(second, horizon=10)
    assert np.isnan(best[3])


def test_transfer_does_not_count_missing_actions():
    available = np.ones((4, 4), dtype=bool)
    available[:, 2] = False
    m = hl.grid_world(["S..G"], gamma=0.9)
    task = hl.TabularMDP(m.R, m.T.toarray().reshape(4, 4, 4), gamma=0.9, available=available)
    options = {"n_states": 4, "n_actions": 4, "gamma": 0.9, "n_known": 1, "seed": 0}
    agent, observer = hl.RMax(**options), Transfer()
    options = {"episodes": 5, "steps": 5, "seed": 0, "name": "x", "repetition": 0}
    learn_tasks(agent, [task], observer=observer, **options)
    assert np.sum(observer.measured["bound_pairs"]) == 12


CERTIFIED = {
    "name": "x",
    "family": {"name": "corridor", "variant": "text"},
    "defaults": {"n_known": 5},
    "agents": [
        {"algorithm": "CertifiedRMax", "successors": "family", "rewards": "per transition"},
        {"algorithm": "NearRMax", "nearness": "family"},
        {"algorithm": "RMax"},
        {"algorithm": "QLearning"},
    ],
    "tasks": 3,
    "episodes": 300,
    "steps": 30,
}


@pytest.mark.parametrize("agent", range(4))
def test_certificates_of_a_run_are_bounds_and_change_no_result(agent):
    plain = run_job(ExperimentSpec.read(CERTIFIED), agent, 0)
    spec = ExperimentSpec.read({**CERTIFIED, "measure": "certificate"})
    measured = run_job(spec, agent, 0)
    for name, values in plain.items():
        assert np.array_equal(values, measured[name], equal_nan=True)
    lower, upper = measured["certified_lower"], measured["optimum_at_most"]
    assert lower.shape == upper.shape == (3,)
    if agent == 3:
        assert np.isnan([lower, upper]).all()
        return
    best = np.array([m.start @ hl.solve(m).V for m in draw_tasks(spec, 0, None)])
    assert (lower <= best + 1e-9).all()
    assert (best <= upper + 1e-9).all()
    if agent == 0:
        assert (lower > 0).all()


def test_certificate_of_a_task_is_that_of_the_agent_with_its_first_states():
    (m,) = tight_tasks(1)
    agent, observer = hl.RMax(**COMMON, rewards="per transition", seed=0), Certified()
    options = {"episodes": 60, "steps": 10, "seed": 0, "name": "x", "repetition": 0}
    learn_tasks(agent, [m], observer=observer, **options)
    expected = agent.certificate(start=m.start)
    assert observer.measured["certified_lower"] == [expected.lower]
    assert observer.measured["optimum_at_most"] == [expected.optimum_at_most]
