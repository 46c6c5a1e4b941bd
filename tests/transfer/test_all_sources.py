"""`AllSources` agrees with an implementation source by source, and with the exact fixed points."""

import numpy as np
import pytest

import heirloom as hl
from heirloom.envs.grid import grid_world
from heirloom.envs.inventory import prices
from heirloom.envs.toy_text import frozen_lakes
from heirloom.kernels import sources as kernels
from heirloom.transfer.lipschitz.all_sources import plain_tuples
from heirloom.transfer.lipschitz.distance import heaviest_of, measure, weigh
from tests.reference.learned_models import KeepAll
from tests.reference.lipschitz import Distances, ReferenceLipschitz
from tests.strategies import draw_shape, draw_task, seeds


class AllStatesDecreased(hl.Lipschitz):
    """Examines all states in an update, not only those whose value decreased."""

    def refine(self, change):
        return super().refine(change._replace(decreased=np.arange(change.V.size)))


def draw_lifetime(rng, n_tasks=4):
    """Draw the options of an agent, a prior, and a sequence of tasks."""
    shape = draw_shape(rng)
    if rng.random() < 0.2:  # more states than are ranked
        shape = shape._replace(n_states=90, n_actions=1, branching=3, gamma=0.9)
    tasks = [draw_task(rng, shape) for _ in range(n_tasks)]
    m = tasks[0]
    options = {
        "n_states": m.n_states,
        "n_actions": m.n_actions,
        "gamma": m.gamma,
        "n_known": int(rng.integers(1, 4)),
        "epsilon": float(rng.choice([0.0, 1e-3, 0.1])),
        "reward_range": m.reward_range,
        "tol": float(rng.choice([1e-6, 1e-2])),
    }
    largest = 2 * (m.reward_range[1] - m.reward_range[0]) / (1 - m.gamma)
    d_max = largest * rng.choice([0.01, 0.1, 0.5, 2.0])
    if rng.random() < 0.5:
        d_max = d_max * rng.random((m.n_states, m.n_actions))
    return options, d_max, tasks


def agents_of(bounds, options):
    return [hl.OptimisticAgent(bounds=[bound], **options, seed=0) for bound in bounds]


def observe_same_steps(agents, tasks, rng, steps=12):
    """Let all agents observe the same random steps; yield after each update."""
    for m in tasks:
        for agent in agents:
            agent.begin_task()
        yield m
        env = m.to_gymnasium()
        s, _ = env.reset(seed=int(rng.integers(2**31)))
        for _ in range(steps * min(m.n_states, 30)):
            a = int(rng.integers(m.n_actions))
            s_next, r, ended, *_ = env.step(a)
            became_known = [
                agent.observe(s, a, float(r), int(s_next), terminated=ended) for agent in agents
            ]
            if became_known[0]:
                yield m
            s = env.reset()[0] if ended else s_next
        for agent in agents:
            agent.end_task()
            agent.memory._sources[:] = agents[0].memory.sources


@pytest.mark.parametrize("seed", seeds(12))
def test_all_sources_at_once_agree_with_the_reference_implementation(seed):
    """D̂(M ‖ M̄) agrees to the bit, d̂(M ‖ M̄) within the tolerance, and the bounds nearly."""
    rng = np.random.default_rng(seed)
    compared = 0
    for _ in range(4):
        options, d_max, tasks = draw_lifetime(rng)
        bounds = hl.Lipschitz(d_max=d_max), ReferenceLipschitz(d_max=d_max)
        agents = agents_of(bounds, options)
        tol = 1e-9 + agents[0].setting.tol
        for _ in observe_same_steps(agents, tasks, rng):
            by_task = [{t.source.task: t for t in bound.transfers} for bound in bounds]
            for task in by_task[0].keys() & by_task[1].keys():
                fast, other = (transfers[task].to_source for transfers in by_task)
                assert np.array_equal(fast.D, other.D)
                assert fast.largest == pytest.approx(other.largest, abs=tol, rel=0)
                compared += 1
            # D̂(M̄ ‖ M) is weighted by values that differ within the tolerance, and d̂ accumulates
            # these differences.
            accumulated = 2 * tol / (1 - options["gamma"]) ** 2
            assert np.abs(agents[0].U - agents[1].U).max() <= accumulated
    assert compared > 50


def test_no_pair_is_unmarked_that_was_not_marked():
    """One more entry of `is_listed` is marked, and `listed` has only its index at the beginning.

    The source has no known pair.
    """
    n_updates = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        options, d_max, tasks = draw_lifetime(rng, n_tasks=1)
        (agent,) = agents_of([hl.Lipschitz(d_max=d_max)], options)
        agent.begin_task()
        agent.end_task()
        (source,) = agent.memory.sources
        lo, hi = (bound / (1 - agent.gamma) for bound in options["reward_range"])
        Q = rng.uniform(lo, hi, source.Q.size)
        V = Q.reshape(agent.n_states, -1).max(axis=1)
        agent.memory._sources[0] = source._with(Q=Q, V=V)
        agent.begin_task()
        sources = agent.bounds[0]._all
        if sources is None:
            continue
        n_pairs = agent.setting.n_pairs
        is_listed, listed = np.zeros(n_pairs + 1, dtype=bool), np.full(n_pairs, n_pairs)
        is_listed[n_pairs] = True
        sources._plain = plain_tuples(sources.state._replace(is_listed=is_listed, listed=listed))
        for _ in random_updates(agent, tasks[0], rng):
            n_updates += 1
            assert is_listed.tolist() == [False] * n_pairs + [True]
    assert n_updates > 100


def random_updates(agent, m, rng, steps=60):
    """Let an agent observe random steps; yield after each update."""
    env = m.to_gymnasium()
    s, _ = env.reset(seed=int(rng.integers(2**31)))
    for _ in range(steps):
        a = int(rng.integers(m.n_actions))
        s_next, r, ended, *_ = env.step(a)
        if agent.observe(s, a, float(r), int(s_next), terminated=ended):
            yield
        s = env.reset()[0] if ended else s_next


FAMILIES = {
    "frozen lakes": (
        frozen_lakes,
        {"n_known": 10, "refresh": None},
        {"episodes": 1000, "max_steps": 100},
    ),
    "prices": (prices, {"n_known": 20, "refresh": None}, {"episodes": 50, "max_steps": 50}),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_actions_do_not_depend_on_how_distances_are_solved(name):
    """The bounds differ from those of the reference, and the agents still act alike to the bit."""
    make, options, length = FAMILIES[name]
    family = make()
    rng = np.random.default_rng(0)
    tasks = [family.draw(rng) for _ in range(6)]
    bounds = [kind(d_max=family.d_max) for kind in (hl.Lipschitz, ReferenceLipschitz)]
    agents = agents_of(bounds, {**options, **family.options})
    differ = False
    for seed, m in enumerate(tasks):
        record, expected = (hl.learn(agent, m, **length, seed=seed) for agent in agents)
        assert np.array_equal(record.returns, expected.returns)
        assert np.array_equal(record.update_steps, expected.update_steps)
        differ |= not np.array_equal(agents[0].U, agents[1].U)
    assert differ  # with equal bounds, the test would be trivial


@pytest.mark.parametrize("seed", seeds(10))
def test_updated_distances_agree_with_distances_computed_from_scratch(seed):
    """After each update D̂ is at most that of the full table, and d̂ is within its tolerance."""
    rng = np.random.default_rng(100 + seed)
    n_checked = 0
    for _ in range(3):
        options, d_max, tasks = draw_lifetime(rng)
        (agent,) = agents_of([KeepAll(d_max=d_max)], {**options, "refresh": None})
        (bound,), setting = agent.bounds, agent.setting
        V, pairs = None, np.arange(setting.n_pairs)
        for _ in observe_same_steps([agent], tasks, rng, steps=6):
            rows, tol = agent.model.rows, setting.tol + 1e-9
            for transfer in bound.transfers:
                rows_bar = transfer.source.rows
                # All states are ranked, so that D does not depend on the choice of the heaviest.
                weights = weigh(transfer.source.V, setting.n_states, setting)
                D = measure(rows, rows_bar, weights, pairs, setting)
                assert np.array_equal(transfer.to_source.D, np.minimum(transfer.prior, D))
                if V is not None and rows.known.any():
                    weights = weigh(V, setting.n_states, setting)
                    D = measure(rows_bar, rows, weights, pairs, setting)
                    assert (transfer.from_source.D <= D).all()
                from_source = Distances(transfer.from_source.D, setting)
                from_source.lower(rows_bar)
                assert np.abs(transfer.from_source.d - from_source.d).max() <= tol
                assert abs(transfer.from_source.largest - from_source.largest) <= tol
                to_source = Distances(transfer.to_source.D, setting)
                to_source.lower(rows)
                assert abs(transfer.to_source.largest - to_source.largest) <= tol
                n_checked += 1
            V = agent.Q.max(axis=1)
    assert n_checked > 20


@pytest.mark.parametrize("seed", seeds(10))
def test_dropping_sources_and_tracking_decreased_states_change_no_bit(seed):
    """Bounds are the same if all sources are kept, and if each update examines all states."""
    rng = np.random.default_rng(200 + seed)
    dropped = 0
    for _ in range(5):
        options, d_max, tasks = draw_lifetime(rng, n_tasks=6)
        d_max = d_max * rng.choice([0.02, 1.0])
        agents = agents_of(
            [kind(d_max=d_max) for kind in (hl.Lipschitz, KeepAll, AllStatesDecreased)], options
        )
        for _ in observe_same_steps(agents, tasks, rng, steps=6):
            for other in agents[1:]:
                assert np.array_equal(agents[0].U, other.U)
                assert np.array_equal(agents[0].Q, other.Q)
                assert np.array_equal(
                    agents[0].bounds[0].sources_used(), other.bounds[0].sources_used()
                )
        dropped += len(agents[0].bounds[0].details().dropped)
    assert dropped > 0


@pytest.mark.parametrize("seed", seeds(40))
def test_heaviest_states_stay_sorted_as_weights_decrease(seed):
    """With ties, the weights of the ranked states are the largest of all weights, in order."""
    rng = np.random.default_rng(seed)
    n, n_ranks = int(rng.integers(2, 60)), int(rng.integers(1, 6))
    n_ranks = min(n_ranks, n)
    W = np.round(rng.random(n) * 4)
    heavy = heaviest_of(W, n_ranks + 3)
    nothing = dict.fromkeys(kernels.Sources._fields)
    sources = kernels.Sources(**nothing)._replace(
        W=W,
        floor=0.0,
        heavy=heavy,
        is_heavy=np.isin(np.arange(n), heavy),
        outside_bound=np.array([W[heavy[-1]] if heavy.size < n else -np.inf]),
        top_weights=np.sort(W)[::-1][:n_ranks].copy(),
    )
    for _ in range(60):
        before = np.sort(W)[::-1][:n_ranks].copy()
        decreased = np.flatnonzero(rng.random(n) < 0.1)
        V = W.copy()
        V[decreased] = np.maximum(V[decreased] - np.round(rng.random(decreased.size)), 0.0)
        changed = kernels._update_weights(V, decreased, sources)
        after = np.sort(V)[::-1][:n_ranks]
        assert np.array_equal(W, V)
        assert np.array_equal(W[heavy[:n_ranks]], after)
        assert changed == (not np.array_equal(before, after))


@pytest.mark.parametrize("d_max", [0.05, 0.5, 3.0])
def test_dropping_changes_no_bit_with_256_sources(d_max):
    """With 256 sources, returns, updates and values do not depend on dropping sources."""
    options = {"n_states": 25, "n_actions": 4, "gamma": 0.9, "n_known": 3, "epsilon": 1e-3}
    rng = np.random.default_rng(0)
    grid = ["....G", ".....", "..S..", ".....", "....."]
    tasks = [
        grid_world(grid, gamma=0.9, slip=rng.uniform(0, 0.1), goal_rewards=rng.uniform(0.8, 1))
        for _ in range(257)
    ]
    teacher = hl.RMax(**options, seed=0)
    for seed, m in enumerate(tasks[:-1]):
        hl.learn(teacher, m, episodes=40, max_steps=10, seed=seed)
    agents = agents_of([kind(d_max=d_max) for kind in (hl.Lipschitz, KeepAll)], options)
    for agent in agents:
        agent.memory._sources[:] = teacher.memory.sources
    dropping, keeping = (
        hl.learn(agent, tasks[-1], episodes=200, max_steps=10, seed=0) for agent in agents
    )
    assert np.array_equal(dropping.returns, keeping.returns)
    assert np.array_equal(dropping.update_steps, keeping.update_steps)
    assert np.array_equal(agents[0].U, agents[1].U)
    assert np.array_equal(agents[0].Q, agents[1].Q)
    assert (agents[0].U < agents[0].setting.v_max).any() == (d_max < 0.9)
