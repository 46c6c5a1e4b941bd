"""Random streams, keyed by what they serve."""

import zlib

import numpy as np


def stream(seed: int, *key: str | int) -> np.random.Generator:
    """The generator for a purpose, as in `stream(seed, "agent", name, repetition)`.

    Streams of different keys are independent, so that adding an agent changes no other, and the
    order of work changes nothing.
    """
    words = [zlib.crc32(str(part).encode()) for part in key]
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=words))
