"""The measures of the table of agents, on curves for which they are known."""

import numpy as np
import pytest

from heirloom.report import tables as measures

OPTIMAL = np.full((2, 3), 2.0)  # [repetition, task]
BASELINE = np.ones((2, 3, 100))


def curve(until):
    """Returns that are 1 before this episode and 2, which is optimal, from then on."""
    returns = np.full((2, 3, 100), 2.0)
    returns[:, :, :until] = 1.0
    return returns


@pytest.mark.parametrize("until", [0, 10, 60])
def test_measures_of_an_agent_that_becomes_optimal_follow_from_the_time(until):
    returns = curve(until)
    assert measures.area_over(returns, BASELINE) == pytest.approx(100 - until)
    assert measures.jumpstart(returns, BASELINE) == pytest.approx(0.0 if until else 1.0)
    transfer = measures.forward_transfer(returns, BASELINE, OPTIMAL)
    assert transfer == pytest.approx(1 - until / 100)
    episodes, reached = measures.until_near_optimal(returns, OPTIMAL)
    assert reached.all()
    # Near-optimal is 95 %, so a tenth of the episodes that are left may have a return of 1.
    assert (episodes <= until).all()
    assert (episodes >= until - 0.1 / 0.9 * (100 - until) - 1).all()


def test_baseline_has_no_area_no_jumpstart_and_no_forward_transfer():
    assert not measures.area_over(BASELINE, BASELINE).any()
    assert not measures.jumpstart(BASELINE, BASELINE).any()
    assert not measures.forward_transfer(BASELINE, BASELINE, OPTIMAL).any()


def test_agent_that_is_good_at_first_and_then_worse_is_not_near_optimal():
    returns = np.flip(curve(60), axis=2)
    episodes, reached = measures.until_near_optimal(returns, OPTIMAL)
    assert not reached.any()
    assert (episodes == 100).all()


def test_near_optimal_is_within_5_percent_below_a_negative_optimum():
    optimal = np.full((1, 1), -10.0)
    for value, expected in ((-10.4, True), (-10.6, False)):
        found = measures.until_near_optimal(np.full((1, 1, 50), value), optimal)
        assert found.reached.all() == expected


def test_measures_from_task_2_on_are_nan_with_a_single_task():
    one = curve(10)[:, :1]
    assert np.isnan(measures.jumpstart(one, one)).all()
    assert np.isnan(measures.forward_transfer(one, one, OPTIMAL[:, :1])).all()


def test_repetitions_that_are_missing_are_left_out():
    values = np.array([1.0, np.nan, 3.0])
    assert measures.over_repetitions(values).mean == 2.0
    assert np.isnan(measures.over_repetitions(np.array([np.nan])).mean)
