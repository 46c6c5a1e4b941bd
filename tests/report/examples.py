"""Results made of random numbers, for the tests of reports."""

import numpy as np
import xarray as xr

from heirloom.experiments.measures import KINDS, N_SOURCES

HOSTILE = ("<script>alert(1)</script>", "</script><b>x", "\x1b[31mred\u202e", "$a$ _b {{c}} @mean")


def results(agents=("RMax", "LRMax(0.1)", "Mine"), *, seed=0, tasks=4, episodes=300):
    """Results of a comparison, with discounted returns, where transfer came from and certificates.

    The last agent has no certificates.
    """
    rng = np.random.default_rng(seed)
    n, repetitions = len(agents), 5
    shape = (n, repetitions, tasks, episodes)
    returns = rng.random(shape) + np.linspace(0, 1, episodes) + np.arange(n)[:, None, None, None]
    task = ("agent", "repetition", "task")
    pairs = rng.integers(0, 50, (*shape[:3], len(KINDS)))
    certified = rng.random((2, *shape[:3]))
    certified[1] += 9
    certified[:, -1] = np.nan
    return xr.Dataset(
        {
            "returns": ((*task, "episode"), returns),
            "discounted_returns": ((*task, "episode"), returns / 2),
            "updates": (task, rng.integers(0, 99, shape[:3])),
            "optimal": (task[1:], np.full(shape[1:3], 1.0 + n)),
            "optimal_discounted": (task[1:], np.full(shape[1:3], (1.0 + n) / 2)),
            "bound_pairs": ((*task, "kind"), pairs),
            "source_task": ((*task, "rank"), rng.integers(0, 3, (*shape[:3], N_SOURCES))),
            "source_pairs": ((*task, "rank"), rng.integers(0, 9, (*shape[:3], N_SOURCES))),
            "dropped_sources": (task, rng.integers(0, 3, shape[:3])),
            "refutations": (task, rng.integers(0, 2, shape[:3])),
            "certified_lower": (task, certified[0]),
            "optimum_at_most": (task, certified[1]),
        },
        coords={
            "agent": list(agents),
            "repetition": np.arange(1, repetitions + 1),
            "task": np.arange(1, tasks + 1),
            "episode": np.arange(1, episodes + 1),
        },
    )
