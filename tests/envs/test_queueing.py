"""The service desk: its transitions, its optimal policies, and the family of hours."""

import numpy as np
import pytest

import heirloom as hl
from heirloom.envs.queueing import CAPACITY, CLERK, FASTER, Queues
from tests.strategies import seeds

HOUR = {"arrival": 0.4, "service": 0.3, "sent_away": 15.0}
OPEN_1, OPEN_2, CLOSED_1, CLOSED_2 = range(4)


def hour(**parameters):
    return Queues().build(reward_range=None, **parameters)


def row(m, s, a):
    return m.T[[s * m.n_actions + a]].toarray()[0]


def test_customers_arrive_at_an_open_gate_and_leave_when_they_are_served():
    m = hour(**HOUR)
    assert row(m, 3, OPEN_1)[[2, 3, 4]] == pytest.approx(
        [0.6 * 0.3, 0.4 * 0.3 + 0.6 * 0.7, 0.4 * 0.7]
    )
    assert m.R[3, OPEN_1] == pytest.approx(-3)


def test_two_clerks_are_faster_and_cost_minutes():
    m = hour(**HOUR)
    assert row(m, 3, CLOSED_2)[2] == pytest.approx(0.3 * FASTER)
    assert m.R[3, OPEN_2] == pytest.approx(-3 - CLERK)


def test_customers_at_a_closed_gate_or_a_full_desk_are_sent_away():
    m = hour(**HOUR)
    assert row(m, 0, CLOSED_1)[0] == pytest.approx(1.0)
    assert m.R[0, CLOSED_1] == pytest.approx(-0.4 * 15)
    assert row(m, CAPACITY, OPEN_1)[[CAPACITY - 1, CAPACITY]] == pytest.approx(
        [0.6 * 0.3, 1 - 0.6 * 0.3]
    )
    assert m.R[CAPACITY, OPEN_1] == pytest.approx(-CAPACITY - 0.4 * 0.7 * 15)


def test_empty_desk_completes_no_request():
    m = hour(**HOUR)
    assert row(m, 0, OPEN_2)[[0, 1]] == pytest.approx([0.6, 0.4])


def test_gate_stays_open_if_nobody_arrives_or_sending_away_costs_most():
    sol = hl.solve(hour(arrival=0.0, service=0.3, sent_away=15.0))
    assert sol.V[0] == pytest.approx(0.0, abs=sol.error)
    policy = hl.solve(hour(arrival=0.1, service=0.6, sent_away=1e4)).policy
    assert (policy[:CAPACITY] < CLOSED_1).all()


@pytest.mark.parametrize("seed", seeds(10))
def test_optimal_policies_close_the_gate_only_in_long_queues(seed):
    policy = hl.solve(Queues().draw(np.random.default_rng(seed))).policy
    assert (np.diff(policy >= CLOSED_1) >= 0).all()
    assert policy[0] == OPEN_1


def test_optimal_policies_of_different_hours_differ():
    rng, family = np.random.default_rng(0), Queues()
    assert len({tuple(hl.solve(family.draw(rng)).policy) for _ in range(30)}) >= 4


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"arrival": 1.5}, "arrival is 1.5"),
        ({"service": 0.7}, r"service is 0.7: expected a probability from 0 to 0\.625"),
        ({"sent_away": -1.0}, "sent_away is -1.0: expected minutes"),
    ],
)
def test_invalid_parameter_of_a_queue_is_reported(changed, message):
    with pytest.raises(hl.errors.InvalidArgument, match=message):
        hour(**{**HOUR, **changed})
