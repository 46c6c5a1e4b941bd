"""FrozenLake, Taxi, CliffWalking and inventory families: their models and their priors."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import heirloom as hl
from heirloom.envs import inventory as shop
from heirloom.envs.family import FiniteFamily
from heirloom.envs.toy_text import (
    FROZEN,
    cliff_walking,
    cliffs,
    frozen_lake,
    frozen_lakes,
    taxi,
    taxis,
)
from heirloom.mdp.rows import Rows

FAMILIES = {
    "frozen lakes": frozen_lakes,
    "taxis": taxis,
    "cliffs": cliffs,
    "prices": shop.prices,
    "seasons": shop.seasons,
}


def fully_known_source(m):
    """Return a source in which every pair of task `m` is known exactly."""
    t = m.transitions
    continuing = np.ones(t.p.size, dtype=bool) if t.ends is None else ~t.ends
    lengths = np.bincount(t.pairs[continuing], minlength=t.R.size)
    last = np.cumsum(lengths)
    rows = Rows(
        known=np.ones(t.R.size, dtype=bool),
        counts=np.zeros(t.R.size, dtype=np.int64),
        R=np.array(t.R),
        ends=np.array(m.ends).ravel(),
        first=last - lengths,
        last=last,
        successors=t.successors[continuing].astype(np.int32),
        p=t.p[continuing],
    )
    sol = hl.solve(m)
    return hl.bounds.Source(rows, sol.Q.ravel() + sol.error, sol.V + sol.error)


@pytest.mark.parametrize("name", FAMILIES)
class TestFamilies:
    def test_tasks_have_one_size_and_pass_gymnasiums_environment_check(self, name):
        family = FAMILIES[name]()
        assert len(family.tasks) == 4
        for m in family.tasks.values():
            check_env(m.to_gymnasium().unwrapped, skip_render_check=True)
            assert (m.n_states, m.n_actions) == (family.first.n_states, family.first.n_actions)

    def test_values_stay_below_v_max_and_rewards_in_the_range(self, name):
        family = FAMILIES[name]()
        agent = hl.RMax(n_known=1, **family.options)
        lo, hi = family.reward_range
        for m in family.tasks.values():
            assert hl.solve(m).V.max() <= agent.setting.v_max + 1e-6
            assert lo <= m.R.min() <= m.R.max() <= hi

    def test_prior_and_the_bounds_derived_from_it_are_valid(self, name):
        """`d_max` is at least the distance between any two tasks, and LRMax with it has U >= Q*."""
        family = FAMILIES[name]()
        tasks = list(family.tasks.values())
        lo = family.reward_range[0]
        c = min(0.0, lo) / (1 - family.first.gamma)
        for m_bar in tasks:
            W = hl.solve(m_bar).V - c
            for m in tasks:
                D = hl.model_pseudometric(m, m_bar, m.gamma * W, f_end=-m.gamma * c)
                assert (D <= family.d_max + 1e-5).all()
        for m_bar in tasks:
            agent = hl.LRMax(d_max=family.d_max, n_known=1, **family.options)
            agent.memory.add(fully_known_source(m_bar))
            agent.begin_task()
            for m in tasks:
                assert (agent.U >= hl.solve(m).Q - 1e-6).all()

    def test_tasks_are_drawn_with_their_probabilities(self, name):
        family = FAMILIES[name]()
        rng = np.random.default_rng(0)
        drawn = [family.draw(rng) for _ in range(4000)]
        for m in family.tasks.values():
            assert sum(task is m for task in drawn) / 4000 == pytest.approx(0.25, abs=0.03)


def test_family_distance_is_the_largest_over_all_ordered_pairs_of_tasks():
    rng = np.random.default_rng(0)
    for _ in range(50):
        lo = float(rng.choice([0.0, -1.0]))
        tasks = [
            hl.garnet(4, 2, branching=2, gamma=0.9, terminating=0.3, reward_range=(lo, 1), seed=rng)
            for _ in range(3)
        ]
        D = hl.metrics.family_distance(tasks)
        c = lo / (1 - 0.9)
        largest = np.max(
            [
                hl.model_pseudometric(
                    m, m_bar, 0.9 * (hl.solve(m_bar).V - c), f_end=max(0.0, -0.9 * c)
                )
                for m in tasks
                for m_bar in tasks
            ],
            axis=0,
        )
        assert (D >= largest - 1e-7).all()
        assert D == pytest.approx(largest, abs=3e-6)
    for not_tasks in ([], tasks[0], 3):
        with pytest.raises(hl.errors.InvalidArgument, match="tasks is empty"):
            hl.metrics.family_distance(not_tasks)
    assert np.array_equal(hl.metrics.family_distance(m for m in tasks), D)


def test_frozen_lake_has_the_transitions_and_rewards_of_gymnasium():
    env = gym.make("FrozenLake-v1", map_name="8x8")
    ours, theirs = frozen_lake(slip=2 / 3), hl.TabularMDP.from_gymnasium(env, gamma=0.95)
    assert abs(ours.T - theirs.T).max() < 1e-12
    assert ours.R == pytest.approx(theirs.R)
    assert "".join(FROZEN).count("H") == 10


def test_taxi_has_the_transitions_and_rewards_of_gymnasium():
    theirs = hl.TabularMDP.from_gymnasium(gym.make("Taxi-v4"), gamma=0.95)
    ours = taxi()
    assert abs(ours.T - theirs.T).max() == 0
    assert np.array_equal(ours.R, theirs.R)
    rainy = hl.TabularMDP.from_gymnasium(gym.make("Taxi-v4", is_rainy=True), gamma=0.95)
    assert abs(taxi(rain=0.2).T - rainy.T).max() < 1e-12


def test_closed_road_blocks_both_directions_and_changes_nothing_else():
    open_, closed = taxi(), taxi(blocked=[((2, 2), (3, 2))])
    changed = np.unique(abs(open_.T - closed.T).nonzero()[0] // 6)
    cells = {(s // 100, s // 20 % 5) for s in changed.tolist()}
    assert cells == {(2, 2), (3, 2)}
    for s in changed:
        a = 0 if s // 100 == 2 else 1  # south, north
        assert closed.T[[int(s) * 6 + a]].toarray()[0, s] == 1
    assert np.array_equal(open_.R, closed.R)


def test_fare_replaces_the_reward_of_deliveries_only():
    assert taxi(fare=12.0).R.max() == 12.0
    assert np.array_equal(taxi(fare=12.0).R == 12.0, taxi().R == 20.0)


def test_cliff_walking_has_the_transitions_and_rewards_of_gymnasium():
    ours = cliff_walking()
    theirs = hl.TabularMDP.from_gymnasium(gym.make("CliffWalking-v1"), gamma=0.95)
    assert abs(ours.T - theirs.T).max() == 0
    assert np.array_equal(ours.R, theirs.R)
    assert ours.reward_range == theirs.reward_range == (-100, -1)


def test_range_that_is_read_from_a_table_bounds_the_values_of_its_task():
    """No reward of CliffWalking is above -1, and an episode may end at once: v_max is -1."""
    for name in ("CliffWalking-v1", "Taxi-v4", "FrozenLake-v1"):
        m = hl.TabularMDP.from_gymnasium(gym.make(name), gamma=0.9)
        sol = hl.solve(m)
        assert sol.Q.max() <= m.v_max + sol.error
        assert sol.Q.min() >= m.v_min - sol.error
    m = hl.TabularMDP.from_gymnasium(gym.make("CliffWalking-v1"), gamma=0.9)
    assert m.v_max == -1
    options = {"n_states": 48, "n_actions": 4, "gamma": 0.9, "n_known": 1, "seed": 0}
    agent = hl.RMax(reward_range=m.reward_range, **options)
    hl.learn(agent, m, episodes=30, max_steps=100, seed=0)
    assert (agent.Q >= hl.solve(m).Q - 1e-5).all()


def test_wind_blows_one_step_down_towards_the_cliff():
    """A move to the right in row 1 may lead down to row 2, and in row 2 it may end in a fall."""
    right, start = 1, 36  # the start is the cell in the lower left corner of the 4x12 map
    windy = cliff_walking(wind=0.25, fall=10.0)
    above, edge = 12 + 5, 24 + 5
    assert windy.T[[above * 4 + right]].toarray()[0, [above + 1, edge]].tolist() == [0.75, 0.25]
    assert windy.R[above, right] == -1.0
    assert windy.T[[edge * 4 + right]].toarray()[0, [edge + 1, start]].tolist() == [0.75, 0.25]
    assert windy.R[edge, right] == pytest.approx(0.75 * -1.0 + 0.25 * -10.0)


def test_fall_is_the_largest_cost_of_cliff_walking():
    assert cliff_walking(fall=10.0).R.min() == -10.0


def test_inventory_transitions_and_costs_match_a_sum_over_customers():
    """With a stock of 3 and an order of 2: the stock that n customers leave, and its cost."""
    m = shop.inventory(demand=2.0, goods=1.0, storing=0.1, losing=3.0)
    n = np.arange(31)
    p = np.exp(-2.0) * 2.0**n / np.cumprod(np.maximum(n, 1.0))
    p /= p.sum()
    pair = 3 * 6 + 2
    row = m.T[[pair]].toarray()[0]
    assert row[5:0:-1] == pytest.approx(p[:5])
    assert row[0] == pytest.approx(p[5:].sum())
    cost = 2 * 1.0 + sum(p[n] * (0.1 * max(5 - n, 0) + 3.0 * max(n - 5, 0)) for n in range(31))
    assert m.R[3, 2] == pytest.approx(-cost)
    full = 10 * 6
    assert np.array_equal(
        m.T[[full]].toarray(), m.T[[full + 5]].toarray()
    )  # the store is full: the order is not delivered
    assert m.R[10, 0] == m.R[10, 5]
    assert not m.terminating


def test_optimal_orders_grow_with_demand():
    quiet, busy = (hl.solve(shop.inventory(demand=d)).policy for d in (1.0, 4.0))
    assert (busy >= quiet).all()
    assert (busy > quiet).any()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: frozen_lake(slip=2), "slip is 2"),
        (lambda: frozen_lake(prize=-1), "prize is -1"),
        (lambda: taxi(fare=21), "fare is 21"),
        (lambda: taxi(rain=-0.1), "rain is -0.1"),
        (lambda: taxi(blocked=[((0, 0), (2, 0))]), r"blocked contains \(\(0, 0\), \(2, 0\)\)"),
        (lambda: taxi(blocked=[3]), "blocked contains 3"),
        (lambda: cliff_walking(wind=1.5), "wind is 1.5"),
        (lambda: cliff_walking(fall=500), "fall is 500"),
        (lambda: shop.inventory(demand=0), "demand is 0"),
        (lambda: shop.inventory(demand=31), "demand is 31"),
        (lambda: shop.inventory(demand=2, goods=-1), "goods is -1"),
        (lambda: shop.inventory(demand=2, losing=float("inf")), "losing is inf"),
        (lambda: taxi(blocked=[((100, 4), (101, 4))]), r"blocked contains \(\(100"),
        (lambda: taxi(blocked=[((0, 1), (0, 2))]), r"blocked contains \(\(0, 1\).* without a wall"),
        (lambda: taxi(blocked=[[[2.5, 2], [3.5, 2]]]), r"blocked contains \[\[2\.5"),
        (lambda: taxi(blocked=3), "blocked contains 3"),
        (lambda: frozen_lake(["SFF", "FG"]), "of the same length"),
        (lambda: frozen_lake("8x8"), "the map is '8x8'"),
        (lambda: frozen_lake(None), "the map is None"),
        (lambda: frozen_lake(["SX", "FG"]), "the map contains 'X'"),
        (lambda: frozen_lake(["FF", "FG"]), "the map has no start"),
        (
            lambda: FiniteFamily({"x": taxi()}, v_max=1.0),
            "v_max is 1.0, but the largest value of task 'x' is",
        ),
        (lambda: FiniteFamily({"x": taxi()}, v_max="x"), "v_max is 'x'"),
        (lambda: FiniteFamily([taxi()]), "expected a dictionary of one or more tasks by name"),
        (lambda: shop.inventory(demand=2, capacity=0), "capacity is 0"),
        (lambda: FiniteFamily({}), "expected a dictionary of one or more tasks by name"),
        (lambda: FiniteFamily({"x": taxi()}, p=[0.5]), "p sums to 0.5, not 1"),
        (lambda: FiniteFamily({"x": taxi()}, p=[-1.0]), "p contains -1:"),
    ],
)
def test_invalid_argument_is_reported(make, message):
    with pytest.raises(hl.errors.InvalidArgument, match=message):
        make()


def test_tasks_of_different_sizes_are_rejected():
    with pytest.raises(hl.errors.IncompatibleTasks, match="n_states is"):
        FiniteFamily({"lake": frozen_lake(), "cliff": cliff_walking()})


def test_tasks_with_probability_0_are_never_drawn_and_do_not_count_for_p_min():
    a, b, c = (hl.garnet(2, 1, branching=1, gamma=0.9, seed=i) for i in range(3))
    family = FiniteFamily({"a": a, "b": b, "c": c}, p=[0.7, 0.0, 0.3])
    assert family.p_min == 0.3
    rng = np.random.default_rng(0)
    assert {id(family.draw(rng)) for _ in range(200)} == {id(a), id(c)}
    assert repr(family).startswith("FiniteFamily(a, b, c: TabularMDP(2 states")
