"""Machine maintenance: its transitions, its optimal policies, and the family of weeks."""

import numpy as np
import pytest

import heirloom as hl
from heirloom.envs.maintenance import (
    DAMAGE,
    FAILED,
    INSPECT,
    INSPECTION,
    REPAIR,
    REPLACE,
    RUN,
    Machines,
)
from tests.strategies import seeds

WEEK = {"wear": 0.2, "failure": 0.25, "income": 200.0, "parts": 300.0, "replacement": 950.0}


def week(**parameters):
    return Machines().build(reward_range=None, **parameters)


def row(m, s, a):
    return m.T[[s * m.n_actions + a]].toarray()[0]


def test_running_at_the_highest_wear_fails_with_the_given_probability():
    m = week(**WEEK)
    assert row(m, 4, RUN)[[4, FAILED]] == pytest.approx([0.75, 0.25])
    assert m.R[4, RUN] == pytest.approx(0.75 * 200 + 0.25 * (100 - DAMAGE))


def test_wear_rises_by_one_level_unless_the_machine_fails():
    m = week(**WEEK)
    fails = 0.25 * (3 / 5) ** 2
    assert row(m, 2, RUN)[[2, 3, FAILED]] == pytest.approx(
        [(1 - fails) * 0.8, (1 - fails) * 0.2, fails]
    )


def test_inspection_prevents_failures_and_costs_time_and_money():
    m = week(**WEEK)
    fails = 0.3 * 0.25
    assert row(m, 4, INSPECT)[FAILED] == pytest.approx(fails)
    assert m.R[4, INSPECT] == pytest.approx(0.9 * 200 - INSPECTION - fails * (0.45 * 200 + DAMAGE))


def test_machine_that_never_wears_or_fails_is_run_for_ever():
    m = week(**{**WEEK, "wear": 0.0, "failure": 0.0})
    sol = hl.solve(m)
    assert (sol.policy[:FAILED] == RUN).all()
    assert sol.V[:FAILED] == pytest.approx(200 / (1 - 0.95))


def test_failed_machine_is_replaced_if_parts_cost_too_much():
    dear, cheap = (week(**{**WEEK, "parts": parts}) for parts in (10_000.0, 0.0))
    assert hl.solve(dear).policy[FAILED] == REPLACE
    assert hl.solve(cheap).policy[FAILED] == REPAIR


@pytest.mark.parametrize("seed", seeds(30))
def test_optimal_policies_run_then_inspect_then_repair_as_wear_rises(seed):
    policy = hl.solve(Machines().draw(np.random.default_rng(seed))).policy
    assert (np.diff(policy[:FAILED]) >= 0).all()
    assert policy[0] == RUN
    assert policy[FAILED] in (REPAIR, REPLACE)


def test_optimal_policies_of_different_weeks_differ():
    rng = np.random.default_rng(0)
    family = Machines()
    assert len({tuple(hl.solve(family.draw(rng)).policy) for _ in range(50)}) >= 4


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"wear": 1.5}, "wear is 1.5"),
        ({"failure": -0.1}, "failure is -0.1"),
        ({"income": -1.0}, "income is -1.0: expected an amount of money"),
        ({"parts": float("nan")}, "parts is nan"),
    ],
)
def test_invalid_parameter_of_a_machine_is_reported(changed, message):
    with pytest.raises(hl.errors.InvalidArgument, match=message):
        week(**{**WEEK, **changed})
