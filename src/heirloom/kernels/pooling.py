"""The evidence of all tasks together that the means of a pair lie further apart than claimed."""

import math

import numpy as np

from heirloom.kernels import njit

STEPS = 60  # of the bisection, after which the interval is exact up to rounding


@njit(cache=True)
def digit_frequencies(first, last, ends, successors, p, n_states, X):
    """Set X[d, i] to the probability that the outcome of row i has the binary digit d.

    Outcomes are states, and ⊥ with the number `n_states`.
    """
    X[:] = 0.0
    for i in range(first.size):
        for j in range(first[i], last[i]):
            for digit in range(X.shape[0]):
                if (successors[j] >> digit) & 1:
                    X[digit, i] += p[j]
        for digit in range(X.shape[0]):
            if (n_states >> digit) & 1:
                X[digit, i] += ends[i]


@njit(cache=True)
def pair_evidence(start, n, X, claim, left_out, rates, width, from_above, log_E):
    """Set log_E[l, k] to a lower bound on ln min_b Π_j F_j(b), for each rate λ_l and pair k.

        F_j(b) = exp(-n_j (λ r / 2 + λ² c / 8)) cosh(λ n_j (X_j - b)),    c = width²

    Rows `start[k]:start[k + 1]` have the means `X` of `n` visits in different tasks. `claim[k]` is
    r, and `left_out[k]` counts visits that are in no row: their factor is at least
    exp(-λ r / 2 - λ² c / 8) for each.

    ln Π cosh is convex in b. So its minimum is at least its value at any b, less the derivative
    there times the width of the range in which the minimum lies. If `from_above`, log_E is set to
    the value at the mean of all visits instead, which is an upper bound and takes less time.
    """
    for k in range(start.size - 1):
        first, end = start[k], start[k + 1]
        visits = left_out[k]
        low, high, total = np.inf, -np.inf, 0.0
        for i in range(first, end):
            visits += n[i]
            total += n[i] * X[i]
            low, high = min(low, X[i]), max(high, X[i])
        spread, stored = 0.0, visits - left_out[k]
        if stored > 0:
            for i in range(first, end):
                spread += n[i] * abs(X[i] - total / stored)
        for which in range(rates.size):
            rate = rates[which] / width
            cost = visits * (rate * claim[k] / 2 + rate * rate * width * width / 8)
            log_E[which, k] = -cost
            # The minimum is at most the value at the mean, and ln cosh x is at most |x|.
            if rate * spread > cost:
                if from_above:
                    log_E[which, k] += _value(n, X, first, end, rate, total / stored)
                else:
                    log_E[which, k] += _least(n[first:end], X[first:end], rate, low, high)


@njit(cache=True)
def _value(n, X, first, end, rate, b):
    """Return Σ_j ln cosh(λ n_j (X_j - b))."""
    value = 0.0
    for j in range(first, end):
        x = abs(rate * n[j] * (X[j] - b))
        value += x + math.log1p(math.exp(-2 * x)) - math.log(2.0)
    return value


@njit(cache=True)
def _least(n, X, rate, low, high):
    """Return a lower bound on the minimum of Σ_j ln cosh(λ n_j (X_j - b)) over all b."""
    left, right = low, high
    for _ in range(STEPS):
        middle = (left + right) / 2
        slope = 0.0
        for j in range(n.size):
            slope -= n[j] * math.tanh(rate * n[j] * (X[j] - middle))
        if slope < 0.0:
            left = middle
        else:
            right = middle
        if right - left <= 1e-12 * (high - low):
            break
    b, slope = (left + right) / 2, 0.0
    for j in range(n.size):
        slope -= rate * n[j] * math.tanh(rate * n[j] * (X[j] - b))
    return max(0.0, _value(n, X, 0, n.size, rate, b) - abs(slope) * (right - left))
