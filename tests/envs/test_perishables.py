"""Perishable stock: its transitions, its optimal policies, and the family of weeks."""

import numpy as np
import pytest

import heirloom as hl
from heirloom.envs.perishables import (
    CAPACITY,
    CRATE,
    CUSTOMERS,
    GOODWILL,
    STOCKS,
    WASTE,
    Perishables,
)
from tests.strategies import seeds

WEEK = {"busy": 0.5, "fresh": 0.8, "price": 4.0, "goods": 2.0}
MEAN = 3.0  # customers per day: half of the days 2, and half of them 4


def state(one, two):
    return STOCKS.index((one, two))


def week(**parameters):
    return Perishables().build(reward_range=None, **parameters)


def row(m, s, a):
    return m.T[[s * m.n_actions + a]].toarray()[0]


def test_empty_shelf_without_an_order_loses_every_customer():
    m = week(**WEEK)
    assert row(m, state(0, 0), 0)[state(0, 0)] == pytest.approx(1.0)
    assert m.R[state(0, 0), 0] == pytest.approx(-GOODWILL * MEAN)


def test_delivery_that_is_not_sold_keeps_for_one_or_two_more_days():
    m = week(**WEEK)
    nobody = 0.5 * 0.2**CUSTOMERS + 0.5 * 0.6**CUSTOMERS
    p = row(m, state(0, 0), 1)
    assert p[[state(0, CRATE), state(CRATE, 0)]] == pytest.approx([0.8 * nobody, 0.2 * nobody])


def test_oldest_pieces_are_sold_first_and_thrown_away_at_their_end():
    m = week(**{**WEEK, "busy": 0.0})
    q = np.array([0.6**5, 5 * 0.4 * 0.6**4])  # no customer, one customer
    p = row(m, state(1, 1), 0)
    assert p[[state(1, 0), state(0, 0)]] == pytest.approx([q.sum(), 1 - q.sum()])
    wasted = WASTE * q[0]
    sold = q[1] + 2 * (1 - q.sum())
    assert m.R[state(1, 1), 0] == pytest.approx(4 * sold - wasted - GOODWILL * (2.0 - sold))


def test_pieces_beyond_the_capacity_are_neither_delivered_nor_paid():
    m = week(**WEEK)
    full = state(0, CAPACITY)
    assert m.R[full, 3] == pytest.approx(m.R[full, 0])
    assert row(m, full, 3) == pytest.approx(row(m, full, 0))


@pytest.mark.parametrize("seed", seeds(10))
def test_optimal_policies_order_less_the_more_is_in_stock(seed):
    policy = hl.solve(Perishables().draw(np.random.default_rng(seed))).policy
    for s, (one, two) in enumerate(STOCKS):
        if one + two < CAPACITY:
            assert policy[state(one, two + 1)] <= policy[s]
    assert policy[state(0, 0)] >= 2


def test_optimal_policies_of_different_weeks_differ():
    rng, family = np.random.default_rng(0), Perishables()
    assert len({tuple(hl.solve(family.draw(rng)).policy) for _ in range(30)}) >= 4


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"busy": 1.5}, "busy is 1.5"),
        ({"fresh": -0.1}, "fresh is -0.1"),
        ({"price": -1.0}, "price is -1.0: expected an amount of money"),
        ({"goods": float("nan")}, "goods is nan"),
    ],
)
def test_invalid_parameter_of_perishable_stock_is_reported(changed, message):
    with pytest.raises(hl.errors.InvalidArgument, match=message):
        week(**{**WEEK, **changed})
