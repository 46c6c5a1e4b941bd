"""Leaving out actions: quick where it goes well, and harmless where it goes wrong."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import heirloom as hl
from heirloom.planning import action_elimination as elimination
from heirloom.planning import certificate as fixed_point
from heirloom.planning.action_elimination import Elimination
from tests.reference import exact
from tests.strategies import tasks

a_fixture_for_all = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def of_all_sizes(monkeypatch):
    monkeypatch.setattr(elimination, "LEAST_PAIRS", 0)


@pytest.fixture
def all_but_one(monkeypatch):
    """Every sweep leaves out all actions but the best of the moment: often wrong."""
    leave_out = Elimination._leave_out
    monkeypatch.setattr(Elimination, "_leave_out", lambda self, best, _: leave_out(self, best, 0))


@pytest.fixture
def certificates(monkeypatch):
    """The errors that were certified, one after the other."""
    errors = []
    certify = fixed_point.certify

    def told(*arguments):
        result = certify(*arguments)
        errors.append(result.error)
        return result

    monkeypatch.setattr(fixed_point, "certify", told)
    return errors


@a_fixture_for_all
@given(tasks(), st.sampled_from([1e-1, 1e-4, 1e-8]))
def test_the_error_is_certified(of_all_sizes, m, tol):
    sol = hl.solve(m, tol=tol)
    assert sol.error <= tol
    assert np.abs(sol.Q - exact.optimal_Q(m)).max() <= sol.error + 1e-10


@a_fixture_for_all
@given(tasks(), st.sampled_from([1e-1, 1e-4, 1e-8]))
def test_the_error_is_certified_where_the_best_was_left_out(of_all_sizes, all_but_one, m, tol):
    sol = hl.solve(m, tol=tol)
    assert sol.error <= tol
    assert np.abs(sol.Q - exact.optimal_Q(m)).max() <= sol.error + 1e-10


def test_where_the_best_was_left_out_a_second_certificate_tells(all_but_one, certificates):
    m = hl.garnet(2000, 10, branching=5, gamma=0.99, seed=0)
    sol = hl.solve(m, tol=1e-3)
    assert sol.error <= 1e-3
    assert len(certificates) == 2
    assert certificates[0] > 1e-3


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("n_actions", "branching"), [(2, 3), (4, 5), (10, 20), (30, 3)])
def test_random_tasks_lose_most_actions_and_nothing_else(
    monkeypatch, certificates, n_actions, branching, seed
):
    left = []
    improve = Elimination.improve

    def told(self, *arguments):
        left.append(self.R.size / self.n_states)
        return improve(self, *arguments)

    monkeypatch.setattr(Elimination, "improve", told)
    m = hl.garnet(2000, n_actions, branching=branching, gamma=0.99, seed=seed)
    hl.solve(m, tol=1e-3)
    assert left[0] == n_actions
    assert left[-1] <= 1.5
    assert len(certificates) == 1


def test_a_large_solve_repeats_to_the_last_bit():
    def solved():
        return hl.solve(hl.garnet(2000, 4, branching=5, gamma=0.99, seed=3), tol=1e-6)

    one, other = solved(), solved()
    assert one.Q.tobytes() == other.Q.tobytes()
    assert one.error == other.error
