"""Independent random streams, each for one purpose."""

import zlib

import numpy as np


def stream(seed: int, *key: str | int) -> np.random.Generator:
    """Return the generator for a purpose, as in `stream(seed, "agent", name, repetition)`.

    Streams with different keys are independent: adding an agent to an experiment does not change
    the results of the others, and neither does the order in which jobs run.
    """
    words = [zlib.crc32(str(part).encode()) for part in key]
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=words))
