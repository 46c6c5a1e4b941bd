"""Models drawn from a posterior: the visits that it rests on, and the values of a drawn model.

A pair k has the slots `start[k]:start[k + 1]`, one for each outcome: `states` has the successor, or
S for ⊥. The array of values has an entry for ⊥ at its end, which is 0.
"""

import numpy as np

from heirloom.kernels import njit

EVALUATIONS = 8  # sweeps with the best actions after each sweep with all
ROUNDS = 100  # of such sweeps; then sweeps with all actions only, which surely converge


@njit(cache=True, error_model="numpy")
def add_visits(pairs, slots, times, rewards, excess, lo, hi, shapes, n, R, squares):
    """Add the visits of each entry of a learned model to the slot of its outcome and to its pair.

    Writes for each pair its visits `n`, its mean reward `R`, and the sum of squared differences
    from it. Of the rewards of an outcome that vary, the model has only the mean m; their variance
    counts as (m - lo) (hi - m), which is the largest one of rewards in [lo, hi].
    """
    n[:], R[:], squares[:] = 0.0, 0.0, 0.0
    for i in range(pairs.size):
        k, m = pairs[i], times[i]
        if m == 0:
            continue
        mean = rewards[i] + (excess[i, 0] + excess[i, 1]) / m
        shapes[slots[i]] += m
        n[k] += m
        difference = mean - R[k]
        R[k] += difference * (m / n[k])
        squares[k] += m * difference * difference * (1.0 - m / n[k])
        if excess[i, 0] != 0.0 or excess[i, 1] != 0.0:
            squares[k] += m * max(0.0, (mean - lo) * (hi - mean))


@njit(cache=True, error_model="numpy")
def set_rows(start, states, weights, shapes, fixed, gamma, n_actions, p, gain):
    """Set p to γ times the weights of each row, divided by their sum; to 0 where `fixed`.

    If all weights of a row are too small for a number, it gets its mean, from `shapes`. `gain[k]`
    is 1 / (1 - p of staying in the state).
    """
    for k in range(start.size - 1):
        first, last, total, own = start[k], start[k + 1], 0.0, 0.0
        for j in range(first, last):
            total += weights[j]
        if total == 0.0:
            for j in range(first, last):
                weights[j] = shapes[j]
                total += shapes[j]
        scale = 0.0 if fixed[k] or total == 0.0 else gamma / total
        for j in range(first, last):
            p[j] = scale * weights[j]
            if states[j] == k // n_actions:
                own += p[j]
        gain[k] = 1.0 / (1.0 - min(own, gamma))


@njit(cache=True, error_model="numpy")
def solve(start, states, p, gain, R, gamma, v_max, tol, budget, rounds, Q, V, policy):
    """Bring Q to the fixed point of Q = min(v_max, R + p V), V = max_a Q, up to an error of `tol`.

    A sweep replaces the value of each state, in place, by the best one if its other values were
    right: V + max_a (Q - V) gain, at most v_max. This is a contraction by γ in the maximum norm, so
    that Q and V are within γ / (1-γ) times the largest change of their fixed points. Between such
    sweeps there are some with the best actions only. Pairs with Q = -infinity do not exist.

    `rounds` is 0. Returns -1 when it is done; or another number of rounds, with which the next call
    continues, after about `budget` units of work.
    """
    n_states = V.size - 1
    n_actions, factor, work = Q.size // n_states, gamma / (1.0 - gamma), 0
    while work < budget:
        largest = 0.0
        for s in range(n_states):
            best, before = -np.inf, V[s]
            for k in range(s * n_actions, (s + 1) * n_actions):
                if Q[k] == -np.inf:
                    continue
                q = R[k]
                for j in range(start[k], start[k + 1]):
                    q += p[j] * V[states[j]]
                Q[k] = min(q, v_max)
                change = (q - before) * gain[k]
                if change > best:
                    best, policy[s] = change, k
            V[s] = min(before + best, v_max)
            largest = max(largest, abs(V[s] - before))
        work += p.size + Q.size
        if factor * largest <= tol:
            return -1
        rounds += 1
        for sweep in range(EVALUATIONS if rounds < ROUNDS else 0):
            largest = 0.0
            for i in range(n_states):
                s = i if sweep % 2 else n_states - 1 - i
                k = policy[s]
                change = R[k] - V[s]
                for j in range(start[k], start[k + 1]):
                    change += p[j] * V[states[j]]
                V[s] = min(V[s] + change * gain[k], v_max)
                largest = max(largest, abs(change))
            work += 2 * n_states
            if factor * largest <= tol / 2:
                break
    return rounds
