"""All sources at once, against each on its own, and against the fixed points they stand for."""

import numpy as np
import pytest

import heirloom as hl
from heirloom.envs.grid import grid_world
from heirloom.envs.inventory import prices
from heirloom.envs.toy_text import frozen_lakes
from heirloom.kernels import distances
from heirloom.transfer.lipschitz.distance import WeightedL1
from tests.reference.learned_models import KeepAll
from tests.reference.lipschitz import Distances, ReferenceLipschitz
from tests.strategies import draw_shape, draw_task


class Called(WeightedL1):
    """The same distance, of another class: it takes the way of any distance."""


class Looking(hl.Lipschitz):
    """Looks at all states, not only at those whose value fell."""

    def refine(self, change):
        return super().refine(change._replace(decreased=np.arange(change.V.size)))


def draw_life(rng, n_tasks=4):
    """Options of an agent, a prior, and tasks."""
    shape = draw_shape(rng)
    if rng.random() < 0.2:  # more states than are ranked at once
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


def learned_alike(agents, tasks, rng, steps=12):
    """Tell all agents of the same steps; yields after each update."""
    for m in tasks:
        for agent in agents:
            agent.begin_task()
        yield m
        env = m.to_gymnasium()
        s, _ = env.reset(seed=int(rng.integers(2**31)))
        for _ in range(steps * min(m.n_states, 30)):
            a = int(rng.integers(m.n_actions))
            s_next, r, ended, *_ = env.step(a)
            became = [
                agent.observe(s, a, float(r), int(s_next), terminated=ended) for agent in agents
            ]
            if became[0]:
                yield m
            s = env.reset()[0] if ended else s_next
        for agent in agents:
            agent.end_task()
            agent.memory.sources[:] = agents[0].memory.sources


OTHERS = {
    "the reference": lambda d_max: ReferenceLipschitz(d_max=d_max),
    "any distance": lambda d_max: hl.Lipschitz(d_max=d_max, distance=Called()),
}


@pytest.mark.parametrize("other_way", OTHERS)
@pytest.mark.parametrize("seed", range(12))
def test_all_sources_at_once_say_what_other_ways_say(seed, other_way):
    """From the task D̂ to the bit, d̂ within the tolerance; bounds as near as values are weights."""
    rng = np.random.default_rng(seed)
    compared = 0
    for _ in range(4):
        options, d_max, tasks = draw_life(rng)
        bounds = hl.Lipschitz(d_max=d_max), OTHERS[other_way](d_max)
        agents = agents_of(bounds, options)
        tol = 1e-9 + agents[0].setting.tol
        for _ in learned_alike(agents, tasks, rng):
            here, there = ({t.source.task: t for t in bound.transfers} for bound in bounds)
            for task in here.keys() & there.keys():
                one, other = here[task], there[task]
                assert np.array_equal(one.there.D, other.there.D)
                assert one.there.largest == pytest.approx(other.there.largest, abs=tol, rel=0)
                compared += 1
            # Values within the tolerance weigh differences, and what follows from them adds up.
            far = 2 * tol / (1 - options["gamma"]) ** 2
            assert np.abs(agents[0].U - agents[1].U).max() <= far
    assert compared > 50


FAMILIES = {
    "frozen lakes": (frozen_lakes, {"n_known": 10}, {"episodes": 1000, "max_steps": 100}),
    "prices": (prices, {"n_known": 20}, {"episodes": 50, "max_steps": 50}),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_what_an_agent_does_does_not_depend_on_how_distances_are_solved(name):
    """All sources at once stop elsewhere than the reference, and agents act alike to the bit."""
    make, options, length = FAMILIES[name]
    family = make()
    rng = np.random.default_rng(0)
    tasks = [family.draw(rng) for _ in range(6)]
    bounds = [kind(d_max=family.d_max) for kind in (hl.Lipschitz, ReferenceLipschitz)]
    agents = agents_of(bounds, {**options, **family.options})
    differ = False
    for seed, m in enumerate(tasks):
        one, other = (hl.learn(agent, m, **length, seed=seed) for agent in agents)
        assert np.array_equal(one.returns, other.returns)
        assert np.array_equal(one.update_steps, other.update_steps)
        differ |= not np.array_equal(agents[0].U, agents[1].U)
    assert differ  # otherwise this would show nothing


@pytest.mark.parametrize("seed", range(10))
def test_distances_are_as_if_measured_and_solved_anew(seed):
    """At each update: D̂ is never above the whole table, d̂ within its tolerance of the solution."""
    rng = np.random.default_rng(100 + seed)
    looked = 0
    for _ in range(3):
        options, d_max, tasks = draw_life(rng)
        (agent,) = agents_of([hl.Lipschitz(d_max=d_max)], options)
        (bound,), setting = agent.bounds, agent.setting
        V, L1, pairs = None, WeightedL1(), np.arange(setting.n_pairs)
        for _ in learned_alike([agent], tasks, rng, steps=6):
            here = agent.model.rows
            for transfer in bound.transfers:
                there = transfer.source.rows
                everything = setting.n_states
                D = L1.between(
                    here, there, L1.weigh(transfer.source.V, everything, setting), pairs, setting
                )
                assert np.array_equal(transfer.there.D, np.minimum(transfer.prior, D))
                if V is not None and here.known.any():
                    D = L1.between(there, here, L1.weigh(V, everything, setting), pairs, setting)
                    assert (transfer.back.D <= D).all()
                back = Distances(transfer.back.D, setting)
                back.lower(there)
                assert np.abs(transfer.back.d - back.d).max() <= setting.tol + 1e-9
                assert abs(transfer.back.largest - back.largest) <= setting.tol + 1e-9
                ahead = Distances(transfer.there.D, setting)
                ahead.lower(here)
                assert abs(transfer.there.largest - ahead.largest) <= setting.tol + 1e-9
                looked += 1
            V = agent.Q.max(axis=1)
    assert looked > 20


@pytest.mark.parametrize("seed", range(10))
def test_dropping_and_following_change_no_bit(seed):
    """With all sources kept, or with values compared at each update: the same bits."""
    rng = np.random.default_rng(200 + seed)
    dropped = 0
    for _ in range(5):
        options, d_max, tasks = draw_life(rng, n_tasks=6)
        d_max = d_max * rng.choice([0.02, 1.0])
        agents = agents_of(
            [kind(d_max=d_max) for kind in (hl.Lipschitz, KeepAll, Looking)], options
        )
        for _ in learned_alike(agents, tasks, rng, steps=6):
            for other in agents[1:]:
                assert np.array_equal(agents[0].U, other.U)
                assert np.array_equal(agents[0].Q, other.Q)
                assert np.array_equal(
                    agents[0].bounds[0].sources_used(), other.bounds[0].sources_used()
                )
        dropped += len(agents[0].bounds[0].details().dropped)
    assert dropped > 0


@pytest.mark.parametrize("seed", range(40))
def test_the_heaviest_states_are_followed(seed):
    """Weights that fall, with ties: the ranks are those of all weights sorted."""
    rng = np.random.default_rng(seed)
    n, n_ranks = int(rng.integers(2, 60)), int(rng.integers(1, 6))
    n_ranks = min(n_ranks, n)
    W = np.round(rng.random(n) * 4)
    heavy = np.empty(min(n_ranks + 3, n), dtype=np.int64)
    bar = np.array([distances.rank(W, heavy)])
    is_heavy = np.isin(np.arange(n), heavy)
    own = W, heavy, is_heavy, bar, np.sort(W)[::-1][:n_ranks].copy()
    for _ in range(60):
        before = np.sort(W)[::-1][:n_ranks].copy()
        decreased = np.flatnonzero(rng.random(n) < 0.1)
        V = W.copy()
        V[decreased] = np.maximum(V[decreased] - np.round(rng.random(decreased.size)), 0.0)
        changed = distances._follow(V, decreased, 0.0, distances.OwnWeights(*own))
        after = np.sort(V)[::-1][:n_ranks]
        assert np.array_equal(W, V)
        assert np.array_equal(W[heavy[:n_ranks]], after)
        assert changed == (not np.array_equal(before, after))


@pytest.mark.parametrize("d_max", [0.05, 0.5, 3.0])
def test_hundreds_of_sources_with_and_without_dropping(d_max):
    """A life of 256 tasks: then the same run to the bit, whether sources are dropped or not."""
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
        agent.memory.sources[:] = teacher.memory.sources
    one, other = (hl.learn(a, tasks[-1], episodes=200, max_steps=10, seed=0) for a in agents)
    assert np.array_equal(one.returns, other.returns)
    assert np.array_equal(one.update_steps, other.update_steps)
    assert np.array_equal(agents[0].U, agents[1].U)
    assert np.array_equal(agents[0].Q, agents[1].Q)
    assert (agents[0].U < agents[0].setting.v_max).any() == (d_max < 0.9)
