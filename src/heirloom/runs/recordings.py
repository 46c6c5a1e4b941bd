"""The recordings of a stored run, and their steps as rows of a table, for exports."""

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from heirloom.errors import InvalidArgument
from heirloom.experiments.variables import EPISODE, Variable
from heirloom.learning.recording import Recording, decode
from heirloom.runs.layout import COORDINATES, RECORDING
from heirloom.runs.stored_run import StoredRun
from heirloom.validation import shown
from heirloom.wording import for_spreadsheet

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]


STEP = (*EPISODE, "step")
COLUMNS = {
    **{name: COORDINATES[name] for name in EPISODE},
    "step": Variable(("step",), "1", "number of the step in its episode", "i8"),
    "state": Variable(STEP, "1", "number of the state, from 0", "i8"),
    "action": Variable(STEP, "1", "number of the action, from 0", "i8"),
    "reward": Variable(STEP, "reward", "reward of the step"),
}
"""The columns of the table of recorded steps."""


def recordings_in(
    run: StoredRun, *, agents: Sequence[str] | None = None, repetition: int | None = None
) -> Iterator[Recording]:
    """Yield the recordings of the jobs that are complete: of some agents and of one repetition."""
    if run.spec.record is None:
        return
    record, names = run.spec.record, [agent.name for agent in run.spec.agents]
    chosen = (
        (i, j)
        for i, j in run.jobs
        if (agents is None or names[i] in agents)
        and repetition in (None, j + 1)
        and record.tasks_of(names[i], j, run.spec.tasks)
    )
    for (i, j), results in run.read_jobs(chosen):
        where = f"the recording of {names[i]} in repetition {j + 1} of {run.location}"
        yield from decode(bytes(results[RECORDING]), where)


def recorded_steps(run: StoredRun, *, csv: bool) -> "Iterator[pd.DataFrame]":
    """Yield the recorded steps of each task as rows of a table."""
    import pandas as pd

    for recording in recordings_in(run):
        yield pd.DataFrame(_columns(recording, csv=csv))


def _columns(r: Recording, *, csv: bool) -> dict[str, Any]:
    taken = r.actions >= 0
    lengths = np.diff(r.starts) - 1  # the last frame of an episode is not a step
    n = int(taken.sum())
    return {
        "agent": np.full(n, for_spreadsheet(r.agent) if csv else r.agent, dtype=object),
        "repetition": np.full(n, r.repetition),
        "task": np.full(n, r.task),
        "episode": np.repeat(r.episodes, lengths),
        "step": 1 + np.arange(n) - np.repeat(np.cumsum(lengths) - lengths, lengths),
        "state": r.states[taken].astype(np.int64),
        "action": r.actions[taken].astype(np.int64),
        "reward": r.rewards[taken],
    }


HOW_TO_RECORD = (
    "add `record = true` to its spec, or a table [record] with `agents`, `repetitions`, `tasks`, "
    "`first`, `last` and `every`, and run it in a new folder; for a run of `compare`, give it the "
    "argument record=True"
)


def recordings_of(
    run: "StoredRun | str | os.PathLike[str]",
    *,
    agents: list[str] | None = None,
    repetition: int | None = None,
    task: int | None = None,
) -> list[Recording]:
    """Read the recordings of a run, without importing user-defined code.

    Args:
        run: the run, or its folder.
        agents: names of agents; by default all.
        repetition: the number of a repetition; by default all.
        task: the number of a task; by default all.
    """
    stored = run if isinstance(run, StoredRun) else StoredRun(run)
    found = recordings_in(stored, agents=agents, repetition=repetition)
    return [each for each in found if task is None or each.task == task]


def chosen_recordings(
    run: "str | os.PathLike[str]",
    *,
    agents: list[str] | None,
    repetition: int | None,
    task: int | None,
) -> list[Recording]:
    """Read recordings like `recordings_of`; raise `InvalidArgument` if there are none.

    The message says which recordings there are, or how to record.
    """
    stored = StoredRun(run)
    names = [agent.name for agent in stored.spec.agents]
    for name in agents or ():
        if name not in names:
            raise InvalidArgument(
                f"agent is {shown(name)}: expected one of {', '.join(map(shown, names))}"
            )
    if stored.spec.record is None:
        raise InvalidArgument(f"the run in {stored.location} has no recordings: {HOW_TO_RECORD}")
    found = recordings_of(stored, agents=agents, repetition=repetition, task=task)
    if not found:
        raise InvalidArgument(
            f"the run in {stored.location} has no recording for this choice: {_available(stored)}"
        )
    return found


def _available(stored: StoredRun) -> str:
    found = recordings_of(stored)
    if not found:
        return "its recorded jobs are missing or damaged; resume the run to compute them"
    agents = ", ".join(dict.fromkeys(shown(each.agent) for each in found))
    repetitions, tasks = (
        ", ".join(str(number) for number in sorted({getattr(each, name) for each in found}))
        for name in ("repetition", "task")
    )
    return f"it has recordings of {agents} in repetitions {repetitions} and tasks {tasks}"
