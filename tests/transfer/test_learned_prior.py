"""Learned bounds are valid with probability 1 - δ: for each task, or for a lifetime.

Two families of one state and n arms, where one visit makes an arm known exactly: task i pays 0 for
arm i and 1 for the others (erratum 10), or 1 for arm i and 0 for the others. In the second one a
bound is invalid whenever the current task was not among the first ones.
"""

import numpy as np
import pytest

import heirloom as hl
from tests.reference.exact import source_distance
from tests.reference.learned_models import KeepAll


def arm_tasks(n, *, special=0.0):
    """Task i pays `special` for arm i, and 1 - special for the others."""
    R = np.where(np.eye(n, dtype=bool), special, 1 - special)
    return [hl.TabularMDP(R[i : i + 1], np.ones((1, n, 1)), gamma=0.0) for i in range(n)]


def make_lrmax(delta, scope, **options):
    return hl.LRMax(delta=delta, scope=scope, **options)


def make_max_q(delta, scope, **options):
    return hl.MaxQInit(delta=delta, scope=scope, **options)


def make_near(delta, scope, **options):
    return hl.NearRMax(delta=delta, scope=scope, **options)


def make_lrmax_and_max_q(delta, scope, **options):
    """Both bounds fail in the same event."""
    return hl.LRMaxQInit(delta=delta, scope=scope, **options)


def make_near_and_max_q(delta, scope, **options):
    return hl.NearRMaxQInit(delta=delta, scope=scope, **options)


MAKERS = [make_lrmax, make_max_q, make_near, make_lrmax_and_max_q, make_near_and_max_q]


def options_for(n, rng, **options):
    sizes = {"n_states": 1, "n_actions": n, "gamma": 0.0, "n_known": 1}
    return {**sizes, "p_min": 1 / n, "seed": rng, "terminating": False, **options}


def violates(agent, m):
    """Learn a task; returns whether the bound was ever below Q*."""
    Q_star = hl.solve(m).Q
    agent.begin_task()
    below = bool((agent.U < Q_star - 1e-9).any())
    for _ in range(m.n_actions):
        a = agent.act(0)
        agent.observe(0, a, float(m.R[0, a]), 0, terminated=False)
        below |= bool((agent.U < Q_star - 1e-9).any())
    agent.end_task()
    return below


def is_within(violated, delta, scope):
    """Whether at most a fraction δ of tasks or of sequences is violated, [sequence, task]."""
    rates = violated.mean(axis=1) if scope == "task" else violated.any(axis=1)
    # Sequences are independent; three standard errors are allowed for.
    return rates.mean() <= delta + 3 * np.sqrt(delta / len(violated))


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("scope", ["task", "lifetime"])
def test_bound_is_valid_with_the_stated_probability(make, scope):
    """Whole lifetimes of agents: before the prior is in use nothing is violated, then few are."""
    n, delta, rng = 5, 0.2, np.random.default_rng(scope == "task")
    tasks, violated = arm_tasks(n, special=1.0), []
    for _ in range(40):
        agent = make(delta, scope, **options_for(n, rng))
        n_first = agent.bounds[0].n_tasks
        drawn = rng.integers(n, size=n_first + 5)
        assert not any([violates(agent, tasks[i]) for i in drawn[:n_first]])
        violated.append([violates(agent, tasks[i]) for i in drawn[n_first:]])
    assert is_within(np.array(violated), delta, scope)


@pytest.mark.parametrize(
    ("n", "special", "sequences"),
    [
        pytest.param(10, 0.0, 400, marks=pytest.mark.slow),
        pytest.param(10, 1.0, 400, marks=pytest.mark.slow),
        pytest.param(20, 1.0, 1000, marks=pytest.mark.full),
    ],
)
@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("scope", ["task", "lifetime"])
def test_bound_is_valid_with_the_stated_probability_in_many_sequences(
    make, scope, n, special, sequences
):
    """The first tasks are put into the memory as an agent would have learned them, exactly.

    A bound that is invalid in a fraction 2δ of sequences fails with probability 0.86 in 400 of
    them, and 0.999 in 1000.
    """
    delta, rng = 0.05, np.random.default_rng([n, scope == "task"])
    tasks = arm_tasks(n, special=special)
    learned = [learned_once(m, options_for(n, rng)) for m in tasks]
    D = np.array([[pair_distance(m, m_bar) for m_bar in tasks] for m in tasks])
    violated = []
    for _ in range(sequences):
        memory = hl.TaskMemory(1, n)
        agent = make(delta, scope, **options_for(n, rng, memory=memory))
        first = rng.integers(n, size=agent.bounds[0].n_tasks)
        for i in first:
            memory.add(learned[i])
        seen = np.unique(first)
        memory.learned["WeightedL1"] = D[np.ix_(seen, seen)].max(axis=(0, 1)), first.size
        violated.append([violates(agent, tasks[i]) for i in rng.integers(n, size=3)])
    assert is_within(np.array(violated), delta, scope)
    if scope == "task" and special == 1.0:
        assert np.mean(violated) > delta / 2  # the test can see invalid bounds


def learned_once(m, options):
    """A task as a source of which all pairs are known."""
    agent = hl.RMax(**{name: options[name] for name in options if name != "p_min"})
    agent.begin_task()
    for a in range(m.n_actions):
        agent.observe(0, a, float(m.R[0, a]), 0, terminated=False)
    agent.end_task()
    (source,) = agent.memory.sources
    assert source.known.all()
    return source


def pair_distance(m, m_bar):
    return source_distance(m, m_bar, hl.solve(m_bar).V).ravel()


def test_only_the_first_tasks_are_sources_under_the_learned_prior():
    rng = np.random.default_rng(0)
    n = 3
    tasks = arm_tasks(n)
    options = {"n_states": 1, "n_actions": n, "gamma": 0.0, "n_known": 1, "seed": 0}
    agent = hl.OptimisticAgent(bounds=[KeepAll(p_min=1 / n, delta=0.3)], **options)
    n_first = agent.bounds[0].n_tasks
    for i in rng.integers(n, size=n_first + 4):
        hl.learn(agent, tasks[i], episodes=n, max_steps=1, seed=0)
    agent.begin_task()
    used = [transfer.source.task for transfer in agent.bounds[0].transfers]
    assert used == list(range(1, n_first + 1))
    lifetime = hl.OptimisticAgent(
        bounds=[KeepAll(p_min=1 / n, delta=0.9, scope="lifetime")], memory=agent.memory, **options
    )
    lifetime.begin_task()
    used = [transfer.source.task for transfer in lifetime.bounds[0].transfers]
    assert used == list(range(1, n_first + 5))


def test_each_source_has_the_smaller_of_the_priors_that_apply_to_it():
    """A given prior applies to all sources, a learned one to the first tasks."""
    n = 3
    tasks = arm_tasks(n)
    options = {"n_states": 1, "n_actions": n, "gamma": 0.0, "n_known": 1, "seed": 0}
    agent = hl.OptimisticAgent(bounds=[KeepAll(d_max=7.0, p_min=1 / n, delta=0.3)], **options)
    n_first = agent.bounds[0].n_tasks
    for j in range(n_first + 2):
        hl.learn(agent, tasks[j % n], episodes=n, max_steps=1, seed=0)
    agent.begin_task()
    priors = [transfer.prior for transfer in agent.bounds[0].transfers]
    (largest, _), *_ = agent.memory.learned.values()
    assert len(priors) == n_first + 2
    assert all(np.array_equal(prior, np.minimum(largest, 7.0)) for prior in priors[:n_first])
    assert all((prior == 7.0).all() for prior in priors[n_first:])
    D = max(source_distance(m, m_bar, hl.solve(m_bar).V).max() for m in tasks for m_bar in tasks)
    assert largest.max() >= D


@pytest.mark.parametrize("call", [hl.MaxQ, hl.Lipschitz, hl.NearModels])
def test_unknown_scope_is_refused(call):
    with pytest.raises(
        hl.errors.InvalidArgument, match="scope is 'week': expected one of task, lifetime"
    ):
        call(p_min=0.5, scope="week")
