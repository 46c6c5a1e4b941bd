"""Variables that a run stores: their names, dimensions, units and meanings."""

from heirloom.experiments.observers import OBSERVERS
from heirloom.experiments.variables import EPISODE, TASK, Variable

RECORDED = {
    "returns": Variable(EPISODE, "reward", "sum of rewards of an episode"),
    "discounted_returns": Variable(EPISODE, "reward", "sum of discounted rewards of an episode"),
    "updates": Variable(TASK, "updates", "number of model updates in a task", "i8"),
    "late_update": Variable(TASK, "steps", "mean time step of the last 50 updates in a task"),
}
"""Variables that every run records for each job."""

MEASURED = {
    name: variable
    for observer in OBSERVERS.values()
    for name, variable in observer.variables.items()
}
"""Variables that are recorded for each job in runs whose spec asks to measure them."""

SHARED = {
    "optimal": Variable(("repetition", "task"), "reward", "optimal expected return of an episode"),
    "optimal_discounted": Variable(
        ("repetition", "task"), "reward", "optimal expected discounted return of an episode"
    ),
}
"""Variables that are the same for all agents; the jobs of the first agent store them."""

RECORDING = "recording"
"""The file of recorded episodes of a job, in runs whose spec has a record."""

COORDINATES = {
    "agent": Variable(("agent",), "1", "name of the agent"),
    "repetition": Variable(("repetition",), "1", "number of the repetition", "i8"),
    "task": Variable(("task",), "1", "number of the task in its sequence", "i8"),
    "episode": Variable(("episode",), "1", "number of the episode in its task", "i8"),
    **{
        dimension: Variable((dimension,), "1", meaning, "i8")
        for observer in OBSERVERS.values()
        for dimension, (meaning, _) in observer.own_dimension.items()
    },
}

VARIABLES = {**RECORDED, **MEASURED, **SHARED, **COORDINATES}


def recorded(measure: str | None) -> list[str]:
    """Names of the variables recorded for each job of a run that measures `measure`."""
    return [*RECORDED] if measure is None else [*RECORDED, *OBSERVERS[measure].variables]
