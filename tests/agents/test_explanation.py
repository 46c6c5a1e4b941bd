"""An explanation says what is so: each number against the bounds themselves."""

import numpy as np
import pytest

import heirloom as hl
from heirloom.transfer.bound import Constant, MaxQ
from heirloom.transfer.lipschitz.bound import Lipschitz
from tests.agents.test_agents import COMMON, tight_tasks
from tests.agents.test_soundness import draw_family, largest_distances, make_agent


class Low(Constant):
    """A bound of one's own, which decides everywhere."""

    def begin_task(self, setting, model, memory):
        self.U = np.full(setting.n_pairs, setting.v_max / 2)
        return False


def learned(agent, tasks, episodes=60):
    for i, m in enumerate(tasks):
        hl.learn(agent, m, episodes=episodes, max_steps=10, seed=i)
    return agent


def test_rmax_has_nothing_but_v_max_and_its_model():
    agent = learned(hl.RMax(**COMMON, seed=0), tight_tasks(1), episodes=300)
    explanation = agent.explain()
    assert explanation.names == ("v_max", "learned model")
    n_model = int((agent.Q < agent.U).sum())
    assert explanation.n_decided == {"v_max": 484 - n_model, "learned model": n_model}
    assert n_model > 0
    assert explanation.prior_use == {}
    assert explanation.dropped == ()


def test_each_pair_has_the_bound_that_is_its_value():
    """Wherever a source is said to decide, its own bound is U: on random families."""
    rng = np.random.default_rng(0)
    decided = 0
    for _ in range(60):
        tasks = draw_family(rng)
        bounds = [Lipschitz(d_max=largest_distances(tasks)), MaxQ(p_min=0.6, delta=0.5)]
        agent = make_agent(bounds, tasks, rng)
        for i in rng.integers(len(tasks), size=3):
            hl.learn(agent, tasks[i], episodes=4, max_steps=4, seed=0)
        agent.begin_task()
        explanation = agent.explain()
        assert explanation.names[:4] == ("v_max", *(f"Lipschitz, task {i}" for i in (1, 2, 3)))
        says = {
            "v_max": np.full(agent.setting.n_pairs, agent.setting.v_max),
            **{f"Lipschitz, task {t.source.task}": t.U for t in bounds[0].transfers},
            "MaxQ": bounds[1].U,
        }
        for name, U in says.items():
            where = explanation.bound == explanation.names.index(name)
            assert np.array_equal(agent.U[where], U.reshape(agent.U.shape)[where]), name
            decided += int(where.sum()) if name != "v_max" else 0
        assert sum(explanation.n_decided.values()) == agent.setting.n_pairs
        agent.drop_task()
    assert decided > 100


def test_what_decided_stays_when_a_pair_becomes_known():
    """The bound that is frozen at a known pair keeps its name, its source dropped or not."""
    tasks = tight_tasks(3)
    agent = learned(hl.LRMax(d_max=0.1, **COMMON, seed=0), tasks, episodes=400)
    explanation = agent.explain()
    known = explanation.known
    transferred = known & (explanation.U < agent.setting.v_max)
    assert transferred.any()
    assert (explanation.bound[transferred] > 0).all()
    assert (explanation.bound[explanation.U == agent.setting.v_max] == 0).all()


def test_a_source_that_says_nothing_more_is_dropped():
    m = hl.TabularMDP([[0.5], [0.5]], [[[0.0, 1.0]], [[1.0, 0.0]]], gamma=0.9)
    agent = hl.LRMax(d_max=0.0, n_states=2, n_actions=1, gamma=0.9, n_known=1, seed=0)
    learned(agent, [m, m])
    explanation = agent.explain()
    assert [tuple(dropped) for dropped in explanation.dropped] == [(1, 1)]
    assert "task 1 was dropped when 1 pairs were known" in repr(explanation)
    assert explanation.n_decided["Lipschitz, task 1"] + explanation.n_decided["learned model"] == 2


def test_the_prior_decides_where_it_is_below_what_is_known():
    """All of it at a prior of 0 with inaccurate models, nothing at the largest distance there is.

    With rewards in [0, 1] and γ = 0.9 that is 1 + 0.9 (10 + 10) = 19.
    """
    for d_max, part in ((0.0, 1.0), (19.0, 0.0)):
        agent = hl.LRMax(d_max=d_max, **COMMON, seed=0)
        learned(agent, tight_tasks(1), episodes=50)
        agent.begin_task()
        assert agent.explain().prior_use == {"Lipschitz, task 1": part}
    agent = hl.LRMax(d_max=12.0, **COMMON, seed=0)
    learned(agent, tight_tasks(2), episodes=400)
    between = agent.explain().prior_use["Lipschitz, task 1"]
    assert 0 < between < 1
    decided = agent.explain().prior_used["Lipschitz, task 1"]
    D = agent.bounds[0].transfers[0].to_source.D
    assert np.array_equal(decided, D.reshape(121, 4) == 12.0)


def test_what_is_to_explore_is_unknown_and_greedy():
    m = tight_tasks(1)[0]
    agent = hl.RMax(**COMMON, seed=0)
    agent.begin_task()
    assert not agent.explain().to_explore.any()  # nowhere yet
    assert "everything, no state was reached yet" in repr(agent.explain())
    agent.observe(60, 0, 0.0, 49, terminated=False)
    explanation = agent.explain()
    assert np.array_equal(np.flatnonzero(explanation.to_explore.any(axis=1)), [49, 60])
    agent.drop_task()
    learned(agent, [m], episodes=3000)
    explanation = agent.explain()
    assert not (explanation.to_explore & explanation.known).any()
    s, a = np.argwhere(explanation.to_explore)[0]
    assert agent.Q[s, a] == agent.Q[s].max()


def test_why():
    agent = learned(hl.LRMax(d_max=0.1, **COMMON, seed=0), tight_tasks(2), episodes=400)
    explanation = agent.explain()
    for name, sentence in {
        "v_max": "is the bound of v_max: the pair is unknown, with",
        "Lipschitz, task 1": "is the bound of Lipschitz, task 1",
        "learned model": "follows from the learned model",
    }.items():
        s, a = np.argwhere(explanation.decider == explanation.names.index(name))[0]
        assert sentence in explanation.why(s, a)
        assert f"{agent.Q[s, a]:.6g}" in explanation.why(s, a)
    with pytest.raises(hl.InvalidArgument, match="s is 121"):
        explanation.why(121, 0)


def test_bounds_of_the_same_kind_are_told_apart():
    bounds = [Low(), MaxQ(p_min=0.9), MaxQ(p_min=0.5)]
    agent = learned(hl.OptimisticAgent(bounds=bounds, **COMMON, seed=0), tight_tasks(1))
    explanation = agent.explain()
    assert explanation.names == ("v_max", "Low", "MaxQ 2", "MaxQ 3", "learned model")
    assert explanation.n_decided["Low"] + explanation.n_decided["learned model"] == 484


def test_as_xarray():
    agent = learned(hl.LRMax(d_max=0.1, **COMMON, seed=0), tight_tasks(2))
    data = agent.explain().to_xarray()
    assert dict(data.sizes) == {"state": 121, "action": 4, "source": 1}
    assert np.array_equal(data.Q, agent.Q)
    names = agent.explain().n_decided
    for name, number in names.items():
        assert int((data.decider == name).sum()) == number
    assert data.prior_used.sel(source="Lipschitz, task 1").dtype == bool


def test_an_explanation_is_a_snapshot():
    agent = hl.RMax(**COMMON, seed=0)
    agent.begin_task()
    explanation = agent.explain()
    for _ in range(3):
        agent.observe(60, 0, 0.0, 49, terminated=False)
    assert not explanation.known.any()
    assert agent.known.any()
    with pytest.raises(ValueError, match="read-only"):
        explanation.Q[0, 0] = 1.0


def test_there_was_no_task_yet():
    with pytest.raises(hl.WrongOrder, match="there was no task yet"):
        hl.RMax(**COMMON).explain()
