"""Uniform random numbers that are drawn in blocks and used one at a time."""

import numpy as np

from heirloom.arrays import FloatArray

BLOCK = 4096  # numbers per draw


class Uniforms:
    """Uniform random numbers in [0, 1), drawn from a generator in blocks.

    Args:
        rng: the generator.
        drawn: numbers drawn from it earlier; they are used before new ones are drawn.
    """

    def __init__(self, rng: np.random.Generator, drawn: FloatArray | None = None) -> None:
        self.rng = rng
        self.block: FloatArray = np.empty(0) if drawn is None else drawn
        self.n_used = 0
        """The number of entries of `block` that were used."""

    @property
    def unused(self) -> FloatArray:
        """The numbers that were drawn and have not been used yet."""
        return self.block[self.n_used :]

    def refill(self, least: int = 1) -> None:
        """Draw a new block if fewer than `least` numbers of the current one are unused."""
        if self.n_used + least > self.block.size:
            self.block = np.concatenate([self.unused, self.rng.random(BLOCK)])
            self.n_used = 0

    def next(self) -> float:
        """Return the next number."""
        self.refill()
        self.n_used += 1
        return float(self.block[self.n_used - 1])
