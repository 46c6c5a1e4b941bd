"""Reading a spec: limits on its size, defaults, sweeps over options of agents, and `record`."""

import itertools
import json
import math
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from heirloom.agents.algorithms import ALGORITHMS
from heirloom.errors import InvalidArgument
from heirloom.experiments.mistakes import Mistakes, option_mistakes
from heirloom.experiments.registry import MODULE_SEPARATOR
from heirloom.learning.recording import RecordChoice
from heirloom.naming import shortened
from heirloom.storage.files import named
from heirloom.validation import LARGEST_SIZE, shown
from heirloom.wording import did_you_mean

MOST_AGENTS = 10_000
MOST_TASKS = 100_000
MOST_JOBS = 10**6
"""Jobs of a run: agents times repetitions."""

OPTIONS = {
    option: [name for name, model in ALGORITHMS.items() if option in model.options.model_fields]
    for any_model in ALGORITHMS.values()
    for option in any_model.options.model_fields
}
"""The algorithms that have an option, by the name of the option."""
KNOWLEDGE = ("d_max", "nearness")  # in generated names, these options appear without their key


def check_number_of_agents(agents: Iterable[Any]) -> None:
    """Raise `InvalidArgument` if the sweeps of these tables give more than `MOST_AGENTS` agents."""
    total = sum(combinations(agent) for agent in agents)
    if total > MOST_AGENTS:
        raise InvalidArgument(
            f"agents describes {total:,} agents: expected at most {MOST_AGENTS:,}; sweep over "
            "fewer values"
        )


def combinations(table: Any) -> int:
    """Return the number of combinations of the options of a table that are given as lists."""
    if not isinstance(table, dict):
        return 1
    return math.prod(len(value) for value in table.values() if isinstance(value, list))


def with_defaults(agent: Any, defaults: Any) -> Any:
    """Add to an agent the defaults that its algorithm accepts and that it does not set itself."""
    if not isinstance(agent, dict) or not isinstance(defaults, dict):
        return agent  # which is reported elsewhere
    algorithm = agent.get("algorithm")
    accepted = {key: value for key, value in defaults.items() if algorithm in OPTIONS.get(key, ())}
    return {**accepted, **agent}


def check_defaults(defaults: Any) -> None:
    """Raise `InvalidArgument` unless `defaults` is a table of options of algorithms."""
    if not isinstance(defaults, dict):
        raise InvalidArgument(
            f"defaults is {shown(defaults)}: expected a table [defaults] of options of agents"
        )
    messages = [
        f"defaults.{shortened(key)} is not an option of any algorithm: expected one of those that "
        f"help(heirloom.RMax), and so on, list{did_you_mean(key, OPTIONS)}"
        for key in defaults
        if key not in OPTIONS
    ]
    if messages:
        raise InvalidArgument(*messages)


def expand_sweep(agent: Any, where: str) -> Iterator[Any]:
    """Yield one agent for each combination of the options that are given as lists."""
    if not isinstance(agent, dict):
        yield agent
        return
    for key in ("algorithm", "name"):
        if isinstance(agent.get(key), list):
            raise InvalidArgument(
                f"{where}.{key} is {shown(agent[key])}: expected one {key}; only options can be "
                f"swept, so write one [[agents]] table for each {key}"
            )
    for key, value in agent.items():
        if value == []:
            raise InvalidArgument(
                f"{where}.{shortened(key)} is []: expected one or more values to sweep over; give "
                "some, or leave the key out"
            )
    if not isinstance(agent.get("algorithm"), str):
        yield {"name": "an agent", **agent}  # validation will report the algorithm, not the name
        return
    swept_keys = [key for key, value in agent.items() if isinstance(value, list)]
    for values in itertools.product(*(agent[key] for key in swept_keys)):
        chosen = dict(zip(swept_keys, values, strict=True))
        name = agent.get("name")
        if name is None or swept_keys:
            base = name or agent["algorithm"].rpartition(MODULE_SEPARATOR)[2]
            # A generated name contains a prior even if it is not swept: LRMax(0.1).
            given = {} if name else {k: agent[k] for k in KNOWLEDGE if agent.get(k) is not None}
            name = _agent_name(base, {**given, **chosen})
        yield {**agent, **chosen, "name": name}


def _agent_name(base: str, options: dict[str, Any]) -> str:
    parts = []
    for key, value in options.items():
        text = ", ".join(map(str, leaves(value)))
        parts.append(text if key in KNOWLEDGE else f"{key}={text}")
    return f"{base}({', '.join(parts)})" if parts else base


def leaves(value: Any) -> Iterator[Any]:
    """Yield all values in nested lists and tables, or the value itself if it is neither."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for item in value:
            yield from leaves(item)
    else:
        yield value


def read_toml(path: str | Path) -> dict[str, Any]:
    """Return the tables of a TOML file; raise `InvalidArgument` if it cannot be read."""
    try:
        data = Path(path).read_bytes()
    except (OSError, TypeError, ValueError) as error:  # ValueError: a name with a null character
        reason = getattr(error, "strerror", None) or error
        raise InvalidArgument(
            f"{named(path)} cannot be read ({reason}): expected a TOML file with a spec"
        ) from None
    try:
        return tomllib.loads(data.decode("utf-8-sig"))  # some editors write a byte order mark
    except (ValueError, RecursionError) as error:  # also for bytes that are not UTF-8
        raise InvalidArgument(f"{path} is not valid TOML ({error}): correct the file") from None


def plain(value: Any) -> Any:
    """Return a number or an array of numpy as JSON represents it; raise `TypeError` for others."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"it is {shown(value)}")


def key_without_json(data: Mapping[str, Any]) -> str:
    """Return the first key whose value JSON cannot represent."""
    for key, value in data.items():
        try:
            json.dumps(value, default=plain)
        except (TypeError, ValueError, RecursionError):
            return f"the key {shortened(key)} of the spec"
    return "the spec"


@contextmanager
def collected(mistakes: list[str]) -> Iterator[None]:
    """Add the messages of an `InvalidArgument` to a list, and continue after the block."""
    try:
        yield
    except InvalidArgument as error:
        mistakes.extend(map(str, error.args))


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
