"""Sweeps of Bellman operators over all states, and a Krylov method for the values of a policy.

`improve*` take the maximum over actions, `follow*` the action of a policy. The plain forms read one
array and write another, so that the change of a sweep bounds the error (MacQueen's bounds). In
place, they use each new value at once, so that values propagate along a whole path in one sweep.
Sums are computed in a fixed order, so that results do not depend on the number of threads.
"""

import numpy as np

from heirloom.kernels import inlined, njit

FORWARDS, BACKWARDS = False, True


@inlined
def _expected(indptr, successors, p, k, V):
    """Return sum_s' T[k, s'] V[s']."""
    expected = 0.0
    for j in range(indptr[k], indptr[k + 1]):
        expected += p[j] * V[successors[j]]
    return expected


@njit(cache=True)
def improve(R, indptr, successors, p, gamma, V, V_new, policy, backwards):
    """Set V_new[s] <- max_a R[s, a] + gamma * sum_s' T[s, a, s'] V[s'], and `policy` to the argmax.

    States are visited one after the other, or `backwards`; V_new may be V, to use new values at
    once. Returns the smallest and the largest change, min_s and max_s of V_new - V.
    """
    n_states = V.size
    n_actions = R.size // n_states
    lowest, highest = np.inf, -np.inf
    for i in range(n_states):
        s = n_states - 1 - i if backwards else i
        best, best_action = -np.inf, 0
        for a in range(n_actions):
            k = s * n_actions + a
            q = R[k] + gamma * _expected(indptr, successors, p, k, V)
            if q > best:
                best, best_action = q, a
        change = best - V[s]
        V_new[s] = best
        policy[s] = best_action
        lowest = min(lowest, change)
        highest = max(highest, change)
    return lowest, highest


@njit(cache=True)
def improve_among(states, R, indptr, successors, p, gamma, V, V_new, q):
    """Set q[k] <- R[k] + gamma * sum_s' T[k, s'] V[s'], and V_new[s] <- max_k q[k] over pairs of s.

    The pairs k of state s are those with states[k] = s: one or more, next to each other. Returns
    the smallest and the largest change, as `improve` does. There is a single loop over pairs and no
    loop over the pairs of a state, because their number varies and mispredicted branches are slow.
    """
    best, last = -np.inf, -1
    for k in range(R.size):
        q[k] = R[k] + gamma * _expected(indptr, successors, p, k, V)
        best = max(q[k], best if states[k] == last else -np.inf)
        last = states[k]
        V_new[last] = best
    lowest, highest = np.inf, -np.inf
    for s in range(V.size):
        change = V_new[s] - V[s]
        lowest = min(lowest, change)
        highest = max(highest, change)
    return lowest, highest


@njit(cache=True)
def count_near(states, q, V, gap):
    """Count the pairs k with q[k] >= V[states[k]] - gap."""
    count = 0
    for k in range(states.size):
        count += q[k] >= V[states[k]] - gap
    return count


@njit(cache=True)
def find_near(states, q, V, gap, near):
    """Write the pairs that `count_near` counts to `near`, in order.

    `near` needs one entry more than there are such pairs; the last entry is arbitrary.
    """
    count = 0
    for k in range(states.size):
        near[count] = k
        count += q[k] >= V[states[k]] - gap


@njit(cache=True)
def copy_rows(indptr, successors, p, pairs, new_indptr, new_successors, new_p):
    """Copy row pairs[i] to row i of the new arrays; `new_indptr` is already filled in."""
    for i in range(pairs.size):
        offset = indptr[pairs[i]] - new_indptr[i]
        for j in range(new_indptr[i], new_indptr[i + 1]):
            new_successors[j] = successors[j + offset]
            new_p[j] = p[j + offset]


@njit(cache=True)
def follow(R, indptr, successors, p, gamma, policy, V, V_new):
    """Set V_new[s] <- R[s, policy[s]] + gamma * sum_s' T[s, policy[s], s'] V[s'].

    Returns the smallest and the largest change, as `improve` does.
    """
    n_actions = R.size // V.size
    lowest, highest = np.inf, -np.inf
    for s in range(V.size):
        k = s * n_actions + policy[s]
        V_new[s] = R[k] + gamma * _expected(indptr, successors, p, k, V)
        change = V_new[s] - V[s]
        lowest = min(lowest, change)
        highest = max(highest, change)
    return lowest, highest


@njit(cache=True)
def follow_in_place(R, indptr, successors, p, gamma, policy, V, backwards):
    """Update V as `follow` does, one state after the other; self-transitions are solved exactly."""
    n_states = V.size
    n_actions = R.size // n_states
    for i in range(n_states):
        s = n_states - 1 - i if backwards else i
        k = s * n_actions + policy[s]
        expected, loop = 0.0, 0.0
        for j in range(indptr[k], indptr[k + 1]):
            if successors[j] == s:
                loop += p[j]
            else:
                expected += p[j] * V[successors[j]]
        V[s] = (R[k] + gamma * expected) / (1.0 - gamma * loop)


@njit(cache=True)
def maximise(Q, V, policy):
    """Set V[s] <- max_a Q[s, a], and `policy` to the first action that attains it."""
    n_actions = Q.size // V.size
    for s in range(V.size):
        best, best_action = Q[s * n_actions], 0
        for a in range(1, n_actions):
            if Q[s * n_actions + a] > best:
                best, best_action = Q[s * n_actions + a], a
        V[s] = best
        policy[s] = best_action


@njit(cache=True)
def back_up(R, indptr, successors, p, gamma, V, Q, sums):
    """Set Q[k] <- R[k] + gamma * sum_s' T[k, s'] V[s'], and sums[k] <- sum_s' T[k, s'].

    Sums are compensated, so that their error is a few roundings for any number of successors, as
    certificates need.
    """
    for k in range(R.size):
        expected, lost = 0.0, 0.0
        mass, lost_mass = 0.0, 0.0
        for j in range(indptr[k], indptr[k + 1]):
            term = p[j] * V[successors[j]]
            total = expected + term
            if abs(expected) >= abs(term):
                lost += (expected - total) + term
            else:
                lost += (term - total) + expected
            expected = total
            total = mass + p[j]
            if mass >= p[j]:
                lost_mass += (mass - total) + p[j]
            else:
                lost_mass += (p[j] - total) + mass
            mass = total
        sums[k] = mass + lost_mass
        Q[k] = R[k] + gamma * (expected + lost)


@njit(cache=True)
def reduce_residual(R, indptr, successors, p, gamma, V, basis):
    """Change V so that it reduces the residual R + γ P V - V in the 2-norm.

    It is the method of generalised minimal residuals (Saad and Schultz, 1986). One cycle of as many
    steps as `basis`, of shape (steps + 1, S), has room for. Returns the norms of the residual
    before and after the cycle, the latter as the recurrence estimates it.
    """
    steps = basis.shape[0] - 1
    _residual(R, indptr, successors, p, gamma, V, basis[0])
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
        _residual(zero, indptr, successors, p, gamma, basis[j], w)  # γ P v - v
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
def _residual(R, indptr, successors, p, gamma, V, out):
    """Set out <- R + γ P V - V."""
    for s in range(V.size):
        out[s] = R[s] + gamma * _expected(indptr, successors, p, s, V) - V[s]


@njit(cache=True)
def _dot(x, y):
    total = 0.0
    for s in range(x.size):
        total += x[s] * y[s]
    return total
