"""Radii of learned models hold after all numbers of visits at once."""

import math

import numpy as np
import pytest

import heirloom as hl
from heirloom.transfer.radii import Accuracy, all_outcomes, visits_of
from tests import streams

SETTING = hl.bounds.Setting(n_states=3, n_actions=2, gamma=0.9, reward_range=(-1, 3))


def by_formula(n, log_sets, rho=1.0):
    return math.sqrt((n / 4 + rho) * (math.log(1 + n / (4 * rho)) + 2 * log_sets)) / n


def test_radii_are_those_of_the_formula_and_give_each_task_its_share_of_delta():
    outcomes, delta = np.array([1, 2, 3, 4, 4, 4]), 0.1
    for task, n_dropped in ((1, 0), (7, 2)):
        own = Accuracy(exact=False, delta=delta, n_dropped=n_dropped).of_task(
            task, SETTING, outcomes
        )
        share = 6 * delta / (math.pi * (task + n_dropped)) ** 2
        for n in (1, 5, 50, 10**6, 2**53):
            found = own.at(np.full(6, n))
            assert found.rewards == pytest.approx(4 * by_formula(n, math.log(12 / share)))
            for k, K in enumerate(outcomes):
                log_sets = math.log(max(2 ** (K - 1) - 1, 1) * 12 / share)
                expected = 0.0 if K == 1 else by_formula(n, log_sets)
                assert found.transitions[k] == pytest.approx(expected)
                assert own.of_pair(k, n) == (found.rewards[k], found.transitions[k])


def test_pair_without_visits_has_infinite_radii():
    own = Accuracy(exact=False, delta=0.1).of_task(1, SETTING, all_outcomes(SETTING))
    found = own.at(np.array([0, 1, 2, 3, 4, 5]))
    for radii in found:
        assert np.isinf(radii[0])
        assert (np.diff(radii[1:]) < 0).all()


def test_radii_of_exact_models_do_not_depend_on_visits():
    setting = hl.bounds.Setting(n_states=3, n_actions=2, gamma=0.9, epsilon=0.2)
    own = Accuracy(exact=True, delta=0.1).of_task(1, setting, all_outcomes(setting))
    rewards, transitions = own.at(np.array([0, 1, 2, 10, 100, 1000]))
    assert rewards == pytest.approx(0.2)
    assert transitions == pytest.approx(0.1)


def test_radii_are_finite_with_one_reward_and_many_states():
    setting = hl.bounds.Setting(n_states=5000, n_actions=1, gamma=0.9, reward_range=(1, 1))
    own = Accuracy(exact=False, delta=1e-9).of_task(10**9, setting, all_outcomes(setting))
    rewards, transitions = own.at(np.arange(5000))
    assert (rewards == 0).all()
    assert np.isfinite(transitions[1:]).all()


def test_unknown_pairs_have_no_visits():
    model = hl.LearnedModel(3, 2, n_known=2)
    for _ in range(2):
        model.observe(0, 1, 0.5, 2, terminated=False)
    model.observe(1, 1, 0.5, 2, terminated=False)
    source = hl.bounds.Source.of(model, np.zeros(6))
    assert visits_of(source).tolist() == [0, 2, 0, 0, 0, 0]


@pytest.mark.parametrize("delta", streams.DELTAS)
@pytest.mark.parametrize("name", streams.ROWS)
def test_total_variation_exceeds_its_radius_after_any_visit_with_probability_delta_at_most(
    name, delta
):
    row, n = streams.ROWS[name], 1000
    radius = streams.radii_of(len(row), delta)
    assert streams.failures(row, radius, n, seed=1) <= streams.most(delta, n)


@pytest.mark.parametrize("delta", streams.DELTAS)
def test_radii_for_a_fixed_number_of_visits_fail_at_random_moments(delta):
    """So that the test above has power: these radii are valid after each single visit."""
    row, n = streams.ROWS["even"], 400
    assert streams.failures(row, streams.fixed_radii(2, delta), n, seed=1) > streams.most(delta, n)


@pytest.mark.parametrize("delta", streams.DELTAS)
def test_mean_reward_exceeds_its_radius_after_any_visit_with_probability_delta_at_most(delta):
    """Rewards are 0 or 1 in half of the streams, and uniform in the others."""
    rng, n, failed = np.random.default_rng(2), 1000, 0
    visits, found = np.arange(1, streams.VISITS + 1), np.empty((2, streams.VISITS))
    streams.fill_radii(visits, -np.log(delta), np.zeros(streams.VISITS), found)
    for i in range(n):
        x = rng.random(streams.VISITS)
        x = x < 0.5 if i % 2 else x
        failed += (np.abs(x.cumsum() / visits - 0.5) > found[0]).any()
    assert failed <= streams.most(delta, n)
