"""The recordings of a stored run, and their steps as rows of a table, for exports."""

import os
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from heirloom.errors import InvalidArgument
from heirloom.experiments.variables import EPISODE, TASK, Variable
from heirloom.learning.recording import Recording, decode
from heirloom.runs.layout import COORDINATES, RECORDING
from heirloom.runs.stored_run import StoredRun
from heirloom.storage.files import folder_path
from heirloom.validation import shown
from heirloom.wording import for_spreadsheet

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]

STEP = (*EPISODE, "step")
STEP_COLUMNS = {
    **{name: COORDINATES[name] for name in EPISODE},
    "step": Variable(("step",), "1", "number of the step in its episode", "i8"),
    "state": Variable(STEP, "1", "number of the state, from 0", "i8"),
    "action": Variable(STEP, "1", "number of the action, from 0", "i8"),
    "reward": Variable(STEP, "reward", "reward of the step"),
}
"""The columns of the table of recorded steps."""
PAIR = (*TASK, "snapshot", "state", "action")
SNAPSHOT_COLUMNS = {
    **{name: COORDINATES[name] for name in TASK},
    "snapshot": Variable(("snapshot",), "1", "number of the snapshot in its task", "i8"),
    "time_step": Variable(PAIR, "steps", "time steps of the task before the snapshot", "i8"),
    "state": Variable(PAIR, "1", "number of the state, from 0", "i8"),
    "action": Variable(PAIR, "1", "number of the action, from 0", "i8"),
    "Q": Variable(PAIR, "reward", "value of the pair; nan if the agent has none"),
    "U": Variable(PAIR, "reward", "upper bound on the value; nan if the agent has none"),
    "known": Variable(PAIR, "1", "1 if the pair is known, 0 if not, -1 for other agents", "i8"),
}
"""The columns of the table of snapshots, which has one row per snapshot, state and action."""

HOW_TO_RECORD = (
    "add `record = true` to its spec, or a table [record] with `agents`, `repetitions`, `tasks`, "
    "`first`, `last` and `every`, and run it in a new folder; for a run of `compare`, give it the "
    "argument record=True"
)


def recordings_in(
    run: StoredRun,
    *,
    agents: Sequence[str] | None = None,
    repetition: int | None = None,
    task: int | None = None,
) -> Iterator[Recording]:
    """Yield the recordings of the jobs that are complete; by default all."""
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
        found = decode(bytes(results[RECORDING]), where)
        yield from (each for each in found if task in (None, each.task))


def recorded_rows(
    run: StoredRun, rows: Callable[[Recording], Iterator[dict[str, Any]]], *, csv: bool
) -> "Iterator[pd.DataFrame]":
    """Yield rows of a table of the recordings of a run: those of `as_steps` or `as_snapshots`."""
    import pandas as pd

    for recording in recordings_in(run):
        agent = for_spreadsheet(recording.agent) if csv else recording.agent
        about = {"agent": agent, "repetition": recording.repetition, "task": recording.task}
        for columns in rows(recording):
            n = len(next(iter(columns.values())))
            frame = {name: [value] * n for name, value in about.items()}
            yield pd.DataFrame({**frame, **columns})


def as_steps(r: Recording) -> Iterator[dict[str, Any]]:
    """Yield the recorded steps of a task."""
    taken = r.actions >= 0
    lengths = np.diff(r.starts) - 1  # the last frame of an episode is not a step
    n = int(taken.sum())
    yield {
        "episode": np.repeat(r.episodes, lengths),
        "step": 1 + np.arange(n) - np.repeat(np.cumsum(lengths) - lengths, lengths),
        "state": r.states[taken].astype(np.int64),
        "action": r.actions[taken].astype(np.int64),
        "reward": r.rewards[taken],
    }


def as_snapshots(r: Recording) -> Iterator[dict[str, Any]]:
    """Yield the values, bounds and known pairs of each snapshot of a task."""
    n_pairs = r.n_states * r.n_actions
    state, action = np.divmod(np.arange(n_pairs), r.n_actions)
    absent = {"Q": np.full(n_pairs, np.nan), "U": np.full(n_pairs, np.nan)}
    absent["known"] = np.full(n_pairs, -1)
    for i, steps in enumerate(r.snapshot_steps.tolist()):
        yield {
            "snapshot": np.full(n_pairs, i + 1),
            "time_step": np.full(n_pairs, steps),
            "state": state,
            "action": action,
            **{
                name: r.layer(name, i).ravel().astype(values.dtype) if name in r.layers else values
                for name, values in absent.items()
            },
        }


def recordings(
    run: str | os.PathLike[str],
    *,
    agents: str | Sequence[str] | None = None,
    repetition: int | None = None,
    task: int | None = None,
) -> list[Recording]:
    """Read the recordings of a run, without importing user-defined code.

    Raises `InvalidArgument` if there are none; the message says which recordings there are, or how
    to record.

    Args:
        run: the folder of the run, whose spec has a `record`.
        agents: the name of an agent, or a list of names; by default all that were recorded.
        repetition: the number of a repetition; by default all that were recorded.
        task: the number of a task; by default all that were recorded.
    """
    agents = [agents] if isinstance(agents, str) else agents
    stored = StoredRun(folder_path(run, "run"))
    names = [agent.name for agent in stored.spec.agents]
    for name in agents or ():
        if name not in names:
            raise InvalidArgument(
                f"agents contains {shown(name)}: expected some of {', '.join(map(shown, names))}"
            )
    if stored.spec.record is None:
        raise InvalidArgument(f"the run in {stored.location} has no recordings: {HOW_TO_RECORD}")
    found = list(recordings_in(stored, agents=agents, repetition=repetition, task=task))
    if not found:
        raise InvalidArgument(
            f"the run in {stored.location} has no recording for this choice: {_available(stored)}"
        )
    return found


def _available(stored: StoredRun) -> str:
    found = list(recordings_in(stored))
    if not found:
        return "its recorded jobs are missing or damaged; resume the run to compute them"
    agents = ", ".join(dict.fromkeys(shown(each.agent) for each in found))
    repetitions, tasks = (
        ", ".join(str(number) for number in sorted({getattr(each, name) for each in found}))
        for name in ("repetition", "task")
    )
    return f"it has recordings of {agents} in repetitions {repetitions} and tasks {tasks}"
