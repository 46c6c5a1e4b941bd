"""What the spec of a run says about its database: its variables, tables, rows and arrays.

The table `run` has one row, with the spec and the versions that the run was started with. The table
`job` has one row per job that is complete. Its columns are those of `ABOUT`, and one per variable:
the bytes of an `.npy` file, or of a file of recordings. Variables that all agents share are stored
with the first agent. The checksum of a row covers the spec and all its columns, so a row that was
changed, or that belongs to another experiment or to another job, is noticed.
"""

import hashlib
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from heirloom.errors import InvalidArgument, InvalidFile
from heirloom.experiments.job import Job
from heirloom.experiments.measures import OBSERVERS
from heirloom.experiments.spec import ExperimentSpec
from heirloom.experiments.variables import EPISODE, JOB, TASK, Variable
from heirloom.storage.archive import read_array
from heirloom.validation import shown

RECORDED = {
    "returns": Variable(EPISODE, "reward", "sum of rewards of an episode"),
    "discounted_returns": Variable(EPISODE, "reward", "sum of discounted rewards of an episode"),
    "updates": Variable(TASK, "updates", "number of model updates in a task", "i8"),
    "late_update": Variable(TASK, "steps", "mean time step of the last 50 updates in a task"),
}
"""Variables that every run records for each job."""

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
}

FORMAT = 3
"""Version of the tables. Earlier versions of Heirloom stored a run in many files."""
APPLICATION = 0x4865726C  # marks the database as a run of Heirloom

RUN_TABLE = "CREATE TABLE run (spec TEXT NOT NULL, versions TEXT NOT NULL, checksum BLOB NOT NULL)"
ABOUT = {
    "job": "INTEGER PRIMARY KEY",
    "agent": "TEXT NOT NULL",
    "repetition": "INTEGER NOT NULL",
    "seconds": "REAL",
    "worker": "TEXT NOT NULL",
    "versions": "TEXT NOT NULL",
    "checksum": "BLOB NOT NULL",
}
N_ABOUT = len(ABOUT)

Row = tuple[Any, ...]


class Origin(NamedTuple):
    """How a job was computed."""

    seconds: float
    """Time that the computation took."""
    worker: str
    """Host and process that computed the job."""
    versions: dict[str, str]
    """Versions of Python and of libraries that computed the job."""


@dataclass(frozen=True)
class Layout:
    """What a spec says about the database of a run.

    Job (i, j), of agent i in repetition j, has the number j * A + i, where A is the number of
    agents: jobs are numbered in the order in which they are computed.

    Args:
        spec: the experiment.
        stored: the spec as it is stored; a version of Heirloom whose specs have more keys stores
            an equal spec differently.
    """

    spec: ExperimentSpec
    stored: dict[str, Any]

    @cached_property
    def digest(self) -> bytes:
        """Checksum of the stored spec; binds rows to their experiment."""
        text = json.dumps([FORMAT, self.stored], sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).digest()

    @property
    def n_agents(self) -> int:
        """Number of agents."""
        return len(self.spec.agents)

    @property
    def n_jobs(self) -> int:
        """Number of jobs: agents times repetitions."""
        return self.n_agents * self.spec.repetitions

    @cached_property
    def names(self) -> list[str]:
        """Names of the variables recorded for each job."""
        return [*RECORDED, *self.measured]

    @cached_property
    def measured(self) -> dict[str, Variable]:
        """Variables that the measure of the spec adds, by name."""
        if self.spec.measured is not None:
            taken = {*RECORDED, *SHARED, *COORDINATES, *ABOUT, RECORDING, *self.own_dimensions}
            for name in self.spec.measured:
                if name.lower() in taken:
                    raise InvalidArgument(
                        f"measure {shown(self.spec.measure)} records {name}, which every run has: "
                        "choose another name for the variable"
                    )
            return {name: each.variable for name, each in self.spec.measured.items()}
        return {} if self.spec.measure is None else OBSERVERS[self.spec.measure].variables

    @cached_property
    def own_dimensions(self) -> dict[str, str]:
        """The dimensions that the measure of the spec adds, and what they mean."""
        if self.spec.measured is not None:
            declared = self.spec.measured.values()
            return {name: text for each in declared for name, text in each.dimensions.items()}
        if self.spec.measure is None:
            return {}
        own = OBSERVERS[self.spec.measure].own_dimension
        return {name: meaning for name, (meaning, _) in own.items()}

    @cached_property
    def variables(self) -> dict[str, Variable]:
        """All variables of the run, and the labels of their dimensions."""
        own = {d: Variable((d,), "1", text, "i8") for d, text in self.own_dimensions.items()}
        return {**RECORDED, **self.measured, **SHARED, **COORDINATES, **own}

    @cached_property
    def columns(self) -> list[str]:
        """Names of the columns with results: variables, and recordings if the spec has a record."""
        return [*self.names, *SHARED, *([] if self.spec.record is None else [RECORDING])]

    @cached_property
    def job_table(self) -> str:
        """The statement that creates the table of jobs."""
        about = [f"{name} {kind}" for name, kind in ABOUT.items()]
        names = [f'"{n}"' if n in (self.spec.measured or ()) else n for n in self.columns]
        return f"CREATE TABLE job ({', '.join([*about, *(f'{n} BLOB' for n in names)])})"

    def number(self, job: Job) -> int:
        """Return the number of a job."""
        return job[1] * self.n_agents + job[0]

    def job(self, number: int) -> Job:
        """Return the job of a number."""
        return number % self.n_agents, number // self.n_agents

    def sizes(self, own: dict[str, int]) -> dict[str, int]:
        """Sizes of all dimensions; `own` has those of the dimensions that a measure adds."""
        spec = self.spec
        sizes = {"agent": self.n_agents, "repetition": spec.repetitions}
        sizes |= {"task": spec.tasks, "episode": spec.episodes}
        return sizes | {name: own.get(name, 0) for name in self.own_dimensions}

    def shape(self, name: str, own: dict[str, int]) -> tuple[int, ...]:
        """Shape of a variable, over all jobs."""
        sizes = self.sizes(own)
        return tuple(sizes[dimension] for dimension in self.variables[name].dimensions)

    def coordinates(self, own: dict[str, int]) -> dict[str, np.ndarray]:
        """Labels of each dimension."""
        sizes = self.sizes(own)
        agents = np.array([agent.name for agent in self.spec.agents], dtype=object)
        numbers = {name: np.arange(1, n + 1) for name, n in sizes.items() if name != "agent"}
        return {"agent": agents} | numbers

    def row(self, job: Job, results: Mapping[str, np.ndarray], origin: Origin) -> Row:
        """Return the row of a job."""
        values = [
            None if name in SHARED and job[0] else self._encoded(name, results[name])
            for name in self.columns
        ]
        versions = json.dumps(origin.versions, sort_keys=True)
        name = self.spec.agents[job[0]].name
        seconds = float(origin.seconds)
        about = (self.number(job), name, job[1] + 1, seconds, origin.worker, versions)
        return (*about, self._checksum((*about, None, *values)), *values)

    def is_intact(self, row: Row) -> bool:
        """Return whether the checksum of a row is that of its other columns, and of this spec."""
        seconds, worker, versions = row[3:6]
        fits = isinstance(seconds, float) and isinstance(worker, str) and isinstance(versions, str)
        return fits and bool(row[N_ABOUT - 1] == self._checksum(row))

    def _checksum(self, row: Row) -> bytes:
        values = row[N_ABOUT:]
        sizes = [len(each) if isinstance(each, bytes) else each for each in values]
        hashed = hashlib.blake2b(self.digest, digest_size=16)
        hashed.update(repr((row[: N_ABOUT - 1], sizes)).encode())
        for value in values:
            if isinstance(value, bytes):
                hashed.update(value)
        return hashed.digest()

    def array(self, name: str, value: Any) -> np.ndarray:
        """Return the array of a column of one job; raise `InvalidFile` unless it fits the spec."""
        try:
            array = read_array(value)  # allocates nothing, whatever sizes the value claims
        except Exception as error:  # numpy evaluates a literal, which may fail in many ways
            raise InvalidFile(f"{name} of a job is not an .npy file ({error})") from error
        sizes = self.sizes(dict.fromkeys(self.own_dimensions, -1))
        inner = [d for d in self.variables[name].dimensions if d not in JOB]
        fits = array.ndim == len(inner) and all(
            sizes[d] in (-1, n) for d, n in zip(inner, array.shape, strict=True)
        )
        if not fits or array.dtype != np.dtype(self.variables[name].dtype):
            raise InvalidFile(
                f"{name} of a job is {array.dtype} of shape {array.shape}, which does not fit"
            )
        return array

    def _encoded(self, name: str, values: Any) -> bytes:
        """Return the bytes of a variable of one job: an `.npy` file, or a file of recordings."""
        if name == RECORDING:
            return bytes(values)
        file = io.BytesIO()
        array = np.asarray(values, dtype=self.variables[name].dtype, order="C")
        np.lib.format.write_array(file, array, version=(1, 0), allow_pickle=False)
        return file.getvalue()

    def run_row(self, versions: dict[str, str]) -> Row:
        """Return the row of the table `run`."""
        texts = json.dumps(self.stored), json.dumps(versions)
        return (*texts, checksum_of_run(*texts))


def texts_of(value: object) -> dict[str, str]:
    """Return versions that were read as JSON; none unless they are a table."""
    return {str(k): str(v) for k, v in value.items()} if isinstance(value, dict) else {}


def checksum_of_run(spec: str, versions: str) -> bytes:
    """Return the checksum of the row of the table `run`."""
    return hashlib.sha256(repr((FORMAT, spec, versions)).encode()).digest()
