"""Variables that a run records, with their dimensions, units and meanings."""

from math import nan
from typing import NamedTuple

from heirloom.errors import InvalidArgument
from heirloom.validation import shown

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
        return {"f8": nan, "i8": -1, "u8": 0, "u1": 0, "bool": False}[self.dtype]


# The dimensions of the variables that both `run` and `compare` return.
RESULTS = {
    "returns": EPISODE,
    "updates": TASK,
    "optimal": ("repetition", "task"),
}


def check_results(results: object, names: tuple[str, ...]) -> list[str]:
    """Return the names of agents; raise unless `results` has the variables `names` of `RESULTS`."""
    import xarray as xr

    expected = f"expected the results of run or compare, with the variables {', '.join(names)}"
    if not isinstance(results, xr.Dataset):
        raise InvalidArgument(f"results is {shown(results)}: {expected}")
    for name in names:
        found = results[name].dims if name in results else None
        if found is None or set(found) != set(RESULTS[name]) or not results[name].size:
            raise InvalidArgument(
                f"results has the variable {name} over {found}: {expected}, each of them not empty"
            )
    for dimension in ("agent", "task"):
        if dimension not in results.coords:
            raise InvalidArgument(f"results has no coordinate {dimension}: {expected}")
    return [str(name) for name in results.agent.values]
