"""Kernels of learning on small tasks, with small buffers and budgets.

`make coverage` also runs these tests without the compiler, so they are short.
"""

import warnings

import numpy as np
import pytest

import heirloom as hl
from heirloom.agents import uniforms
from heirloom.kernels import rollout, solving
from heirloom.learning import episodes
from heirloom.mdp import learned
from heirloom.transfer import posterior, program
from heirloom.transfer.lipschitz import solutions
from tests.strategies import mixed

N_STATES, N_ACTIONS = 4, 2
LENGTH = {"episodes": 6, "max_steps": 8}


def small_tasks(rng, gamma, *, branching, n=3, **options):
    """Tasks that differ a little in rewards and, if they are stochastic, in transitions."""
    options |= {"gamma": gamma, "branching": branching, "terminating": 0.1 * (branching > 1)}
    first, *others = (hl.garnet(N_STATES, N_ACTIONS, **options, seed=rng) for _ in range(n))
    t = 0.1 if branching > 1 else 0.0
    return [first, *(mixed(first, other, rewards=0.2, transitions=t) for other in others)]


def makers(tasks, **options):
    """Functions that make the same agent again: of each kind, with true knowledge."""
    m, near = tasks[0], hl.family_nearness(tasks)
    options |= {"n_states": N_STATES, "n_actions": N_ACTIONS, "gamma": m.gamma, "seed": 0}
    options |= {"reward_range": m.reward_range, "terminating": m.terminating}
    any_successor = hl.Nearness(rewards=near.rewards, transitions=near.transitions)
    d_max = hl.metrics.family_distance(tasks)
    return {
        "RMax": lambda: hl.RMax(explore=0.2, **options),
        "LRMax": lambda: hl.LRMax(d_max=d_max, **options),
        "NearRMax": lambda: hl.NearRMax(nearness=near, **options),
        "any successor": lambda: hl.NearRMax(nearness=any_successor, explore=0.2, **options),
        "PSRL": lambda: hl.PSRL(explore=0.2, **options),
        "NearPSRL": lambda: hl.NearPSRL(nearness=near, **options),
    }


@pytest.fixture
def small_buffers(monkeypatch):
    """Calls of compiled code return soon: for random numbers, memory, or time for Ctrl-C."""
    monkeypatch.setattr(episodes, "BLOCK", 16)
    monkeypatch.setattr(uniforms, "BLOCK", 16)
    monkeypatch.setattr(learned, "INITIAL_CAPACITY", 4)
    for module in (program, solutions):
        monkeypatch.setattr(module, "PATIENCE", 1)
        monkeypatch.setattr(module, "PATIENCE_PER_PAIR", 1)


@pytest.mark.usefixtures("small_buffers")
@pytest.mark.parametrize("kind", ["RMax", "LRMax", "NearRMax", "any successor", "PSRL", "NearPSRL"])
@pytest.mark.parametrize(("gamma", "highest"), [(0.9, 1.0), (0.995, 1.0), (0.995, 0.0)])
def test_compiled_and_step_by_step_learning_are_identical_with_small_buffers(
    kind, gamma, highest, monkeypatch
):
    """Compiled code keeps its own `MAX_WORK`; results do not depend on it."""
    monkeypatch.setattr(solving, "MAX_WORK", 20)
    monkeypatch.setattr(posterior, "MAX_WORK", 20)
    rewards = {"reward_range": (highest - 1.0, highest)}
    tasks = small_tasks(np.random.default_rng(1), gamma, branching=2, **rewards)
    compiled, stepped = (makers(tasks, n_known=2)[kind]() for _ in range(2))
    for seed, m in enumerate(tasks):
        record = hl.learn(compiled, m, **LENGTH, seed=seed)
        step_record = hl.learn(stepped, m.to_gymnasium(), **LENGTH, seed=seed)
        assert np.array_equal(record.returns, step_record.returns)
        assert np.array_equal(compiled.Q, stepped.Q)
        assert np.array_equal(compiled.U, stepped.U)


TABLES = {
    "QLearning": {"exploration": 0.5},
    "QUCB": {"bonus": None},
    "DelayedQ": {"m": 2},
    "ShapedLifelong": {},
    "PolicyReuse": {"decay": 0.8},
    "BUMEX": {"exploration": 0.5},
}


@pytest.mark.usefixtures("small_buffers")
@pytest.mark.parametrize("kind", TABLES)
def test_compiled_and_step_by_step_learning_on_tables_are_identical_with_small_buffers(kind):
    tasks = small_tasks(np.random.default_rng(1), 0.9, branching=2)
    options = {"n_states": N_STATES, "n_actions": N_ACTIONS, "gamma": 0.9, "seed": 0}
    options |= {"nearness": hl.family_nearness(tasks)} if kind == "BUMEX" else {}
    compiled, stepped = (getattr(hl, kind)(**options, **TABLES[kind]) for _ in range(2))
    for seed, m in enumerate(tasks):
        record = hl.learn(compiled, m, **LENGTH, seed=seed)
        step_record = hl.learn(stepped, m.to_gymnasium(), **LENGTH, seed=seed)
        assert np.array_equal(record.returns, step_record.returns)
        assert np.array_equal(compiled.Q, stepped.Q)


@pytest.mark.usefixtures("small_buffers")
@pytest.mark.parametrize("kind", ["RMax", "LRMax", "NearRMax", "any successor"])
@pytest.mark.parametrize("gamma", [0.9, 0.995])
@pytest.mark.parametrize("seed", range(2))
def test_q_and_u_are_above_q_star_with_small_buffers(kind, gamma, seed):
    """Tasks are deterministic, so that models are exact after one visit."""
    tasks = small_tasks(np.random.default_rng([2, seed]), gamma, branching=1)
    agent = makers(tasks, n_known=1, exact=True, on_refutation="raise")[kind]()
    for i, m in enumerate(tasks):
        hl.learn(agent, m, **LENGTH, seed=i)
        Q = hl.solve(m).Q
        assert (agent.Q >= Q - 1e-6).all()
        assert (agent.U >= Q - 1e-6).all()


@pytest.mark.parametrize("same", ["rewards", "nothing"])
@pytest.mark.parametrize("kind", ["LRMax", "NearRMax", "any successor"])
def test_knowledge_that_is_false_is_refuted_and_widened(kind, same):
    """Agents know two tasks, and learn others; bounds are valid again once all pairs are known."""
    rng = np.random.default_rng(3)
    known = small_tasks(rng, 0.9, branching=1, n=2)
    drawn = [hl.garnet(N_STATES, N_ACTIONS, branching=1, gamma=0.9, seed=rng) for _ in range(2)]
    R = known[0].R
    others = [hl.TabularMDP(R if same == "rewards" else m.R, m.T, gamma=0.9) for m in drawn]
    agent = makers(known, n_known=1, exact=True, on_refutation="widen")[kind]()
    for i, m in enumerate([*known, *others]):
        hl.learn(agent, m, episodes=20, max_steps=8, seed=i)
        if agent.known.all():
            assert (agent.Q >= hl.solve(m).Q - 1e-6).all()
    assert agent.refutation.n_widened > 0


def test_contradictions_are_not_looked_for_after_a_warning():
    rng = np.random.default_rng(3)
    known, other = (small_tasks(rng, 0.9, branching=1, n=2) for _ in range(2))
    agent = makers(known, n_known=1, exact=True)["any successor"]()
    hl.learn(agent, known[0], **LENGTH, seed=0)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        hl.learn(agent, other[0], episodes=20, max_steps=8, seed=1)
    assert [w.category for w in found].count(hl.errors.RefutedKnowledgeWarning) == 1


def test_exploration_chooses_unknown_pairs_first_and_then_every_available_action_equally_often():
    Q = np.array([9.0, -np.inf, 1.0, 2.0, 3.0])
    counts = np.array([0, 0, 5, 2, 7])
    known = np.array([False, False, False, False, True])
    assert rollout.explored(known, counts, Q, 1, 4, 0.5) == 3
    known[:] = True
    chosen = [rollout.explored(known, counts, Q, 1, 4, u) for u in np.arange(0.05, 1, 0.1)]
    assert chosen == [2] * 3 + [3] * 4 + [4] * 3


def test_compiled_and_step_by_step_learning_are_identical_with_many_successors():
    """So many that compiled code searches a row by halves, and an outcome in a list."""
    m = hl.garnet(12, 1, branching=12, gamma=0.5, seed=0)
    options = {"n_states": 12, "n_actions": 1, "gamma": 0.5, "n_known": 8, "seed": 0}
    compiled, stepped = (hl.RMax(**options) for _ in range(2))
    record = hl.learn(compiled, m, episodes=4, max_steps=60, seed=0)
    step_record = hl.learn(stepped, m.to_gymnasium(), episodes=4, max_steps=60, seed=0)
    assert compiled.known.any()
    assert np.array_equal(record.returns, step_record.returns)
    assert np.array_equal(compiled.Q, stepped.Q)
