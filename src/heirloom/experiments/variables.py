"""Variables that a run records, with their dimensions, units and meanings."""

from math import nan
from typing import NamedTuple

JOB = ("agent", "repetition")
"""The dimensions that identify a job."""
TASK = (*JOB, "task")
EPISODE = (*TASK, "episode")


class Variable(NamedTuple):
    """A variable that a run records."""

    dimensions: tuple[str, ...]
    units: str
    meaning: str
    dtype: str = "f8"

    @property
    def fill(self) -> float | bool:
        """The fill value of entries that were not recorded."""
        return {"f8": nan, "i8": -1, "u8": 0, "bool": False}[self.dtype]
