"""Agents learn tasks that lack actions: bounds stay valid, and missing actions are never taken."""

import logging

import gymnasium as gym
import numpy as np
import pytest

import heirloom as hl
from heirloom.mdp.available import MaskNotice
from heirloom.transfer.bound import MaxQ
from heirloom.transfer.envelope import Envelope
from heirloom.transfer.lipschitz.bound import Lipschitz
from heirloom.transfer.memory import TaskMemory
from heirloom.transfer.nearness.bound import NearModels
from tests.agents.test_soundness import draw_family
from tests.strategies import draw_available, restricted

ROUNDING = 1e-7


class Hidden(gym.Wrapper):
    """Hides that an environment simulates a task, so that masks are observed state by state."""


def draw_masked_family(rng):
    tasks = draw_family(rng)
    if rng.random() < 0.3:
        available = draw_available(rng, tasks[0])
        return [restricted(m, available) for m in tasks]
    return [restricted(m, draw_available(rng, m)) for m in tasks]


def agents(tasks):
    """Yield agents with valid knowledge of the tasks."""
    m = tasks[0]
    options = {
        "n_states": m.n_states,
        "n_actions": m.n_actions,
        "gamma": m.gamma,
        "reward_range": m.reward_range,
        "terminating": any(task.terminating for task in tasks),
        "n_known": 1,
        "seed": 0,
        "exact": True,
        "on_refutation": "raise",
    }
    d_max, near = hl.metrics.family_distance(tasks), hl.family_nearness(tasks)
    yield hl.RMax(**options)
    yield hl.LRMax(d_max=d_max, **options)
    # A difference of values is a claim about tasks that both have the action.
    values = np.ma.masked_invalid([hl.solve(task).Q for task in tasks])
    beta = np.ma.filled(np.ma.max(values, axis=0) - np.ma.min(values, axis=0), 0.0)
    yield hl.MFRL(beta=beta + 1e-7, **options)
    yield hl.OptimisticAgent(
        bounds=[Lipschitz(d_max=float(d_max.max())), NearModels(near)], explore=0.3, **options
    )


def sweep(seed, *, observed):
    rng = np.random.default_rng(seed)
    tasks = draw_masked_family(rng)
    Q_star = [hl.solve(m).Q for m in tasks]
    order = rng.integers(len(tasks), size=4)
    for agent in agents(tasks):
        for i in order:
            check_task(agent, tasks[i], Q_star[i], int(rng.integers(100)), observed=observed)


def check_task(agent, m, Q_star, seed, *, observed):
    """Let an agent learn a task, and assert that its bounds are valid after each episode."""
    there = m.available

    def check(done, episodes):
        assert (agent.Q >= Q_star - ROUNDING).all()
        assert (agent.U >= Q_star - ROUNDING).all()
        missing = np.isneginf(agent.Q)
        assert not (missing & there).any()
        assert observed or (missing == ~there).all()
        assert not agent.model.counts[~there].any()

    env = Hidden(m.to_gymnasium()) if observed else m
    options = {"episodes": 8, "max_steps": 6, "seed": seed, "callback": check, "every": 1}
    hl.learn(agent, env, masks=observed, **options)
    explanation = agent.explain()
    assert sum(explanation.n_decided.values()) == np.isfinite(agent.Q).sum()


@pytest.mark.parametrize("observed", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_bounds_are_above_q_star_with_missing_actions(seed, observed):
    sweep(seed, observed=observed)


@pytest.mark.slow
@pytest.mark.parametrize("observed", [False, True])
def test_bounds_are_above_q_star_with_missing_actions_in_many_families(observed):
    for seed in range(100, 130):
        sweep(seed, observed=observed)


@pytest.mark.parametrize("seed", range(3))
def test_compiled_and_step_by_step_learning_agree_with_missing_actions(seed):
    tasks = draw_masked_family(np.random.default_rng(seed))
    for compiled, stepwise in zip(agents(tasks), agents(tasks), strict=True):
        for i, m in enumerate(tasks):
            options = {"episodes": 10, "max_steps": 6, "seed": i}
            record = hl.learn(compiled, m, **options)
            other = hl.learn(stepwise, m.to_gymnasium(), masks=True, **options)
            assert np.array_equal(record.returns, other.returns)
            assert np.array_equal(compiled.Q, stepwise.Q)


@pytest.mark.parametrize("bound", ["MaxQ", "Envelope", "learned nearness", "learned prior"])
def test_bounds_learned_from_all_tasks_are_valid_with_missing_actions(bound):
    """Every task of the family was seen before, so that these bounds are valid with certainty."""
    make = {
        "MaxQ": lambda: MaxQ(p_min=1 / 3, delta=0.1),
        "Envelope": lambda: Envelope(alpha=0.25, first=3, calibration=3),
        "learned nearness": lambda: NearModels(p_min=1 / 3, delta=0.1),
        "learned prior": lambda: Lipschitz(p_min=1 / 3, delta=0.1),
    }[bound]
    for seed in range(6):
        tasks = (2 * draw_masked_family(np.random.default_rng(seed)))[:3]
        m = tasks[0]
        options = {name: getattr(m, name) for name in ("n_states", "n_actions", "gamma")}
        options |= {"reward_range": m.reward_range, "n_known": 1, "seed": 0}
        agent = hl.OptimisticAgent(bounds=[make()], **options)
        lived = tasks * 3
        for i, task in enumerate(lived):
            agent.begin_task(available=task.available)
            if i >= 6:
                assert (agent.U >= hl.solve(task).Q - ROUNDING).all()
            hl.learn(agent, task, episodes=40, max_steps=6, seed=i, resume=True)


def test_bounds_are_above_q_star_with_missing_actions_and_a_discount_factor_close_to_1():
    rng = np.random.default_rng(5)
    for _ in range(2):
        lacking = []
        for noise in (0.0, 0.02):
            m = hl.garnet(5, 3, branching=1, gamma=0.999, terminating=0.2, seed=3)
            R = np.clip(m.R + noise * rng.uniform(-1, 1, m.R.shape), 0, 1)
            ends = m.T
            ends.data = (
                np.zeros(ends.nnz) if m.transitions.ends is None else m.transitions.ends * 1.0
            )
            available = draw_available(rng, m)
            lacking.append(hl.TabularMDP(R, m.T, gamma=0.999, terminates=ends, available=available))
        Q_star = [hl.solve(m).Q for m in lacking]
        for agent in agents(lacking):
            for i in (0, 1, 0):
                options = {"episodes": 15, "max_steps": 8, "seed": 0}
                hl.learn(agent, lacking[i], **options)
                assert (agent.Q >= Q_star[i] - 1e-5).all()


def test_memory_with_missing_actions_is_the_same_after_save_and_load(tmp_path):
    tasks = draw_masked_family(np.random.default_rng(4))
    for observed in (False, True):
        *_, agent = agents(tasks)
        for m in tasks:
            env = Hidden(m.to_gymnasium()) if observed else m
            hl.learn(agent, env, episodes=4, max_steps=6, seed=1, masks=observed)
        path = tmp_path / "memory.heirloom"
        agent.memory.save(path)
        loaded = TaskMemory.load(path)
        for source, other in zip(agent.memory.sources, loaded.sources, strict=True):
            assert np.array_equal(source.Q, other.Q)
            mask = [
                one if one is not None else source.Q > -np.inf
                for one in (source.available, other.available)
            ]
            assert np.array_equal(*mask)
        agent.save(tmp_path / "agent.heirloom")
        other = hl.OptimisticAgent.load(tmp_path / "agent.heirloom")
        for one in (agent, other):
            one.begin_task(available=tasks[0].available)
        assert np.array_equal(agent.Q, other.Q)


def small_task(**options):
    T = [[[0, 1], [1, 0]], [[1, 0], [0, 1]]]
    R = [[0.5, 0.0], [1.0, 0.25]]
    return hl.TabularMDP(R, T, gamma=0.9, start=0, **options)


def new_agent(kind=hl.RMax, **options):
    return kind(n_states=2, n_actions=2, gamma=0.9, seed=0, **options)


def test_learned_model_lacks_missing_actions():
    m = small_task(available=[[True, False], [True, True]])
    agent = new_agent(n_known=1)
    hl.learn(agent, m, episodes=20, max_steps=5, seed=0)
    assert np.array_equal(agent.model.available, m.available)
    for model in (agent.model, agent.memory.sources[0]):
        mdp = model.to_mdp(gamma=0.9, unknown="optimistic")
        assert np.array_equal(mdp.available, m.available)
        assert hl.solve(mdp).V == pytest.approx(hl.solve(m).V)
    assert agent.explain().why(0, 1) == "action 1 is not available in state 0"
    agent.begin_task(available=m.available)
    with pytest.raises(hl.errors.InvalidArgument, match="action 1 is not available in state 0"):
        agent.observe(0, 1, 0.0, 0, terminated=False)


def test_q_learning_never_takes_a_missing_action():
    m = small_task(available=[[True, False], [True, True]])
    agent = new_agent(hl.QLearning, exploration=0.5)
    hl.learn(agent, m, episodes=50, max_steps=5, seed=0)  # the environment refuses missing actions
    assert agent.Q[0, 1] == -np.inf
    transfer = hl.BisimulationTransfer(m, small_task(), seed=0)
    assert np.isfinite(transfer.initial_Q).all()


def test_refused_action_is_an_error_that_leaves_the_agent_usable():
    m = small_task(available=[[True, False], [True, True]])
    agent, env = new_agent(n_known=1), Hidden(m.to_gymnasium())
    with pytest.raises(hl.errors.UnsupportedEnvironment, match=r"action 1 in state 0.*masks=True"):
        hl.learn(agent, env, episodes=20, max_steps=5, seed=0)
    agent.drop_task()
    hl.learn(agent, env, episodes=20, max_steps=5, seed=0, masks=True)
    assert agent.memory.n_tasks == 1
    assert agent.policy.tolist() == hl.solve(m).policy.tolist()


def test_mask_that_is_not_asked_for_is_noted_once(caplog, monkeypatch):
    monkeypatch.setattr(MaskNotice, "announced", False)
    agent = new_agent(hl.QLearning, initial_Q=[[1.0, 0.0], [0.0, 0.0]], exploration=0.0)
    env = small_task(available=[[True, False], [True, True]]).to_gymnasium()
    with caplog.at_level(logging.WARNING, logger="heirloom"):
        for _ in range(2):
            hl.learn(agent, env, episodes=2, max_steps=1, seed=0)
    assert [record.message.count("masks=True") for record in caplog.records] == [1]


def test_mask_of_a_later_state_is_noted_too(caplog, monkeypatch):
    monkeypatch.setattr(MaskNotice, "announced", False)
    m = hl.TabularMDP(
        [[0.0, 0.0], [1.0, 0.0]],
        [[[0.0, 1.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, 0.0]]],
        gamma=0.9,
        start=0,
        available=[[True, True], [True, False]],
    )
    agent = new_agent(hl.QLearning, initial_Q=[[0.0, 0.0], [1.0, 0.0]], exploration=0.0)
    with caplog.at_level(logging.WARNING, logger="heirloom"):
        hl.learn(agent, m.to_gymnasium(), episodes=1, max_steps=2, seed=0)
    assert "masks=True" in caplog.text


@pytest.mark.parametrize(
    ("masks", "message"),
    [
        ([[1, 0], [0, 1]], "must depend on the state only"),
        ([[1, 2]], "expected 2 numbers"),
        ([[0, 0]], "marks no action"),
        ([[1, 0, 1]], "expected 2 numbers"),
    ],
)
def test_bad_mask_is_an_error(masks, message):
    agent = new_agent(n_known=1)
    agent.begin_task()
    *good, bad = masks
    for mask in good:
        agent.observe_mask(0, mask)
    with pytest.raises(hl.errors.InvalidArgument, match=message):
        agent.observe_mask(0, bad)
    assert agent.act(0) in (0, 1)


def test_masks_need_an_environment_that_gives_them_and_an_agent_that_observes_them():
    class Blind:
        n_states, n_actions, gamma = 2, 2, 0.9
        begin_task = end_task = act = observe = lambda self, *_, **__: None

    with pytest.raises(hl.errors.InvalidArgument, match="no method 'observe_mask'"):
        hl.learn(
            Blind(), small_task(available=[[True, False], [True, True]]), episodes=1, max_steps=1
        )
    env = Hidden(gym.make("FrozenLake-v1", map_name="4x4"))
    agent = hl.RMax(n_states=16, n_actions=4, gamma=0.9, n_known=1, seed=0)
    with pytest.raises(hl.errors.UnsupportedEnvironment, match="gives no mask"):
        hl.learn(agent, env, episodes=1, max_steps=1, masks=True)


def test_mask_is_refused_outside_a_task_and_if_it_excludes_an_action_that_was_taken():
    agent = new_agent(n_known=1)
    with pytest.raises(hl.errors.WrongOrder, match="outside a task"):
        agent.observe_mask(0, [1, 1])
    agent.begin_task()
    agent.observe(0, 1, 0.0, 0, terminated=False)
    with pytest.raises(hl.errors.InvalidArgument, match="but the agent took it before"):
        agent.observe_mask(0, [1, 0])
