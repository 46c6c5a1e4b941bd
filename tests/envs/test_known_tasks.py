"""FrozenLake, Taxi, CliffWalking and inventory: related tasks with exact models."""

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
from heirloom.mdp.learned import Known

FAMILIES = {
    "frozen lakes": frozen_lakes,
    "taxis": taxis,
    "cliffs": cliffs,
    "prices": shop.prices,
    "seasons": shop.seasons,
}


def known_exactly(m):
    """A source that knows all of a task."""
    t = m.transitions
    continuing = np.ones(t.p.size, dtype=bool) if t.ends is None else ~t.ends
    lengths = np.bincount(t.pairs[continuing], minlength=t.R.size)
    last = np.cumsum(lengths)
    rows = Known(
        known=np.ones(t.R.size, dtype=bool),
        R=np.array(t.R),
        ends=np.array(m.ends).ravel(),
        first=last - lengths,
        last=last,
        successors=t.successors[continuing].astype(np.int32),
        p=t.p[continuing],
    )
    sol = hl.solve(m)
    return hl.Source(rows, sol.Q.ravel() + sol.error, sol.V + sol.error)


@pytest.mark.parametrize("name", FAMILIES)
class TestFamilies:
    def test_tasks_are_comparable_and_pass_the_check_of_environments(self, name):
        family = FAMILIES[name]()
        assert len(family.tasks) == 4
        for m in family.tasks.values():
            check_env(m.to_gymnasium().unwrapped, skip_render_check=True)
            assert (m.n_states, m.n_actions) == (family.first.n_states, family.first.n_actions)

    def test_no_value_is_above_v_max_and_no_reward_outside_of_the_range(self, name):
        family = FAMILIES[name]()
        agent = hl.RMax(n_known=1, **family.options)
        lo, hi = family.reward_range
        for m in family.tasks.values():
            assert hl.solve(m).V.max() <= agent.setting.v_max + 1e-6
            assert lo <= m.R.min() <= m.R.max() <= hi

    def test_the_prior_holds(self, name):
        """D_max is at least every distance of two tasks, and bounds from it are bounds."""
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
            agent.memory.add(known_exactly(m_bar))
            agent.begin_task()
            for m in tasks:
                assert (agent.U >= hl.solve(m).Q - 1e-6).all()

    def test_drawing_follows_the_probabilities(self, name):
        family = FAMILIES[name]()
        rng = np.random.default_rng(0)
        names = [family.draw_name(rng) for _ in range(4000)]
        for one in family.tasks:
            assert names.count(one) / 4000 == pytest.approx(0.25, abs=0.03)
        assert any(family.draw(rng) is m for m in family.tasks.values())


def test_the_family_distance_is_the_largest_of_all_ordered_pairs():
    rng = np.random.default_rng(0)
    for _ in range(50):
        lo = float(rng.choice([0.0, -1.0]))
        tasks = [
            hl.garnet(4, 2, branching=2, gamma=0.9, terminating=0.3, reward_range=(lo, 1), seed=rng)
            for _ in range(3)
        ]
        D = hl.family_distance(tasks)
        c = lo / (1 - 0.9)
        plain = np.max(
            [
                hl.model_pseudometric(
                    m, m_bar, 0.9 * (hl.solve(m_bar).V - c), f_end=max(0.0, -0.9 * c)
                )
                for m in tasks
                for m_bar in tasks
            ],
            axis=0,
        )
        assert (D >= plain - 1e-7).all()
        assert D == pytest.approx(plain, abs=3e-6)
    for nothing in ([], tasks[0], 3):
        with pytest.raises(hl.InvalidArgument, match="tasks is empty"):
            hl.family_distance(nothing)
    assert np.array_equal(hl.family_distance(m for m in tasks), D)


def test_frozen_lake_is_gymnasiums():
    env = gym.make("FrozenLake-v1", map_name="8x8")
    ours, theirs = frozen_lake(slip=2 / 3), hl.TabularMDP.from_gymnasium(env, gamma=0.95)
    assert abs(ours.T - theirs.T).max() < 1e-12
    assert ours.R == pytest.approx(theirs.R)
    assert "".join(FROZEN).count("H") == 10


def test_taxi_is_gymnasiums():
    theirs = hl.TabularMDP.from_gymnasium(gym.make("Taxi-v4"), gamma=0.95)
    ours = taxi()
    assert abs(ours.T - theirs.T).max() == 0
    assert np.array_equal(ours.R, theirs.R)
    rainy = hl.TabularMDP.from_gymnasium(gym.make("Taxi-v4", is_rainy=True), gamma=0.95)
    assert abs(taxi(rain=0.2).T - rainy.T).max() < 1e-12


def test_a_closed_road_is_closed_both_ways_and_nothing_else_changes():
    open_, closed = taxi(), taxi(blocked=[((2, 2), (3, 2))])
    changed = np.unique(abs(open_.T - closed.T).nonzero()[0] // 6)
    cells = {(s // 100, s // 20 % 5) for s in changed.tolist()}
    assert cells == {(2, 2), (3, 2)}
    for s in changed:
        a = 0 if s // 100 == 2 else 1  # south, north
        assert closed.T[[int(s) * 6 + a]].toarray()[0, s] == 1
    assert np.array_equal(open_.R, closed.R)


def test_a_fare():
    assert taxi(fare=12.0).R.max() == 12.0
    assert np.array_equal(taxi(fare=12.0).R == 12.0, taxi().R == 20.0)


def test_wind_blows_towards_the_cliff():
    still, windy = cliff_walking(), cliff_walking(wind=0.25)
    theirs = hl.TabularMDP.from_gymnasium(gym.make("CliffWalking-v1"), gamma=0.95)
    assert abs(still.T - theirs.T).max() == 0
    assert np.array_equal(still.R, theirs.R)
    down = still.T[[s * 4 + 2 for s in range(48) for _ in range(4)]]
    assert abs(windy.T - (0.75 * still.T + 0.25 * down)).max() < 1e-12
    assert cliff_walking(fall=10.0).R.min() == -10.0


def test_the_days_of_a_shop():
    """From a stock of 3 with 2 ordered: what n customers leave, and what that costs."""
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
    assert np.array_equal(m.T[[full]].toarray(), m.T[[full + 5]].toarray())  # nothing more fits
    assert m.R[10, 0] == m.R[10, 5]
    assert not m.terminating


def test_more_customers_are_worth_ordering_for():
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
        (lambda: taxi(blocked=[((0, 0), (2, 0))]), r"the road \(\(0, 0\), \(2, 0\)\) is not there"),
        (lambda: taxi(blocked=[3]), "the road 3 is not there"),
        (lambda: cliff_walking(wind=1.5), "wind is 1.5"),
        (lambda: cliff_walking(fall=500), "fall is 500"),
        (lambda: shop.inventory(demand=0), "demand is 0"),
        (lambda: shop.inventory(demand=31), "demand is 31"),
        (lambda: shop.inventory(demand=2, goods=-1), "goods is -1"),
        (lambda: shop.inventory(demand=2, losing=float("inf")), "losing is inf"),
        (lambda: taxi(blocked=[((100, 4), (101, 4))]), "is not there"),
        (lambda: taxi(blocked=[((0, 1), (0, 2))]), "is not there: .* without a wall"),
        (lambda: taxi(blocked=[[[2.5, 2], [3.5, 2]]]), "is not there"),
        (lambda: taxi(blocked=3), "the road 3 is not there"),
        (lambda: frozen_lake(["SFF", "FG"]), "of the same length"),
        (lambda: frozen_lake("8x8"), "the map is '8x8'"),
        (lambda: frozen_lake(None), "the map is None"),
        (lambda: frozen_lake(["SX", "FG"]), "the map holds 'X'"),
        (lambda: frozen_lake(["FF", "FG"]), "the map has no start"),
        (lambda: FiniteFamily({"x": taxi()}, v_max=1.0), "v_max is 1.0, and a value of 'x' is"),
        (lambda: FiniteFamily({"x": taxi()}, v_max="x"), "v_max is 'x'"),
        (lambda: FiniteFamily([taxi()]), "it is a dictionary of tasks by name"),
        (lambda: shop.inventory(demand=2, capacity=0), "capacity is 0"),
        (lambda: FiniteFamily({}), "it is a dictionary of tasks by name"),
        (lambda: FiniteFamily({"x": taxi()}, p=[0.5]), "p sums to 0.5, not 1"),
        (lambda: FiniteFamily({"x": taxi()}, p=[-1.0]), "p holds -1.0"),
    ],
)
def test_bad_values(make, message):
    with pytest.raises(hl.InvalidArgument, match=message):
        make()


def test_tasks_of_different_sizes_are_no_family():
    with pytest.raises(hl.IncompatibleTasks, match="n_states is"):
        FiniteFamily({"lake": frozen_lake(), "cliff": cliff_walking()})


def test_probabilities_of_tasks():
    m = hl.garnet(2, 1, branching=1, gamma=0.9, seed=0)
    family = FiniteFamily({"a": m, "b": m, "c": m}, p=[0.7, 0.0, 0.3])
    assert family.p_min == 0.3
    rng = np.random.default_rng(0)
    assert {family.draw_name(rng) for _ in range(200)} == {"a", "c"}
    assert repr(family).startswith("FiniteFamily(a, b, c: TabularMDP(2 states")
