"""BUMEX: its bounds hold, its weights are those of the paper, and `Q` stays within the bounds."""

import numpy as np
import pytest

import heirloom as hl
from heirloom.mdp.tabular import reward_scale
from heirloom.transfer.nearness.exact import _source
from tests.strategies import RANGES, seeds

DISCOUNTS = (0.0, 0.5, 0.9, 0.97)


def family_of_tasks(seed):
    """Draw up to four tasks that differ by little, with missing actions and terminal transitions.

    The last state is absorbing, and where tasks terminate, every transition into it ends.
    """
    rng = np.random.default_rng(seed)
    S, A, gamma = int(rng.integers(1, 6)), int(rng.integers(1, 4)), float(rng.choice(DISCOUNTS))
    (lo, hi), terminating = RANGES[rng.integers(len(RANGES))], bool(rng.integers(2))
    difference = float(rng.choice([0.0, 0.05, 0.3]))
    available = rng.random((S + 1, A)) < 0.8
    available[np.arange(S + 1), rng.integers(A, size=S + 1)] = True

    def transitions():
        T = rng.random((S + 1, A, S + 1)) * (rng.random((S + 1, A, S + 1)) < 0.6)
        T[:, :, 0] += 1e-3
        T[S], T[S, :, S] = 0.0, 1.0
        return T / T.sum(axis=2, keepdims=True)

    T, R = transitions(), rng.uniform(lo, hi, (S + 1, A))
    tasks = []
    for _ in range(int(rng.integers(2, 5))):
        mixture = (1 - difference) * T + difference * transitions()
        rewards = np.clip(R + difference * rng.uniform(-1, 1, R.shape), lo, hi)
        mixture[~available], rewards[~available] = 0.0, 0.0
        ends = {"terminates": [S]} if terminating else {}
        options = {"gamma": gamma, "reward_range": (lo, hi), "available": available, **ends}
        tasks.append(hl.TabularMDP(rewards, mixture, **options))
    return tasks


def agent_for(tasks, **options):
    """Return an agent that has all tasks but the last as exact sources, and has begun the last."""
    *sources, m = tasks
    sizes = {"n_states": m.n_states, "n_actions": m.n_actions, "gamma": m.gamma, "seed": 0}
    known = {"reward_range": m.reward_range, "terminating": m.terminating}
    agent = hl.BUMEX(nearness=hl.family_nearness(tasks), **sizes, **known, **options)
    for source in sources:
        agent.memory.add(_source(source))
    agent.begin_task(available=m.available)
    return agent


def test_pairs_without_visits_have_no_lower_bound_and_no_warning():
    options = {"nearness": hl.Nearness(rewards=0.9, transitions=0.9), "confidence": 0.9}
    agent = hl.BUMEX(n_states=4, n_actions=2, gamma=0.9, seed=0, **options)
    for _ in range(2):  # of the second one, most pairs were not visited in the first
        agent.begin_task()
        agent.observe(0, 0, 0.99, 1, terminated=False)
        lower, _ = bounds_of(agent)
        assert np.isfinite(lower).all()
        agent.end_task()


def bounds_of(agent):
    shape = agent.n_states, agent.n_actions
    return agent._table.lower.reshape(shape), agent._table.upper.reshape(shape)


def test_bounds_contain_q_star_if_the_nearness_is_true():
    widths = []
    for seed in seeds(2000):
        tasks = family_of_tasks(seed)
        m = tasks[-1]
        agent = agent_for(tasks)
        lower, upper = bounds_of(agent)
        Q, scale = hl.solve(m, tol=1e-9).Q, max(1.0, np.abs(m.reward_range).max()) / (1 - m.gamma)
        there = m.available
        assert (lower[there] <= Q[there] + 1e-9 * scale).all(), seed
        assert (upper[there] >= Q[there] - 1e-9 * scale).all(), seed
        assert np.isneginf(lower[~there]).all()
        assert np.isneginf(upper[~there]).all()
        widths.append((upper[there] - lower[there]).mean() / (agent.v_max - agent.v_min))
    assert min(widths) < 1e-8  # some tasks are equal to their sources
    assert np.mean(widths) < 0.3  # and bounds say something


def smallest_mean(row, end, V, t, worst):
    """Move up to t of the mass of a row to the worst outcome, from the best ones first."""
    values, mass = np.append(V, 0.0), np.append(row, end)
    moved = 0.0
    for i in np.argsort(-values):
        if values[i] <= worst:
            break
        taken = min(mass[i], t - moved)
        mass[i] -= taken
        moved += taken
    return mass @ values + moved * worst


@pytest.mark.parametrize("seed", range(20))
def test_lower_bounds_agree_with_plain_python(seed):
    """One source, any successor: Q⁻ = max(lo, R̄ - r) + γ min Σ T V⁻, by iteration."""
    rng = np.random.default_rng(seed)
    S, A, gamma, r, t = 4, 2, 0.8, 0.1, float(rng.choice([0.0, 0.1, 0.5]))
    T, R = rng.dirichlet(np.full(S, 0.5), (S, A)), rng.random((S, A))
    source = hl.TabularMDP(R, T, gamma=gamma)
    near = hl.Nearness(rewards=r, transitions=t)
    agent = hl.BUMEX(
        nearness=near, n_states=S, n_actions=A, gamma=gamma, terminating=bool(seed % 2)
    )
    agent.memory.add(_source(source))
    agent.begin_task()
    Q = np.zeros((S, A))
    for _ in range(200):
        V = Q.max(axis=1)
        worst = min(V.min(), 0.0) if seed % 2 else V.min()
        for s in range(S):
            for a in range(A):
                mean = smallest_mean(T[s, a].copy(), 0.0, V, t, worst)
                Q[s, a] = max(0.0, R[s, a] - r) + gamma * mean
    assert bounds_of(agent)[0] == pytest.approx(Q, abs=1e-8)


@pytest.mark.parametrize("seed", range(20))
def test_weights_agree_with_plain_python(seed):
    agent = agent_for(family_of_tasks(seed))
    lower, upper = bounds_of(agent)
    weights = agent._table.weights.reshape(lower.shape)
    for s, a in np.ndindex(lower.shape):
        others = [upper[s, b] for b in range(agent.n_actions) if b != a]
        high, low, V = upper[s, a], lower[s, a], lower[s].max()
        if high == -np.inf:
            expected = 0.0
        elif low >= max(others, default=-np.inf):
            expected = 1.0
        elif low != high and high > V:
            unit = reward_scale(agent.setting.reward_range)
            expected = (high - V) ** 2 / (2 * (high - low)) / unit
        else:
            expected = 1e-8
        assert weights[s, a] == pytest.approx(expected)


def test_exploratory_actions_are_drawn_by_their_weights():
    agent = agent_for(family_of_tasks(0), exploration=1.0)
    agent._table.weights[: agent.n_actions] = np.arange(1.0, agent.n_actions + 1)
    n = 6000
    chosen = np.bincount([agent.act(0) for _ in range(n)], minlength=agent.n_actions) / n
    p = agent._table.weights[: agent.n_actions] / agent._table.weights[: agent.n_actions].sum()
    assert (np.abs(chosen - p) <= 5 * np.sqrt(p * (1 - p) / n)).all()


def test_values_stay_within_the_bounds():
    for seed in seeds(50):
        tasks = family_of_tasks(seed)
        agent = agent_for(tasks)
        agent.drop_task()
        hl.learn(agent, tasks[-1], episodes=50, max_steps=10, seed=seed)
        lower, upper = bounds_of(agent)
        assert ((agent.Q >= lower) & (agent.Q <= upper)).all()


def test_provably_worse_actions_are_avoided():
    """One arm of a source is better than the others by more than the nearness allows."""
    R, T = [[0.9, 0.1, 0.5]], np.ones((1, 3, 1))
    tasks = [hl.TabularMDP(R, T, gamma=0.5), hl.TabularMDP(R, T, gamma=0.5)]
    agent = agent_for(tasks, exploration=0.5)
    assert {agent.act(0) for _ in range(500)} == {0}


def test_masks_that_appear_while_learning_leave_no_lower_bound():
    """A state whose mask was not seen may lack its best action."""
    R, T = np.array([[0.9, 0.1], [0.9, 0.1]]), np.full((2, 2, 2), 0.5)
    tasks = [hl.TabularMDP(R, T, gamma=0.5), hl.TabularMDP(R, T, gamma=0.5)]
    agent = agent_for(tasks)
    agent.drop_task()
    agent.begin_task()
    assert bounds_of(agent)[0].min() > 0.5
    agent.observe_mask(0, [0, 1])
    lower, upper = bounds_of(agent)
    assert lower.tolist() == [[-np.inf, 0.0], [0.0, 0.0]]
    assert upper[0, 0] == -np.inf
    assert upper[0, 1] < 1.5  # it was lowered by the missing action
    with pytest.raises(hl.errors.InvalidArgument, match="mask of state 0 is"):
        agent.observe_mask(0, [1, 1])


def test_bounds_contain_q_star_if_an_action_of_another_state_is_missing():
    """The mask of the first state has all actions; that of the second one is not yet observed."""
    R, T = np.array([[0.2, 0.0], [0.9, 0.1]]), np.zeros((2, 2, 2))
    T[0, 0, 0] = T[0, 1, 1] = T[1, :, 1] = 1.0
    source = hl.TabularMDP(R, T, gamma=0.9)
    available = np.array([[True, True], [False, True]])
    Q = hl.solve(hl.TabularMDP(R, T, gamma=0.9, available=available)).Q
    agent = agent_for([source, source])
    agent.drop_task()
    agent.begin_task()
    for s in (0, 1):
        agent.observe_mask(s, available[s])
        lower, upper = bounds_of(agent)
        assert (lower[available] <= Q[available]).all()
        assert (upper[available] >= Q[available] - 1e-9).all()
    env = hl.TabularMDP(R, T, gamma=0.9, available=available, start=0).to_gymnasium()
    agent.drop_task()
    hl.learn(agent, env, episodes=200, max_steps=20, seed=0, masks=True)
    assert (agent.Q[available] <= Q[available] + 1e-9).all()


def test_visits_and_labels_of_tasks_are_stored():
    m = hl.TabularMDP([[0.5, 0.2]], np.ones((1, 2, 1)), gamma=0.5)
    near = hl.Nearness(rewards=0.1, transitions=0.0)
    agent = hl.BUMEX(nearness=near, n_states=1, n_actions=2, gamma=0.5, seed=0)
    hl.learn(agent, m, episodes=100, max_steps=5, seed=0, label="Lyon")
    assert agent.memory.sources[0].label == "Lyon"
    assert agent.memory.pooled.counts.sum() == 500
    agent.begin_task()
    assert bounds_of(agent)[1].max() == pytest.approx(1.2)
    assert bounds_of(agent)[0].max() == pytest.approx(0.8)
