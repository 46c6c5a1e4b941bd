"""Sweeps of Bellman operators over all states.

`improve*` take the maximum over actions, `follow*` the action of a policy. The plain forms read one
array and write another, so that the change of a sweep bounds the error (MacQueen's bounds). In
place, they use each new value at once, so that values propagate along a whole path in one sweep.
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
