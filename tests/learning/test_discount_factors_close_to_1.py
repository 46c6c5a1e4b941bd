"""Learning ends quickly for discount factors close to 1, with values above the fixed point."""

import numpy as np
import pytest

import heirloom as hl
from heirloom.kernels import solving
from heirloom.transfer import optimistic_program, program
from heirloom.transfer.nearness.exact import family_nearness
from tests.strategies import RANGES, mixed


def random_family(rng, gamma):
    """Two tasks of the same size, the second one near to the first."""
    n_states, n_actions = int(rng.integers(2, 8)), int(rng.integers(1, 4))
    options = {
        "branching": int(rng.integers(1, min(n_states, 3) + 1)),
        "gamma": gamma,
        "terminating": float(rng.choice([0.0, 0.2])),
        "reward_range": RANGES[rng.integers(len(RANGES))],
    }
    first, other = (hl.garnet(n_states, n_actions, **options, seed=rng) for _ in range(2))
    return first, mixed(first, other, rewards=0.1, transitions=rng.choice([0.0, 0.1]))


def agents_for(m, nearness, seed):
    options = {
        "n_states": m.n_states,
        "n_actions": m.n_actions,
        "gamma": m.gamma,
        "reward_range": m.reward_range,
        "terminating": m.terminating,
        "n_known": 2,
        "refresh": None,
        "seed": seed,
    }
    return hl.RMax(**options), hl.NearRMax(nearness=nearness, **options)


def learned(agent, tasks, seed, *, steps=False):
    for i, m in enumerate(tasks):
        env = m.to_gymnasium() if steps else m
        hl.learn(agent, env, episodes=10, max_steps=60, seed=seed + i)
    return agent


def fixed_point_error(agent):
    """By how much Q may be above its fixed point: the largest decrease of a backup / (1-γ)."""
    task = agent.task
    decrease = optimistic_program.largest_decrease(task.model._arrays, task._values, task._near)
    return decrease / (1 - agent.gamma)


def learned_task(agent, m):
    """The task with the learned model, and with U as reward, once, at unknown pairs."""
    n_states, n_actions = m.n_states, m.n_actions
    T, R = np.zeros((n_states, n_actions, n_states)), agent.U.copy()
    ends = np.zeros((n_states, n_actions))
    model = agent.model._arrays
    for k in np.flatnonzero(model.known):
        s, a = divmod(int(k), n_actions)
        row = slice(model.first[k], model.last[k])
        T[s, a, model.successors[row]] = model.p[row]
        R[s, a], ends[s, a] = model.R[k], model.ends[k]
    return R, T


def exact_fixed_point(agent, m, rounds=200):
    """The fixed point of RMax by policy iteration with dense linear equations."""
    R, T = learned_task(agent, m)
    known, states = agent.known, np.arange(m.n_states)
    policy = np.zeros(m.n_states, dtype=int)
    for _ in range(rounds):
        A = np.eye(m.n_states) - m.gamma * T[states, policy] * known[states, policy][:, None]
        V = np.linalg.solve(A, R[states, policy])
        Q = np.where(known, R + m.gamma * T @ V, R)
        better = Q.max(axis=1) > V + 1e-9 * max(1.0, np.abs(V).max())
        if not better.any():
            break
        policy[better] = Q.argmax(axis=1)[better]
    return Q


def two_states(gamma):
    options = {"n_states": 2, "n_actions": 1, "gamma": gamma, "n_known": 1, "refresh": None}
    return hl.RMax(**options, terminating=False, seed=0)


@pytest.mark.parametrize("distance", [1e-3, 1e-5, 1e-8])
def test_learning_takes_few_backups_for_a_discount_factor_close_to_1(distance, monkeypatch):
    """The work of all updates is limited; a worklist alone needs about 1 / (1-γ) sweeps each."""
    work, solve = [], solving.solve
    monkeypatch.setattr(
        solving,
        "solve",
        lambda *arguments: work.append(solve(*arguments)) or work[-1],
    )
    m = hl.TabularMDP([[0.5], [0.2]], [[[0, 1]], [[1, 0]]], gamma=1 - distance)
    agent = two_states(m.gamma)
    hl.learn(agent, m.to_gymnasium(), episodes=1, max_steps=10, seed=0)
    assert agent.known.all()
    assert sum(work) < 200_000
    sol = hl.solve(m)
    assert (agent.Q >= sol.Q - sol.error).all()
    assert (agent.Q <= sol.Q + sol.error + agent.setting.tol).all()


@pytest.mark.parametrize("gamma", [0.999, 1 - 1e-5, 1 - 1e-8])
@pytest.mark.parametrize("seed", range(8))
def test_q_is_above_its_fixed_point_by_at_most_tol(seed, gamma):
    rng = np.random.default_rng(seed)
    tasks = random_family(rng, gamma)
    rmax, near_rmax = agents_for(tasks[0], family_nearness(tasks), seed)
    rounding = 1e-14 * max(abs(rmax.setting.v_max), 1.0) / (1 - gamma)
    for agent in (rmax, near_rmax):
        learned(agent, tasks, seed)
        assert fixed_point_error(agent) <= 1.01 * agent.setting.tol + rounding
        assert (agent.Q <= agent.U).all()
    exact = exact_fixed_point(rmax, tasks[1])
    assert (rmax.Q >= np.minimum(exact, rmax.U) - rounding).all()
    assert (rmax.Q <= exact + rmax.setting.tol + rounding).all()


@pytest.mark.parametrize("seed", range(6))
def test_compiled_and_step_by_step_learning_are_bit_identical_with_acceleration(seed):
    rng = np.random.default_rng(seed)
    tasks = random_family(rng, 1 - 1e-6)
    nearness = family_nearness(tasks)
    for compiled, stepwise in zip(
        agents_for(tasks[0], nearness, seed), agents_for(tasks[0], nearness, seed), strict=True
    ):
        learned(compiled, tasks, seed)
        learned(stepwise, tasks, seed, steps=True)
        assert (compiled.Q == stepwise.Q).all()
        assert (compiled.U == stepwise.U).all()


@pytest.mark.parametrize("seed", range(6))
def test_near_bound_is_above_q_star_for_a_discount_factor_close_to_1(seed):
    rng = np.random.default_rng(seed)
    m, m_bar = random_family(rng, 1 - 1e-6)
    bound = hl.near_bound(m, m_bar, family_nearness([m, m_bar]), tol=1.0)
    sol = hl.solve(m)
    assert (bound >= sol.Q - sol.error).all()
    with pytest.raises(hl.errors.NotConverged, match="float64 allows an error"):
        hl.near_bound(m, m_bar, family_nearness([m, m_bar]), tol=1e-6)


def test_update_that_cannot_converge_raises_not_converged_and_leaves_an_upper_bound(monkeypatch):
    """Without acceleration and with a small limit, as for a task that is too large for it."""

    def no_caps(model, values, near):
        return program.NO_PAIRS, np.full(values.Q.size, np.inf)

    monkeypatch.setattr(optimistic_program, "caps", no_caps)
    monkeypatch.setattr(program, "MAX_SWEEPS", 100)
    monkeypatch.setattr(solving, "MAX_WORK", 1000)
    gamma = 1 - 1e-8
    m = hl.TabularMDP([[0.5], [0.2]], [[[0, 1]], [[1, 0]]], gamma=gamma)
    agent = two_states(gamma)
    with pytest.raises(hl.errors.NotConverged, match="still an upper bound"):
        hl.learn(agent, m, episodes=2, max_steps=10, seed=0)
    assert (agent.Q >= hl.solve(m).Q).all()
    monkeypatch.undo()
    hl.learn(agent, m, episodes=2, max_steps=10, seed=0, resume=True)
    assert agent.known.all()
    assert (agent.Q <= hl.solve(m).Q + 1.1 * agent.setting.tol).all()


def test_update_in_many_calls_gives_the_same_bits_as_in_one_call(monkeypatch):
    """A call that stops after its budget is continued exactly; γ is too small to accelerate."""
    m = hl.garnet(30, 3, branching=3, gamma=0.95, seed=0)
    options = {"n_states": 30, "n_actions": 3, "gamma": 0.95, "n_known": 2, "seed": 0}
    results = []
    for budget in (solving.MAX_WORK, 50):
        monkeypatch.setattr(solving, "MAX_WORK", budget)
        agent = hl.RMax(**options)
        record = hl.learn(agent, m, episodes=30, max_steps=50, seed=0)
        results.append((agent.Q.copy(), record.returns))
    assert all((a == b).all() for a, b in zip(*results, strict=True))
