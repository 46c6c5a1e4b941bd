"""`recordings_of`: the recordings of a stored run."""

import os

from heirloom.errors import InvalidArgument
from heirloom.learning.recording import Recording
from heirloom.runs.recordings import recordings_in
from heirloom.runs.stored_run import StoredRun
from heirloom.validation import shown

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
