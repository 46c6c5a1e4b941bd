"""Generalised minimal residuals (Saad and Schultz, 1986), for the values of a Markov chain.

Sums are computed in a fixed order, so that results do not depend on the number of threads.
"""

import numpy as np

from heirloom.kernels import njit


@njit(cache=True)
def reduce_residual(R, indptr, successors, p, gamma, V, basis):
    """Change V so that it reduces the residual R + γ P V - V in the 2-norm.

    One cycle of as many steps as `basis`, of shape (steps + 1, S), has room for. Returns the norms
    of the residual before and after the cycle, the latter as the recurrence estimates it.
    """
    steps = basis.shape[0] - 1
    _follow(R, indptr, successors, p, gamma, V, basis[0])
    before = np.sqrt(_dot(basis[0], basis[0]))
    if before == 0.0 or not np.isfinite(before):
        return before, before
    basis[0] /= before
    H, cosines, sines = np.zeros((steps + 1, steps)), np.zeros(steps), np.zeros(steps)
    rest = np.zeros(steps + 1)
    rest[0] = before
    zero = np.zeros(R.size)
    done = 0
    for j in range(steps):
        w = basis[j + 1]
        _follow(zero, indptr, successors, p, gamma, basis[j], w)  # γ P v - v
        for s in range(w.size):
            w[s] = -w[s]
        for i in range(j + 1):
            H[i, j] = _dot(w, basis[i])
            for s in range(w.size):
                w[s] -= H[i, j] * basis[i, s]
        H[j + 1, j] = np.sqrt(_dot(w, w))
        breakdown = H[j + 1, j] <= 1e-14 * np.abs(H[: j + 1, j]).max()
        if not breakdown:
            w /= H[j + 1, j]
        for i in range(j):  # the rotations of earlier columns
            upper = cosines[i] * H[i, j] + sines[i] * H[i + 1, j]
            H[i + 1, j] = cosines[i] * H[i + 1, j] - sines[i] * H[i, j]
            H[i, j] = upper
        length = np.hypot(H[j, j], H[j + 1, j])
        if length == 0.0:
            break
        cosines[j], sines[j] = H[j, j] / length, H[j + 1, j] / length
        H[j, j], H[j + 1, j] = length, 0.0
        rest[j + 1] = -sines[j] * rest[j]
        rest[j] *= cosines[j]
        done = j + 1
        if breakdown or abs(rest[j + 1]) <= 1e-15 * before:
            break
    for j in range(done - 1, -1, -1):
        for i in range(j + 1, done):
            rest[j] -= H[j, i] * rest[i]
        rest[j] /= H[j, j]
    after = abs(rest[done])
    for j in range(done):
        for s in range(V.size):
            V[s] += rest[j] * basis[j, s]
    return before, after


@njit(cache=True)
def _follow(R, indptr, successors, p, gamma, V, out):
    """Set out <- R + γ P V - V."""
    for s in range(V.size):
        expected = 0.0
        for j in range(indptr[s], indptr[s + 1]):
            expected += p[j] * V[successors[j]]
        out[s] = R[s] + gamma * expected - V[s]


@njit(cache=True)
def _dot(x, y):
    total = 0.0
    for s in range(x.size):
        total += x[s] * y[s]
    return total
