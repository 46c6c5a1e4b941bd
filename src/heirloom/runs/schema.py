"""What a run records: names, dimensions, units and meanings."""

from heirloom.experiments.observers import OBSERVERS
from heirloom.experiments.variables import EPISODE, JOB, TASK, Variable

RECORDED = {
    "returns": Variable(EPISODE, "reward", "sum of rewards of an episode"),
    "discounted_returns": Variable(EPISODE, "reward", "sum of discounted rewards of an episode"),
    "updates": Variable(TASK, "updates", "how often the model was updated in a task", "i8"),
    "late_update": Variable(TASK, "steps", "mean time step of the last 50 updates in a task"),
}
"""In every run, by unit."""

MEASURED = {name: observer.variable for name, observer in OBSERVERS.items()}
"""By job, in runs that measure it."""

SHARED = {
    "optimal": Variable(("repetition", "task"), "reward", "best expected return of an episode"),
    "optimal_discounted": Variable(
        ("repetition", "task"), "reward", "best expected discounted return of an episode"
    ),
}
"""The same for all agents."""

MARKS = {
    "checksum": Variable(JOB, "1", "of the arrays of a unit", "u8"),
    "done": Variable(JOB, "1", "whether a unit is complete", "bool"),
}
"""Of each unit."""

COORDINATES = {
    "agent": Variable(("agent",), "1", "name of the agent"),
    "repetition": Variable(("repetition",), "1", "number of the repetition", "i8"),
    "task": Variable(("task",), "1", "number of the task in its row", "i8"),
    "episode": Variable(("episode",), "1", "number of the episode in its task", "i8"),
    **{
        dimension: Variable((dimension,), "1", meaning, "i8")
        for observer in OBSERVERS.values()
        for dimension, (meaning, _) in observer.own_dimension.items()
    },
}

VARIABLES = {**RECORDED, **MEASURED, **SHARED, **MARKS, **COORDINATES}


def recorded(measure: str | None) -> list[str]:
    """The names of what is recorded by unit."""
    return [*RECORDED] if measure is None else [*RECORDED, measure]
