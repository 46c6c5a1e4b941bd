"""The iteration for the values of a Markov chain agrees with linear algebra."""

import numpy as np
import pytest
from scipy import sparse

from heirloom.kernels import values
from tests.strategies import seeds


def draw_chain(rng, n_states):
    """The rewards and transitions of a chain whose rows may sum to less than 1."""
    P = rng.random((n_states, n_states)) * (rng.random((n_states, n_states)) < 0.4)
    P /= np.maximum(P.sum(axis=1, keepdims=True), 1e-9)
    return rng.normal(size=n_states), P * rng.choice([0.5, 1.0], size=(n_states, 1))


def reduced(R, P, gamma, V, steps):
    """Values after one cycle, and the norms of residuals that it returns."""
    T, V, basis = sparse.csr_array(P), V.copy(), np.empty((steps + 1, R.size))
    norms = values.reduce_residual(R, T.indptr, T.indices, T.data, gamma, V, basis)
    return V, norms


def smallest_residual(R, P, gamma, V, steps):
    """The smallest residual over V + the Krylov space of `steps` dimensions, by least squares."""
    A = np.eye(R.size) - gamma * P
    r = R - A @ V
    powers = [r]
    for _ in range(steps - 1):
        powers.append(A @ powers[-1] / np.linalg.norm(A @ powers[-1]))
    space = np.linalg.qr(np.stack(powers, axis=1))[0]
    y = np.linalg.lstsq(A @ space, r, rcond=None)[0]
    return np.linalg.norm(r - A @ space @ y)


@pytest.mark.parametrize("gamma", [0.5, 0.99, 1 - 1e-6])
@pytest.mark.parametrize("seed", seeds(10))
def test_cycle_of_full_length_solves_the_equations(seed, gamma):
    rng = np.random.default_rng(seed)
    R, P = draw_chain(rng, int(rng.integers(1, 12)))
    exact = np.linalg.solve(np.eye(R.size) - gamma * P, R)
    V = rng.normal(size=R.size)
    for _ in range(2):  # the second cycle corrects the rounding of the first
        V, _ = reduced(R, P, gamma, V, R.size)
    np.testing.assert_allclose(V, exact, rtol=0, atol=1e-12 * np.abs(exact).max() / (1 - gamma))


@pytest.mark.parametrize("steps", [1, 2, 4])
@pytest.mark.parametrize("seed", seeds(10))
def test_short_cycle_minimises_the_residual_over_its_space(seed, steps):
    rng = np.random.default_rng(seed)
    R, P = draw_chain(rng, 12)
    V = rng.normal(size=R.size)
    found, (before, after) = reduced(R, P, 0.95, V, steps)
    assert before == pytest.approx(np.linalg.norm(R + 0.95 * P @ V - V))
    assert after == pytest.approx(np.linalg.norm(R + 0.95 * P @ found - found))
    assert after == pytest.approx(smallest_residual(R, P, 0.95, V, steps), rel=1e-6)


def test_exact_values_stay_as_they_are():
    V, norms = reduced(np.ones(3), np.zeros((3, 3)), 0.9, np.ones(3), 2)
    assert V.tolist() == [1.0, 1.0, 1.0]
    assert norms == (0.0, 0.0)
