"""Capital against a mean is that of the formula, and rounding never raises it."""

import math

import numpy as np
import pytest

from heirloom.kernels import betting
from tests.reference import betting as reference


@pytest.mark.parametrize("seed", range(8))
def test_capital_agrees_with_the_formula_and_decreases_with_the_mean(seed):
    rng, capital = np.random.default_rng(seed), np.empty(betting.FRACTIONS.size)
    y = rng.beta(*10.0 ** rng.uniform(-1, 1, 2), 200)
    before = np.full(y.size, np.inf)
    for m in np.sort(rng.random(20)) + 1e-3:
        log_capital = reference.log_capital(y, m)
        assert (log_capital <= before + 1e-9).all()
        before, largest = log_capital, np.exp(min(log_capital.max(), 500.0))
        assert betting.is_refuted(y, m, largest * 0.999, capital)
        if log_capital.max() < 500.0:
            assert not betting.is_refuted(y, m, largest * 1.001, capital)


def test_capital_that_is_lost_is_not_rounded_up():
    """After many zeros almost all capital is lost; as a small float64 it would not shrink."""
    y, m, capital = np.repeat([0.0, 1.0], [8000, 4000]), 0.4, np.empty(betting.FRACTIONS.size)
    assert reference.log_capital(y, m).max() < 0
    assert not betting.is_refuted(y, m, math.exp(3.0), capital)
    assert betting.lower_mean(y, 3.0) < 1 / 3


@pytest.mark.parametrize("seed", range(8))
def test_lower_mean_is_the_largest_refuted_number_up_to_its_accuracy(seed):
    rng = np.random.default_rng(seed)
    y = rng.beta(*10.0 ** rng.uniform(-1, 1, 2), 100)
    m, step = betting.lower_mean(y, 2.0), 0.5**betting.HALVINGS
    assert m == 0 or reference.log_capital(y, m).max() >= 2.0
    assert reference.log_capital(y, m + step).max() < 2.0 + 2 * betting.ROUNDING


def test_lower_mean_is_0_if_the_probability_of_failure_is_too_small_to_compute():
    assert betting.lower_mean(np.ones(1000), 601.0) == 0.0
    assert betting.lower_mean(np.ones(1000), 599.0) > 0.5
