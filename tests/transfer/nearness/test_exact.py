"""Nearness of tasks with known models: `family_nearness` and `near_bound`."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import heirloom as hl
from heirloom.envs.inventory import prices, seasons
from heirloom.envs.paper_families import Corridor, Garnet, Grid, HeatMap, Maze, Tight, TShape
from heirloom.envs.toy_text import cliffs, frozen_lakes, taxis
from heirloom.transfer.nearness.exact import _source
from tests.reference import exact
from tests.reference.nearness import largest_mean, near_Q
from tests.strategies import draw_pair, mixed, task_pairs
from tests.transfer.nearness.test_near_models import draw_nearness

FAMILIES = {
    "tight, released": Tight(),
    "tight, text": Tight(variant="text"),
    "corridor": Corridor(),
    "maze, released": Maze(),
    "maze, text": Maze(variant="text"),
    "heat maps": HeatMap(),
    "t-shape": TShape(),
    "grid": Grid(("S..", ".#G", "..G"), rewards=(0.2, 0.9), slips=(0.0, 0.3), terminal=True),
    "frozen lakes": frozen_lakes(),
    "taxis": taxis(),
    "cliffs": cliffs(),
    "prices": prices(),
    "seasons": seasons(),
}


def differences(m, m_bar):
    """|R - R̄| and ½ Σ |T - T̄| in dense arrays."""
    a, b = exact.dense(m), exact.dense(m_bar)
    return np.abs(a.R - b.R), np.abs(a.T - b.T).sum(axis=2) / 2


@given(task_pairs())
def test_family_nearness_is_the_largest_difference(pair):
    m, m_bar = pair
    near = hl.family_nearness([m, m_bar])
    r, t = differences(m, m_bar)
    np.testing.assert_allclose(near.rewards, r, atol=1e-12)
    np.testing.assert_allclose(near.transitions, t, atol=1e-9)
    assert (near.rewards >= r).all()


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_nearness_of_a_family_is_true_for_the_tasks_it_draws(family):
    near = family.nearness
    rng = np.random.default_rng(0)
    tasks = [family.draw(rng) for _ in range(6)]
    m = tasks[0]
    near._check_shape(m.n_states, m.n_actions)
    possible = np.zeros((m.n_states * m.n_actions, m.n_states), dtype=bool)
    for k in range(possible.shape[0]):
        first, states = near.successors
        possible[k, states[first[k] : first[k + 1]]] = True
    for task in tasks:
        rows = task.transitions.continuing
        pairs = np.repeat(np.arange(possible.shape[0]), np.diff(rows.indptr))
        assert possible[pairs, rows.successors].all()
        assert near.terminates[task.ends > 0].all()
        r, t = differences(m, task)
        assert (r <= near.rewards + 1e-9).all()
        assert (t <= near.transitions + 1e-9).all()


def test_family_without_corners_has_no_nearness():
    assert Garnet(5, 2, 2).nearness is None


def test_nearness_of_the_main_experiment_is_that_of_its_rewards_and_slip():
    """Two numbers: rewards differ by up to 0.19 as released, transitions by the largest slip."""
    near = Tight().nearness
    assert near.rewards.max() == pytest.approx(0.19)
    assert near.transitions.max() == pytest.approx(0.1)
    assert Corridor().nearness.transitions.max() == 0


def check_bound(rng, most_states=6):
    m, m_bar = draw_pair(rng, most_states=most_states)
    near = draw_nearness(rng, [m, m_bar])
    U, sol = hl.near_bound(m, m_bar, near), hl.solve(m)
    assert (U >= sol.Q - sol.error).all()


def test_near_bound_is_above_q_star():
    rng = np.random.default_rng(1)
    for _ in range(200):
        check_bound(rng)


@pytest.mark.slow
def test_near_bound_is_above_q_star_for_thousands_of_pairs():
    rng = np.random.default_rng(2)
    for _ in range(4000):
        check_bound(rng, most_states=12)


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=25)
def test_near_bound_is_the_fixed_point_of_its_equation(seed):
    """Compared with the reference implementation, which solves linear programs in each sweep."""
    rng = np.random.default_rng(seed)
    m, m_bar = draw_pair(rng, most_states=3)
    while m.gamma > 0.9:  # thousands of sweeps
        m, m_bar = draw_pair(rng, most_states=3)
    near = draw_nearness(rng, [m, m_bar])
    U = hl.near_bound(m, m_bar, near, tol=1e-5)
    agent = hl.RMax(
        n_states=m.n_states,
        n_actions=m.n_actions,
        gamma=m.gamma,
        reward_range=m.reward_range,
        terminating=m.terminating,
        n_known=1,
    )
    agent.begin_task()
    expected = near_Q(agent.model.rows, [_source(m_bar)], near, agent.setting).reshape(U.shape)
    assert (U >= expected - 1e-6 * max(1, abs(m.v_max))).all()
    assert (U <= expected + 1e-5 + 1e-6 * max(1, abs(m.v_max))).all()


def pairs_with_negative_rewards(number):
    """Draw tasks of which the first never terminates, and which differ in little else."""
    for seed in range(number):
        rng = np.random.default_rng(seed)
        shape = {"n_states": 3, "n_actions": 2, "branching": 2, "gamma": 0.8}
        m = hl.garnet(**shape, seed=rng, reward_range=(-2, -0.5))
        ends = hl.garnet(**shape, seed=rng, reward_range=(-2, -0.5), terminating=1.0)
        yield m, mixed(m, ends, rewards=0.1, transitions=rng.uniform(0.05, 0.6))


def reference_bound(m, m_bar, near, *, terminating):
    agent = agent_of(m, terminating=terminating)
    agent.begin_task()
    return near_Q(agent.model.rows, [_source(m_bar)], near, agent.setting, 1e-6).reshape(m.R.shape)


def agent_of(m, *, near=None, **options):
    return hl.OptimisticAgent(
        bounds=[] if near is None else [hl.NearModels(near)],
        n_states=m.n_states,
        n_actions=m.n_actions,
        gamma=m.gamma,
        reward_range=m.reward_range,
        n_known=1,
        refresh=None,
        seed=0,
        **options,
    )


@pytest.mark.parametrize("with_successors", [False, True])
def test_near_bound_is_the_smallest_one_if_only_the_source_terminates(with_successors):
    """The mass of ⊥ has to move to a state, which uses up a part of the total variation."""
    for m, m_bar in pairs_with_negative_rewards(4):
        assert m_bar.terminating
        assert not m.terminating
        near = hl.family_nearness([m, m_bar])
        slack = {"rewards": near.rewards, "transitions": np.minimum(1, near.transitions + 0.1)}
        near = hl.Nearness(**slack, successors=near.successors if with_successors else None)
        U = hl.near_bound(m, m_bar, near, tol=1e-7)
        expected = reference_bound(m, m_bar, near, terminating=False)
        assert (U >= hl.solve(m).Q - 1e-8).all()
        np.testing.assert_allclose(U, expected, atol=1e-5)


@pytest.mark.parametrize("gamma", [0.8, 0.995])
def test_agents_use_that_a_task_never_terminates_where_a_source_does(gamma):
    """With γ close to 1, values are computed in another way."""
    rng = np.random.default_rng(0)
    shape = {"n_states": 4, "n_actions": 2, "branching": 2, "gamma": gamma}
    m = hl.garnet(**shape, seed=rng, reward_range=(-2, -0.5))
    ends = hl.garnet(**shape, seed=rng, reward_range=(-2, -0.5), terminating=1.0)
    m_bar = mixed(m, ends, rewards=0.1, transitions=0.3)
    near = hl.family_nearness([m, m_bar])
    U = hl.near_bound(m, m_bar, near, tol=1e-7)
    if gamma == 0.8:
        np.testing.assert_allclose(U, reference_bound(m, m_bar, near, terminating=False), atol=1e-5)
    else:
        # U = r⁺ + γ w(max_a U), with w from linear programs.
        V = np.append(U.max(axis=1), 0.0)
        R, T = exact.dense(m_bar)[:2]
        possible = np.append(np.ones(4, dtype=bool), False)
        reach = exact.dense(m).T + T > 0
        for s in range(4):
            for a in range(2):
                t, possible = near.transitions[s, a], np.append(reach[s, a, :4], False)
                w = largest_mean(T[s, a], V, t, possible)
                r = min(-0.5, R[s, a] + near.rewards[s, a])
                assert U[s, a] == pytest.approx(r + gamma * w, abs=1e-6)
    assert (U >= hl.solve(m).Q - 1e-7).all()


def test_knowledge_that_nothing_terminates_lowers_the_bound_of_negative_rewards():
    """All rewards are -1: an episode that may end at once is worth -1, another one -1.9 or less."""
    for m, m_bar in pairs_with_negative_rewards(4):
        near = hl.Nearness(rewards=2.0, transitions=1.0, terminates=np.zeros((3, 2), dtype=bool))
        agent = agent_of(m, near=near, terminating=True)
        hl.learn(agent, m, episodes=1, max_steps=1, seed=0)
        agent.begin_task()
        expected = near_Q(agent.model.rows, [], near, agent.setting, 1e-9).reshape(m.R.shape)
        np.testing.assert_allclose(agent.Q, expected, atol=1e-8)
        assert (agent.U >= hl.solve(m).Q - 1e-8).all()
        assert (agent.U < agent.setting.v_max).all()
        assert list(agent.explain().knowledge_used) == ["NearModels, terminates"]
        assert (hl.near_bound(m_bar, m_bar, near) < m_bar.v_max).all()


def test_near_bound_of_equal_tasks_is_q_star():
    """With nearness 0 the bound is exact: the task has the model of the source."""
    for seed in range(10):
        m = hl.garnet(6, 3, branching=2, gamma=0.9, seed=seed, terminating=0.2)
        U = hl.near_bound(m, m, hl.Nearness(rewards=0, transitions=0))
        np.testing.assert_allclose(U, hl.solve(m).Q, atol=1e-5)


def test_near_bound_is_below_the_lipschitz_bound_on_the_main_experiment():
    """Nearness uses differences of values; the Lipschitz bound weighs with whole values."""
    rng = np.random.default_rng(0)
    family = Tight()
    m, m_bar = family.draw(rng), family.draw(rng)
    near = hl.near_bound(m, m_bar, family.nearness)
    assert near.mean() < hl.lipschitz_bound(m, m_bar).mean()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rewards": -0.1, "transitions": 0}, r"rewards is -0\.1"),
        ({"rewards": np.nan, "transitions": 0}, "rewards is nan"),
        ({"rewards": "x", "transitions": 0}, "rewards is not an array of real numbers"),
        ({"rewards": [0.1], "transitions": 0}, r"rewards has shape \(1,\)"),
        ({"rewards": 0, "transitions": 1.5}, r"transitions is 1\.5: expected a total"),
        ({"rewards": 0, "transitions": 0, "successors": [[1]]}, "successors has dtype int64"),
        ({"rewards": 0, "transitions": 0, "terminates": 3}, "terminates has dtype int64"),
        ({"rewards": 0, "transitions": 0, "highest_rewards": np.inf}, "highest_rewards is inf"),
    ],
)
def test_invalid_nearness_is_refused(options, message):
    with pytest.raises(hl.errors.InvalidArgument, match=message):
        hl.Nearness(**options)


@pytest.mark.parametrize("t", [1.0000000000000002, [[0.3, 1 + 1e-12]]])
def test_total_variation_above_1_by_rounding_is_1(t):
    near = hl.Nearness(rewards=0, transitions=t)
    assert near.transitions.max() == 1.0
    assert near.transitions.min() == np.minimum(t, 1.0).min()
    with pytest.raises(hl.errors.InvalidArgument, match=r"transitions is 1\.00001: expected"):
        hl.Nearness(rewards=0, transitions=1.00001)


def test_nearness_of_another_size_is_refused():
    near = Tight().nearness
    options = {"n_states": 3, "n_actions": 2, "gamma": 0.9, "n_known": 1}
    with pytest.raises(
        hl.errors.InvalidArgument, match=r"rewards of the nearness has shape \(121, 4\)"
    ):
        hl.NearRMax(nearness=near, **options)
    wide = hl.Nearness(rewards=0, transitions=0, successors=np.ones((4, 1, 4), dtype=bool))
    with pytest.raises(hl.errors.InvalidArgument, match="successors of the nearness has 4 pairs"):
        hl.NearRMax(nearness=wide, **options)
    with pytest.raises(hl.errors.InvalidArgument, match=r"nearness is 0\.1"):
        hl.NearRMax(nearness=0.1, **options)


def test_combined_nearness_has_the_smaller_differences_and_the_common_successors():
    one = hl.Nearness(rewards=0.2, transitions=0.1, successors=np.ones((2, 1, 2), dtype=bool))
    other = hl.Nearness(
        rewards=[[0.1], [0.3]], transitions=0.5, successors=np.eye(2, dtype=bool)[:, None]
    )
    both = one & other
    assert both.rewards.tolist() == [[0.1], [0.2]]
    assert both.transitions == 0.1
    assert both.successors.states.tolist() == [0, 1]
    assert repr(both).startswith("Nearness(rewards=0.1 to 0.2, transitions=0.1, successors: 1 per")


def test_combined_nearness_of_different_sizes_is_refused():
    one = hl.Nearness(rewards=np.zeros((2, 2)), transitions=0)
    other = hl.Nearness(rewards=np.zeros((3, 2)), transitions=0)
    with pytest.raises(
        hl.errors.InvalidArgument, match=r"rewards has shape \(2, 2\) in one nearness"
    ):
        one & other


@pytest.mark.parametrize(
    ("knowledge", "setting", "message"),
    [
        ({"successors": np.zeros((2, 1, 2), dtype=bool), "terminates": False}, {}, "no successor"),
        ({"successors": np.zeros((2, 1, 2), dtype=bool)}, {"terminating": False}, "no successor"),
        ({"highest_rewards": -1.0}, {}, "highest_rewards of the nearness contains -1, below 0"),
    ],
)
def test_nearness_that_no_task_can_have_is_refused(knowledge, setting, message):
    near = hl.Nearness(rewards=0, transitions=0, **knowledge)
    with pytest.raises(hl.errors.InvalidArgument, match=message):
        hl.NearRMax(nearness=near, n_states=2, n_actions=1, gamma=0.9, n_known=1, **setting)


def test_pair_that_always_terminates_needs_no_successor():
    near = hl.Nearness(rewards=0, transitions=0, successors=np.zeros((2, 1, 2), dtype=bool))
    agent = hl.NearRMax(nearness=near, n_states=2, n_actions=1, gamma=0.9, n_known=1)
    agent.begin_task()
    assert (agent.Q == 1.0).all()


def test_near_bound_is_within_tol_for_tiny_rewards():
    """The range of values, 2e-9, is far above `tol`."""
    m = hl.garnet(5, 2, branching=2, gamma=0.5, seed=0, reward_range=(0, 1e-9))
    U = hl.near_bound(m, m, hl.Nearness(rewards=0, transitions=0), tol=1e-16)
    assert np.abs(U - hl.solve(m, tol=1e-17).Q).max() <= 2e-16


def test_termination_is_excluded_also_if_any_successor_is_possible():
    """All rewards are -1. An episode that could terminate at once would have the value -1."""
    T = np.ones((2, 1, 2)) / 2
    m = hl.TabularMDP(np.full((2, 1), -1.0), T, gamma=0.9, reward_range=(-1, 0), terminates=[])
    near = hl.Nearness(rewards=0, transitions=0.1, terminates=np.array([[True], [False]]))
    options = {"n_states": 2, "n_actions": 1, "gamma": 0.9, "n_known": 1, "refresh": None}
    agent = hl.NearRMax(nearness=near, **options, reward_range=(-1, 0))
    agent.memory.add(_source(m))
    agent.begin_task()
    assert (agent.Q >= hl.solve(m).Q).all()
    # V(0) = -1 + 0.9 (0.5 V(0) + 0.4 V(1)), where 0.1 of the mass terminates, and
    # V(1) = -1 + 0.9 (0.6 V(0) + 0.4 V(1)), where it moves to state 0, the larger value.
    expected = np.linalg.solve([[1 - 0.45, -0.36], [-0.54, 1 - 0.36]], [-1, -1])
    np.testing.assert_allclose(agent.Q[:, 0], expected, atol=1e-8)


def test_nearness_of_different_tasks_cannot_be_combined():
    one, other = (
        hl.Nearness(rewards=0, transitions=0, successors=np.ones((n, 1, n), dtype=bool))
        for n in (2, 3)
    )
    with pytest.raises(
        hl.errors.InvalidArgument, match="2 pairs in one nearness and 3 in the other"
    ):
        _ = one & other
    with pytest.raises(TypeError):
        _ = one & 0.1


def test_grid_with_many_goals_has_no_nearness():
    """Its corners are too many to compute."""
    assert Grid(("SGGGGGG",), rewards=(0.2, 0.9)).nearness is None


def test_tolerance_of_near_bound_too_small_for_float64_raises_not_converged():
    m = hl.garnet(4, 2, branching=2, gamma=0.9, seed=0)
    with pytest.raises(hl.errors.NotConverged, match="tol=1e-30 cannot be certified"):
        hl.near_bound(m, m, hl.Nearness(rewards=0, transitions=0), tol=1e-30)
