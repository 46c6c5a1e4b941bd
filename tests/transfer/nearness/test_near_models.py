"""NearModels is an upper bound on Q* if the nearness is true, and solves its dynamic program."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import heirloom as hl
from heirloom.kernels import solving
from heirloom.transfer.nearness.exact import family_nearness
from tests.reference.nearness import largest_mean, near_Q
from tests.strategies import RANGES, mixed, seeds

ROUNDING = 1e-9


def draw_family(rng, *, deterministic, most_states=6):
    """Tasks of the same size that differ a little or a lot, with or without termination."""
    n_states, n_actions = int(rng.integers(1, most_states + 1)), int(rng.integers(1, 4))
    options = {
        "branching": 1 if deterministic else int(rng.integers(1, n_states + 1)),
        "gamma": float(rng.choice([0.0, 0.5, 0.9])),
        "terminating": float(rng.choice([0.0, 0.3])),
        "reward_range": RANGES[rng.integers(len(RANGES))],
    }
    first = hl.garnet(n_states, n_actions, **options, seed=rng)
    tasks = [first]
    for _ in range(rng.integers(1, 4)):
        other = hl.garnet(n_states, n_actions, **options, seed=rng)
        transitions = 0.0 if deterministic else float(rng.choice([0.0, 0.1, 1.0]))
        tasks.append(mixed(first, other, rewards=rng.choice([0, 0.1, 1]), transitions=transitions))
    return tasks


def draw_nearness(rng, tasks):
    """A nearness that is true for the tasks: arrays or numbers, with and without successors."""
    near = family_nearness(tasks)
    slack = rng.choice([0.0, 0.01, 0.2])
    options = {
        "rewards": near.rewards + slack,
        "transitions": np.minimum(1, near.transitions + slack),
    }
    if rng.random() < 0.5:
        options = {name: array.max() for name, array in options.items()}
    if rng.random() < 0.5:
        options |= {"successors": near.successors}
    if rng.random() < 0.5:
        options |= {"terminates": near.terminates}
    if rng.random() < 0.3:
        options |= {"highest_rewards": np.max([m.R for m in tasks], axis=0) + slack}
    return hl.Nearness(**options)


def agent_for(tasks, bounds, rng, **options):
    m = tasks[0]
    return hl.OptimisticAgent(
        bounds=bounds,
        n_states=m.n_states,
        n_actions=m.n_actions,
        gamma=m.gamma,
        reward_range=m.reward_range,
        terminating=any(task.terminating for task in tasks) or bool(rng.integers(2)),
        **{"n_known": 1, "seed": rng, **options},
    )


def check_task(agent, m, rng, *, episodes=6, max_steps=8):
    """Learn a task; Q and U are above Q* after every update.

    If known pairs are estimated once, Q and U never increase. Otherwise they are accurate to a
    thousandth of the reward range within the task.
    """
    sol, env = hl.solve(m), m.to_gymnasium()
    slack = exact = sol.error + ROUNDING * max(1.0, np.abs(sol.Q).max())
    is_frozen = agent.options["refresh"] is None
    if not is_frozen:
        slack += 1.1e-3 * max(np.ptp(m.reward_range), 1e-9)
    agent.begin_task()
    before, checked = (agent.Q.copy(), agent.U.copy()), 0
    transferred = bool((before[1] < agent.setting.v_max).any())
    for episode in range(episodes):
        s, _ = env.reset(seed=int(rng.integers(2**31)) if episode == 0 else None)
        for _ in range(max_steps):
            a = agent.act(s)
            s_next, r, terminated, _, _ = env.step(a)
            agent.observe(s, a, r, s_next, terminated=terminated)
            Q, U = agent.Q, agent.U
            assert (U >= sol.Q - slack).all()
            assert (Q >= sol.Q - slack).all()
            if is_frozen:
                assert (Q <= before[0]).all()
                assert (U <= before[1]).all()
            assert (Q[~agent.known] == U[~agent.known]).all()
            before, checked = (Q.copy(), U.copy()), checked + 2 * Q.size
            s = s_next
            if terminated:
                break
    agent.end_task()
    assert (agent.Q >= sol.Q - exact - agent.setting.tol).all()
    return transferred, checked


def check_family(rng):
    """A lifetime on deterministic tasks, where one visit makes a pair known exactly.

    Where models are declared exact, each source gives a bound; otherwise their visits are pooled.
    In half of them, known pairs are estimated again and again.
    """
    tasks = draw_family(rng, deterministic=True)
    near = hl.NearModels(draw_nearness(rng, tasks))
    extra = [[], [hl.Lipschitz(d_max=hl.metrics.family_distance(tasks))]][rng.integers(2)]
    options = {
        "tol": float(rng.choice([1e-8, 1e-2])),
        "exact": bool(rng.integers(2)),
        "refresh": (None, 1.2)[rng.integers(2)],
    }
    agent = agent_for(tasks, [near, *extra], rng, **options)
    drawn = [tasks[i] for i in rng.integers(len(tasks), size=5)]
    return np.array([check_task(agent, m, rng) for m in drawn]).sum(axis=0)


def test_bound_is_above_q_star_after_every_update():
    rng = np.random.default_rng(17)
    transferred, _ = sum(check_family(rng) for _ in range(60))
    assert transferred > 60


@pytest.mark.slow
@pytest.mark.parametrize("block", range(4))
def test_bound_is_above_q_star_in_a_million_comparisons(block):
    rng = np.random.default_rng([17, block])
    checked = transferred = 0
    while checked < 260_000:
        now, n = check_family(rng)
        checked, transferred = checked + n, transferred + now
    assert transferred > 300


def half_known(m, rng):
    """A source of which a random part of the pairs is known, exactly."""
    from heirloom.transfer.source import Source
    from tests.partly_known import learned_exactly

    known = rng.random(m.R.shape) < rng.choice([0.3, 0.8, 1.0])
    return Source.of(learned_exactly(m, known), np.full(m.R.size, m.v_max))


def check_initial_bound(rng):
    """Sources are exact and partly known, tasks stochastic; no pair of the new task is known."""
    tasks = draw_family(rng, deterministic=False)
    near = hl.NearModels(draw_nearness(rng, tasks))
    agent = agent_for(tasks, [near], rng)
    for source in tasks[1:]:
        agent.memory.add(half_known(source, rng))
    agent.begin_task()
    sol = hl.solve(tasks[0])
    slack = sol.error + ROUNDING * max(1.0, np.abs(sol.Q).max())
    assert (agent.U >= sol.Q - slack).all()
    return bool((agent.U < agent.setting.v_max).any())


def test_bound_from_partly_known_stochastic_sources_is_above_q_star():
    rng = np.random.default_rng(18)
    assert np.sum([check_initial_bound(rng) for _ in range(150)]) > 40


@pytest.mark.slow
def test_bound_from_partly_known_stochastic_sources_is_above_q_star_in_thousands_of_families():
    rng = np.random.default_rng(19)
    assert np.sum([check_initial_bound(rng) for _ in range(4000)]) > 1000


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.05, 0.4]))
@settings(max_examples=25)
def test_bound_solves_the_joint_program(seed, epsilon):
    """It equals the reference implementation, which solves linear programs, after every update."""
    rng = np.random.default_rng(seed)
    tasks = draw_family(rng, deterministic=False, most_states=3)
    nearness = draw_nearness(rng, tasks)
    options = {"epsilon": epsilon, "n_known": 2, "refresh": None, "tol": 1e-9}
    agent = agent_for(tasks, [hl.NearModels(nearness)], rng, **options)
    for source in tasks[1:]:
        agent.memory.add(half_known(source, rng))
    env = tasks[0].to_gymnasium()
    agent.begin_task()
    scale = max(1.0, abs(agent.setting.v_max))
    s, _ = env.reset(seed=seed)
    for step in range(12):
        if step % 6 == 0:
            arguments = agent.memory.sources, nearness, agent.setting
            expected = near_Q(agent.model.rows, *arguments)
            # U is frozen at known pairs, so Q may be below the program solved from scratch.
            assert (agent.Q.ravel() <= expected + 1e-6 * scale).all()
            if not agent.known.any():
                np.testing.assert_allclose(agent.Q.ravel(), expected, atol=1e-6 * scale)
        a = agent.act(s)
        s_next, r, terminated, _, _ = env.step(a)
        agent.observe(s, a, r, s_next, terminated=terminated)
        s = env.reset()[0] if terminated else s_next


@pytest.mark.parametrize("seed", range(6))
def test_compiled_and_step_by_step_learning_are_bit_identical(seed):
    rng = np.random.default_rng(seed)
    tasks = draw_family(rng, deterministic=False)
    nearness = draw_nearness(rng, tasks)
    records = []
    for compiled in (True, False):
        agent = agent_for(
            tasks, [hl.NearModels(nearness)], np.random.default_rng(1), seed=1, n_known=3
        )
        records.append(
            [
                hl.learn(
                    agent, m if compiled else m.to_gymnasium(), episodes=20, max_steps=10, seed=i
                )
                for i, m in enumerate(tasks)
            ]
        )
        records[-1].append(agent.Q.copy())
    *one, Q_one = records[0]
    *other, Q_other = records[1]
    for a, b in zip(one, other, strict=True):
        assert np.array_equal(a.returns, b.returns)
        assert np.array_equal(a.update_steps, b.update_steps)
    assert np.array_equal(Q_one, Q_other)


def test_bound_falls_at_unknown_pairs_when_values_fall_elsewhere():
    """A corridor: learning that the goal pays less lowers the bound of cells not yet visited."""
    source, task = (
        hl.grid_world("S.....G", gamma=0.9, goal_rewards=r, actions=("left", "right"))
        for r in (0.9, 0.5)
    )
    near = hl.Nearness(rewards=0.5, transitions=0.0, successors=None)
    options = {"n_states": 7, "n_actions": 2, "gamma": 0.9, "n_known": 1, "seed": 0}
    agent = hl.OptimisticAgent(bounds=[hl.NearModels(near)], **options)
    agent.memory.add(fully_known(source))
    agent.begin_task()
    before = agent.U.copy()
    goal = int(np.flatnonzero(task.R.max(axis=1) > 0)[0])
    for a in range(2):
        s_next = int(task.T[[goal * 2 + a]].indices[0])
        agent.observe(goal, a, 0.5, s_next, terminated=False)
    unknown = ~agent.known
    assert (agent.U[unknown] < before[unknown]).any()
    assert (agent.U[unknown] >= hl.solve(task).Q[unknown] - 1e-9).all()


def fully_known(m):
    """A source of which every pair is known, exactly."""
    from heirloom.transfer.source import Source
    from tests.partly_known import learned_exactly

    return Source.of(learned_exactly(m, np.ones(m.R.shape, dtype=bool)), np.full(m.R.size, m.v_max))


def test_no_backup_would_lower_a_value_by_more_than_the_slack():
    """A value decreases that leads to a pair, and is the largest one, to which mass can move.

    Each of the two effects alone is too small to matter, and their sum is not.
    """
    T = np.array([[[0.0, 0.0, 1.0]], [[0.5, 0.5, 0.0]], [[0.0, 0.0, 1.0]]])
    source = hl.TabularMDP(np.array([[0.9], [0.0], [0.0]]), T, gamma=0.5, terminates=[2])
    near = hl.Nearness(
        rewards=np.array([[0.039], [0.0], [0.0]]), transitions=np.array([[0.0], [0.3], [0.0]])
    )
    agent = hl.NearRMax(nearness=near, n_states=3, n_actions=1, gamma=0.5, n_known=1, tol=0.02)
    agent.memory.add(fully_known(source))
    agent.begin_task()
    agent.observe(0, 0, 0.9, 2, terminated=True)
    V = agent.Q[:, 0]
    assert V[0] == 0.9
    assert V[1] - 0.5 * (0.8 * V[0] + 0.2 * V[1]) <= agent.setting.slack


@pytest.mark.parametrize("sense", [1.0, -1.0])
@pytest.mark.parametrize("seed", seeds(20))
def test_extreme_mean_is_that_of_the_linear_program(seed, sense):
    """The row is sorted by value, and remains the same distribution."""
    rng = np.random.default_rng(seed)
    n, t = int(rng.integers(1, 9)), rng.choice([0.0, 0.1, 0.5, 1.0])
    row = rng.dirichlet(np.ones(n + 1))
    V = rng.choice([-1.0, 0.0, 0.5, 2.0], n) if seed % 2 else rng.normal(size=n)
    successors, p = np.arange(n, dtype=np.int32), row[:n].copy()
    values = sense * np.append(V, 0.0)
    highest = values.max()
    mean = solving.extreme_mean(0, n, successors, p, row[n], V, sense, t, highest)
    expected = largest_mean(row, values, t, np.ones(n + 1, dtype=bool))
    assert mean == pytest.approx(expected, abs=1e-9)
    assert (np.diff(sense * V[successors]) >= 0).all()
    assert np.array_equal(row[successors], p)
