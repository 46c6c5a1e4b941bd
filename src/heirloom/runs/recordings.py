"""The recordings of a run, and their steps as rows of a table, for exports."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from heirloom.escaping import for_spreadsheet
from heirloom.experiments.variables import EPISODE, Variable
from heirloom.learning.recording import Recording, decode
from heirloom.runs.schema import COORDINATES, RECORDING
from heirloom.runs.stored_run import StoredRun

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
