"""Large tasks are solved in few sweeps for discount factors close to 1, and every call ends."""

import numpy as np
import pytest
from scipy import sparse

import heirloom as hl
from heirloom.envs.grid import grid_world
from heirloom.kernels import values
from heirloom.planning import linear, policy_iteration
from heirloom.planning.linear import MarkovChain
from heirloom.planning.policy_iteration import PolicyIteration
from heirloom.planning.solve import _problem

N_STATES = 2000
SWEEPS = ("improve", "follow", "follow_in_place")


def one_way_cycle(gamma):
    states = np.arange(N_STATES)
    T = sparse.csr_array((np.ones(N_STATES), (states, (states + 1) % N_STATES)))
    return hl.TabularMDP(np.eye(1, N_STATES).T, T, gamma=gamma)


def two_way_cycle(gamma):
    pairs = np.arange(2 * N_STATES)
    s, a = np.divmod(pairs, 2)
    T = sparse.csr_array((np.ones(pairs.size), (pairs, (s + 1 - 2 * a) % N_STATES)))
    R = np.random.default_rng(0).random((N_STATES, 2))
    return hl.TabularMDP(R, T, gamma=gamma)


def random_walk_with_an_end(gamma):
    pairs = np.arange(2 * N_STATES)
    s, a = np.divmod(pairs, 2)
    p = np.where(a == 0, 0.45, 0.55)
    left = sparse.csr_array((p, (pairs, np.maximum(s - 1, 0))), (pairs.size, N_STATES))
    right = sparse.csr_array((1 - p, (pairs, np.minimum(s + 1, N_STATES - 1))), left.shape)
    R = np.random.default_rng(0).random((N_STATES, 2)) / 10
    return hl.TabularMDP(R, left + right, gamma=gamma, terminates=[N_STATES - 1])


def garnet(gamma):
    return hl.garnet(N_STATES, 4, branching=5, gamma=gamma, seed=0)


def two_garnets(gamma):
    """Two Garnet tasks that are connected by rare transitions: it mixes very slowly."""
    n = N_STATES // 2
    parts = [hl.garnet(n, 4, branching=5, gamma=gamma, seed=seed) for seed in (0, 1)]
    pairs = np.arange(4 * N_STATES)
    rare = sparse.csr_array((np.full(pairs.size, 1e-6), (pairs, (pairs // 4 + n) % N_STATES)))
    T = sparse.block_diag([m.T for m in parts], format="csr") * (1 - 1e-6) + rare
    return hl.TabularMDP(np.concatenate([parts[0].R / 2, parts[1].R]), T, gamma=gamma)


def count_sweeps(monkeypatch, limit):
    """Count the sweeps of all kinds, and fail above `limit`."""
    counted = []

    def counting(sweep):
        def counted_sweep(*arguments):
            counted.append(sweep)
            assert len(counted) <= limit
            return sweep(*arguments)

        return counted_sweep

    for name in SWEEPS:
        monkeypatch.setattr(values, name, counting(getattr(values, name)))
    return counted


@pytest.mark.parametrize("gamma", [1 - 1e-4, 1 - 1e-5, 1 - 1e-7])
@pytest.mark.parametrize(
    "make", [one_way_cycle, two_way_cycle, random_walk_with_an_end, garnet, two_garnets]
)
def test_tasks_of_2000_states_are_solved_in_few_sweeps(make, gamma, monkeypatch):
    m = make(gamma)
    count_sweeps(monkeypatch, 3000)
    sol = hl.solve(m)
    assert sol.error <= 1e-6 * np.abs(sol.Q).max()
    backup = m.R + gamma * (m.T @ sol.V).reshape(m.R.shape) if not m.terminating else sol.Q
    assert np.abs(backup - sol.Q).max() <= 2 * sol.error + 1e-12 * np.abs(sol.Q).max()


def test_certified_error_is_true_for_a_long_cycle():
    """The values of a cycle have a closed form: 1 / (1 - γ^n) at the state that pays."""
    gamma = 1 - 1e-5
    sol = hl.solve(one_way_cycle(gamma))
    exact = gamma ** (-np.arange(N_STATES) % N_STATES) / -np.expm1(N_STATES * np.log(gamma))
    assert np.abs(sol.V - exact).max() <= sol.error + 1e-11


@pytest.mark.parametrize("make", [random_walk_with_an_end, garnet])
def test_values_of_a_chain_solve_its_equations(make):
    """By a factorisation for the walk, and by iteration for the Garnet task."""
    m = make(1 - 1e-3)
    P = sparse.csr_array(m.T[:: m.n_actions])
    R = np.ascontiguousarray(m.R[:, 0])
    chain = MarkovChain(P, m.gamma)
    assert chain.has_band == (make is random_walk_with_an_end)
    V, _ = chain.values(R, np.zeros(m.n_states))
    assert np.abs(R + m.gamma * (P @ V) - V).max() <= 1e-7


def test_states_with_many_neighbours_do_not_prevent_a_factorisation():
    """A chain in which every state may return to the first one."""
    states = np.arange(N_STATES)
    step = sparse.csr_array((np.full(N_STATES, 0.9), (states, (states + 1) % N_STATES)))
    back = sparse.csr_array((np.full(N_STATES, 0.1), (states, 0 * states)), step.shape)
    assert MarkovChain(sparse.csr_array(step + back), 0.999).has_band


def test_solve_that_needs_too_much_work_raises_not_converged_with_the_error_reached(monkeypatch):
    monkeypatch.setattr(policy_iteration, "MAX_SWEEPS", 50)
    monkeypatch.setattr(policy_iteration, "MAX_TRANSITIONS", 0)
    monkeypatch.setattr(linear, "MAX_OPERATIONS", 0)
    with pytest.raises(hl.errors.NotConverged, match="sweeps reached an error of"):
        hl.solve(random_walk_with_an_end(1 - 1e-7))


def test_grid_without_a_narrow_band_is_solved_by_few_sweeps():
    """The estimate increases until values have reached all cells, which must not mislead."""
    cells = ["." * 159 + "G", *["." * 160] * 159]
    m = grid_world(cells, gamma=0.999, slip=0.05, slip_to="sides")
    iteration = PolicyIteration(_problem(m))
    iteration.run_until(1e-3)
    assert iteration.estimate <= 1e-3
    assert iteration.work < 1000
