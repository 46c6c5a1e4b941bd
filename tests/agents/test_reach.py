"""Every algorithm reaches 95 % of the optimal return on a chain, a river swim and a FrozenLake."""

import numpy as np
import pytest

import heirloom as hl
from heirloom.agents.algorithm_options import TaskKnowledge
from heirloom.agents.algorithms import ALGORITHMS
from heirloom.envs.toy_text import frozen_lake
from tests.domains import chain, river_swim

LAKE = ("SFFF", "FHFH", "FFFH", "HFFG")
FAMILIES = {
    "chain": hl.FiniteFamily({f"slip {p:g}": chain(p) for p in (0.1, 0.2)}),
    "river swim": hl.FiniteFamily({f"current {p:g}": river_swim(p) for p in (0.05, 0.1)}),
    "FrozenLake": hl.FiniteFamily(
        {f"slip {p:g}": frozen_lake(LAKE, slip=p, gamma=0.95) for p in (0.05, 0.1)},
        v_max=1.0,  # the goal pays 1 and is terminal
    ),
}
SEEDS, STEPS = range(8), 30
EPISODES = {"chain": 250, "river swim": 250, "FrozenLake": 1000}
"""The episodes per task; most episodes of FrozenLake end after few steps."""
TIMES = {
    **dict.fromkeys(("PSRL", "VMax"), 2),
    **dict.fromkeys(("BUMEX", "CertifiedRMax", "MBIE", "PolicyReuse", "ShapedLifelong"), 4),
    **dict.fromkeys(("DelayedQ", "QUCB"), 20),
}
"""The factor on `EPISODES` of algorithms that need more, by name."""
# The default of `n_known`, 2, gives RMax up too early: in the river a swimmer moves right in one
# stroke of three, so that two failures are frequent, and look like a stroke that never succeeds.
PRACTICAL = {"n_known": 20}
"""Options that replace defaults, for algorithms that have them."""


def options_of(name, family):
    """Return true knowledge, an optimistic start of tables, and practical constants."""
    Q = np.array([hl.solve(m).Q for m in family.all_tasks])
    values = {
        "beta": float(np.ptp(Q, axis=0).max()) + 0.1,
        "initial_Q": min(family.v_max, family.first.v_max),
        **PRACTICAL,
    }
    fields = ALGORITHMS[name].options.model_fields
    if name == "CertifiedRMax":  # without it, the sets are too large to explore with
        values |= {"nearness": "family", "rewards": "per transition"}
    if "initial_Q" in fields:  # Q-learning
        values["learning_rate"] = 0.05
    return {key: value for key, value in values.items() if key in fields}


def shares(name, family, seed, episodes):
    """Learn the tasks of a family; return V^π / V* of each learned policy at the start."""
    tasks = family.all_tasks
    known = TaskKnowledge(
        family.options, family.p_min, lambda: family.d_max, lambda: family.nearness, tasks
    )
    agent = ALGORITHMS[name].make(options_of(name, family), known, np.random.default_rng(seed))
    found = []
    for i, m in enumerate(tasks):
        hl.learn(agent, m, episodes=episodes, max_steps=STEPS, seed=10 * seed + i)
        found.append(hl.evaluate(m, agent.policy).V[0] / hl.solve(m).V[0])
    return found


@pytest.mark.parametrize("where", FAMILIES)
@pytest.mark.parametrize("name", ALGORITHMS)
def test_algorithm_reaches_95_percent_of_the_optimal_return(name, where):
    """The expected discounted return of the learned policies, averaged over seeds and two tasks."""
    episodes = TIMES.get(name, 1) * EPISODES[where]
    found = np.array([shares(name, FAMILIES[where], seed, episodes) for seed in SEEDS])
    assert found.mean() >= 0.95, found.round(2)
