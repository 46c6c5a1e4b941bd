"""Agents that estimate known pairs again as their visits grow (`refresh`)."""

import numpy as np
import pytest

import heirloom as hl
from heirloom.learning.lifetime import learn_tasks
from heirloom.transfer import optimistic_program
from tests.partly_known import draw_deterministic_family

GAMMAS = [0.9, 0.995]


def tasks_of(seed, gamma, n=3):
    """Tasks with the same successors, and rewards and probabilities that differ a little."""
    rng = np.random.default_rng(seed)
    first = hl.garnet(8, 3, branching=3, gamma=gamma, seed=rng, terminating=0.1)
    ends = first.T
    ends.data = first.transitions.ends.astype(float)
    tasks = []
    for _ in range(n):
        T = first.T
        T.data = T.data * rng.uniform(0.8, 1.2, T.data.size)
        T.data /= np.repeat(T.sum(axis=1), np.diff(T.indptr))
        R = np.clip(first.R + rng.uniform(-0.05, 0.05, first.R.shape), 0, 1)
        tasks.append(hl.TabularMDP(R, T, gamma=gamma, terminates=ends))
    return tasks


def makers(tasks, gamma, **options):
    shared = {"n_states": 8, "n_actions": 3, "gamma": gamma, "n_known": 2, "seed": 0, **options}
    near = hl.family_nearness(tasks)
    anywhere = hl.Nearness(rewards=near.rewards, transitions=near.transitions)
    return {
        "RMax": lambda: hl.RMax(**shared),
        "LRMax": lambda: hl.LRMax(d_max=1.0, **shared),
        "MaxQInit": lambda: hl.MaxQInit(p_min=0.9, delta=0.5, **shared),
        "NearRMax": lambda: hl.NearRMax(nearness=near, **shared),
        "any successor": lambda: hl.NearRMax(nearness=anywhere, **shared),
    }


KINDS = ["RMax", "LRMax", "MaxQInit", "NearRMax", "any successor"]


@pytest.mark.parametrize("gamma", GAMMAS)
@pytest.mark.parametrize("kind", KINDS)
def test_compiled_and_step_by_step_learning_are_identical(kind, gamma):
    tasks = tasks_of(0, gamma)
    compiled, stepped = (makers(tasks, gamma, refresh=1.3)[kind]() for _ in range(2))
    for seed, m in enumerate(tasks):
        length = {"episodes": 20, "max_steps": 20, "seed": seed}
        record = hl.learn(compiled, m, **length)
        step_record = hl.learn(stepped, m.to_gymnasium(), **length)
        assert np.array_equal(record.returns, step_record.returns)
        assert np.array_equal(record.update_steps, step_record.update_steps)
        assert np.array_equal(compiled.Q, stepped.Q)
        assert np.array_equal(compiled.U, stepped.U)
        assert np.array_equal(compiled.model.counts, stepped.model.counts)
        assert compiled.model.counts.sum() == record.n_steps


@pytest.mark.parametrize("gamma", GAMMAS)
@pytest.mark.parametrize("kind", KINDS)
def test_values_at_the_end_of_a_task_are_those_of_the_last_estimates(kind, gamma):
    """Policy iteration over the same rows finds no value that differs by more than `tol`."""
    tasks = tasks_of(1, gamma)
    agent = makers(tasks, gamma, refresh=1.5)[kind]()
    for seed, m in enumerate(tasks):
        hl.learn(agent, m, episodes=30, max_steps=20, seed=seed)
        task = agent.task
        arrays = task.model._arrays, task._values, task._near
        pairs, caps = optimistic_program.caps(*arrays)
        Q, U = task.Q, task._values.base
        exact = np.minimum(U[pairs], caps[pairs])
        error = np.abs(Q[pairs] - exact).max(initial=0.0)
        assert error <= 2 * agent.setting.tol + 1e-12 * agent.setting.v_max
        counts = agent.model.counts.reshape(-1)
        assert (agent.memory.sources[-1].rows.counts == counts).all()
        assert (
            agent.memory.pooled.counts == sum(s.rows.counts for s in agent.memory.sources)
        ).all()
        assert counts.max() > 2


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("gamma", GAMMAS)
@pytest.mark.parametrize("seed", range(5))
def test_q_and_u_are_above_q_star_with_exact_models(seed, gamma, exact):
    """Tasks are deterministic, so that every estimate is exact, whether that is declared or not."""
    rng = np.random.default_rng(seed)
    tasks = draw_deterministic_family(rng, n_tasks=4, gamma=gamma, terminating=0.2)
    near = hl.family_nearness(tasks)
    sizes = {"n_states": tasks[0].n_states, "n_actions": tasks[0].n_actions, "gamma": gamma}
    options = {"n_known": 1, "refresh": 1.2, "exact": exact, "on_refutation": "raise", "seed": 0}
    agents = [
        hl.RMax(**sizes, **options),
        hl.LRMax(d_max=hl.metrics.family_distance(tasks), **sizes, **options),
        hl.NearRMax(nearness=near, **sizes, **options),
    ]
    for i, m in enumerate(tasks):
        Q = hl.solve(m, tol=1e-9 / (1 - gamma)).Q
        for agent in agents:

            def check(*_, agent=agent, Q=Q):
                """Within a task, values are accurate to a thousandth of the range of rewards."""
                assert (agent.Q >= Q - 1.1e-3).all()
                assert (agent.U >= Q - 1.1e-3).all()

            hl.learn(agent, m, episodes=20, max_steps=6, seed=i, callback=check, every=1)
            assert (agent.Q >= Q - 1e-6).all()
            assert (agent.U >= Q - 1e-6).all()


def test_estimates_of_known_pairs_follow_all_visits():
    """A coin that shows heads first is not kept for ever: the frozen agent keeps its estimate."""
    frozen, learning = (
        hl.RMax(n_states=1, n_actions=1, gamma=0.5, n_known=2, refresh=refresh, seed=0)
        for refresh in (None, 1.5)
    )
    rewards = [1.0, 1.0] + [0.0, 1.0] * 99
    for agent in (frozen, learning):
        agent.begin_task()
        known = [agent.observe(0, 0, r, 0, terminated=False) for r in rewards]
        assert known == [False, True] + [False] * 198
        assert agent.model.counts[0, 0] == 200
    assert frozen.model.R[0, 0] == 1.0
    assert abs(learning.model.R[0, 0] - 0.5) < 0.02
    assert learning.Q[0, 0] < frozen.Q[0, 0]


@pytest.mark.parametrize("stepwise", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_updates_are_the_steps_at_which_pairs_become_known_and_no_later_looks(kind, stepwise):
    tasks = tasks_of(3, 0.9)
    agent = makers(tasks, 0.9, refresh=1.3)[kind]()
    for seed, m in enumerate(tasks):
        env = m.to_gymnasium() if stepwise else m
        n_looks = 0

        def look(*_, agent=agent):
            nonlocal n_looks
            n_looks = int((agent.model.rows.counts > 2).sum())

        record = hl.learn(agent, env, episodes=30, max_steps=20, seed=seed, callback=look, every=1)
        assert n_looks > 5
        assert record.update_steps.size == agent.known.sum()
        assert (np.diff(record.update_steps) > 0).all()


@pytest.mark.parametrize("stepwise", [False, True])
def test_updates_of_an_experiment_are_the_pairs_that_became_known(stepwise):
    """`late_update` is the mean of the last 50 steps at which that happened."""
    (m,) = tasks_of(4, 0.9, n=1)
    agent = hl.RMax(n_states=8, n_actions=3, gamma=0.9, seed=0)
    became_known, n_steps, observe = [], 0, agent.observe

    def counted(*args, **options):
        nonlocal n_steps
        n_steps += 1
        if is_new := observe(*args, **options):
            became_known.append(n_steps)
        return is_new

    if stepwise:
        agent.observe = counted
    sizes = {"episodes": 60, "steps": 20, "seed": 0, "name": "RMax", "repetition": 1}
    found = learn_tasks(agent, [m.to_gymnasium() if stepwise else m], **sizes)
    assert found["updates"] == [agent.known.sum()]
    assert agent.model.rows.counts.max() > 2
    if stepwise:
        assert found["late_update"] == [np.mean(became_known[-50:])]


def test_default_agent_is_known_after_2_visits_and_looks_again_when_visits_have_grown_by_half():
    agent = hl.RMax(n_states=2, n_actions=1, gamma=0.9)
    assert (agent.n_known, agent.options["refresh"]) == (2, 1.5)
    agent.begin_task()
    looks = []
    for n in range(1, 31):
        agent.observe(0, 0, 0.0, 1, terminated=False)
        if agent.model.rows.counts[0] == n:
            looks.append(n)
    assert looks == [2, 3, 5, 7, 11, 16, 23]  # 2 * 1.5^i, rounded up


@pytest.mark.parametrize("excess", [2.0**-52, 1e-9, 5e-4])
def test_factor_hardly_above_1_looks_at_every_visit(excess):
    """Compiled code does not multiply the factor until it exceeds the next whole number."""
    model = hl.LearnedModel(1, 1, n_known=2, refresh=1 + excess)
    for n in range(1, 200):
        model.observe(0, 0, n % 2, 0, terminated=False)
        assert model.rows.counts[0] == (n if n > 1 else 0)


@pytest.mark.parametrize("refresh", [1.0, 0.5, np.nan, "often"])
def test_factors_that_do_not_exceed_1_are_refused(refresh):
    with pytest.raises((hl.errors.InvalidArgument, TypeError), match="refresh is"):
        hl.RMax(n_states=1, n_actions=1, gamma=0.9, n_known=1, refresh=refresh)


def test_saved_agent_continues_with_identical_results(tmp_path):
    tasks = tasks_of(2, 0.9)
    agent = makers(tasks, 0.9, refresh=1.5)["NearRMax"]()
    hl.learn(agent, tasks[0], episodes=20, max_steps=20, seed=0)
    agent.save(tmp_path / "agent.heirloom")
    loaded = hl.NearRMax.load(tmp_path / "agent.heirloom")
    assert loaded.options["refresh"] == 1.5
    results = [
        hl.learn(one, tasks[1], episodes=20, max_steps=20, seed=1) for one in (agent, loaded)
    ]
    assert np.array_equal(results[0].returns, results[1].returns)
    assert np.array_equal(agent.Q, loaded.Q)
