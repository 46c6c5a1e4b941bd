"""ICU-Sepsis: its published returns, and hospitals that are as near as they say."""

import sys

import numpy as np
import pytest

import heirloom as hl
from heirloom.envs import icu_sepsis as icu
from heirloom.mdp.rows import Rows
from heirloom.transfer.memory import TaskMemory
from heirloom.transfer.source import Source

pytestmark = pytest.mark.skipif(
    icu.tables_path() is None, reason="needs `pip install --no-deps icu-sepsis`"
)


def survival(m, policy):
    return hl.expected_return(m, policy, horizon=500, discounted=False)


def test_returns_of_random_expert_and_optimal_treatment_are_the_published_ones():
    m = icu.icu_sepsis()
    sol = hl.solve(m)
    assert sol.error < 1e-6
    assert survival(m, np.full((716, 25), 1 / 25)) == pytest.approx(0.78, abs=0.005)
    assert survival(m, icu.expert_policy()) == pytest.approx(0.78, abs=0.005)
    assert survival(m, sol.policy) == pytest.approx(0.875, abs=0.0005)
    assert "icu_sepsis" not in sys.modules


@pytest.mark.parametrize(
    ("options", "n_actions"),
    [({}, 25), ({"difference": 0.2, "level": 0, "elsewhere": 0.1}, 25), ({"dropped": 5}, 20)],
)
def test_any_two_hospitals_are_as_near_as_their_family_says(options, n_actions):
    family = icu.Hospitals(**options)
    near, tasks = family.nearness, [family.hospital(i) for i in range(3)]
    between = hl.family_nearness(tasks)
    assert (between.transitions <= near.transitions).all()
    assert between.transitions.max() > near.transitions.max() / 2
    assert between.rewards.max() <= 1e-290  # an allowance for rounding
    first, possible = near.successors
    for m in tasks:
        rows = m.transitions
        assert (m.available.sum(axis=1) == n_actions).all()
        assert (m.R <= near.highest_rewards).all()
        assert np.asarray(m.T.sum(axis=1)).ravel()[m.available.ravel()] == pytest.approx(1.0)
        continuing = rows.pairs * 716 + rows.successors
        if rows.ends is not None:
            continuing = continuing[~rows.ends]
        assert np.isin(
            continuing, np.repeat(np.arange(17_900), np.diff(first)) * 716 + possible
        ).all()


def test_index_of_a_hospital_determines_its_task_and_hospitals_differ_in_their_best_treatment():
    one, again, other = (icu.Hospitals().hospital(i) for i in (1, 1, 2))
    assert np.array_equal(one.transitions.p, again.transitions.p)
    policies = hl.solve(one).policy, hl.solve(other).policy
    assert (policies[0] != policies[1]).mean() > 0.05
    assert survival(other, policies[1]) > survival(other, policies[0]) + 0.001


def test_doses_below_the_level_act_alike_in_all_hospitals():
    family = icu.Hospitals(level=3)
    near = hl.family_nearness([icu.icu_sepsis(), family.hospital(1)]).transitions
    low = np.arange(25) % 5 < 3
    assert near[:, low].max() < 1e-12 < 0.01 < near[:, ~low].max()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"difference": 2}, "difference is 2"),
        ({"elsewhere": -1}, "elsewhere is -1"),
        ({"level": 5}, "level is 5"),
    ],
)
def test_invalid_options_of_hospitals_are_reported(options, message):
    with pytest.raises(hl.errors.InvalidArgument, match=message):
        icu.Hospitals(**options).hospital(1)


def test_invalid_number_of_dropped_actions_is_reported():
    with pytest.raises(hl.errors.InvalidArgument, match="dropped is 25"):
        icu.Hospitals(dropped=25).hospital(1)


def test_agents_learn_hospitals_with_bounds_that_cover_the_optimal_values():
    """With exact sources, as if each pair of a source had been visited infinitely often."""
    family = icu.Hospitals()
    target, source = family.hospital(1), family.hospital(2)
    Q = hl.solve(target).Q
    U = hl.near_bound(target, source, family.nearness, tol=1e-2)
    assert (Q <= U + 1e-9).all()
    assert U.max(axis=1) @ target.start < 1.0


def agents_of(family, **options):
    """Return agents that use true knowledge of the family, or none."""
    options = {"seed": 0, "tol": 1e-3, **family.options, **options}
    return {
        "RMax": hl.RMax(**options),
        "LRMax": hl.LRMax(d_max=family.d_max, **options),
        "NearRMax": hl.NearRMax(nearness=family.nearness, **options),
    }


def exact_source(m):
    """Return a task as a source, as if each of its pairs had been visited infinitely often."""
    t, rows, Q = m.transitions, m.transitions.continuing, hl.solve(m).Q
    known, ends = m.available.reshape(-1), t.end_probability
    arrays = rows.indptr[:-1], rows.indptr[1:], rows.successors, rows.p
    given = Rows(known, np.zeros(known.size, dtype=np.int64), t.R, ends, *arrays)
    return Source(given, Q.reshape(-1), Q.max(axis=1), available=known)


def test_agents_never_choose_a_treatment_that_a_hospital_does_not_have():
    family = icu.Hospitals(difference=0.05, dropped=5)
    for agent in agents_of(family, n_known=2).values():
        for i in range(3):
            m = family.hospital(i)
            hl.learn(agent, m, episodes=200, max_steps=200, seed=i)
            missing = ~m.available
            assert (agent.model.counts[missing] == 0).all()
            assert agent.model.counts.sum() > 1000
            assert np.isneginf(agent.Q[missing]).all()
            assert np.isneginf(agent.U[missing]).all()
            assert not agent.greedy[missing].any()


@pytest.mark.slow
def test_bounds_of_agents_cover_the_optimal_values_of_hospitals_that_drop_treatments():
    """Sources are exact, and each hospital lacks other treatments than the sources."""
    family = icu.Hospitals(difference=0.05, dropped=5)
    target, *others = [family.hospital(i) for i in range(3)]
    assert not all(np.array_equal(m.available, target.available) for m in others)
    memory = TaskMemory(icu.N_STATES, icu.N_ACTIONS)
    for m in others:
        memory.add(exact_source(m))
    Q_star, there, lowered = hl.solve(target), target.available, {}
    for name, agent in agents_of(family, n_known=10, memory=memory).items():
        agent.begin_task(available=there)
        for values in (agent.U, agent.Q):
            assert (values[there] >= Q_star.Q[there] - Q_star.error - 1e-9).all()
            assert np.isneginf(values[~there]).all()
        lowered[name] = (agent.U[there] < 1.0).mean()
    assert lowered["RMax"] == 0 < lowered["NearRMax"]
