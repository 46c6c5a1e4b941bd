"""What a run records: names, dimensions, units and meanings."""

from math import nan
from typing import NamedTuple

UNIT = ("agent", "repetition")
"""The dimensions of a unit of work."""


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


_EPISODE, _TASK = (*UNIT, "task", "episode"), (*UNIT, "task")
RECORDED = {
    "returns": Variable(_EPISODE, "reward", "sum of rewards of an episode"),
    "discounted_returns": Variable(_EPISODE, "reward", "sum of discounted rewards of an episode"),
    "updates": Variable(_TASK, "updates", "how often the model was updated in a task", "i8"),
    "late_update": Variable(_TASK, "steps", "mean time step of the last 50 updates in a task"),
}
"""In every run, by unit."""

MEASURED = {
    "lipschitz_use": Variable(
        _TASK, "1", "part of bound computations where the Lipschitz bound is at most v_max"
    ),
    "prior_use": Variable(
        (*_TASK, "computation"), "1", "part of the pairs where the prior is below the distance"
    ),
    "optimal_after": Variable(
        _TASK, "episodes", "episodes until the greedy policy is optimal for the rest of a task"
    ),
}
"""By unit, in runs that measure it."""

SHARED = {
    "optimal": Variable(("repetition", "task"), "reward", "best expected return of an episode"),
    "optimal_discounted": Variable(
        ("repetition", "task"), "reward", "best expected discounted return of an episode"
    ),
}
"""The same for all agents."""

MARKS = {
    "checksum": Variable(UNIT, "1", "of the arrays of a unit", "u8"),
    "done": Variable(UNIT, "1", "whether a unit is complete", "bool"),
}
"""Of each unit."""

COORDINATES = {
    "agent": Variable(("agent",), "1", "name of the agent"),
    "repetition": Variable(("repetition",), "1", "number of the repetition", "i8"),
    "task": Variable(("task",), "1", "number of the task in its row", "i8"),
    "episode": Variable(("episode",), "1", "number of the episode in its task", "i8"),
    "computation": Variable(
        ("computation",), "1", "number of the computation of the bound in its task", "i8"
    ),
}

VARIABLES = {**RECORDED, **MEASURED, **SHARED, **MARKS, **COORDINATES}


def recorded(measure: str | None) -> list[str]:
    """The names of what is recorded by unit."""
    return [*RECORDED] if measure is None else [*RECORDED, measure]
