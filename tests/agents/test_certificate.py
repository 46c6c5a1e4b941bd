"""Certificates: no bound fails while every confidence set holds, and sets hold as often as said."""

import math
from collections import defaultdict

import numpy as np
import pytest

import heirloom as hl
from heirloom.agents import certificate
from heirloom.envs.paper_families import Tight
from heirloom.errors import InvalidArgument
from heirloom.kernels.confidence import kl_radius
from tests.strategies import (
    draw_available,
    draw_task,
    draw_transition_rewards,
    restricted,
    seeds,
)

DECLARED = ("nothing", "successors", "per transition", "prices")


def draw(seed, what):
    """Return a random task, and what can be declared of it."""
    rng = np.random.default_rng(seed)
    m = (
        draw_transition_rewards(rng)
        if rng.random() < 0.5 or what == "per transition"
        else draw_task(rng)
    )
    if rng.random() < 0.3:
        m = restricted(m, draw_available(rng, m))
    t = m.transitions
    ends = np.zeros(t.p.size, dtype=bool) if t.ends is None else t.ends
    successors = np.zeros((m.R.size, m.n_states), dtype=bool)
    successors[t.pairs[~ends], t.successors[~ends]] = True
    declared = {}
    if what != "nothing":
        declared["successors"] = successors.reshape(*m.R.shape, -1)
        declared["terminates"] = (t.end_probability > 0).reshape(m.R.shape)
    if what == "per transition":
        declared["rewards"] = what
    if what == "prices":
        declared["rewards"] = np.where(m.available, m.R, m.reward_range[0])
    return m, declared


def life(seed, what, steps):
    """Return an agent that took steps in a task, the task, and a certificate."""
    m, declared = draw(seed, what)
    options = {"n_states": m.n_states, "n_actions": m.n_actions, "gamma": m.gamma}
    options |= {"reward_range": m.reward_range, "terminating": m.terminating}
    kind = (hl.RMax, hl.UCBVI, hl.PSRL)[seed % 3]
    agent = kind(**options, seed=seed, explore=0.3)
    hl.learn(agent, m, episodes=max(1, steps // 10), max_steps=10, seed=seed)
    return agent, m, declared


def truth_of(m, k, rewards, setting):
    """Return the probabilities of the outcomes (successor or -1, reward) of a pair."""
    t, (lo, hi) = m.transitions, setting.reward_range
    found = defaultdict(float)
    for j in range(t.indptr[k], t.indptr[k + 1]):
        r = t.R[k] if t.rewards is None else t.rewards[j]
        state = -1 if t.ends is not None and t.ends[j] else int(t.successors[j])
        if rewards is None and lo < hi:
            x = (r - lo) / (hi - lo)
            found[state, hi] += t.p[j] * x
            found[state, lo] += t.p[j] * (1 - x)
        else:
            found[state, rewards.reshape(-1)[k] if isinstance(rewards, np.ndarray) else r] += t.p[j]
    return found


def every_set_holds(agent, m, declared, delta):
    setting = agent.setting
    checked = certificate._declared(
        setting, declared.get("successors"), declared.get("terminates"), declared.get("rewards")
    )
    log = math.log(setting.n_pairs / (6 * delta / math.pi**2))
    sets = certificate._sets(agent.model, setting, checked, log)
    for k in np.flatnonzero(agent.model.counts.reshape(-1)):
        truth, p = truth_of(m, k, declared.get("rewards"), setting), defaultdict(float)
        for i in range(sets.first[k], sets.first[k + 1]):
            p[int(sets.states[i]), float(sets.r[i])] += sets.p[i]
        if sum(q * math.log(q / truth[key]) for key, q in p.items()) > sets.beta[k]:
            return False
    return True


@pytest.mark.parametrize("what", DECLARED)
@pytest.mark.parametrize("seed", seeds(60))
def test_no_bound_fails_while_every_set_holds(what, seed):
    for steps in (0, 20, 300):
        agent, m, declared = life(10 * seed + steps, what, steps)
        found = agent.certificate(**declared, start=m.start)
        if not every_set_holds(agent, m, declared, 0.05):
            continue
        scale = 1e-9 * max(abs(agent.setting.v_max), abs(found.v_min), 1.0)
        assert (found.V_upper >= hl.solve(m).V - scale).all()
        assert (found.V_lower <= hl.evaluate(m, found.policy).V + scale).all()
        assert found.lower <= found.optimum_at_most + scale  # rounding
        assert found.relative_gap <= 1 + 1e-12


def on_the_boundary(sets, setting, k, rng):
    """Return a model of a pair on the boundary of its set, as (probability, reward, state) rows.

    It moves mass towards one possible outcome, which need not have been seen.
    """
    seen = range(sets.first[k], sets.first[k + 1])
    model = [(float(sets.p[i]), float(sets.r[i]), int(sets.states[i])) for i in seen]
    listed = sets.unseen[sets.unseen_first[k] : sets.unseen_first[k + 1]].tolist()
    states = listed if sets.is_listed else list(range(setting.n_states))
    r = float(rng.choice([sets.low[k], sets.high[k]]))
    possible = [(r, s) for s in states] + ([(r, -1)] if sets.may_end[k] else [])
    possible += [(r, s) for _, r, s in model]
    towards, beta = possible[rng.integers(len(possible))], sets.beta[k]
    if not model:
        return [(1.0, *towards)]

    def mixed(share):
        return [(p * (1 - share) + share * ((r, s) == towards), r, s) for p, r, s in model]

    def divergence(share):
        after = mixed(share)
        return sum(p * math.log(p / q) for (p, _, _), (q, _, _) in zip(model, after, strict=True))

    low, high = 0.0, 1.0 - 1e-12
    if divergence(high) > beta:
        for _ in range(100):
            middle = (low + high) / 2
            low, high = (middle, high) if divergence(middle) <= beta else (low, middle)
    else:
        low = high
    rest = 1.0 - sum(p for p, _, _ in mixed(low))
    return [*mixed(low), (max(rest, 0.0), *towards)]


def values_of(models, setting, exists, policy=None):
    """Return the optimal values of models, or those of a policy, by sweeps."""
    V = np.zeros(setting.n_states + 1)  # the last one is that of an end
    for _ in range(3000):
        Q = [sum(p * (r + setting.gamma * V[s]) for p, r, s in model) for model in models]
        Q = np.where(exists, Q, -np.inf).reshape(setting.n_states, -1)
        after = Q.max(axis=1) if policy is None else Q[np.arange(setting.n_states), policy]
        if np.abs(after - V[:-1]).max() < 1e-12 * max(1.0, np.abs(after).max()):
            break
        V[:-1] = after
    return V[:-1]


@pytest.mark.parametrize("what", DECLARED)
@pytest.mark.parametrize("seed", seeds(30))
def test_bounds_hold_for_models_on_the_boundary_of_all_sets(what, seed):
    """Every set contains its model by construction, so that a program that is wrong is found."""
    rng = np.random.default_rng(seed)
    agent, m, declared = life(seed, what, int(rng.choice([0, 20, 100, 1000])))
    setting = agent.setting
    if setting.gamma > 0.95:
        pytest.skip("sweeps take too long")
    names = ("successors", "terminates", "rewards")
    checked = certificate._declared(setting, *(declared.get(name) for name in names))
    log = math.log(setting.n_pairs / (6 * 0.05 / math.pi**2))
    sets = certificate._sets(agent.model, setting, checked, log)
    found = agent.certificate(**declared, start=m.start)
    exists = m.available.reshape(-1)
    for _ in range(10):
        models = [
            on_the_boundary(sets, setting, k, rng) if exists[k] else [] for k in range(m.R.size)
        ]
        tolerance = 1e-9 * max(abs(setting.v_max), abs(found.v_min), 1.0)
        optimal = np.minimum(values_of(models, setting, exists), setting.v_max)
        assert (found.V_upper >= optimal - tolerance).all()
        own = values_of(models, setting, exists, found.policy)
        assert (found.V_lower <= own + tolerance).all()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:mean rewards so far")
@pytest.mark.parametrize("what", DECLARED)
def test_no_bound_fails_in_many_lives(what):
    for seed in range(750):
        test_no_bound_fails_while_every_set_holds(what, 1000 + seed)


def test_sets_contain_the_truth_at_all_visits_with_the_stated_probability():
    """1,000 streams of 3,000 visits: the set of one pair, with ε = 0.1."""
    rng, failed, n_streams = np.random.default_rng(0), 0, 1000
    for _ in range(n_streams):
        K = int(rng.integers(2, 7))
        p = rng.dirichlet(np.full(K, 0.5))
        draws = rng.choice(K, size=3000, p=p)
        counts = np.zeros(K)
        at = np.unique(np.geomspace(1, 3000, 60).astype(int))
        for before, n in zip(np.append(0, at[:-1]), at, strict=True):
            counts += np.bincount(draws[before:n], minlength=K)
            seen = counts > 0
            kl = (counts[seen] / n * np.log(counts[seen] / n / p[seen])).sum()
            if kl > kl_radius(counts, K, math.log(1 / 0.1)):
                failed += 1
                break
    assert failed <= 0.1 * n_streams


def test_policy_of_rmax_is_certified_after_many_visits():
    family = Tight()
    m, near = family.draw(np.random.default_rng(0)), family.nearness
    agent = hl.RMax(n_known=10, seed=0, **family.options)
    declared = {"successors": near.successors, "terminates": near.terminates}
    declared |= {"rewards": "per transition", "start": m.start}
    agent.begin_task()
    nothing = agent.certificate(**declared)
    assert nothing.lower == nothing.v_min
    assert "no certificate with probability 0.95" in str(nothing)
    agent.drop_task()
    hl.learn(agent, m, episodes=4000, max_steps=50, seed=0)
    found, V = agent.certificate(**declared), float(hl.solve(m).V @ m.start)
    assert 0.95 * V <= found.lower <= hl.evaluate(m, found.policy).V @ m.start <= V
    assert V <= found.optimum_at_most <= 2 * V
    assert found.limits[0].cost >= found.limits[-1].cost > 0
    text = str(found)
    assert "the policy is worth at least" in text
    assert "more halve it" in text
    assert "declare" not in text
    wide = agent.certificate(start=m.start)
    assert wide.gap > found.gap
    assert 'declare the possible successors and rewards ("per transition"' in str(wide)


def test_later_tasks_pay_for_earlier_ones_with_wider_sets():
    m, declared = draw(3, "successors")
    options = {"n_states": m.n_states, "n_actions": m.n_actions, "gamma": m.gamma}
    options |= {"reward_range": m.reward_range, "terminating": m.terminating}
    first, second = (hl.RMax(**options, seed=0) for _ in range(2))
    second.begin_task()
    second.observe(0, int(m.available[0].argmax()), m.reward_range[0], 0, terminated=False)
    second.drop_task()
    for agent in (first, second):
        agent._uniforms = hl.RMax(**options, seed=1)._uniforms
        hl.learn(agent, m, episodes=50, max_steps=10, seed=0)
    assert np.array_equal(first.model.counts, second.model.counts)
    wider, narrower = second.certificate(**declared), first.certificate(**declared)
    assert wider.gap >= narrower.gap


def test_visits_of_other_tasks_prove_nothing():
    family = Tight()
    m = family.draw(np.random.default_rng(0))
    agent = hl.RMax(pool=np.inf, seed=0, **family.options)
    hl.learn(agent, m, episodes=500, max_steps=50, seed=0)
    agent.begin_task()
    found = agent.certificate(successors=family.nearness.successors)
    assert found.lower == found.v_min
    with pytest.raises(InvalidArgument, match="cannot be checked, because the agent has borrowed"):
        agent.certificate(rewards="per transition")


def test_first_task_that_was_dropped_before_its_first_step_certifies_nothing():
    agent = hl.RMax(n_states=3, n_actions=2, gamma=0.9)
    agent.begin_task()
    agent.drop_task()
    assert agent.certificate().relative_gap == 1


def test_action_without_a_possible_outcome_is_refused():
    agent = hl.RMax(n_states=3, n_actions=2, gamma=0.9)
    agent.begin_task()
    successors = np.ones((3, 2, 3), dtype=bool)
    successors[2] = False
    never = np.zeros((3, 2), dtype=bool)
    with pytest.raises(InvalidArgument, match="no state for state 2 and action 0"):
        agent.certificate(successors=successors, terminates=never)
    assert np.isfinite(agent.certificate(successors=successors).lower)


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        (
            {"successors": np.zeros((3, 2, 3), dtype=bool)},
            "a successor that was declared impossible",
        ),
        ({"terminates": np.zeros((3, 2), dtype=bool)}, "an end that was declared to be impossible"),
        ({"rewards": "per transition"}, "rewards that differ between visits"),
        ({"rewards": [[2.0, 2.0]] * 3}, 'expected "per transition", or mean rewards'),
        ({"successors": np.zeros((2, 2, 2), dtype=bool)}, "expected 6 pairs and 3 states"),
        ({"terminates": [True]}, "terminates is .*: expected booleans of shape"),
        ({"delta": 0.0}, "delta is 0"),
    ],
)
def test_what_is_declared_must_be_possible(declared, message):
    agent = hl.RMax(n_states=3, n_actions=2, gamma=0.9)
    agent.begin_task()
    agent.observe(0, 0, 0.5, 1, terminated=False)
    agent.observe(0, 0, 0.7, 1, terminated=False)
    agent.observe(1, 0, 0.5, 2, terminated=True)
    with pytest.raises(InvalidArgument, match=message):
        agent.certificate(**declared)
