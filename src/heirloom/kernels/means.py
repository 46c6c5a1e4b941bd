"""Weighted means with twice the precision of float64."""

import numpy as np

from heirloom.kernels import njit
from heirloom.kernels.counting import two_product, two_sum

ROUNDOFF = 2.0**-53
UNDERFLOW = 2.0**-1020  # far above the error of a product of two numbers that underflows


@njit(cache=True, error_model="numpy")
def weigh(weights, x, x_low, indptr, mean, low, error, excess):
    """Set mean + low <- sum_j w_j (x_j + x_low_j) / sum_j w_j for each row, within `error`.

    `mean` is the result rounded to float64, clipped to the x of its row; `low` is the remainder.
    `excess` is sum_j w_j - 1. Weights are positive, |x_low| is at most ulp(x) / 2, and an empty
    `x_low` stands for zeros.

    The error bound, with u = 2^-53, n terms in the row and M = sum_j w_j |x_j| / sum_j w_j: sums
    are those of Ogita, Rump and Oishi (2005, Dot2). Products and sums are split into a float64
    number and an exact remainder (Dekker, Knuth). With the sum of the remainders, each sum is known
    up to 2 (n+2)² u² of the sum of its absolute terms, and the remainders add up to at most
    1.2 (n+2) u of it. Therefore the quotient q of the leading parts is off by at most 4 (n+2) u M,
    and its correction by (numerator - q · denominator) / denominator, in float64, leaves an error
    of at most 21 (n+2)² u² M. The factor 32 also covers the rounding of M, the second-order terms
    of `excess`, and sums of the bound with `low` and with mean · excess.
    """
    has_low = x_low.size > 0
    for k in range(mean.size):
        total, lost = 0.0, 0.0
        mass, lost_mass = 0.0, 0.0
        size = 0.0
        lowest, highest = np.inf, -np.inf
        for j in range(indptr[k], indptr[k + 1]):
            w, term = weights[j], x[j]
            lowest, highest = min(lowest, term), max(highest, term)
            product, rest = two_product(w, term)
            size += abs(product)
            if has_low:
                rest += w * x_low[j]
            total, remainder = two_sum(total, product)
            lost += remainder + rest
            mass, remainder = two_sum(mass, w)
            lost_mass += remainder
        q = total / mass
        product, rest = two_product(q, mass)
        correction = (((total - product) - rest) + lost - q * lost_mass) / mass
        result, low[k] = two_sum(q, correction)
        mean[k] = min(max(result, lowest), highest)
        excess[k] = (mass - 1.0) + lost_mass
        n = indptr[k + 1] - indptr[k] + 2
        bound = (32 * (n * ROUNDOFF) ** 2 * size + n * UNDERFLOW) / mass
        error[k] = bound + abs(result - mean[k])
