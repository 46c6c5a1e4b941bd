"""The table of bounds from one source: its numbers are those of the code, and its text is true."""

import numpy as np
import pytest

import heirloom as hl
from published import results, task_bounds

STORED = {case["tasks"]: case for case in results.load("task-bounds")["cases"]}
QUICK = list(task_bounds.CASES)[-3:]  # others have 20 states and dense differences


def test_stored_table_has_all_cases():
    assert list(STORED) == list(task_bounds.CASES)


@pytest.mark.parametrize("name", QUICK)
def test_first_pair_of_tasks_gives_the_stored_numbers(name):
    measured = task_bounds.measure_case(name, pairs=1)["first"]
    assert measured == pytest.approx(STORED[name]["first"], rel=2e-5, abs=1e-6)


@pytest.mark.parametrize("name", QUICK)
def test_bounds_of_the_table_are_above_the_optimal_values(name):
    task, source = task_bounds.CASES[name](np.random.default_rng(0))
    Q = hl.solve(task).Q
    for U in task_bounds.bounds(task, source).values():
        assert (U >= Q - 1e-9).all()


def test_no_bound_is_the_smallest_in_all_cases():
    smallest = {min(case["means"], key=case["means"].get) for case in STORED.values()}
    assert {"GBSM", "nearness, arrays"} <= smallest


def test_only_gbsm_finds_states_with_other_numbers_again():
    means = STORED["random, states have other numbers, γ = 0.9"]["means"]
    assert means["GBSM"] < 1e-5
    assert min(means[name] for name in task_bounds.BOUNDS if name != "GBSM") > 0.5
