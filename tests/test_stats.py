"""Statistics against their definitions."""

import numpy as np
import pytest
from scipy import stats as scipy_stats

from heirloom.stats import gain, student_interval


def test_student_intervals():
    x = np.random.default_rng(0).normal(size=(7, 3))
    mean, half = student_interval(x)
    low, high = scipy_stats.t.interval(0.95, 6, x.mean(axis=0), scipy_stats.sem(x, axis=0))
    assert mean - half == pytest.approx(low)
    assert mean + half == pytest.approx(high)


def test_an_interval_covers_as_often_as_it_says():
    rng = np.random.default_rng(1)
    mean, half = student_interval(rng.normal(2.0, 3.0, size=(5, 20_000)))
    assert (np.abs(mean - 2.0) <= half).mean() == pytest.approx(0.95, abs=0.01)


def test_one_repetition_has_no_interval():
    mean, half = student_interval(np.ones((1, 2)))
    assert mean.tolist() == [1.0, 1.0]
    assert np.isnan(half).all()


def test_a_gain_of_returns_and_of_costs():
    assert gain(np.array([1.1, -80.0]), np.array([1.0, -100.0])) == pytest.approx([0.1, 0.2])
