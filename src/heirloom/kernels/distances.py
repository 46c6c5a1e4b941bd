"""Distances between the models of two tasks, row by row.

For partly known models, with weights W ≥ 0 of outcomes and B = ε (1 + γ max W), D is the minimum of
the following expressions that apply (Proposition 3, corrected):

    both known      |R - R̄| + γ Σ W |T - T̄| + 2B
    one known       max(R - lo, hi - R) + γ (Σ T W + max_j W(j) (1 - 2 T(j))) + B
    always          hi - lo + γ (the sum of the two largest of W)

"""

from typing import Any, NamedTuple

import numpy as np

from heirloom.kernels import njit


class Parameters(NamedTuple):
    """Parameters of the distance that are the same for all pairs.

    `W_end` is the weight of termination, which is a possible outcome only if `terminating`. Rewards
    lie in [lo, hi], `gamma` is the discount factor, and `epsilon` the accuracy of known models.
    """

    W_end: Any
    terminating: Any
    lo: Any
    hi: Any
    gamma: Any
    epsilon: Any


class PlainRows(NamedTuple):
    """Rows of a model: rewards R, probabilities of termination `ends`, and successors.

    Row j has `successors[first[j]:last[j]]`, in increasing order, with probabilities `p`.
    """

    R: Any
    ends: Any
    first: Any
    last: Any
    successors: Any
    p: Any


@njit(cache=True)
def weigh_differences(indptr, successors, p, indptr_bar, successors_bar, p_bar, f, D):
    """Set D[k] <- sum_s' f[s'] |T[k, s'] - T_bar[k, s']| for all rows k of two models."""
    for k in range(D.size):
        D[k] = weighted_l1(
            indptr[k],
            indptr[k + 1],
            successors,
            p,
            indptr_bar[k],
            indptr_bar[k + 1],
            successors_bar,
            p_bar,
            f,
        )


@njit(cache=True)
def weighted_l1(i, end, successors, p, j, end_bar, successors_bar, p_bar, f):
    """Return sum_s' f[s'] |T[s'] - T_bar[s']| of two rows with successors in increasing order."""
    total = 0.0
    while i < end and j < end_bar:
        s, s_bar = successors[i], successors_bar[j]
        if s == s_bar:
            total += f[s] * abs(p[i] - p_bar[j])
            i += 1
            j += 1
        elif s < s_bar:
            total += f[s] * p[i]
            i += 1
        else:
            total += f[s_bar] * p_bar[j]
            j += 1
    for k in range(i, end):
        total += f[successors[k]] * p[k]
    for k in range(j, end_bar):
        total += f[successors_bar[k]] * p_bar[k]
    return total


@njit(cache=True)
def bound_differences(pairs, m, m_bar, W, heaviest, parameters, D):
    """Set D[i] <- an upper bound on |R - R_bar| + gamma * sum_s' W[s'] |T - T_bar| at pairs[i].

    An unknown model may be any model. So its largest distance from a known one is attained with all
    probability on one outcome, and that of two unknown models with one of the two heaviest outcomes
    each. `heaviest` lists states by decreasing weight: more than the longest row has, or all.
    """
    rows = PlainRows(m.R, m.ends, m.first, m.last, m.successors, m.p)
    rows_bar = PlainRows(m_bar.R, m_bar.ends, m_bar.first, m_bar.last, m_bar.successors, m_bar.p)
    known, known_bar, parameters = m.known, m_bar.known, Parameters(*parameters)
    for i in range(pairs.size):
        k = pairs[i]
        j, j_bar = k if known[k] else -1, k if known_bar[k] else -1
        D[i] = bound_difference(rows, j, rows_bar, j_bar, W, heaviest, parameters)


@njit(cache=True)
def bound_difference(rows, j, rows_bar, j_bar, W, heaviest, parameters):
    """Return D of `bound_differences` for row j of a model and j_bar of another; -1 is unknown."""
    lo, hi, gamma = parameters.lo, parameters.hi, parameters.gamma
    most, second = two_largest(W, heaviest, parameters)
    B = parameters.epsilon * (1.0 + gamma * most)
    bound = hi - lo + gamma * (most + second)
    if j >= 0:
        farthest = _largest_l1(rows, j, W, heaviest, parameters)
        bound = min(bound, max(rows.R[j] - lo, hi - rows.R[j]) + gamma * farthest + B)
    if j_bar >= 0:
        farthest = _largest_l1(rows_bar, j_bar, W, heaviest, parameters)
        R_bar = rows_bar.R[j_bar]
        bound = min(bound, max(R_bar - lo, hi - R_bar) + gamma * farthest + B)
    if j >= 0 and j_bar >= 0:
        l1 = weighted_l1(
            rows.first[j],
            rows.last[j],
            rows.successors,
            rows.p,
            rows_bar.first[j_bar],
            rows_bar.last[j_bar],
            rows_bar.successors,
            rows_bar.p,
            W,
        )
        l1 = parameters.W_end * abs(rows.ends[j] - rows_bar.ends[j_bar]) + l1
        bound = min(bound, abs(rows.R[j] - rows_bar.R[j_bar]) + gamma * l1 + 2.0 * B)
    return bound


@njit(cache=True)
def two_largest(W, heaviest, parameters):
    """Return the two largest weights of outcomes; if there is only one outcome, their sum is 0."""
    most = W[heaviest[0]]
    second = W[heaviest[1]] if heaviest.size > 1 else 0.0
    if parameters.terminating:
        second = max(second, min(most, parameters.W_end))
        most = max(most, parameters.W_end)
    elif heaviest.size == 1:
        second = -most  # there is only one outcome, so all models are equal
    return most, second


@njit(cache=True)
def _largest_l1(rows, j, W, heaviest, parameters):
    """Return max_t sum_s' W |T - t| = sum_s' T W + max_x W[x] (1 - 2 T[x]), where T is row j.

    The outcomes x are the states and, if tasks may terminate, termination.
    """
    first, last, successors, p = rows.first[j], rows.last[j], rows.successors, rows.p
    end = rows.ends[j]
    expected = end * parameters.W_end
    largest_term = parameters.W_end * (1.0 - 2.0 * end) if parameters.terminating else -np.inf
    for t in range(first, last):
        w = W[successors[t]]
        expected += p[t] * w
        largest_term = max(largest_term, w * (1.0 - 2.0 * p[t]))
    for s in heaviest:
        position = first + np.searchsorted(successors[first:last], s)
        if position == last or successors[position] != s:
            largest_term = max(largest_term, W[s])
            break
    return expected + largest_term


@njit(cache=True)
def lower_dissimilarity(m, D, gamma, epsilon, slack, d, d_state, max_sweeps):
    """Lower d[k] and d_state[s] = max_a d[s, a] towards the fixed point, from above.

    Stops after a sweep that lowered no entry by more than `slack`; d is then above the fixed point
    by at most gamma / (1 - gamma) * slack. Returns the largest d, and whether it stopped this way
    within `max_sweeps`.
    """
    known, ends, first, last = m.known, m.ends, m.first, m.last
    successors, p = m.successors, m.p
    n_actions = d.size // d_state.size
    largest = min(d_state.max(), D.max() / (1.0 - gamma))
    for _ in range(max_sweeps):
        decrease = 0.0
        highest = 0.0
        for s in range(d_state.size):
            top = 0.0
            for k in range(s * n_actions, (s + 1) * n_actions):
                next_d = largest
                if known[k]:
                    next_d = worst_case_mean(
                        first[k], last[k], successors, p, ends[k], d_state, largest, epsilon
                    )
                value = D[k] + gamma * next_d
                if value < d[k]:
                    decrease = max(decrease, d[k] - value)
                    d[k] = value
                top = max(top, d[k])
            d_state[s] = min(d_state[s], top)
            highest = max(highest, d_state[s])
        largest = min(largest, highest)
        if decrease <= slack:
            return largest, True
    return largest, False


@njit(cache=True)
def worst_case_mean(first, last, successors, p, end, d_state, largest, epsilon):
    """Return max_T sum_s' T d_state over the distributions T within epsilon of `p` in L1 norm.

    Probability mass of up to epsilon / 2 moves from the outcomes with the smallest values to the
    one with the largest. Termination has value 0, so its mass moves first.
    """
    expected = 0.0
    for j in range(first, last):
        expected += p[j] * d_state[successors[j]]
    budget = 0.5 * epsilon
    moved = min(budget, end)
    expected += moved * largest
    budget -= moved
    previous, previous_j = -1.0, -1
    while budget > 0.0:
        least, least_j = np.inf, -1
        for j in range(first, last):
            value = d_state[successors[j]]
            remains = value > previous or (value == previous and j > previous_j)
            if remains and value < least:
                least, least_j = value, j
        if least_j < 0 or least >= largest:
            break
        moved = min(budget, p[least_j])
        expected += moved * (largest - least)
        budget -= moved
        previous, previous_j = least, least_j
    return expected
