"""Sources that cannot lower a bound are dropped when a task begins, which changes no result."""

import numpy as np
import pytest

import heirloom as hl
from heirloom.envs.inventory import seasons
from heirloom.transfer.lipschitz.screening import can_lower
from tests.reference.learned_models import KeepAll
from tests.strategies import seeds
from tests.transfer.test_all_sources import agents_of, draw_lifetime, observe_same_steps


def lifetime(seed):
    """Draw a lifetime; in half of the cases the prior is close to the least useless one."""
    rng = np.random.default_rng(seed)
    options, d_max, tasks = draw_lifetime(rng)
    lo, hi = options["reward_range"]
    if rng.random() < 0.5:
        scale = (hi - lo) / (1 - options["gamma"])
        d_max = scale * rng.uniform(0.3, 1.5, (options["n_states"], options["n_actions"]))
    if rng.random() < 0.3 and hi > 0:
        options["v_max"] = 0.7 * hi / (1 - options["gamma"])
    return options, d_max, tasks, rng


def compare_lifetimes(seed, *, other_bounds=tuple):
    """Return how often a source was dropped at the beginning of a task, and how often it was kept.

    Checks after every update that Q and U are those of an agent that drops no source.
    """
    options, d_max, tasks, rng = lifetime(seed)
    options["on_refutation"] = "ignore"  # some of the priors are false
    agents = [
        hl.OptimisticAgent(bounds=[bound(d_max=d_max), *other_bounds()], **options, seed=0)
        for bound in (hl.Lipschitz, KeepAll)
    ]
    dropped = kept = 0
    task = None
    for _ in observe_same_steps(agents, tasks, rng):
        if agents[0].task is not task:
            task = agents[0].task
            dropped += len(agents[0].bounds[0].details().dropped)
            kept += len(agents[0].bounds[0].transfers)
        np.testing.assert_array_equal(agents[0].Q, agents[1].Q)
        np.testing.assert_array_equal(agents[0].U, agents[1].U)
    return dropped, kept


@pytest.mark.parametrize("other_bounds", [tuple, lambda: [hl.MaxQ(p_min=0.1, delta=0.9)]])
def test_dropping_useless_sources_does_not_change_values(other_bounds):
    counts = [compare_lifetimes(seed, other_bounds=other_bounds) for seed in range(20)]
    dropped, kept = np.sum(counts, axis=0)
    assert dropped > 5
    assert kept > 5


@pytest.mark.parametrize(
    "n", [pytest.param(400, marks=pytest.mark.slow), pytest.param(4000, marks=pytest.mark.full)]
)
def test_dropping_useless_sources_does_not_change_values_in_many_lifetimes(n):
    dropped, kept = np.sum([compare_lifetimes(seed) for seed in range(1000, 1000 + n)], axis=0)
    assert dropped > 0.3 * n
    assert kept > 0.3 * n


@pytest.mark.parametrize("seed", seeds(40))
def test_dropped_sources_lower_no_bound_alone(seed):
    """Each source of a lifetime on its own, as the only source of an agent that keeps it."""
    options, d_max, tasks, rng = lifetime(seed)
    (agent,) = agents_of([KeepAll(d_max=d_max)], options)
    for _ in observe_same_steps([agent], tasks[:-1], rng):
        pass
    prior = np.broadcast_to(d_max, (options["n_states"], options["n_actions"])).reshape(-1)
    for source in list(agent.memory.sources):
        (alone,) = agents_of([KeepAll(d_max=d_max)], options)
        alone.memory.n_tasks = agent.memory.n_tasks
        alone.memory._sources[:] = [source]
        if can_lower(source, prior, alone.setting):
            continue
        for _ in observe_same_steps([alone], tasks[-1:], rng):
            assert (alone.U >= alone.setting.v_max - alone.setting.tol).all()


@pytest.mark.parametrize("d_max", [1e6, "largest"])
def test_sources_with_a_hopeless_prior_are_not_used(d_max):
    """The agent then takes the same actions as RMax, and its updates cost nothing more."""
    family = seasons()
    d_max = float(family.d_max.max()) if d_max == "largest" else d_max
    options = {"n_known": 5, **family.options}
    lrmax, rmax = hl.LRMax(d_max=d_max, seed=0, **options), hl.RMax(seed=0, **options)
    for i, m in enumerate(family.all_tasks):
        record, rmax_record = (
            hl.learn(agent, m, episodes=20, max_steps=50, seed=i) for agent in (lrmax, rmax)
        )
        np.testing.assert_array_equal(record.returns, rmax_record.returns)
        np.testing.assert_array_equal(lrmax.Q, rmax.Q)
        details = lrmax.bounds[0].details()
        assert lrmax.bounds[0].transfers == []
        assert details.dropped == tuple((task, 0) for task in range(1, i + 1))


def test_source_with_a_small_prior_at_one_pair_is_kept():
    family = seasons()
    d_max = np.full((11, 6), 1e6)
    d_max[3, 2] = 0.0
    agent = hl.LRMax(d_max=d_max, n_known=5, seed=0, **family.options)
    hl.learn(agent, family.first, episodes=20, max_steps=50, seed=0)
    agent.begin_task()
    assert len(agent.bounds[0].transfers) == 1
    assert agent.bounds[0].details().dropped == ()
