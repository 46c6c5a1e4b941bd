"""The table of wrong statements is that of the code, and right where intervals are valid."""

import numpy as np
import pytest

from published import intervals, results

CASES = {case["differences"]: np.array(case["wrong"]) for case in intervals.measure()}


def test_stored_table_is_the_measured_one():
    assert results.load("intervals")["cases"] == results.rounded(intervals.measure())


def test_normal_differences_give_wrong_statements_as_often_as_stated():
    (wrong,) = (share for name, share in CASES.items() if name.startswith("normal"))
    error = np.sqrt(0.025 * 0.975 / intervals.SAMPLES)
    assert wrong[0] == 0  # two repetitions
    assert wrong[1:] == pytest.approx(0.025, abs=4 * error)


def test_equal_repetitions_give_no_statement():
    assert (CASES["+0.01 with probability 0.9, otherwise -1"] == 0).all()


def test_skewed_differences_give_wrong_statements_more_often_than_stated():
    """The page says so: the interval is not valid for every distribution."""
    assert CASES["the same with relative errors of 0.1"][1] > 0.5
    assert CASES["the same with relative errors of 0.1"][-1] < 0.025
