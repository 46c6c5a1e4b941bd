"""Comparison of the learned models of many tasks, pair by pair, and lower bounds on their values.

The known rows of all tasks are ordered by pair: those of pair k are `start[k]:start[k + 1]`. Row i
belongs to the task with the index `source[i]`, has the mean reward `R[i]` and the successors
`successors[first[i]:last[i]]` with probabilities `p`, and terminates with probability `ends[i]`.
`eta[i]` and `tau[i]` are the radii of its mean reward and of its distribution, in total variation.
"""

from typing import Any, NamedTuple

import numpy as np

from heirloom.kernels import njit
from heirloom.kernels.distances import weighted_l1

SEEN, SURE, MOST = range(3)


class ComparedRows(NamedTuple):
    """The known rows of all tasks, ordered by pair."""

    start: Any
    source: Any
    R: Any
    ends: Any
    first: Any
    last: Any
    successors: Any
    p: Any
    eta: Any
    tau: Any


class Weights(NamedTuple):
    """Lower bounds `W` [task, state] on the weights of states, and the weight `W_end` of ⊥.

    `heaviest` is the largest weight of each task, and `top` the sum of its two largest ones.
    """

    W: Any
    W_end: Any
    heaviest: Any
    top: Any
    gamma: Any


@njit(cache=True)
def compare_transitions(rows, n_states, largest, tasks):
    """Compare the transitions of the rows i, j of each pair k, with the radii τ.

    Set `largest[SEEN, k]` <- max TV(T_i, T_j), `largest[SURE, k]` <- max TV(T_i, T_j) - τ_i - τ_j,
    at least 0, and `largest[MOST, k]` <- max TV(T_i, T_j) + τ_i + τ_j, which can be above 1.
    `tasks[SEEN, k]` and `tasks[SURE, k]` are the indices of the two tasks that attain them, or -1.
    """
    index = np.full(n_states, -1)
    source, tau = rows.source, rows.tau
    for k in range(rows.start.size - 1):
        first, end = rows.start[k], rows.start[k + 1]
        n = end - first
        if n < 2:
            continue
        table, mass = _table(rows, first, end, index)
        L1 = np.empty(n)
        seen, seen_i, seen_j = 0.0, -1, -1
        sure, sure_i, sure_j = 0.0, -1, -1
        for i in range(1, n):
            _distances(rows, first + i, index, table, mass, L1[:i])
            tau_i = tau[first + i]
            for j in range(i):
                tv = L1[j] / 2
                largest[MOST, k] = max(largest[MOST, k], tv + tau_i + tau[first + j])
                if tv > seen:
                    seen, seen_i, seen_j = tv, i, j
                if tv - tau_i - tau[first + j] > sure:
                    sure, sure_i, sure_j = tv - tau_i - tau[first + j], i, j
        if seen_i >= 0:
            largest[SEEN, k] = seen
            tasks[SEEN, k, 0], tasks[SEEN, k, 1] = source[first + seen_j], source[first + seen_i]
        if sure_i >= 0:
            largest[SURE, k] = sure
            tasks[SURE, k, 0], tasks[SURE, k, 1] = source[first + sure_j], source[first + sure_i]
        _clear(rows, first, end, index)


@njit(cache=True)
def compare_models(rows, weights, n_states, largest, tasks):
    """Set `largest[k]` to the largest lower bound on D between two tasks, at least 0.

    D of tasks i and j, weighed with the values of j, is at least

        (|R_i - R_j| - η_i - η_j)⁺ + γ (Σ W_j |T_i - T_j| - (τ_i + τ_j) top_j)⁺,

    because T_i and T_j may move mass τ_i + τ_j between two outcomes, at most. `tasks[k]` has the
    indices of i and of j.
    """
    index = np.full(n_states, -1)
    source, R, eta, tau = rows.source, rows.R, rows.eta, rows.tau
    for k in range(rows.start.size - 1):
        first, end = rows.start[k], rows.start[k + 1]
        n = end - first
        if n < 2:
            continue
        table, mass = _table(rows, first, end, index)
        L1 = np.empty(n)
        heaviest, top = weights.heaviest[source[first:end]], weights.top[source[first:end]]
        R_k, eta_k, tau_k = R[first:end], eta[first:end], tau[first:end]
        best, best_i, best_j = 0.0, -1, -1
        for i in range(1, n):
            _distances(rows, first + i, index, table, mass, L1[:i])
            for j in range(i):
                # Σ W |T_i - T_j| is at most L1 times the largest weight.
                most = max(heaviest[i], heaviest[j]) * L1[j]
                reward = max(abs(R_k[i] - R_k[j]) - eta_k[i] - eta_k[j], 0.0)
                if reward + weights.gamma * most <= best:
                    continue
                radius = tau_k[i] + tau_k[j]
                for row, other in ((i, j), (j, i)):
                    moved = heaviest[other] * L1[j] - radius * top[other]
                    if reward + weights.gamma * max(moved, 0.0) <= best:
                        continue
                    W = weights.W[source[first + other]]
                    total = _weighted(rows, first + row, first + other, W, weights.W_end)
                    lower = reward + weights.gamma * max(total - radius * top[other], 0.0)
                    if lower > best:
                        best, best_i, best_j = lower, row, other
        if best_i >= 0:
            largest[k] = best
            tasks[k, 0], tasks[k, 1] = source[first + best_i], source[first + best_j]
        _clear(rows, first, end, index)


@njit(cache=True)
def _table(rows, first, end, index):
    """Return the probabilities [outcome, row] of the rows of a pair, and the mass of each row.

    `index[s]` is set to the row of state s in the table; outcome 0 is ⊥.
    """
    row_first, row_last, successors, p = rows.first, rows.last, rows.successors, rows.p
    n_outcomes = 1
    for i in range(first, end):
        for j in range(row_first[i], row_last[i]):
            s = successors[j]
            if index[s] < 0:
                index[s] = n_outcomes
                n_outcomes += 1
    table, mass = np.zeros((n_outcomes, end - first)), np.empty(end - first)
    for i in range(first, end):
        table[0, i - first] = rows.ends[i]
        total = rows.ends[i]
        for j in range(row_first[i], row_last[i]):
            table[index[successors[j]], i - first] = p[j]
            total += p[j]
        mass[i - first] = total
    return table, mass


@njit(cache=True)
def _clear(rows, first, end, index):
    """Set `index` back to -1."""
    row_first, row_last, successors = rows.first, rows.last, rows.successors
    for i in range(first, end):
        for j in range(row_first[i], row_last[i]):
            index[successors[j]] = -1


@njit(cache=True)
def _distances(rows, i, index, table, mass, L1):
    """Set L1[j] <- Σ |T_i - T_j| for row i and the first rows j of its pair, over states and ⊥.

    Outcomes that row i does not have contribute the mass of row j on them.
    """
    successors, p, end, column = rows.successors, rows.p, rows.ends[i], table[0]
    for j in range(L1.size):
        L1[j] = mass[j] + (abs(end - column[j]) - column[j])
    for v in range(rows.first[i], rows.last[i]):
        probability, column = p[v], table[index[successors[v]]]
        for j in range(L1.size):
            L1[j] += abs(probability - column[j]) - column[j]


@njit(cache=True)
def _weighted(rows, i, j, W, W_end):
    """Return Σ W |T_i - T_j| of two rows, over the states and ⊥."""
    first, last, successors, p = rows.first, rows.last, rows.successors, rows.p
    inner = weighted_l1(first[i], last[i], successors, p, first[j], last[j], successors, p, W)
    return W_end * abs(rows.ends[i] - rows.ends[j]) + inner


@njit(cache=True)
def choose_different(rows_of, R, known, ends, first, last, successors, p, eta, tau, ones, chosen):
    """Mark in `chosen` tasks that are all proved to differ from each other, first ones first.

    Arrays are over tasks and pairs; the transitions of task i start at `rows_of[i]`. Tasks i and j
    differ if |R_i - R_j| > η_i + η_j or TV(T_i, T_j) > τ_i + τ_j at a pair known in both; the radii
    `eta` and `tau` are over tasks and pairs, and `ones` over states.
    """
    for i in range(R.shape[0]):
        chosen[i] = True
        for j in range(i):
            if chosen[j]:
                differ = False
                for k in range(R.shape[1]):
                    gap = abs(R[i, k] - R[j, k])
                    if known[i, k] and known[j, k] and gap > eta[i, k] + eta[j, k]:
                        differ = True
                        break
                for k in range(0 if differ else R.shape[1]):
                    limit = tau[i, k] + tau[j, k]
                    if not (known[i, k] and known[j, k] and limit < 1.0):
                        continue
                    inner = weighted_l1(
                        rows_of[i] + first[i, k],
                        rows_of[i] + last[i, k],
                        successors,
                        p,
                        rows_of[j] + first[j, k],
                        rows_of[j] + last[j, k],
                        successors,
                        p,
                        ones,
                    )
                    if abs(ends[i, k] - ends[j, k]) + inner > 2 * limit:
                        differ = True
                        break
                if not differ:
                    chosen[i] = False
                    break
