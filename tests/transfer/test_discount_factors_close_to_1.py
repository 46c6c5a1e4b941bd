"""Distances between tasks are solved quickly for discount factors close to 1, and stay bounds."""

import numpy as np
import pytest

import heirloom as hl
from heirloom.kernels import sources as kernels
from heirloom.transfer.lipschitz import solutions
from heirloom.transfer.lipschitz.all_sources import dissimilarity_by_sweeps
from heirloom.transfer.optimistic_program import OptimisticProgram, UpperBounds
from tests.partly_known import draw_deterministic_family


def deterministic_tasks(seed, gamma, n_states, *, terminating=False):
    """Tasks with rewards that differ by up to 0.1, and their d_max."""
    rng = np.random.default_rng(seed)
    options = {"gamma": gamma, "n_states": n_states, "terminating": 0.1 if terminating else 0.0}
    return draw_deterministic_family(rng, **options), 0.1


def agent_for(m, d_max, **options):
    options = {"n_known": 1, "refresh": None, "seed": 0, **options}
    return hl.LRMax(
        n_states=m.n_states, n_actions=m.n_actions, gamma=m.gamma, d_max=d_max, **options
    )


def learn(agent, m, seed, *, n_steps=None, **options):
    n_steps = n_steps or 10 * m.n_states
    return hl.learn(agent, m, episodes=3, max_steps=n_steps, seed=seed, **options)


def exact_d(D, graph, index, setting):
    """The fixed point of d̂ by policy iteration with dense linear equations."""
    n_states, n_actions = setting.n_states, setting.n_actions
    T = np.zeros((setting.n_pairs, n_states))
    for k in np.flatnonzero(index >= 0):
        row = slice(graph.first[index[k]], graph.last[index[k]])
        T[k, graph.successors[row]] = graph.p[row]
    d_state, states = np.zeros(n_states), np.arange(n_states)
    for _ in range(100):
        T[index < 0] = 0.0
        T[index < 0, d_state.argmax()] = 1.0
        q = D + setting.gamma * T @ d_state
        chosen = states * n_actions + q.reshape(n_states, -1).argmax(axis=1)
        new = np.linalg.solve(np.eye(n_states) - setting.gamma * T[chosen], D[chosen])
        if (new <= d_state * (1 + 1e-12)).all():
            break
        d_state = np.maximum(d_state, new)
    return D + setting.gamma * T @ d_state


def solutions_of(agent):
    """D̂, d̂, and the exact fixed point, of all sources in both directions."""
    all_sources = agent.task.bounds[0]._all
    state, task = all_sources.state, kernels.Models(*all_sources._task)
    for i in range(len(all_sources.sources)):
        exact = exact_d(state.D_from[i], state.models, state.models.index[i], agent.setting)
        yield state.from_source.d[i], exact
        if state.status[i] == kernels.UP_TO_DATE:
            exact = exact_d(state.D_to[i], task, task.index[0], agent.setting)
            yield state.to_source.d[i], exact


@pytest.mark.parametrize("distance", [1e-3, 1e-5, 1e-8])
@pytest.mark.parametrize("n_states", [2, 5, 20])
def test_updates_take_few_policy_iterations(n_states, distance, monkeypatch):
    """A worklist alone needs about 1 / (1-γ) sweeps; its work per solution is limited."""
    calls, upper_bounds, resume = [], solutions.upper_bounds, kernels.resume_source
    monkeypatch.setattr(
        solutions, "upper_bounds", lambda *a: calls.append("bounds") or upper_bounds(*a)
    )
    monkeypatch.setattr(kernels, "resume_source", lambda *a: calls.append("resume") or resume(*a))
    tasks, d_max = deterministic_tasks(n_states, 1 - distance, n_states)
    agent, n_updates, n_sources = agent_for(tasks[0], d_max), 0, 0
    for i, m in enumerate(tasks):
        learn(agent, m, i)
        n_updates += (1 + int(agent.known.sum())) * n_sources
        n_sources += 1
    assert calls.count("resume") <= 2  # the first policy iteration suffices
    assert len(calls) <= 2 * n_updates + 2


@pytest.mark.parametrize("gamma", [0.95, 0.999, 1 - 1e-5, 1 - 1e-8])
@pytest.mark.parametrize("seed", range(8))
def test_distances_are_above_their_fixed_point_by_at_most_tol(seed, gamma):
    n_states = 2 + 2 * seed
    tasks, d_max = deterministic_tasks(seed, gamma, n_states, terminating=seed % 2 == 1)
    agent, n = agent_for(tasks[0], d_max), 0
    for i, m in enumerate(tasks):
        learn(agent, m, i)
        if i == 0:
            continue
        for d, exact in solutions_of(agent):
            n += 1
            rounding = 1e-13 * max(1.0, exact.max()) / (1 - gamma)
            assert (d >= exact - rounding).all()
            assert (d <= exact + agent.setting.tol + rounding).all()
    assert n > 0


@pytest.mark.parametrize("gamma", [0.999, 1 - 1e-5, 1 - 1e-8])
def test_bounds_are_above_the_optimal_values(gamma):
    n_lowered = 0
    for seed in range(8):
        tasks, d_max = deterministic_tasks(seed, gamma, 2 + 2 * seed, terminating=seed % 2 == 1)
        agent = agent_for(tasks[0], d_max)
        for i, m in enumerate(tasks):
            sol = hl.solve(m)

            def check(*_, agent=agent, sol=sol):
                assert (agent.U >= sol.Q - sol.error).all()
                assert (agent.Q >= sol.Q - sol.error).all()

            hl.learn(agent, m, episodes=30, max_steps=5, seed=i, callback=check, every=1)
            n_lowered += int((agent.U < agent.setting.v_max).sum())
    assert n_lowered > 0


@pytest.mark.parametrize("epsilon", [0.0, 0.1])
def test_small_budget_gives_the_same_bounds_within_the_tolerance(epsilon, monkeypatch):
    """Up to γ = 0.99 solutions are continued by calls of the same kernel."""
    tasks, d_max = deterministic_tasks(3, 0.95, 12)
    results, calls, resume = [], [], kernels.resume_source
    monkeypatch.setattr(kernels, "resume_source", lambda *a: calls.append(1) or resume(*a))
    for budget in (kernels.MAX_WORK, 1):
        monkeypatch.setattr(kernels, "MAX_WORK", budget)
        agent = agent_for(tasks[0], d_max, epsilon=epsilon)
        results.append([])
        for i, m in enumerate(tasks):
            learn(agent, m, i)
            results[-1].append(agent.U.copy())
    assert bool(calls) == (epsilon == 0)  # with ε = 0.1, one backup per pair suffices
    np.testing.assert_allclose(*results, rtol=0, atol=2 * agent.setting.tol)


def test_distance_that_does_not_converge_raises_not_converged_and_stays_a_bound(monkeypatch):
    """Without policy iteration, as for tasks that are too large for it."""
    tasks, d_max = deterministic_tasks(0, 1 - 1e-8, 6)
    agent = agent_for(tasks[0], d_max)
    learn(agent, tasks[0], 0)

    def no_bounds(D, *_):
        return UpperBounds(np.full(D.size, np.inf), np.inf, 0.0)

    monkeypatch.setattr(solutions, "upper_bounds", no_bounds)
    for _ in range(2):  # a second attempt fails in the same way
        with pytest.raises(hl.errors.NotConverged, match="still an upper bound"):
            learn(agent, tasks[1], 1, resume=agent.in_task)
    monkeypatch.undo()
    learn(agent, tasks[1], 1, resume=agent.in_task)
    sol = hl.solve(tasks[1])
    assert (agent.U >= sol.Q - sol.error).all()
    for d, exact in solutions_of(agent):
        assert (d <= exact + 1.1 * agent.setting.tol).all()


@pytest.mark.parametrize("gamma", [0.95, 0.999, 1 - 1e-8])
def test_sweeps_over_all_pairs_end(gamma):
    tasks, d_max = deterministic_tasks(1, gamma, 6)
    agent = agent_for(tasks[0], d_max)
    learn(agent, tasks[0], 0)
    D = np.random.default_rng(0).random(agent.setting.n_pairs)
    model, setting = agent.model, agent.setting
    d = dissimilarity_by_sweeps(D, model, setting)
    index = np.where(model._arrays.known, np.arange(D.size), -1)
    exact = exact_d(D, model.rows, index, setting)
    rounding = 1e-13 * exact.max() / (1 - gamma)
    assert (d >= exact - rounding).all()
    assert (d <= exact + setting.tol + rounding).all()


@pytest.mark.parametrize("seed", range(3))
def test_policy_iteration_ends_when_only_rounding_errors_remain(seed, monkeypatch):
    evaluations, evaluate = [], OptimisticProgram._evaluate
    monkeypatch.setattr(
        OptimisticProgram,
        "_evaluate",
        lambda self, *arguments: evaluations.append(1) or evaluate(self, *arguments),
    )
    m = hl.garnet(40, 4, branching=10, gamma=0.999, terminating=0.05, seed=seed)
    U = hl.near_bound(m, m, hl.Nearness(rewards=0.05, transitions=0.05))
    assert 0 < len(evaluations) <= 20
    assert (U >= hl.solve(m).Q - 1e-9).all()
