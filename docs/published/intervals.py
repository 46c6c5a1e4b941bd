"""How often a Student interval says that an agent helps, although it does not.

The differences of returns of an agent and a baseline are drawn from distributions whose mean is 0,
or below. The statement is wrong if the 95 % interval over the repetitions is above 0; for normal
differences with mean 0, this happens with probability 2.5 %.
"""

from typing import Any

import numpy as np

from heirloom.stats import student_interval

SEED = 28
SAMPLES = 20_000
REPETITIONS = (2, 3, 5, 10, 30, 100)
RARE = 0.1
"""The probability of a failure."""


def draw(rng: np.random.Generator, shape: tuple[int, ...]) -> dict[str, np.ndarray]:
    """Draw differences from each distribution, by its description."""
    fails = rng.random(shape) < RARE
    normal, exponential = rng.normal(size=shape), rng.exponential(size=shape)
    return {
        "normal, mean 0": normal,
        "exponential, long tail above, mean 0": exponential - 1,
        "exponential, long tail below, mean 0": 1 - exponential,
        "+0.01 with probability 0.9, otherwise -1": np.where(fails, -1.0, 0.01),
        "the same with relative errors of 0.1": np.where(fails, -1.0, 0.01) * (1 + 0.1 * normal),
    }


def measure() -> list[dict[str, Any]]:
    """Return the share of wrong statements, by distribution and number of repetitions."""
    shares: dict[str, list[float]] = {}
    for n in REPETITIONS:
        for name, x in draw(np.random.default_rng([SEED, n]), (n, SAMPLES)).items():
            mean, half = student_interval(x)
            shares.setdefault(name, []).append(float((mean - half > 0).mean()))
    return [{"differences": name, "wrong": wrong} for name, wrong in shares.items()]
