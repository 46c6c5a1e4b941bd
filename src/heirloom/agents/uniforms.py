"""Uniform random numbers, drawn in blocks and used one by one."""

import numpy as np

from heirloom.arrays import FloatArray

BLOCK = 4096  # numbers drawn at once


class Uniforms:
    """Numbers in [0, 1) from a generator; those drawn and not yet used come first.

    Args:
        rng: the generator.
        drawn: numbers that were drawn from it before.
    """

    def __init__(self, rng: np.random.Generator, drawn: FloatArray | None = None) -> None:
        self.rng = rng
        self.block: FloatArray = np.empty(0) if drawn is None else drawn
        self.used = 0
        """How many numbers of the block were used."""

    @property
    def left(self) -> FloatArray:
        """The numbers that were drawn and are not yet used."""
        return self.block[self.used :]

    def refill(self) -> None:
        """Draw a block if all numbers were used."""
        if self.used == self.block.size:
            self.block, self.used = self.rng.random(BLOCK), 0

    def next(self) -> float:
        """The next number."""
        self.refill()
        self.used += 1
        return float(self.block[self.used - 1])
