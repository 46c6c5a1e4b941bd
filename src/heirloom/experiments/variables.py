"""What a run records of each job: names, dimensions, units and meanings."""

from math import nan
from typing import NamedTuple

JOB = ("agent", "repetition")
"""The dimensions of a job."""
TASK = (*JOB, "task")
EPISODE = (*TASK, "episode")


class Variable(NamedTuple):
    """One thing that is recorded."""

    dimensions: tuple[str, ...]
    units: str
    meaning: str
    dtype: str = "f8"

    @property
    def fill(self) -> float | bool:
        """What stands where nothing was recorded yet."""
        return {"f8": nan, "i8": -1, "u8": 0, "bool": False}[self.dtype]
