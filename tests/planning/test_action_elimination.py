"""Action elimination: it removes most actions, and wrong eliminations do not affect results."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import heirloom as hl
from heirloom.planning import certificate, policy_iteration
from heirloom.planning.policy_iteration import Elimination
from tests.reference import exact
from tests.strategies import tasks

same_fixture_for_all_examples = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture
def elimination_in_small_tasks(monkeypatch):
    monkeypatch.setattr(policy_iteration, "MIN_PAIRS", 0)


@pytest.fixture
def greedy_elimination(monkeypatch):
    """Every sweep eliminates all but the currently best actions, which is often wrong."""
    eliminate = Elimination._eliminate
    monkeypatch.setattr(Elimination, "_eliminate", lambda self, best, _: eliminate(self, best, 0))


@pytest.fixture
def certified_errors(monkeypatch):
    """The errors of all certificates, in the order of their computation."""
    errors = []
    certify = certificate.certify

    def certify_and_record(*arguments, **options):
        result = certify(*arguments, **options)
        errors.append(result.error)
        return result

    monkeypatch.setattr(certificate, "certify", certify_and_record)
    return errors


@same_fixture_for_all_examples
@given(tasks(), st.sampled_from([1e-1, 1e-4, 1e-8]))
def test_certified_error_is_true_with_elimination(elimination_in_small_tasks, m, tol):
    sol = hl.solve(m, tol=tol)
    assert sol.error <= tol
    assert np.abs(sol.Q - exact.optimal_Q(m)).max() <= sol.error + 1e-10


@same_fixture_for_all_examples
@given(tasks(), st.sampled_from([1e-1, 1e-4, 1e-8]))
def test_certified_error_is_true_if_optimal_actions_were_eliminated(
    elimination_in_small_tasks, greedy_elimination, m, tol
):
    sol = hl.solve(m, tol=tol)
    assert sol.error <= tol
    assert np.abs(sol.Q - exact.optimal_Q(m)).max() <= sol.error + 1e-10


def test_solve_recovers_with_all_actions_if_optimal_actions_were_eliminated(
    greedy_elimination, certified_errors
):
    m = hl.garnet(2000, 10, branching=5, gamma=0.99, seed=0)
    sol = hl.solve(m, tol=1e-3)
    assert sol.error <= 1e-3
    assert len(certified_errors) == 2
    assert certified_errors[0] > 1e-3


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("n_actions", "branching"), [(2, 3), (4, 5), (10, 20), (30, 3)])
def test_most_actions_of_random_tasks_are_eliminated_and_no_optimal_one(
    monkeypatch, certified_errors, n_actions, branching, seed
):
    pairs_per_state = []
    improve = Elimination.improve

    def record_and_improve(self, *arguments):
        pairs_per_state.append(self.R.size / self.n_states)
        return improve(self, *arguments)

    monkeypatch.setattr(Elimination, "improve", record_and_improve)
    m = hl.garnet(2000, n_actions, branching=branching, gamma=0.99, seed=seed)
    hl.solve(m, tol=1e-3)
    assert pairs_per_state[0] == n_actions
    assert pairs_per_state[-1] <= 1.5
    assert len(certified_errors) == 1


def test_solving_a_large_task_twice_gives_the_same_bits():
    def solve():
        return hl.solve(hl.garnet(2000, 4, branching=5, gamma=0.99, seed=3), tol=1e-6)

    first, second = solve(), solve()
    assert first.Q.tobytes() == second.Q.tobytes()
    assert first.error == second.error
