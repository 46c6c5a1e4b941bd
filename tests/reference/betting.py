"""The capital of a gambler against a mean, in logarithms."""

import numpy as np
from scipy.special import logsumexp

from heirloom.kernels.betting import FRACTIONS, WEIGHTS


def log_capital(y, m):
    """ln K_t(m) after 1, 2, ... numbers y in [0, 1], by the formula."""
    with np.errstate(divide="ignore"):
        factors = np.log((1 - FRACTIONS) + FRACTIONS * (np.asarray(y)[:, None] / m))
    return logsumexp(np.cumsum(factors, axis=0) + np.log(WEIGHTS), axis=1)
