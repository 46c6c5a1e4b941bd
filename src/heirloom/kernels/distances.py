"""Distances between the models of two tasks, row by row."""

import numpy as np
from numba import njit


@njit(cache=True)
def weigh_differences(indptr, successors, p, indptr_bar, successors_bar, p_bar, f, D):
    """D[k] <- sum_s' f[s'] |T[k, s'] - T_bar[k, s']|, over the rows of two models."""
    for k in range(D.size):
        D[k] = _apart(
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
def _apart(i, end, successors, p, j, end_bar, successors_bar, p_bar, f):
    """sum_s' f[s'] |T[s'] - T_bar[s']| of two rows, in which successors rise."""
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
def bound_differences(pairs, m, m_bar, W, W_end, sink, heaviest, lo, hi, gamma, epsilon, D):
    """D[i] <- an upper bound on |R - R_bar| + gamma * sum_s' W[s'] |T - T_bar| at pairs[i].

    Whatever is known of either model, with accuracy epsilon, is used: the least of the rows that
    apply. A model that is unknown may be any, so its distance from a known one is attained with all
    mass on one outcome, and that of two unknown ones on the two heaviest. The sink is an outcome if
    `sink`, and weighs `W_end`. `heaviest` lists states by falling weight, more than the longest
    row has, or all.
    """
    known, R, ends, first, last, successors, p = m
    known_bar, R_bar, ends_bar, first_bar, last_bar, successors_bar, p_bar = m_bar
    most = W[heaviest[0]]
    second = W[heaviest[1]] if heaviest.size > 1 else 0.0
    if sink:
        second = max(second, min(most, W_end))
        most = max(most, W_end)
    elif heaviest.size == 1:
        second = -most  # a single outcome: two models cannot differ
    off = epsilon * (1.0 + gamma * most)
    for i in range(pairs.size):
        k = pairs[i]
        bound = hi - lo + gamma * (most + second)
        if known[k]:
            far = _farthest(first[k], last[k], successors, p, ends[k], W, W_end, sink, heaviest)
            bound = min(bound, max(R[k] - lo, hi - R[k]) + gamma * far + off)
        if known_bar[k]:
            far = _farthest(
                first_bar[k],
                last_bar[k],
                successors_bar,
                p_bar,
                ends_bar[k],
                W,
                W_end,
                sink,
                heaviest,
            )
            bound = min(bound, max(R_bar[k] - lo, hi - R_bar[k]) + gamma * far + off)
        if known[k] and known_bar[k]:
            apart = W_end * abs(ends[k] - ends_bar[k]) + _apart(
                first[k],
                last[k],
                successors,
                p,
                first_bar[k],
                last_bar[k],
                successors_bar,
                p_bar,
                W,
            )
            bound = min(bound, abs(R[k] - R_bar[k]) + gamma * apart + 2.0 * off)
        D[i] = bound


@njit(cache=True)
def _farthest(first, last, successors, p, end, W, W_end, sink, heaviest):
    """max_t sum_s' W[s'] |T[s'] - t[s']| = sum_s' T W + max_j W[j] (1 - 2 T[j]), sink included."""
    expected = end * W_end
    far = W_end * (1.0 - 2.0 * end) if sink else -np.inf
    for j in range(first, last):
        w = W[successors[j]]
        expected += p[j] * w
        far = max(far, w * (1.0 - 2.0 * p[j]))
    for s in heaviest:
        if not _contains(successors, first, last, s):
            far = max(far, W[s])
            break
    return expected + far


@njit(cache=True)
def _contains(successors, first, last, s):
    """Whether s stands in successors[first:last], which rises."""
    while first < last:
        middle = (first + last) // 2
        if successors[middle] < s:
            first = middle + 1
        elif successors[middle] > s:
            last = middle
        else:
            return True
    return False


@njit(cache=True)
def lower_dissimilarity(m, D, gamma, epsilon, slack, d, worst):
    """Lower d[k] and worst[s] = max_a d[s, a] towards the fixed point, from above.

        d = D + gamma * max_T sum_s' T max_a' d   for T within epsilon of the model, where known
        d = D + gamma * max d                     where it is not

    Stops after a sweep that lowered nothing by more than `slack`; then d is above the fixed point
    by at most gamma / (1 - gamma) * slack. Returns the largest d.
    """
    known, _, ends, first, last, successors, p = m
    n_actions = d.size // worst.size
    largest = min(worst.max(), D.max() / (1.0 - gamma))
    while True:
        fall = 0.0
        highest = 0.0
        for s in range(worst.size):
            top = 0.0
            for k in range(s * n_actions, (s + 1) * n_actions):
                after = largest
                if known[k]:
                    after = _worst_case(
                        first[k], last[k], successors, p, ends[k], worst, largest, epsilon
                    )
                value = D[k] + gamma * after
                if value < d[k]:
                    fall = max(fall, d[k] - value)
                    d[k] = value
                top = max(top, d[k])
            worst[s] = min(worst[s], top)
            highest = max(highest, worst[s])
        largest = min(largest, highest)
        if fall <= slack:
            return largest


@njit(cache=True)
def _worst_case(first, last, successors, p, end, worst, largest, epsilon):
    """max_T sum_s' T worst over the distributions T within epsilon of `p` in L1 norm.

    Up to epsilon / 2 of mass moves from the outcomes with the least values to the largest one; the
    sink is worth nothing, so its mass moves first.
    """
    expected = 0.0
    for j in range(first, last):
        expected += p[j] * worst[successors[j]]
    left = 0.5 * epsilon
    moved = min(left, end)
    expected += moved * largest
    left -= moved
    below, taken = -1.0, -1
    while left > 0.0:
        least, at = np.inf, -1
        for j in range(first, last):
            value = worst[successors[j]]
            after = value > below or (value == below and j > taken)
            if after and value < least:
                least, at = value, j
        if at < 0 or least >= largest:
            break
        moved = min(left, p[at])
        expected += moved * (largest - least)
        left -= moved
        below, taken = least, at
    return expected
