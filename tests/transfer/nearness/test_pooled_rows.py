"""Bounds of a nearness from one row per pair, pooled over all visits of all earlier tasks."""

import numpy as np
import pytest

import heirloom as hl
from heirloom.errors import InvalidArgument
from heirloom.experiments.job import draw_tasks, make_agent
from heirloom.experiments.spec import ExperimentSpec
from heirloom.mdp.rows import Rows
from heirloom.mdp.transitions import Entries, collect
from heirloom.transfer.memory import ALL_TASKS, FIRST_TASKS
from heirloom.transfer.radii import possible_outcomes, radii_for
from tests.reference.learned_models import as_dense
from tests.reference.nearness import near_Q
from tests.strategies import draw_available, mixed, restricted
from tests.streams import most
from tests.transfer.nearness.test_near_models import (
    ROUNDING,
    agent_for,
    draw_family,
    draw_nearness,
)

UNIT = 12  # visits; all probabilities of a rational task are multiples of 1 / UNIT


def rational(m, *, unit=UNIT):
    """The task with probabilities rounded to multiples of 1 / unit."""
    t = m.transitions
    times = np.floor(t.p * unit)
    first = np.flatnonzero(np.diff(t.pairs, prepend=-1))  # the first outcome of each pair
    times[first] += unit - np.add.reduceat(times, first)
    ends = np.zeros(t.p.size, dtype=bool) if t.ends is None else t.ends
    outcomes = Entries(t.pairs, t.successors.astype(np.int64), times / unit, t.R[t.pairs], ends)
    return hl.TabularMDP.from_transitions(
        collect(outcomes, m.n_states, m.n_actions), gamma=m.gamma, reward_range=m.reward_range
    )


def exact_rows(m, visits):
    """The rows of a task as if they were estimated, each from some visits."""
    t, rows = m.transitions, m.transitions.continuing
    visited = visits > 0
    lengths = np.where(visited, np.diff(rows.indptr), 0)
    taken = np.repeat(visited, np.diff(rows.indptr))
    last = np.cumsum(lengths)
    return Rows(
        known=visited & (visits > 2 * UNIT),
        counts=visits,
        R=np.where(visited, t.R, 0.0),
        ends=np.where(visited, t.end_probability, 0.0),
        first=last - lengths,
        last=last,
        successors=rows.successors[taken],
        p=rows.p[taken],
    )


def exact_source(m, visits):
    """A source whose rows are exactly those of a rational task."""
    Q = np.where(m.available.reshape(-1), m.v_max, -np.inf)
    V = np.full(m.n_states, m.v_max)
    available = None if m.available.all() else m.available.reshape(-1)
    return hl.bounds.Source(exact_rows(m, visits), Q, V, available=available)


def check_initial_bound(rng):
    """Earlier tasks were observed exactly, with any numbers of visits; some are forgotten."""
    tasks = [rational(m) for m in draw_family(rng, deterministic=False)]
    near = hl.NearModels(draw_nearness(rng, tasks))
    if rng.random() < 0.3:
        tasks = [restricted(m, draw_available(rng, m)) for m in tasks]
    n_states, n_actions = tasks[0].R.shape
    memory = hl.TaskMemory(n_states, n_actions, capacity=int(rng.integers(1, 4)))
    agent = agent_for(tasks, [near], rng, memory=memory)
    for m in tasks[1:]:
        visits = UNIT * rng.integers(0, 5, m.R.size) * (rng.random(m.R.size) < 0.8)
        memory.add(exact_source(m, np.where(m.available.reshape(-1), visits, 0)))
    agent.begin_task(available=tasks[0].available)
    sol = hl.solve(tasks[0])
    slack = sol.error + ROUNDING * max(1.0, np.abs(sol.Q[tasks[0].available]).max())
    assert (agent.U >= sol.Q - slack)[tasks[0].available].all()
    used = near.sources_used()
    assert set(used.tolist()) <= {0, ALL_TASKS}
    return bool((used == ALL_TASKS).any())


def test_bound_from_mixtures_of_exact_rows_is_above_q_star():
    rng = np.random.default_rng(20)
    assert np.sum([check_initial_bound(rng) for _ in range(150)]) > 40


@pytest.mark.slow
def test_bound_from_mixtures_of_exact_rows_is_above_q_star_in_thousands_of_families():
    rng = np.random.default_rng(21)
    assert np.sum([check_initial_bound(rng) for _ in range(5000)]) > 1500


def stochastic_family(seed, n_tasks, *, gamma=0.9):
    """Tasks that differ a little, with three successors per pair, some of which end the episode."""
    rng = np.random.default_rng(seed)
    options = {"branching": 3, "gamma": gamma, "terminating": 0.1}
    first, other = (hl.garnet(6, 2, **options, seed=rng) for _ in range(2))
    other = hl.TabularMDP(other.R, first.T, gamma=gamma, terminates=ends_of(first))
    tasks = []
    for _ in range(n_tasks):
        m = mixed(first, other, rewards=rng.uniform(0, 0.1), transitions=0.0)
        T = m.T
        T.data = T.data * rng.uniform(0.9, 1.1, T.data.size)
        T.data /= np.repeat(T.sum(axis=1), np.diff(T.indptr))
        tasks.append(hl.TabularMDP(m.R, T, gamma=gamma, terminates=ends_of(m)))
    return tasks


def ends_of(m):
    ends = m.T
    ends.data = m.transitions.ends.astype(float)
    return ends


def agent_of(tasks, nearness, **options):
    m = tasks[0]
    given = {"n_known": 5, "seed": 0, "gamma": m.gamma, "on_refutation": "ignore", **options}
    return hl.NearRMax(nearness=nearness, n_states=m.n_states, n_actions=m.n_actions, **given)


def mixture(tasks, counts):
    """Mean rewards and rows of tasks, weighed by the visits [task, pair] of each."""
    n_states = tasks[0].n_states
    weights = counts / np.maximum(counts.sum(axis=0), 1)
    dense = [as_dense(exact_rows(m, np.full(m.R.size, 3 * UNIT)), n_states) for m in tasks]
    R = sum(w * m.R.reshape(-1) for w, m in zip(weights, tasks, strict=True))
    return R, sum(w[:, None] * T for w, (_, _, T) in zip(weights, dense, strict=True))


def sets_hold(memory, tasks, counts, near, setting, delta):
    """Whether all pooled rows are within their radii of the mixtures of the true models."""
    outcomes = possible_outcomes(near, setting)
    eta, tau = radii_for(delta, setting, outcomes).at(memory.pooled.counts)
    R, T = mixture(tasks, counts)
    known, R_bar, T_bar = as_dense(memory.pooled, setting.n_states)
    reward = np.abs(R_bar - R)[known] <= eta[known] + 1e-12
    rows = np.abs(T_bar - T).sum(axis=1)[known] / 2 <= tau[known] + 1e-12
    return bool(reward.all() and rows.all())


def visit(agent, m, *, seed, episodes=40, max_steps=40):
    """Begin a task and learn it, step by step."""
    env = m.to_gymnasium()
    agent.begin_task()
    for episode in range(episodes):
        s, _ = env.reset(seed=seed if episode == 0 else None)
        for _ in range(max_steps):
            a = agent.act(s)
            s_next, r, terminated, _, _ = env.step(a)
            agent.observe(s, a, r, s_next, terminated=terminated)
            s = s_next
            if terminated:
                break


def live(seed, *, confidence, refresh):
    """A life with estimated models, of which some tasks are dropped or forgotten.

    Returns in how many tasks pooled sets held, bounds failed, and bounds said something.
    """
    n_tasks, delta = 6, 1 - (confidence or 0.5)
    tasks = stochastic_family(seed, n_tasks)
    near = hl.family_nearness(tasks)
    memory = hl.TaskMemory(tasks[0].n_states, tasks[0].n_actions, capacity=2)
    options = {"confidence": confidence, "refresh": refresh, "memory": memory}
    agent = agent_of(tasks, near, **options)
    counts, found = np.zeros((n_tasks, tasks[0].R.size), dtype=int), np.zeros(3, dtype=int)
    for i, m in enumerate(tasks):
        before = memory.pooled.counts.copy()
        if i:
            agent.begin_task()
            fails = bool((agent.U < hl.solve(m).Q - 1e-9).any())
            says = bool((agent.U < agent.setting.v_max).any())
            held = sets_hold(memory, tasks, counts, near, agent.setting, delta)
            assert confidence is None or not (held and fails)
            found += held, fails, says
            agent.drop_task()
        visit(agent, m, seed=100 * seed + i)
        agent.drop_task() if i % 3 == 1 else agent.end_task()
        counts[i] = memory.pooled.counts - before
    return found


@pytest.mark.parametrize("refresh", [None, 1.5])
def test_no_bound_fails_while_all_pooled_sets_hold(refresh):
    """Without radii, bounds fail in the same lives, so that the test has power."""
    given = np.sum([live(seed, confidence=0.5, refresh=refresh) for seed in range(6)], axis=0)
    plain = np.sum([live(seed, confidence=None, refresh=refresh) for seed in range(6)], axis=0)
    held, fails, says = given
    assert held > 20
    assert says > 20
    assert plain[1] > 10 + fails


def pooled_failures(streams, delta, seed):
    """In how many streams a pooled mean is ever outside its radius.

    The mean of a task is 0.2 or 0.8. A task ends when the pooled estimate looks extreme, and the
    next one has the mean that makes it look more extreme.
    """
    rng, n = np.random.default_rng(seed), 3000
    setting = hl.bounds.Setting(n_states=1, n_actions=1, gamma=0.5, terminating=False)
    radii = radii_for(2 * delta, setting, np.ones(1, dtype=np.int64))  # half of it is for rewards
    total, expected = np.zeros(streams), np.zeros(streams)
    mean, failed = np.full(streams, 0.5), np.zeros(streams, dtype=bool)
    for i in range(1, n + 1):
        total += rng.random(streams) < mean
        expected += mean
        error = total - expected
        failed |= np.abs(error) / i > radii.of_pair(0, i)[0]
        extreme = np.abs(error) > 1.5 * np.sqrt(i) / 2
        mean = np.where(extreme, np.where(error > 0, 0.2, 0.8), 0.5)
    return int(failed.sum())


@pytest.mark.parametrize("delta", [0.05, 0.5])
def test_pooled_mean_leaves_its_radius_at_any_visit_with_probability_delta_at_most(delta):
    assert pooled_failures(1000, delta, seed=0) <= most(delta, 1000)


@pytest.mark.parametrize("confidence", [None, 0.9])
@pytest.mark.parametrize("seed", range(4))
def test_bound_solves_the_joint_program_of_the_pooled_rows(seed, confidence):
    """It equals the reference implementation, with the claim widened by the radii."""
    tasks = stochastic_family(seed, 4, gamma=0.5)
    near = hl.family_nearness(tasks)
    frozen = {
        "n_known": 100,
        "refresh": None,
        "tol": 1e-9,
    }  # exact values at the beginning of a task
    agent = agent_of(tasks, near, confidence=confidence, **frozen)
    for i, m in enumerate(tasks[1:]):
        hl.learn(agent, m, episodes=100, max_steps=60, seed=i)
    agent.begin_task()
    pooled, setting, shape = agent.memory.pooled, agent.setting, tasks[0].R.shape
    eta = tau = np.zeros(setting.n_pairs)
    if confidence is not None:
        outcomes = possible_outcomes(near, setting)
        eta, tau = radii_for(1 - confidence, setting, outcomes).at(pooled.counts)
    widened = hl.Nearness(
        rewards=near.rewards + np.minimum(eta, 1.0).reshape(shape),
        transitions=np.minimum(near.transitions + tau.reshape(shape), 1.0),
        successors=near.successors,
        terminates=near.terminates,
    )
    source = hl.bounds.Source(pooled, np.full(setting.n_pairs, 2.0), np.full(shape[0], 2.0))
    expected = near_Q(agent.model.rows, [source], widened, setting)
    np.testing.assert_allclose(agent.Q.ravel(), expected, atol=1e-6)
    assert (agent.U < setting.v_max).any()


@pytest.mark.parametrize("ends", ["end_task", "drop_task"])
def test_pooled_rows_include_pairs_that_are_not_known_and_tasks_that_are_not_stored(ends):
    memory = hl.TaskMemory(1, 1, capacity=1)
    near = hl.Nearness(rewards=0.1, transitions=0.0)
    options = {"n_states": 1, "n_actions": 1, "gamma": 0.5, "n_known": 10, "memory": memory}
    agent = hl.NearRMax(nearness=near, seed=0, refresh=None, **options)
    for reward in (0.2, 0.6, 0.4):
        agent.begin_task()
        for _ in range(3):
            agent.observe(0, 0, reward, 0, terminated=False)
        assert not agent.known.any()
        getattr(agent, ends)()
    agent.begin_task()
    assert agent.U[0, 0] == pytest.approx(2 * 0.5)  # the mean reward is 0.4, and at most 0.1 more
    assert agent.explain().n_decided["NearModels, all earlier tasks"] == 1


def test_row_that_was_given_is_a_source_of_its_own():
    """It belongs to no visit; with `confidence` it is not used, because it has no radius."""
    m = rational(stochastic_family(0, 1)[0])
    given = exact_source(m, np.full(m.R.size, 3 * UNIT)).rows
    given = given._replace(counts=np.zeros(m.R.size, dtype=np.int64))
    source = hl.bounds.Source(given, np.full(m.R.size, 10.0), np.full(m.n_states, 10.0))
    for confidence, is_used in ((None, True), (0.9, False)):
        agent = agent_of([m], hl.family_nearness([m]), confidence=confidence, refresh=None)
        agent.memory.add(source)
        agent.begin_task()
        assert (1 in agent.bounds[0].sources_used()) == is_used
        if is_used:
            np.testing.assert_allclose(agent.U, hl.solve(m).Q, atol=1e-6)


@pytest.mark.parametrize("refresh", [None, 1.5])
@pytest.mark.parametrize("confidence", [None, 0.6])
def test_compiled_stepped_and_loaded_agents_are_identical(tmp_path, refresh, confidence):
    tasks = stochastic_family(3, 5)
    near = hl.family_nearness(tasks)
    options = {"refresh": refresh, "confidence": confidence, "n_known": 2}
    compiled, stepped, saved = (agent_of(tasks, near, **options) for _ in range(3))
    for i, m in enumerate(tasks):
        length = {"episodes": 30, "max_steps": 30, "seed": i}
        record = hl.learn(compiled, m, **length)
        others = [hl.learn(stepped, m.to_gymnasium(), **length), hl.learn(saved, m, **length)]
        for agent, other in zip((stepped, saved), others, strict=True):
            assert np.array_equal(record.returns, other.returns)
            assert np.array_equal(compiled.Q, agent.Q)
            assert np.array_equal(compiled.U, agent.U)
        saved.save(tmp_path / "agent")
        saved = hl.NearRMax.load(tmp_path / "agent")
        assert saved.bounds[0].confidence == confidence
    note = "NearModels: valid with probability 0.6 before the first step"
    assert any(text.startswith(note) for text in compiled.explain().notes) == bool(confidence)
    assert (compiled.U < compiled.setting.v_max).any()


def test_bounds_with_more_confidence_are_larger():
    tasks = stochastic_family(4, 4)
    near = hl.family_nearness(tasks)
    rmax = hl.RMax(n_states=6, n_actions=2, gamma=0.9, n_known=300, seed=0)
    for i, m in enumerate(tasks[1:]):
        hl.learn(rmax, m, episodes=200, max_steps=50, seed=i)
    bounds = []
    for confidence in (None, 0.5, 0.95, 1 - 1e-9):
        agent = agent_of(tasks, near, confidence=confidence, memory=rmax.memory)
        agent.begin_task()
        bounds.append(agent.U.copy())
        agent.drop_task()
    assert (np.diff(bounds, axis=0) >= 0).all()
    assert (bounds[2] > bounds[0]).any()
    assert (bounds[2] < agent.setting.v_max).any()


def test_pooled_bounds_count_for_no_source_so_that_the_oldest_is_forgotten():
    tasks = stochastic_family(5, 4)
    memory = hl.TaskMemory(6, 2, capacity=2, keep="most_used")
    agent = agent_of(tasks, hl.family_nearness(tasks), memory=memory)
    for i, m in enumerate(tasks):
        hl.learn(agent, m, episodes=30, max_steps=30, seed=i)
    assert memory.uses == {3: 0, 4: 0}
    assert (agent.bounds[0].sources_used() == ALL_TASKS).any()


def test_learned_nearness_pools_the_first_tasks_only():
    tasks = [hl.grid_world(["S..G"], gamma=0.9, goal_rewards=r) for r in (0.4, 0.8)]
    options = {"n_states": 4, "n_actions": 4, "gamma": 0.9, "n_known": 1, "seed": 0}
    agent = hl.NearRMax(p_min=0.5, delta=0.3, **options)
    assert agent.bounds[0].n_tasks == 2
    for i, m in enumerate([*tasks, tasks[0], tasks[0]]):
        hl.learn(agent, m, episodes=60, max_steps=20, seed=i)
    agent.begin_task()
    used = agent.bounds[0].sources_used()
    assert set(used.tolist()) <= {0, FIRST_TASKS}
    assert (used == FIRST_TASKS).any()
    goal = np.flatnonzero(tasks[0].R.reshape(-1) > 0)
    first = sum(
        source.rows.R[goal] * source.rows.counts[goal] for source in agent.memory.sources[:2]
    )
    first /= sum(source.rows.counts[goal] for source in agent.memory.sources[:2])
    np.testing.assert_allclose(agent.bounds[0]._near.reward[goal], np.minimum(first + 0.4, 1.0))
    assert "NearModels, the first tasks" in agent.explain().names


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"exact": True}, "confidence is 0.9, but exact=True declares that models are accurate"),
        ({"epsilon": 0.1}, "confidence is 0.9, but epsilon=0.1 declares that models are accurate"),
        ({"confidence": 1}, "confidence is 1: expected a number above 0 and below 1"),
        ({"confidence": 0}, "confidence is 0: expected a number above 0 and below 1"),
        ({"confidence": "high"}, "confidence is 'high': expected a number above 0 and below 1"),
    ],
)
def test_confidence_that_makes_no_sense_is_refused(options, message):
    near = hl.Nearness(rewards=0.1, transitions=0.1)
    sizes = {"n_states": 2, "n_actions": 1, "gamma": 0.9, "n_known": 1}
    given = {"confidence": 0.9, **options}
    with pytest.raises(InvalidArgument, match=message):
        hl.NearRMax(nearness=near, **sizes, **given)
    with pytest.raises(InvalidArgument, match=message):
        hl.NearRMaxQInit(p_min=0.5, nearness=near, **sizes, **given)


def test_confidence_of_a_learned_nearness_is_refused():
    sizes = {"n_states": 2, "n_actions": 1, "gamma": 0.9, "n_known": 1}
    for make in (hl.NearRMax, hl.NearRMaxQInit):
        with pytest.raises(
            InvalidArgument, match=r"confidence is 0.9, but the nearness is learned"
        ):
            make(p_min=0.5, confidence=0.9, **sizes)
    with pytest.raises(InvalidArgument, match="expected a number above 0 and below 1"):
        hl.NearModels(hl.Nearness(rewards=0.1, transitions=0.1), confidence=2)


@pytest.mark.parametrize("algorithm", ["NearRMax", "NearRMaxQInit"])
def test_confidence_is_a_key_of_a_spec(algorithm):
    table = {"algorithm": algorithm, "n_known": 2, "p_min": 0.5, "nearness": "family"}
    given = {"name": "x", "tasks": 2, "episodes": 2, "steps": 5, "repetitions": 1}
    given["family"] = {"name": "corridor"}
    spec = ExperimentSpec.read({**given, "agents": [{**table, "confidence": 0.9}]})
    tasks = draw_tasks(spec, 0)
    agent = make_agent(spec.agents[0], spec, tasks, np.random.default_rng(0))
    assert agent.bounds[0].confidence == 0.9
    with pytest.raises(InvalidArgument, match=r"confidence is 1.0: input should be less than 1"):
        ExperimentSpec.read({**given, "agents": [{**table, "confidence": 1.0}]})
