"""The attack commands, with small counts: nothing but Heirloom's own errors."""

import pytest

from tests.attack import damage, files, kills, specs, workers


def test_hostile_files_are_refused_or_safe(tmp_path):
    outcomes, failures = files.attack(300, tmp_path)
    assert not failures
    assert sum(outcomes.values()) == 300


def test_hostile_specs_are_refused_with_a_message_for_each_mistake(tmp_path):
    outcomes, failures = specs.attack(100, tmp_path)
    assert not failures
    assert outcomes["refused"] > 50


def test_random_damage_to_runs_is_noticed_and_loses_nothing(tmp_path):
    outcome = damage.attack(tmp_path, 30, seed=0)
    assert outcome.is_good, str(outcome)


def test_runs_that_are_killed_lose_nothing(tmp_path):
    outcome = kills.attack(tmp_path, 5, seed=0)
    assert outcome.is_good, str(outcome)


@pytest.mark.slow
def test_many_hostile_files_are_refused_or_safe(tmp_path):
    assert not files.attack(3000, tmp_path, seed=1)[1]


@pytest.mark.slow
def test_many_hostile_specs_are_refused_with_a_message_for_each_mistake(tmp_path):
    assert not specs.attack(1000, tmp_path, seed=1)[1]


@pytest.mark.slow
def test_runs_complete_although_workers_are_killed(tmp_path):
    assert workers.attack(tmp_path, 3, seed=0).is_good
