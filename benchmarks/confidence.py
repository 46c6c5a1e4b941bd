"""Cost of the largest mean over a confidence set of counts, relative to the mean.

A call gets three successors with the frequencies 0.8, 0.15 and 0.05 after 10 to 100,000 visits. The
loops alternate, and minima of processor times are compared.

    python benchmarks/confidence.py
"""

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit
from rows import Measured, Row, as_text

from heirloom.kernels.confidence import kl_radius, largest_mean, widened

CALLS, REPEATS = 20_000, 15
VISITS = (10, 100, 1_000, 10_000, 100_000)
P = np.array([0.8, 0.15, 0.05])
OUTCOMES, DELTA = 5, 1e-4  # possible outcomes, and the share of δ of a pair


@njit
def means(p, W, betas, calls):
    """Sum up means; W changes, so that no call can be left out."""
    total = 0.0
    for i in range(calls):
        W[0] = 1.0 + 1e-9 * (i % 7)
        for j in range(p.size):
            total += p[j] * W[j]
    return total


@njit
def largest_means(p, W, betas, calls):
    """Sum up largest means, without a better outcome that was not seen."""
    total = 0.0
    for i in range(calls):
        W[0] = 1.0 + 1e-9 * (i % 7)
        total += largest_mean(p, W, 1.0, -np.inf, betas[i % betas.size])
    return total


@njit
def widened_means(p, W, betas, calls):
    """Sum up largest means widened by a nearness of 0.1."""
    total, R, work = 0.0, np.zeros(p.size), np.empty(p.size)
    for i in range(calls):
        W[0] = 1.0 + 1e-9 * (i % 7)
        beta = betas[i % betas.size]
        total += widened(p, R, W, 1.0, (0.0, 0.0), 4.0, 0.9, 0.1, beta, work)[0]
    return total


def seconds(run: Callable[..., Any], *arguments: Any) -> float:
    """Return the processor time of a call."""
    start = time.process_time()
    run(*arguments)
    return (time.process_time() - start) / CALLS


def measure() -> Measured:
    """Measure the ratios to a plain mean."""
    W = np.array([1.0, 2.0, 3.0])
    betas = np.array([kl_radius(n * P, OUTCOMES, -math.log(DELTA)) for n in VISITS])
    loops = {"mean": means, "largest mean": largest_means, "widened mean": widened_means}
    best = dict.fromkeys(loops, math.inf)
    for _ in range(REPEATS):
        for name, loop in loops.items():
            best[name] = min(best[name], seconds(loop, P, W, betas, CALLS))
    note = "{:.2f} µs per call, three successors"
    rows = [
        Row(f"{name} over a confidence set / mean", best[name] / best["mean"], note=note.format(us))
        for name in ("largest mean", "widened mean")
        for us in [1e6 * best[name]]
    ]
    return Measured(rows, {f"confidence: {name}": best[name] for name in loops})


if __name__ == "__main__":
    print(as_text(measure().rows))
