"""Lower confidence bounds on a mean by betting, valid at all times at once.

Each of the numbers y_1, y_2, ... in [0, 1] has a mean of at most μ, given those before it. Against
the hypothesis that the mean is m, a gambler bets the same fraction b of the capital on every y:

    K_t(m) = Σ_b w_b Π_{i <= t} (1 - b + b y_i / m),    Σ w_b = 1,  0 <= b <= 1.

This is Π (1 + λ_i (y_i - m)) with predictable λ_i in [0, 1 / m]: the mean of b / m, weighted by the
capital of each b before y_i. If m >= μ, no factor increases the expected capital, and none is
negative, so K is a supermartingale that starts at 1: it ever reaches 1 / ε with probability ε at
most (Ville, 1939). No factor increases with m. So if the capital against any m has ever reached
1 / ε, that against all smaller numbers has, and m > μ only with probability ε: every such m is a
lower bound, also the largest one of all times and all m that were tried.

Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting" (2024), have the
method; a mixture over b adapts to the variance as Cover's universal portfolio does.
"""

import math

import numpy as np

from heirloom.kernels import njit

FRACTIONS = np.array([1.0, 0.75] + [2.0**-i for i in range(1, 10)])
# Large fractions win if there are few numbers, or if they vary little: there a bound is useful.
WEIGHTS = 1.0 / np.arange(1, FRACTIONS.size + 1)
WEIGHTS /= WEIGHTS.sum() * (1 + 1e-12)  # at most 1 together, whatever rounding does
HALVINGS = 24  # of the interval of m
ROUNDING = 1e-6  # added to ln(1 / ε), above the rounding error of a billion factors
LARGEST_LOG = 600.0  # of 1 / ε: capital does not overflow before it reaches it
BANKRUPT = 1e-200  # below this, capital is given up, because it could be rounded up


@njit(cache=True)
def is_refuted(y, m, threshold, capital):
    """Return whether the capital against the mean m > 0 ever reaches `threshold`."""
    capital[:] = WEIGHTS
    for i in range(y.size):
        ratio, total = y[i] / m, 0.0
        for j in range(capital.size):
            b = FRACTIONS[j]
            grown = capital[j] * ((1.0 - b) + b * ratio)
            capital[j] = 0.0 if grown < BANKRUPT else grown
            total += capital[j]
        if total >= threshold:
            return True
    return False


@njit(cache=True)
def lower_mean(y, log_inverse):
    """Return a lower bound on the mean of y, numbers in [0, 1]; `log_inverse` is ln(1 / ε)."""
    if log_inverse > LARGEST_LOG:
        return 0.0
    threshold = math.exp(log_inverse + ROUNDING)
    capital = WEIGHTS.copy()
    low, high = 0.0, 1.0
    for _ in range(HALVINGS):
        m = 0.5 * (low + high)
        if is_refuted(y, m, threshold, capital):
            low = m
        else:
            high = m
    return low
