"""Checks refute true knowledge with probability δ at most, and their power is what is published."""

import numpy as np
import pytest

from published import checks, results

STORED = results.load("checks")
SIZES = [(n, delta) for n in checks.VISITS for delta in checks.DELTAS]


def most(delta, n):
    """The number of alarms that is expected with three standard errors."""
    return n * delta + 3 * np.sqrt(n * delta * (1 - delta))


@pytest.mark.parametrize("i", range(len(SIZES)))
def test_stored_alarms_are_at_most_delta_and_match_the_first_lifetimes(i):
    stored, (n, delta) = STORED["size"][i], SIZES[i]
    assert (stored["n"], stored["delta"]) == (n, delta)
    assert stored["alarms"] <= most(0.0 if n == 1 else delta, checks.LIFETIMES)
    first = sum(checks.is_refuted(n, delta, seed) for seed in range(checks.FIRST_LIFETIMES))
    assert first == stored["first"]


@pytest.mark.parametrize("n", checks.VISITS)
def test_lifetimes_in_which_tasks_differ_by_much_more_are_refuted(n):
    """So that lifetimes without alarms do not show that nothing was compared."""
    assert all(checks.is_refuted(n, 0.05, seed, difference=0.96) for seed in range(4))


@pytest.mark.slow
@pytest.mark.parametrize("refresh", [None, 1.5])
@pytest.mark.parametrize(("n", "delta"), SIZES)
def test_alarms_of_new_lifetimes_are_at_most_delta(n, delta, refresh):
    seeds = range(10_000, 10_200)
    alarms = sum(checks.is_refuted(n, delta, seed, refresh=refresh) for seed in seeds)
    assert alarms <= most(0.0 if n == 1 else delta, 200)


@pytest.mark.parametrize("row", STORED["power"], ids=lambda row: f"{row['part']} {row['n']}")
def test_true_claims_are_within_delta_and_large_contradictions_are_detected(row):
    assert row["shares"][0] <= most(0.05, checks.POWER_LIFETIMES) / checks.POWER_LIFETIMES
    if row["test"] == "pooled":
        assert row["shares"][-1] == 1.0
    elif row["n"] < 50:
        assert not any(row["shares"])


@pytest.mark.parametrize("part", checks.PARTS)
def test_power_of_a_few_lifetimes_agrees_with_the_stored_one(part):
    single, pooled = checks.detections(part, 10, 5, 4)
    assert (single, pooled) == (0, 4)
