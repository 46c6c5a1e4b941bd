"""Statistics are compared with scipy, with coverage in simulations, and with values by hand."""

from itertools import product

import numpy as np
import pytest
from scipy import stats as scipy_stats

from heirloom.stats import (
    moving_average,
    step_down,
    student_interval,
)


def test_student_interval_agrees_with_scipy():
    x = np.random.default_rng(0).normal(size=(7, 3))
    mean, half = student_interval(x)
    low, high = scipy_stats.t.interval(0.95, 6, x.mean(axis=0), scipy_stats.sem(x, axis=0))
    assert mean - half == pytest.approx(low)
    assert mean + half == pytest.approx(high)


def test_student_interval_covers_the_mean_with_its_confidence():
    rng = np.random.default_rng(1)
    mean, half = student_interval(rng.normal(2.0, 3.0, size=(5, 20_000)))
    assert (np.abs(mean - 2.0) <= half).mean() == pytest.approx(0.95, abs=0.01)


@pytest.mark.parametrize("n", [1, 2])
def test_fewer_than_three_repetitions_have_no_interval(n):
    mean, half = student_interval(np.arange(2.0 * n).reshape(n, 2))
    assert mean.tolist() == [n - 1.0, float(n)]
    assert np.isnan(half).all()


def test_equal_repetitions_have_no_interval():
    """Their mean may be off by a rounding error, and so may the numbers themselves."""
    x = np.full((7, 3), 0.1)
    x[:, 1] *= 1 + 1e-15 * np.arange(7)
    x[0, 2] = 0.2
    mean, half = student_interval(x)
    assert mean[:2] == pytest.approx(0.1)
    assert np.isnan(half).tolist() == [True, True, False]


@pytest.mark.parametrize("window", [1, 3, 10, 50])
def test_moving_average_is_the_mean_of_each_window(window):
    x = np.random.default_rng(3).random((2, 10))
    expected = [[row[max(0, i - window + 1) : i + 1].mean() for i in range(10)] for row in x]
    assert moving_average(x, window) == pytest.approx(np.array(expected))


class TestStepDown:
    def test_errors_over_all_comparisons_together_are_at_most_5_percent(self):
        rng, n_wrong = np.random.default_rng(0), 0
        for _ in range(400):
            common = rng.normal(size=(8, 1))
            x = common + rng.standard_t(3, size=(8, 12))  # dependent, with heavy tails
            n_wrong += bool((step_down(x - x.mean(axis=1, keepdims=True)) <= 0.05).any())
        assert n_wrong / 400 <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 400)

    def test_true_nulls_are_protected_while_others_are_false(self):
        rng, n_wrong, n_found = np.random.default_rng(1), 0, 0
        for _ in range(300):
            x = rng.normal(size=(10, 6))
            x[:, :3] += 3
            p = step_down(x)
            n_found += int((p[:3] <= 0.05).sum())
            n_wrong += bool((p[3:] <= 0.05).any())
        assert n_wrong / 300 <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 300)
        assert n_found >= 0.95 * 900

    def test_p_values_are_those_of_all_sign_patterns(self):
        x = np.random.default_rng(2).normal(0.7, size=(5, 1))
        signs = np.array(list(product((-1, 1), repeat=5)))
        expected = np.mean(np.abs(signs @ x) >= np.abs(x.sum()) - 1e-12)
        assert step_down(x) == pytest.approx([expected])

    def test_smallest_p_value_and_units(self):
        x = np.array([[1.0, 1e9], [2.0, -1e9], [3.0, 2e9], [4.0, 1e9]])
        assert step_down(x[:, :1]) == 2 / 2**4
        np.testing.assert_array_equal(step_down(x), step_down(x * [1e-6, 3]))

    def test_equal_agents_differ_with_p_1(self):
        assert step_down(np.zeros((10, 2))).tolist() == [1, 1]

    def test_many_repetitions_are_tested_with_drawn_signs(self):
        rng = np.random.default_rng(3)
        p = step_down(np.column_stack([rng.normal(2, size=30), rng.normal(0, size=30)]))
        assert p[0] < 0.001 < 0.05 < p[1]
