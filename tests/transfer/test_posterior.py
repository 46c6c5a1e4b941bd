"""Models drawn from posteriors, compared with plain twins, and the values of drawn models."""

import numpy as np
import pytest

import heirloom as hl
from heirloom.kernels import sampled
from heirloom.transfer.posterior import ATOMS, PRIOR, REWARDS
from tests.reference import posterior as twin
from tests.strategies import draw_available, draw_task, restricted, seeds

N_STATES, END = 4, 4
SIZES = {"n_states": N_STATES, "n_actions": 2, "gamma": 0.9, "seed": 0}
STEPS = [(0, 0, 0.0, 1, False)] * 3 + [(0, 0, 1.0, 2, False), (0, 0, 0.5, 0, True)]
STEPS += [(1, 1, 0.2, 1, False)] * 2
DRAWS = 4000
SUCCESSORS = np.zeros((N_STATES, 2, N_STATES), dtype=bool)
SUCCESSORS[0, 0, [1, 2, 3]] = SUCCESSORS[0, 1, 0] = SUCCESSORS[1:, :, 1:3] = True


def rewards_of(s, a):
    return [r for s_, a_, r, _, _ in STEPS if (s_, a_) == (s, a)]


def counts_of(s, a):
    found = [END if ended else s_next for s_, a_, _, s_next, ended in STEPS if (s_, a_) == (s, a)]
    return {i: found.count(i) for i in found}


def observed(agent, steps=STEPS):
    agent.begin_task()
    for s, a, r, s_next, terminated in steps:
        agent.observe(s, a, r, s_next, terminated=terminated)
    return agent


def drawn(agent, draws=DRAWS, seed=1):
    """Return probabilities [draw, pair, outcome], ⊥ last, and mean rewards [draw, pair]."""
    bound, rng = agent.bounds[0], np.random.default_rng(seed)
    T, R = np.zeros((draws, agent.setting.n_pairs, N_STATES + 1)), []
    for i in range(draws):
        bound._draw(rng)
        p, _, rewards = bound._model
        np.add.at(T[i], (bound._outcomes.pairs, bound._outcomes.states), p / agent.gamma)
        R.append(rewards)
    return T, np.array(R)


def check_moments(x, mean, variance):
    """Compare with five standard errors of the mean and of the variance of the numbers drawn."""
    assert abs(x.mean() - mean) <= 5 * np.sqrt(variance / x.size) + 1e-12
    error = np.sqrt(max(0.0, ((x - x.mean()) ** 4).mean() - x.var() ** 2) / x.size)
    assert abs(x.var() - variance) <= 5 * error + 1e-12


@pytest.mark.parametrize("prior", [0.1, 2.0])
def test_rows_and_rewards_have_the_moments_of_the_posterior(prior):
    agent = hl.PSRL(successors=SUCCESSORS, prior=prior, reward_range=(-50.0, 50.0), **SIZES)
    T, R = drawn(observed(agent))
    for s, a in np.ndindex(N_STATES, 2):
        possible = [*np.flatnonzero(SUCCESSORS[s, a]), END]
        expected = twin.moments(counts_of(s, a), dict.fromkeys(possible, prior / len(possible)))
        for i in range(N_STATES + 1):
            check_moments(T[:, 2 * s + a, i], *expected.get(i, (0.0, 0.0)))
    for s, a in ((0, 0), (1, 1)):  # the others are cut at the limits of the range
        mean, variance = twin.own_reward(rewards_of(s, a), REWARDS * prior, -50.0, 50.0)
        if variance < 100:
            check_moments(R[:, 2 * s + a], mean, variance)
    assert ((R >= -50) & (R <= 50)).all()


def test_rewards_of_a_beta_posterior_have_its_moments():
    agent = hl.PSRL(posterior="beta", prior=0.5 / REWARDS, reward_range=(-1.0, 3.0), **SIZES)
    _, R = drawn(observed(agent))
    for s, a in np.ndindex(N_STATES, 2):
        x = [(r + 1) / 4 for r in rewards_of(s, a)]
        one, other = 0.25 + sum(x), 0.25 + len(x) - sum(x)
        total = one + other
        mean, variance = one / total, one * other / total**2 / (total + 1)
        check_moments(R[:, 2 * s + a], 4 * mean - 1, 16 * variance)


def test_atoms_have_the_mean_of_all_reached_states_and_a_little_more_variance():
    agent = hl.PSRL(prior=0.5, **SIZES)
    T, _ = drawn(observed(agent))
    reached = [0, 1, 2, END]
    for s, a in np.ndindex(N_STATES, 2):
        expected = twin.moments(counts_of(s, a), dict.fromkeys(reached, 0.5 / 4))
        for i in range(N_STATES + 1):
            mean, variance = expected.get(i, (0.0, 0.0))
            x = T[:, 2 * s + a, i]
            largest = variance * (1 + 0.5 / ATOMS)
            assert abs(x.mean() - mean) <= 5 * np.sqrt(largest / DRAWS) + 1e-12
            error = 5 * np.sqrt(max(0.0, ((x - x.mean()) ** 4).mean() - x.var() ** 2) / DRAWS)
            assert variance - error <= x.var() + 1e-12
            assert x.var() <= largest + error + 1e-12


def test_variance_of_varying_rewards_of_an_outcome_is_the_largest_one():
    agent = observed(hl.PSRL(**SIZES), [(0, 0, 0.2, 1, False), (0, 0, 0.6, 1, False)])
    bound = agent.bounds[0]
    bound._draw(np.random.default_rng(0))
    assert bound._R[0] == pytest.approx(0.4)
    assert bound._squares[0] == pytest.approx(2 * 0.4 * 0.6)


def test_values_after_a_task_are_those_of_the_mean_of_the_posterior():
    agent = observed(hl.PSRL(successors=SUCCESSORS, prior=0.5, **SIZES))
    agent.end_task()
    T, R = np.zeros((8, N_STATES + 1)), np.zeros(8)
    for s, a in ((0, 0), (1, 1)):
        possible = [*np.flatnonzero(SUCCESSORS[s, a]), END]
        expected = twin.moments(counts_of(s, a), dict.fromkeys(possible, 0.5 / len(possible)))
        for i, (mean, _) in expected.items():
            T[2 * s + a, i] = mean
        R[2 * s + a], _ = twin.own_reward(rewards_of(s, a), 0.05, 0.0, 1.0)
    V = np.zeros(N_STATES + 1)
    for _ in range(500):
        Q = R + 0.9 * T @ V  # a pair that was never tried has the value 0
        V[:-1] = Q.reshape(N_STATES, 2).max(axis=1)
    assert np.abs(agent.Q.reshape(-1) - Q).max() <= 1e-3
    assert agent.policy[:2].tolist() == [0, 1]


def near_agent(nearness, earlier=STEPS, **options):
    agent = hl.NearPSRL(nearness=nearness, reward_range=(-50.0, 50.0), **SIZES, **options)
    observed(agent, earlier)
    agent.end_task()
    return agent


NEW_STEPS = [(0, 0, 0.0, 1, False), (0, 0, 0.5, 0, True)]


@pytest.mark.parametrize("t", [0.0, 0.1, 0.4, 1.0])
@pytest.mark.parametrize("r", [0.5, 20.0])
def test_prior_and_posterior_of_near_psrl_are_those_of_the_formulas(t, r):
    near = hl.Nearness(rewards=r, transitions=t, successors=SUCCESSORS)
    agent = observed(near_agent(near), NEW_STEPS)
    bound = agent.bounds[0]
    T, R = drawn(agent)
    possible = [1, 2, 3, END]
    pooled, counts, lo, hi = counts_of(0, 0), {1: 1, END: 1}, -50.0, 50.0
    c, old = twin.near_prior(pooled, 5, possible, t, PRIOR)
    assert bound._c[0] == pytest.approx(c)
    old = {i: a for i, a in old.items() if a > 0}
    new = dict.fromkeys(possible, PRIOR / 4)
    own = [0.0, 0.5]
    mean_before, squares = np.mean(rewards_of(0, 0)), 2 * 0.25**2
    widest = min((hi - lo) ** 2 / 4, (mean_before + r - lo) * (hi - mean_before + r))
    typical = (squares + (hi - lo) ** 2 / 4) / 3
    s2 = (squares + PRIOR * min(widest, typical)) / (2 + PRIOR)
    before = max((r / 2) ** 2, s2 / 5)
    likely_old = twin.log_likelihood(counts, old)
    likely_old += twin.log_normal(0.25, mean_before, before + s2 / 2)
    likely_new = twin.log_likelihood(counts, new) + twin.log_normal(0.25, 0.0, 2500 + s2 / 2)
    is_new = twin.probability_of_new(1, likely_old, likely_new)
    first, second = twin.moments(counts, old), twin.moments(counts, new)
    for i in possible:
        (m, v), (m_new, v_new) = first.get(i, (0.0, 0.0)), second[i]
        mean = (1 - is_new) * m + is_new * m_new
        square = (1 - is_new) * (v + m**2) + is_new * (v_new + m_new**2)
        check_moments(T[:, 0, i], mean, square - mean**2)
    (m, v) = twin.near_reward(own, mean_before, 5, r, s2)
    m_new, v_new = twin.own_reward(own, REWARDS * PRIOR, lo, hi)
    mean = (1 - is_new) * m + is_new * m_new
    square = (1 - is_new) * (v + m**2) + is_new * (v_new + m_new**2)
    inside = np.abs(R[:, 0]) < 50  # a few rewards are cut
    assert abs(R[inside, 0].mean() - mean) <= 5 * np.sqrt((square - mean**2) / DRAWS) + 0.2


def test_pair_that_was_never_tried_has_the_largest_value_unless_earlier_tasks_tell():
    near = hl.Nearness(rewards=0.1, transitions=0.1)
    agent = near_agent(near)
    agent.begin_task()
    v_max, counts = agent.setting.v_max, agent.memory.pooled.counts.reshape(N_STATES, 2)
    assert (agent.Q[counts == 0] == v_max).all()
    assert (agent.Q[counts > 0] < v_max).all()
    unknown = near_agent(hl.Nearness(rewards=0.1, transitions=1.0, successors=SUCCESSORS))
    unknown.begin_task()
    assert unknown.memory.pooled.counts[3] == 2
    assert unknown.bounds[0]._c[3] == 0
    assert unknown.Q[1, 1] == v_max


def test_pair_that_differs_from_earlier_tasks_is_found_to_be_new():
    same = [(0, 0, 0.0, 1, False)] * 20
    equal = hl.Nearness(rewards=0.0, transitions=0.0)
    T, _ = drawn(observed(near_agent(equal, same), [(0, 0, 0.0, 2, False)] * 2), 200)
    assert T[:, 0, 2].mean() > 0.8
    T, _ = drawn(observed(near_agent(equal, same), [(0, 0, 0.0, 1, False)] * 2), 200)
    assert T[:, 0, 1].mean() > 0.99


def ends_of(t):
    return np.zeros(t.p.size, dtype=bool) if t.ends is None else t.ends


def solved(m, tol, v_max=np.inf):
    """Return Q of the kernel for an exact task, from a random start."""
    t, rng = m.transitions, np.random.default_rng(0)
    n, n_pairs = m.n_states, m.R.size
    states = np.where(ends_of(t), n, t.successors).astype(np.int64)
    p, gain = np.empty(t.p.size), np.empty(n_pairs)
    never = np.zeros(n_pairs, dtype=bool)
    rows = t.indptr.astype(np.int64), states
    weights = t.p * np.repeat(rng.uniform(0.5, 2, n_pairs), np.diff(t.indptr))
    sampled.set_rows(*rows, weights, weights, never, m.gamma, m.n_actions, p, gain)
    Q = np.where(m.available.reshape(-1), 0.0, -np.inf)
    V, policy, rounds = np.append(rng.normal(size=n), 0.0), np.zeros(n, dtype=np.int64), 0
    while rounds >= 0:
        R = m.R.reshape(-1).copy()
        model = *rows, p, gain, R, m.gamma, v_max, tol, 50
        rounds = sampled.solve(*model, rounds, Q, V, policy)
    return Q.reshape(n, -1), V[:-1]


@pytest.mark.parametrize("seed", seeds(200))
def test_values_of_a_model_have_the_certified_error(seed):
    rng = np.random.default_rng(seed)
    m = draw_task(rng)
    if seed % 2:
        m = restricted(m, draw_available(rng, m))
    exact = hl.solve(m)
    for tol in (1e-1, 1e-3, 1e-6):
        Q, V = solved(m, tol)
        there = m.available
        assert np.abs(Q[there] - exact.Q[there]).max() <= tol + 1e-9
        assert np.abs(V - exact.V).max() <= tol + 1e-9
        assert np.isneginf(Q[~there]).all()


@pytest.mark.parametrize("seed", seeds(40))
def test_values_are_cut_at_v_max(seed):
    m = draw_task(np.random.default_rng(seed))
    exact, t = hl.solve(m), m.transitions
    limit = float(np.median(exact.V))
    Q, V = solved(m, 1e-9, limit)
    T = np.zeros((m.R.size, m.n_states))
    keep, pairs = ~ends_of(t), np.repeat(np.arange(m.R.size), np.diff(t.indptr))
    np.add.at(T, (pairs[keep], t.successors[keep]), t.p[keep])
    backup = np.minimum(limit, m.R.reshape(-1) + m.gamma * T @ V).reshape(Q.shape)
    assert np.abs(Q - backup).max() <= 1e-8
    assert np.abs(V - Q.max(axis=1)).max() <= 1e-8
