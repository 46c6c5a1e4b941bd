"""A nearness learned from the first tasks: what it is, when it is used, and that it is sound."""

import numpy as np
import pytest

import heirloom as hl
from heirloom.envs.paper_tasks import maze
from heirloom.experiments.job import make_agent
from heirloom.experiments.spec import ExperimentSpec
from heirloom.transfer.nearness.learned import REWARDS, TRANSITIONS, model_differences
from heirloom.transfer.source import Source
from tests.partly_known import blur, draw_deterministic_family, learned_exactly
from tests.strategies import RANGES, mixed, seeds

ROUNDING = 1e-9


def draw_family(rng):
    """Two to four stochastic tasks that differ a little or a lot."""
    n_states, n_actions = int(rng.integers(1, 5)), int(rng.integers(1, 4))
    options = {
        "branching": int(rng.integers(1, n_states + 1)),
        "gamma": float(rng.choice([0.0, 0.5, 0.9])),
        "terminating": float(rng.choice([0.0, 0.3])),
        "reward_range": RANGES[rng.integers(len(RANGES))],
    }
    first, *others = (hl.garnet(n_states, n_actions, **options, seed=rng) for _ in range(4))
    weights = {"rewards": rng.choice([0, 0.1, 1]), "transitions": float(rng.choice([0, 0.1, 1]))}
    return [first, *(mixed(first, other, **weights) for other in others[: rng.integers(1, 4)])]


def agent_for(m, bounds, rng, **options):
    sizes = {"n_states": m.n_states, "n_actions": m.n_actions, "gamma": m.gamma}
    given = {"n_known": 1, "refresh": (None, 1.5)[rng.integers(2)], "seed": rng}
    given |= {"reward_range": m.reward_range, **options}
    return hl.OptimisticAgent(bounds=bounds, **sizes, **given)


def learned_bound(n_tasks, **options):
    """A learned nearness that is used after this number of tasks."""
    bound = hl.NearModels(p_min=1 / n_tasks, delta=0.5, **options)
    bound.learned.n_tasks = n_tasks
    return bound


def check_every_task_was_seen(rng, epsilon):
    """All tasks were seen, known in part and ε-accurate: the bound is above Q* of each of them."""
    tasks = draw_family(rng)
    agent = agent_for(tasks[0], [learned_bound(len(tasks))], rng, epsilon=epsilon)
    share = rng.choice([0.7, 1.0, 1.0])
    for m in tasks:
        model = learned_exactly(m, rng.random(m.R.shape) < share)
        if epsilon:
            blur(model, agent.setting, rng)
        agent.memory.add(Source.of(model, np.full(m.R.size, m.v_max)))
    transferred = False
    for m in tasks:
        agent.begin_task()
        sol = hl.solve(m)
        slack = sol.error + ROUNDING * max(1.0, np.abs(sol.Q).max())
        assert (agent.U >= sol.Q - slack).all()
        transferred |= bool((agent.U < agent.setting.v_max).any())
        agent.drop_task()
    return transferred


@pytest.mark.parametrize("epsilon", [0.0, 0.05, 0.3])
def test_bound_is_above_q_star_if_the_task_is_among_the_first_ones(epsilon):
    rng = np.random.default_rng([18, int(100 * epsilon)])
    assert np.sum([check_every_task_was_seen(rng, epsilon) for _ in range(60)]) > 10


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.0, 0.01, 0.05, 0.3])
def test_bound_is_above_q_star_in_thousands_of_families(epsilon):
    rng = np.random.default_rng([19, int(100 * epsilon)])
    assert np.sum([check_every_task_was_seen(rng, epsilon) for _ in range(1500)]) > 300


def with_ends(m):
    """Return the transitions to states and, in the last column, to the terminal state ⊥."""
    dense, rows = np.zeros((m.R.size, m.n_states + 1)), m.transitions.continuing
    for k in range(m.R.size):
        row = slice(rows.indptr[k], rows.indptr[k + 1])
        dense[k, rows.successors[row]] = rows.p[row]
    dense[:, -1] = m.ends.ravel()
    return dense


@pytest.mark.parametrize("seed", seeds(10))
def test_learned_differences_are_the_largest_between_compared_tasks(seed):
    """They agree with dense arrays; pairs that a task does not know count as hi - lo and 1."""
    rng = np.random.default_rng(seed)
    tasks = draw_family(rng)
    agent = agent_for(tasks[0], [learned_bound(len(tasks))], rng)
    known = [rng.random(m.R.shape) < 0.8 for m in tasks]
    for m, pairs in zip(tasks, known, strict=True):
        agent.memory.add(Source.of(learned_exactly(m, pairs), np.full(m.R.size, m.v_max)))
    agent.begin_task()
    lo, hi = tasks[0].reward_range
    r, t = np.zeros(tasks[0].R.shape), np.zeros(tasks[0].R.shape)
    for i, m in enumerate(tasks):
        for j, m_bar in enumerate(tasks[:i]):
            both = known[i] & known[j]
            l1 = np.abs(with_ends(m) - with_ends(m_bar)).sum(axis=1)
            tv = 0.5 * l1.reshape(m.R.shape)
            r = np.maximum(r, np.where(both, np.abs(m.R - m_bar.R), hi - lo))
            t = np.maximum(t, np.where(both, tv, 1.0))
    learned = agent.memory.learned
    np.testing.assert_allclose(learned[REWARDS][0], r.ravel(), atol=1e-12)
    np.testing.assert_allclose(learned[TRANSITIONS][0], t.ravel(), atol=1e-12)
    assert learned[REWARDS][1] == learned[TRANSITIONS][1] == len(tasks)


def lifetime(agent, tasks, *, compiled=True, start=0):
    records = []
    for i, m in enumerate(tasks):
        env = m if compiled else m.to_gymnasium()
        records.append(hl.learn(agent, env, episodes=6, max_steps=8, seed=start + i))
    return [record.returns for record in records]


def near_rmax(m, **options):
    sizes = {"n_states": m.n_states, "n_actions": m.n_actions, "gamma": m.gamma}
    given = {"n_known": 1, "seed": 0, "p_min": 1 / 3, "delta": 0.3, **options}
    return hl.NearRMax(**sizes, **given)


def draw_tasks(seed, n):
    rng = np.random.default_rng(seed)
    family = draw_deterministic_family(rng)
    return [family[i] for i in rng.integers(len(family), size=n)]


def test_agent_takes_the_actions_of_rmax_until_the_nearness_is_used():
    tasks = draw_tasks(0, 8)
    near = near_rmax(tasks[0])
    rmax = hl.RMax(n_states=near.n_states, n_actions=near.n_actions, gamma=0.9, n_known=1, seed=0)
    m = near.bounds[0].n_tasks
    assert m == hl.theory.tasks_for_max_q(1 / 3, 0.3) < 8
    returns = lifetime(near, tasks), lifetime(rmax, tasks)
    assert np.array_equal(returns[0][:m], returns[1][:m])
    assert not np.array_equal(returns[0][m:], returns[1][m:])


@pytest.mark.parametrize("capacity", [1, 2])
def test_capacity_does_not_change_what_is_learned_and_used(capacity):
    """The first tasks are kept as sources of the learned nearness, and no later task is used."""
    tasks = draw_tasks(1, 12)
    everything = near_rmax(tasks[0])
    memory = hl.TaskMemory(everything.n_states, everything.n_actions, capacity=capacity)
    limited = near_rmax(tasks[0], memory=memory)
    assert np.array_equal(lifetime(everything, tasks), lifetime(limited, tasks))
    m = everything.bounds[0].n_tasks
    assert [source.task for source in limited.bounds[0].sources] == list(range(1, m + 1))
    assert len(limited.memory.sources) == capacity
    for name in (REWARDS, TRANSITIONS):
        one, other = (agent.memory.learned[name] for agent in (everything, limited))
        assert np.array_equal(one[0], other[0])
        assert one[1] == other[1] == m


@pytest.mark.parametrize("capacity", [None, 1])
@pytest.mark.parametrize("saved_after", [1, 3, 5, 8])
def test_agent_saved_in_its_lifetime_continues_identically(tmp_path, saved_after, capacity):
    tasks = draw_tasks(2, 11)
    first = near_rmax(tasks[0])
    memory = hl.TaskMemory(first.n_states, first.n_actions, capacity=capacity)
    agent = near_rmax(tasks[0], memory=memory, scope="lifetime", delta=0.9)
    lifetime(agent, tasks[:saved_after])
    agent.save(tmp_path / "agent")
    loaded = hl.NearRMax.load(tmp_path / "agent")
    assert loaded.bounds[0].options() == agent.bounds[0].options()
    later = tasks[saved_after:]
    assert np.array_equal(
        lifetime(agent, later, start=saved_after), lifetime(loaded, later, start=saved_after)
    )
    agent.memory.save(tmp_path / "one")
    loaded.memory.save(tmp_path / "other")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()


def test_compiled_and_step_by_step_learning_are_identical():
    tasks = draw_tasks(3, 9)
    agents = [near_rmax(tasks[0]) for _ in range(2)]
    returns = [lifetime(agent, tasks, compiled=agent is agents[0]) for agent in agents]
    assert np.array_equal(*returns)
    assert np.array_equal(agents[0].Q, agents[1].Q)


@pytest.mark.parametrize(
    ("exact", "epsilon", "are_learned"),
    [(True, 0.0, True), (True, 0.1, False), (False, 0.1, False), (False, 0.0, False)],
)
def test_successors_are_learned_only_from_models_declared_exact(exact, epsilon, are_learned):
    tasks = [maze(layout=layout) for layout in ("orange", "green") for _ in range(2)]
    bound = learned_bound(4)
    agent = agent_for(tasks[0], [bound], np.random.default_rng(0), exact=exact, epsilon=epsilon)
    for m in tasks:
        model = learned_exactly(m, np.ones(m.R.shape, dtype=bool))
        source = Source.of(model, np.full(m.R.size, m.v_max))
        agent.memory.add(Source(source.rows, source.Q, source.V, n_known=1))
    agent.begin_task()
    assert (bound.nearness.successors is not None) == are_learned
    if are_learned:
        expected = hl.family_nearness(tasks[::2])
        assert all(map(np.array_equal, bound.nearness.successors, expected.successors))
        assert np.array_equal(bound.nearness.terminates, expected.terminates)
    for m in tasks[::2]:
        assert (agent.U >= hl.solve(m).Q - 1e-6).all()


def test_explanation_says_how_far_the_learning_is():
    tasks = draw_tasks(4, 6)
    agent = near_rmax(tasks[0], delta=0.25)
    texts = []
    for i, m in enumerate(tasks):
        hl.learn(agent, m, episodes=20, max_steps=8, seed=i)
        texts.append(" ".join(agent.explain().notes))
    m = agent.bounds[0].n_tasks
    assert f"began, 0 of {m} tasks had been compared" in texts[0]
    assert "It is not used in this task." in texts[0]
    assert f"began, 3 of {m} tasks had been compared" in texts[3]
    assert "mean rewards differ by up to" in texts[3]
    assert f"began, {m} of {m} tasks had been compared" in texts[-1]
    assert "It is used, and true with probability 0.75" in texts[-1]
    assert "it can lower bounds at up to" in " ".join(repr(agent.explain()).split())


def test_explanation_says_that_the_nearness_cannot_help():
    """Each task was explored at one pair only, and these pairs differ."""
    m = hl.garnet(3, 2, branching=1, gamma=0.9, seed=0)
    agent = agent_for(m, [learned_bound(3)], np.random.default_rng(0))
    for k in range(3):
        model = learned_exactly(m, np.eye(6, dtype=bool)[k].reshape(3, 2))
        agent.memory.add(Source.of(model, np.full(6, 10.0)))
    agent.begin_task()
    assert "it cannot lower a bound" in " ".join(agent.explain().notes)
    assert (agent.U == agent.setting.v_max).all()


def test_first_tasks_that_were_forgotten_before_are_not_learned_from():
    """A memory that has forgotten its first task: nothing is learned, and nothing is used."""
    tasks = draw_tasks(5, 9)
    rmax = near_rmax(tasks[0])
    memory = hl.TaskMemory(rmax.n_states, rmax.n_actions, capacity=1)
    sizes = {"n_states": rmax.n_states, "n_actions": rmax.n_actions, "gamma": 0.9}
    lifetime(hl.RMax(**sizes, n_known=1, seed=0, memory=memory), tasks[:3])
    agent = near_rmax(tasks[0], memory=memory)
    lifetime(agent, tasks[3:])
    assert agent.bounds[0].nearness is None
    assert not memory.learned


def test_memory_of_another_agent_is_learned_from_at_once():
    tasks = draw_tasks(6, 9)
    rmax = hl.RMax(
        n_states=tasks[0].n_states, n_actions=tasks[0].n_actions, gamma=0.9, n_known=1, seed=0
    )
    lifetime(rmax, tasks)
    agent = near_rmax(tasks[0], memory=rmax.memory)
    agent.begin_task()
    assert agent.bounds[0].nearness is not None


def test_nearness_and_p_min_together_are_refused():
    near = hl.Nearness(rewards=0.1, transitions=0.0)
    with pytest.raises(hl.errors.InvalidArgument, match="p_min to learn one, but not both"):
        hl.NearModels(near, p_min=0.5)
    with pytest.raises(hl.errors.InvalidArgument, match="or give p_min, to learn a nearness"):
        hl.NearRMax(n_states=2, n_actions=2, gamma=0.9, n_known=1)


def test_more_different_tasks_than_p_min_admits_are_refused():
    rng = np.random.default_rng(7)
    tasks = draw_deterministic_family(rng, n_tasks=4)
    agent = near_rmax(tasks[0], p_min=0.5, exact=True)
    with pytest.raises(hl.errors.InvalidArgument, match="so that there are at most 2 tasks"):
        lifetime(agent, tasks)


def spec(agents):
    return ExperimentSpec.read(
        {
            "name": "learned",
            "tasks": 3,
            "episodes": 2,
            "steps": 5,
            "repetitions": 1,
            "family": {"name": "maze"},
            "defaults": {"n_known": 1},
            "agents": agents,
        }
    )


def test_spec_learns_the_nearness_if_p_min_is_given_and_no_nearness():
    given = spec(
        [
            {"algorithm": "NearRMax", "name": "a", "p_min": 0.25, "scope": "lifetime"},
            {"algorithm": "NearRMax", "name": "b", "nearness": "learned", "delta": 0.2},
            {"algorithm": "NearRMax", "name": "c"},
            {"algorithm": "NearRMax", "name": "d", "p_min": 0.25, "nearness": "family"},
            {"algorithm": "NearRMaxQInit", "name": "e", "nearness": "learned"},
            {"algorithm": "NearRMaxQInit", "name": "f", "p_min": 0.25},
        ]
    )
    assert ExperimentSpec.read(given.as_json()) == given
    near = [
        make_agent(agent, given, [], np.random.default_rng(0)).bounds[0] for agent in given.agents
    ]
    assert [bound.learned is not None for bound in near] == [True, True, False, False, True, False]
    assert near[0].options() == {"p_min": 0.25, "delta": 0.05, "scope": "lifetime"}
    assert near[1].options() == {"p_min": 0.5, "delta": 0.2, "scope": "task"}


def test_learned_nearness_has_no_scale_in_a_spec():
    given = spec([{"algorithm": "NearRMax", "p_min": 0.5, "nearness_scale": 0.5}])
    with pytest.raises(hl.errors.InvalidArgument, match="but the nearness is learned"):
        make_agent(given.agents[0], given, [], np.random.default_rng(0))


def test_differences_of_a_task_to_itself_are_zero():
    m = hl.garnet(4, 2, branching=3, gamma=0.9, seed=0, terminating=0.3)
    source = Source.of(learned_exactly(m, np.ones((4, 2), dtype=bool)), np.full(8, 10.0))
    for difference in model_differences(source.rows, source.rows, source.missing, 1.0, 4):
        assert (difference == 0).all()
