"""Bounds are valid for discount factors close to 1, where updates are lazy or wait for others."""

import numpy as np
import pytest

import heirloom as hl
from heirloom.mdp.transitions import Entries, collect
from heirloom.transfer.lipschitz import all_sources
from heirloom.transfer.lipschitz.distance import measure, weigh
from tests.strategies import draw_available

N_KNOWN = 4  # probabilities are multiples of 1 / N_KNOWN, so that N_KNOWN visits can show them


def draw_family(rng, gamma, *, masks=False, ends=None):
    """Draw three tasks, and the outcomes [s, a, visit] of each, of which the last terminates.

    `ends` is an additional probability of termination; None for any.
    """
    n_states = int(rng.integers(2, 6))
    shape = n_states, int(rng.integers(2, 4))
    n_outcomes = n_states + int(rng.random() < 0.7 or ends is not None)
    common = rng.integers(n_outcomes, size=(*shape, N_KNOWN))
    if ends is not None:
        common[rng.random(common.shape) < ends] = n_states
    R, changed = rng.random(shape), rng.choice([0.0, 0.3])
    for _ in range(3):
        outcomes = common.copy()
        others = rng.integers(n_outcomes, size=shape)
        outcomes[..., 0] = np.where(rng.random(shape) < changed, others, common[..., 0])
        rewards = np.clip(R + rng.uniform(-0.05, 0.05, shape), 0, 1)
        yield task_of(rng, outcomes, rewards, gamma, masks=masks), outcomes


def task_of(rng, outcomes, rewards, gamma, *, masks):
    """Build the task in which all visits of a pair are equally likely."""
    n_states, n_actions, _ = outcomes.shape
    ends = outcomes.ravel() == n_states
    listed = Entries(
        pairs=np.repeat(np.arange(n_states * n_actions), N_KNOWN),
        successors=np.where(ends, 0, outcomes.ravel()),
        p=np.full(ends.size, 1 / N_KNOWN),
        rewards=np.repeat(rewards.ravel(), N_KNOWN),
        ends=ends,
    )

    def build(available):
        transitions = collect(listed, n_states, n_actions, available=available)
        return hl.TabularMDP.from_transitions(transitions, gamma=gamma, reward_range=(0, 1))

    m = build(None)
    return build(draw_available(rng, m).ravel()) if masks else m


def options_for(tasks, **options):
    m = tasks[0]
    sizes = {"n_states": m.n_states, "n_actions": m.n_actions, "gamma": m.gamma}
    return {**sizes, "n_known": N_KNOWN, "seed": 0, **options}


def agents_for(tasks):
    """Agents with valid knowledge of the tasks; two of them know the largest of all values."""
    near, d_max = hl.family_nearness(tasks), hl.metrics.family_distance(tasks)
    v_max = max(float(sol.Q.max() + sol.error) for sol in map(hl.solve, tasks))
    plain, limited = options_for(tasks), options_for(tasks, v_max=v_max)
    yield hl.RMax(**plain)
    yield hl.NearRMax(nearness=near, **limited)
    yield hl.NearRMax(
        nearness=hl.Nearness(rewards=near.rewards, transitions=near.transitions), **plain
    )
    yield hl.LRMax(d_max=d_max, **plain)
    yield hl.LRMax(d_max=d_max, **limited)
    bounds = [hl.Lipschitz(d_max=float(d_max.max())), hl.NearModels(near)]
    yield hl.OptimisticAgent(bounds=bounds, **limited)


def make_known(agent, m, outcomes, pairs):
    """Let the agent observe the outcomes of pairs, and yield whenever one has become known."""
    agent.begin_task(available=m.available)
    yield
    for k in pairs:
        s, a = divmod(int(k), m.n_actions)
        for outcome in outcomes[s, a].tolist():
            ends = outcome == m.n_states
            agent.observe(s, a, m.R[s, a], 0 if ends else outcome, terminated=ends)
        yield
    agent.end_task()


def draw_pairs(rng, m):
    """Draw most of the available pairs, in a random order."""
    pairs = rng.permutation(np.flatnonzero(m.available))
    return pairs[: int(np.ceil(pairs.size * rng.choice([0.4, 0.9])))]


@pytest.mark.parametrize("waiting", [2, all_sources.WAITING])
@pytest.mark.parametrize("masks", [False, True])
def test_bounds_are_above_q_star_with_lazy_updates(masks, waiting, monkeypatch):
    """The models of known pairs are exact. Updates of Lipschitz bounds wait for other pairs."""
    monkeypatch.setattr(all_sources, "WAITING", waiting)
    rng = np.random.default_rng(100 * waiting + masks)
    n_lowered = {}
    for gamma in (0.995, 0.999):
        family = list(draw_family(rng, gamma, masks=masks))
        sequence = [(m, outcomes, hl.solve(m), draw_pairs(rng, m)) for m, outcomes in family]
        for agent in agents_for([m for m, _ in family]):
            for m, outcomes, sol, pairs in sequence:
                tol = sol.error + 1e-12 * agent.setting.v_max / (1 - gamma)
                for _ in make_known(agent, m, outcomes, pairs):
                    assert (agent.U >= sol.Q - tol).all()
                    assert (agent.Q >= sol.Q - tol).all()
                lowered = np.count_nonzero(agent.decider[m.available])
                n_lowered[repr(agent)] = n_lowered.get(repr(agent), 0) + lowered
    assert sum(n > 0 for n in n_lowered.values()) >= 6


@pytest.mark.parametrize("seed", range(4))
def test_distances_after_waiting_equal_those_computed_from_scratch(seed, monkeypatch):
    monkeypatch.setattr(all_sources, "WAITING", 3)
    rng = np.random.default_rng(seed)
    family = list(draw_family(rng, 0.999))
    tasks = [m for m, _ in family]
    d_max, changes, n_waited, n_compared = hl.metrics.family_distance(tasks) + 0.2, [], 0, 0

    class Noted(hl.Lipschitz):
        def refine(self, change):
            changes.append(change.V.copy())
            return super().refine(change)

    agent = hl.OptimisticAgent(bounds=[Noted(d_max=d_max)], **options_for(tasks))
    bound = agent.bounds[0]
    for m, outcomes in family:
        for _ in make_known(agent, m, outcomes, draw_pairs(rng, m)):
            if bound._all is None or bound._all._waiting:
                n_waited += bound._all is not None
                continue
            for one in bound.transfers:
                V = changes[-1] if agent.known.any() else np.full(m.n_states, agent.setting.v_max)
                for direction, rows, values in (
                    (one.to_source, (agent.model.rows, one.source.rows), one.source.V),
                    (one.from_source, (one.source.rows, agent.model.rows), V),
                ):
                    weights = weigh(values, 9, agent.setting)
                    pairs = np.arange(agent.setting.n_pairs)
                    D = measure(*rows, weights, pairs, agent.setting)
                    assert np.array_equal(direction.D, np.minimum(D, one.prior))
                    n_compared += 1
    assert n_waited > 0
    assert n_compared > 0


def test_capped_distances_give_bounds_between_q_star_and_the_bounds_without_a_cap(monkeypatch):
    """No two values differ by more than the cap, so that distances may begin at it.

    Most episodes end soon, and the first state may differ by any amount between tasks.
    """
    rng, n_lower = np.random.default_rng(1), 0
    cap = all_sources.cap
    for _ in range(6):
        family = list(draw_family(rng, 0.998, ends=0.7))
        tasks = [m for m, _ in family]
        d_max = hl.metrics.family_distance(tasks)
        d_max[0] = 100.0
        v_max = max(float(sol.Q.max() + sol.error) for sol in map(hl.solve, tasks))
        found = []
        for cap_of in (cap, lambda *_: np.inf):
            monkeypatch.setattr(all_sources, "cap", cap_of)
            agent = hl.LRMax(d_max=d_max, **options_for(tasks, v_max=v_max))
            for m, outcomes in family[:2]:
                for _ in make_known(agent, m, outcomes, np.arange(m.n_states * m.n_actions)):
                    pass
            agent.begin_task()
            found.append(agent.U.copy())
        capped, plain = found
        sol = hl.solve(tasks[2])
        assert (capped >= sol.Q - sol.error - 1e-9).all()
        assert (capped <= plain + agent.setting.tol).all()
        n_lower += int((capped < plain - 0.01 * v_max).sum())
    assert n_lower > 0
