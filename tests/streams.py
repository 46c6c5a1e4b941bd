"""Streams of outcomes of one pair, and how often confidence sets fail to contain the truth.

A set fails in a stream if the truth is outside after any number of visits, so that no rule by which
a task ends, or by which somebody looks, can make it fail more often. The command measures more
streams than the tests do:

    python -m tests.streams 100000
"""

import math
import sys

import numpy as np

from heirloom.kernels.checking import fill_radii
from heirloom.kernels.confidence import ROUNDING, log_gamma_excess
from heirloom.transfer.radii import log_subsets

VISITS = 10_000
DELTAS = (0.5, 0.05)
CHUNK = 100  # streams at once
ROWS = {
    "even": (0.5, 0.5),
    "rare": (0.99, 0.01),
    "three": (0.6, 0.3, 0.1),
    "unseen": (0.7, 0.3, 0.0, 0.0),
}


def counts_of(row, streams, rng):
    """Return how often each outcome was seen after 1, 2, ... visits, [stream, visit, outcome]."""
    drawn = np.searchsorted(np.cumsum(row)[:-1], rng.random((streams, VISITS)), side="right")
    return (drawn[:, :, None] == np.arange(len(row))).cumsum(axis=1)


def radii_of(n_outcomes, epsilon):
    """Return the radius of transitions after 1, 2, ... visits that fails with probability ε."""
    log_sets = log_subsets(np.full(VISITS, n_outcomes)) - np.log(epsilon)
    found = np.empty((2, VISITS))
    fill_radii(np.arange(1, VISITS + 1), -np.log(epsilon), log_sets, found)
    return found[1]


def fixed_radii(n_outcomes, epsilon):
    """Return the radii of Weissman et al., which are for one number of visits, for comparison."""
    log_sets = np.log(2.0**n_outcomes - 2) - np.log(epsilon)
    return np.sqrt(log_sets / (2 * np.arange(1, VISITS + 1)))


def failures(row, radius, streams, seed):
    """Return in how many streams the total variation ever exceeds `radius`, over visits."""
    rng, n, failed = np.random.default_rng(seed), np.arange(1, VISITS + 1)[:, None], 0
    for first in range(0, streams, CHUNK):
        estimates = counts_of(row, min(CHUNK, streams - first), rng) / n
        distance = np.abs(estimates - np.asarray(row)).sum(axis=2) / 2
        failed += int((distance > radius).any(axis=1).sum())
    return failed


def log_ratios(row, streams, seed):
    """Return the largest ln(1 / ε) at which the KL set fails in each stream: max n KL - n β."""
    rng, found, K = np.random.default_rng(seed), [], len(row)
    n = np.arange(1, VISITS + 1)
    log_gamma = math.lgamma(1 / K)
    own = np.array([log_gamma - log_gamma_excess(float(N), 1 / K) for N in n])
    total = np.array([log_gamma_excess(float(N), 1.0) for N in n])
    log_row = np.log(np.maximum(row, 1e-300))
    terms = np.concatenate([[0.0], n * np.log(n) - own])
    for first in range(0, streams, CHUNK):
        counts = counts_of(row, min(CHUNK, streams - first), rng)
        likelihood = (counts * log_row).sum(axis=2)
        ratio = terms[counts].sum(axis=2) - likelihood - n * np.log(n) - total - ROUNDING
        found.append(ratio.max(axis=1))
    return np.concatenate(found)


def most(delta, n):
    """The number of failures that is expected at most, with three standard errors."""
    return n * delta + 3 * np.sqrt(n * delta * (1 - delta))


def main(streams):
    """Print how often each set fails."""
    for name, row in ROWS.items():
        ratios = log_ratios(row, streams, 0)
        for delta in DELTAS:
            failed = failures(row, radii_of(len(row), delta), streams, 0)
            fixed = failures(row, fixed_radii(len(row), delta), min(streams, 1000), 0)
            sys.stdout.write(
                f"{name}, delta {delta}: total variation {failed / streams:.4f}, "
                f"KL {np.mean(ratios > -np.log(delta)):.4f}, "
                f"radii for a fixed number of visits {fixed / min(streams, 1000):.3f}\n"
            )


if __name__ == "__main__":
    main(int(sys.argv[1]))
