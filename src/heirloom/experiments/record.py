"""The key `record` of a spec: which agents, repetitions, tasks and episodes are recorded.

`record = true` stands for an empty table.
"""

import json
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from heirloom.experiments.mistakes import Mistakes, option_mistakes
from heirloom.experiments.reading import MOST_TASKS
from heirloom.learning.recording import RecordChoice
from heirloom.validation import LARGEST_SIZE, shown
from heirloom.wording import did_you_mean


class RecordSpec(BaseModel):
    """What a run records for `heirloom replay`."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    agents: tuple[str, ...] | None = Field(None, min_length=1)
    """The names of the agents that are recorded; by default all."""
    repetitions: tuple[int, ...] = Field((1,), min_length=1)
    """The numbers of the repetitions that are recorded; the first is 1."""
    tasks: tuple[int, ...] | None = Field(None, min_length=1)
    """The numbers of the tasks that are recorded; the first is 1. By default all."""
    first: int = Field(3, ge=0, le=LARGEST_SIZE)
    """The number of episodes at the beginning of each task that are recorded."""
    last: int = Field(1, ge=0, le=LARGEST_SIZE)
    """The number of episodes at the end of each task that are recorded."""
    every: int | None = Field(None, ge=1, le=LARGEST_SIZE)
    """Also record each episode whose number is a multiple of this."""
    updates: int | None = Field(None, ge=1, le=LARGEST_SIZE)
    """Also take a snapshot of the values after each update whose number is a multiple of this."""

    @property
    def choice(self) -> RecordChoice:
        """Which episodes and updates of each task are recorded."""
        return RecordChoice(self.first, self.last, self.every, self.updates)

    def tasks_of(self, agent: str, repetition: int, n_tasks: int) -> tuple[int, ...]:
        """Return the indices of the tasks that are recorded in a job; `repetition` is an index."""
        if repetition + 1 not in self.repetitions:
            return ()
        if self.agents is not None and agent not in self.agents:
            return ()
        numbers = range(1, n_tasks + 1) if self.tasks is None else sorted(set(self.tasks))
        return tuple(number - 1 for number in numbers)

    def n_jobs(self, n_agents: int) -> int:
        """Return the number of jobs that are recorded."""
        agents = n_agents if self.agents is None else len(set(self.agents))
        return agents * len(set(self.repetitions))


def read_record(given: Any) -> Any:
    """Return the key `record` of a spec, checked; raise `Mistakes` with one line for each mistake.

    What is neither a table nor true is returned as it is.
    """
    if given is True:
        return read_record({})
    if not isinstance(given, dict):
        return given
    try:
        return RecordSpec.model_validate_json(json.dumps(given), strict=True)
    except ValidationError as error:
        raise Mistakes(option_mistakes(error, RecordSpec, "record")) from None


def mistakes_in(record: RecordSpec, agents: Sequence[str], repetitions: int, tasks: int) -> str:
    """Describe which agent, repetition or task of `record` does not exist; empty if all do."""
    for name in record.agents or ():
        if name not in agents:
            expected = f"expected names of agents of the spec, such as {shown(agents[0])}"
            close = did_you_mean(name, agents)
            return f"record.agents contains {shown(name)}: {expected}{close}"
    for key, numbers, most in (
        ("repetitions", record.repetitions, repetitions),
        ("tasks", record.tasks or (), min(tasks, MOST_TASKS)),
    ):
        for number in numbers:
            if not 1 <= number <= most:
                return f"record.{key} contains {number}: expected numbers from 1 to {most}"
    return ""
