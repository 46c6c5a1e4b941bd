"""Many random lives and streams: does any bound fail while every set holds, and how often do sets?

    python -m tests.agents.certificate_lives LIVES STREAMS [FIRST_SEED]

prints both numbers of failures. A hundred thousand lives take about two hours on one processor.
"""

import math
import sys
import warnings

import numpy as np
from scipy.special import gammaln

from heirloom.kernels.confidence import kl_radius


def streams_that_fail(n_streams, n_visits, epsilon, *, shares, seed=0):
    """Return in how many streams the set of a pair ever fails to contain the truth.

    With `shares`, outcomes have random rewards from 0 to 1, which count as shares of both.
    """
    rng, failed = np.random.default_rng(seed), 0
    for _ in range(n_streams):
        K = int(rng.integers(2, 7))
        p = rng.dirichlet(np.full(K, 0.5))
        draws = rng.choice(K, size=n_visits, p=p)
        seen, truth = np.eye(K)[draws], p
        if shares:
            a, b = rng.exponential(size=(2, K)) + 0.05
            x = rng.beta(a[draws], b[draws])[:, None]
            seen = np.hstack([x * seen, (1 - x) * seen])
            truth = np.concatenate([p * a / (a + b), p * b / (a + b)])
        counts, n_outcomes = np.cumsum(seen, axis=0), truth.size
        n, alpha = np.arange(1, n_visits + 1), 1 / truth.size
        mixture = (gammaln(counts + alpha) - gammaln(alpha)).sum(axis=1) - gammaln(n + 1.0)
        excess = mixture - counts @ np.log(truth) - math.log(1 / epsilon)
        failed += bool((excess > 0).any())
        k = int(rng.integers(n_visits))  # the radius that is used is the one that is tested
        at, total = counts[k][counts[k] > 0], counts[k].sum()
        expected = (at * np.log(at / total)).sum() - mixture[k] + math.log(1 / epsilon)
        radius = total * kl_radius(counts[k], n_outcomes, math.log(1 / epsilon))
        assert abs(radius - max(expected, 0.0)) < 1e-6 * max(1.0, abs(mixture[k]))
    return failed


def main(lives, streams, first=0):
    """Run random lives of all kinds, and streams; print how many fail."""
    from tests.agents import test_certificate as tests

    warnings.simplefilter("ignore")  # of ranges of rewards that are far too wide
    kinds = [(tests.test_no_bound_fails_while_every_set_holds, one) for one in tests.DECLARED]
    kinds += [
        (tests.test_no_bound_of_later_tasks_fails_while_every_set_holds, one) for one in tests.KNOWN
    ]
    failed = 0
    for i in range(lives):
        test, kind = kinds[i % len(kinds)]
        try:
            test(kind, first + i // len(kinds))
        except AssertionError:
            failed += 1
            print(f"{kind}, seed {first + i // len(kinds)}: a bound fails")  # noqa: T201
    print(f"{lives:,} lives: a bound fails although every set holds in {failed}")  # noqa: T201
    for shares in (False, True):
        failed = streams_that_fail(streams, 10_000, 0.05, shares=shares, seed=first)
        what = "shares of rewards" if shares else "outcomes"
        print(f"{streams:,} streams of 10,000 {what}: the set fails in {failed}, ε = 0.05")  # noqa: T201


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
