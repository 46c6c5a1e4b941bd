"""Read a stored run, and check which of its jobs are complete, missing or damaged.

Reading changes no file, and executes nothing that is read. A reader holds SQLite's lock for a few
rows at a time, so that it does not keep a run in progress from committing.
"""

import json
import os
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from heirloom.arrays import BoolArray, FloatArray
from heirloom.errors import InvalidArgument, InvalidFile
from heirloom.experiments.job import Job
from heirloom.experiments.reading import MOST_JOBS
from heirloom.experiments.spec import ExperimentSpec
from heirloom.runs.layout import (
    APPLICATION,
    FORMAT,
    N_ABOUT,
    RECORDING,
    RUN_TABLE,
    SHARED,
    Layout,
    Row,
    checksum_of_run,
    texts_of,
)
from heirloom.storage.database import (
    Damaged,
    limit_values,
    raise_unless_damage,
    reading,
    was_never_committed,
)
from heirloom.storage.files import folder_path, regular_file
from heirloom.validation import shown

if TYPE_CHECKING:
    import xarray as xr

DATABASE = "run.sqlite"
OTHER_TABLES = (
    "has other tables than a run of Heirloom, or is damaged: if it is a run, repeat the command "
    "that started it"
)
READ_AT_ONCE = 16 * 2**20  # bytes of rows
MOST_UNSTORED = 2**26  # bytes of an array for jobs that are not stored, if the file is small


class SameVersions(NamedTuple):
    """Jobs that were computed with the same versions of Python and libraries."""

    versions: dict[str, str]
    jobs: list[Job]


@dataclass
class Status:
    """State of each job of a run, and how the complete jobs were computed."""

    done: list[Job] = field(default_factory=list)
    """Jobs that are complete and whose checksums match."""
    missing: list[Job] = field(default_factory=list)
    """Jobs that were not computed, or whose rows cannot be found any more."""
    damaged: list[Job] = field(default_factory=list)
    """Jobs that were complete, and have to be computed again."""
    problem: str | None = None
    """What SQLite's integrity check found first, if anything."""
    seconds: float = 0.0
    """Time that the computation of all jobs took together."""
    workers: set[str] = field(default_factory=set)
    """Processes that computed jobs."""
    by_versions: list[SameVersions] = field(default_factory=list)

    @property
    def is_intact(self) -> bool:
        """Whether nothing is damaged."""
        return not (self.damaged or self.problem)

    @property
    def is_complete(self) -> bool:
        """Whether nothing is missing or damaged."""
        return self.is_intact and not self.missing


class StoredRun:
    """A run that exists in a folder."""

    def __init__(self, location: str | os.PathLike[str]) -> None:
        self.location = folder_path(location)
        found = regular_file(self.file)
        if found is None or not found.st_size or was_never_committed(self.file):
            raise not_a_run(self.location)
        with reading(self.file) as connection:
            stored, self.versions = read_spec(connection, self.file)
            try:
                self.layout = Layout(ExperimentSpec.read(stored, stored=True), stored)
                n = self.layout.n_jobs
                if n > MOST_JOBS:
                    raise InvalidArgument(f"it has {n:,} jobs: at most {MOST_JOBS:,}")
            except (InvalidArgument, KeyError, TypeError) as error:
                raise Damaged(
                    f"{self.file} has a spec that this version of Heirloom cannot read ({error}): "
                    "read it with the version that wrote it"
                ) from error
            check_schema(connection, self.layout, self.file)
        self.spec = self.layout.spec

    @property
    def file(self) -> Path:
        """The database."""
        return self.location / DATABASE

    @property
    def jobs(self) -> list[Job]:
        """All jobs of the experiment: all agents of the first repetition, then of the next."""
        return [self.layout.job(number) for number in range(self.layout.n_jobs)]

    def status(self) -> Status:
        """Check all jobs; this reads the whole run, and verifies all checksums."""
        status, found = Status(), np.zeros(self.layout.n_jobs, dtype=bool)
        by_versions: dict[str, list[Job]] = {}
        with self._reading() as connection:
            status.problem = _problem(connection)
            for number, row in rows(connection, self.layout):
                found[number] = True
                job = self.layout.job(number)
                if row is None or not self.layout.is_intact(row):
                    status.damaged.append(job)
                    continue
                status.done.append(job)
                _, _, _, seconds, worker, versions, _ = row[:N_ABOUT]
                status.seconds += seconds
                status.workers.add(worker)
                by_versions.setdefault(versions, []).append(job)
        status.missing = [self.layout.job(int(n)) for n in np.flatnonzero(~found)]
        status.by_versions = [
            SameVersions(texts_of(_json(text)), jobs) for text, jobs in by_versions.items()
        ]
        return status

    def load(
        self, names: Collection[str] | None = None
    ) -> tuple[dict[str, np.ndarray], BoolArray, dict[str, int]]:
        """Load variables into memory, over all jobs; all variables by default.

        Returns them, with fill values for jobs that are missing or damaged; which jobs [agent,
        repetition] are complete; and the sizes of the dimensions that a measure adds.
        """
        layout, arrays, own = self.layout, dict[str, np.ndarray](), dict[str, int]()
        chosen = [name for name in self._variables if names is None or name in names]
        done = np.zeros((layout.spec.repetitions, layout.n_agents), dtype=bool)
        with self._reading() as connection:
            for number, row in rows(connection, layout):
                if row is None or not layout.is_intact(row):
                    continue
                i, j = layout.job(number)
                done[j, i] = True
                for name, value in zip(layout.columns, row[N_ABOUT:], strict=True):
                    if name not in chosen or (name in SHARED and i):
                        continue
                    values = layout.array(name, value)
                    if name not in arrays:
                        inner = self.layout.variables[name].dimensions[-values.ndim :]
                        own |= zip(inner, values.shape, strict=True)
                        arrays[name] = self._filled(name, own)
                    if values.shape != arrays[name].shape[-values.ndim :]:
                        raise InvalidFile(f"{self.file} has jobs whose {name} differ in shape")
                    arrays[name][(j,) if name in SHARED else (i, j)] = values
        own = {name: own.get(name, 0) for name in layout.own_dimensions}
        missing = {name: self._filled(name, own) for name in chosen if name not in arrays}
        return {name: (arrays | missing)[name] for name in chosen}, done.T, own

    def seconds(self) -> FloatArray:
        """Return the time that each job took, [agent, repetition]; NaN if it is not complete."""
        found = np.full((self.layout.n_agents, self.spec.repetitions), np.nan)
        with self._reading() as connection:
            for number, seconds in connection.execute("SELECT job, seconds FROM job"):
                found[self.layout.job(number)] = seconds
        return found

    def results(self, variables: Sequence[str] | None = None) -> "xr.Dataset":
        """Load results into memory; the values of jobs that are not done are NaN, or -1."""
        arrays, _, own = self.load(self._checked(variables))
        return self.dataset(arrays, own)

    def dataset(self, arrays: dict[str, np.ndarray], own: dict[str, int]) -> "xr.Dataset":
        """Return arrays that `load` returned as a labelled dataset."""
        import xarray as xr

        variables = self.layout.variables
        used = {d for name in arrays for d in variables[name].dimensions}
        coordinates = {d: c for d, c in self.layout.coordinates(own).items() if d in used}
        spec = self.layout.stored
        attributes = {"heirloom_run": FORMAT, "spec": spec, "seed": spec["seed"]}
        dataset = xr.Dataset(
            {
                name: (self.layout.variables[name].dimensions, values)
                for name, values in arrays.items()
            },
            coords={name: ((name,), labels) for name, labels in coordinates.items()},
            attrs=attributes | {"versions": self.versions},
        )
        for key in dataset.variables:
            variable = variables[str(key)]
            dataset[key].attrs |= {"long_name": variable.meaning, "units": variable.units}
        return dataset

    def read_job(self, job: Job) -> dict[str, np.ndarray | bytes] | None:
        """Return the results of a job; None if it is missing or damaged."""
        return next((results for _, results in self.read_jobs([job])), None)

    def read_jobs(self, jobs: Iterable[Job]) -> Iterator[tuple[Job, dict[str, np.ndarray | bytes]]]:
        """Yield the results of those of these jobs that are complete and intact."""
        with self._reading() as connection:
            for job in jobs:
                row = read_row(connection, self.layout.number(job))
                if row is None or not self.layout.is_intact(row):
                    continue
                yield (
                    job,
                    {
                        name: value if name == RECORDING else self.layout.array(name, value)
                        for name, value in zip(self.layout.columns, row[N_ABOUT:], strict=True)
                        if value is not None
                    },
                )

    @property
    def _variables(self) -> list[str]:
        return [*self.layout.names, *SHARED]

    def _checked(self, variables: object) -> list[str] | None:
        if variables is None:
            return None
        listed = [variables] if isinstance(variables, str) else variables
        known = self._variables
        if not isinstance(listed, list | tuple) or not all(
            isinstance(name, str) and name in known for name in listed
        ):
            raise InvalidArgument(
                f"variables is {shown(variables)}: expected a list of some of "
                f"{', '.join(self._variables)}"
            )
        return list(listed)

    def _filled(self, name: str, own: dict[str, int]) -> np.ndarray:
        """Return an array of fill values, unless it is far larger than the file."""
        variable, shape = self.layout.variables[name], self.layout.shape(name, own)
        claimed = 8 * prod(shape)
        if claimed > MOST_UNSTORED + 64 * self.file.stat().st_size:
            raise InvalidFile(
                f"{name} of {self.location} would take {claimed / 1e9:,.0f} GB of memory, and few "
                "of its jobs exist: choose other variables, or complete the run"
            )
        return np.full(shape, variable.fill, dtype=variable.dtype)

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with reading(self.file) as connection:
            check_schema(connection, self.layout, self.file)
            yield connection


def not_a_run(folder: Path) -> InvalidFile:
    """Return the error for a folder that does not contain a run."""
    return InvalidFile(f"there is no run in {folder}: give the folder of a run")


def rows(connection: sqlite3.Connection, layout: Layout) -> Iterator[tuple[int, Row | None]]:
    """Yield the number and the row of each job, and None for rows that cannot be read."""
    start, last = 0, layout.n_jobs - 1
    try:
        while found := _some_rows(connection, start, last):
            numbers = [row[0] for row in found]
            if numbers != sorted({start, *numbers})[-len(numbers) :]:
                raise sqlite3.DatabaseError("rows are not in order")  # the next step would not end
            yield from zip(numbers, found, strict=True)
            start = numbers[-1] + 1
    except sqlite3.DatabaseError as error:  # find the rows on other pages one by one
        raise_unless_damage(error)
        for number in range(start, layout.n_jobs):
            try:
                row = read_row(connection, number)
            except sqlite3.DatabaseError as of_row:
                raise_unless_damage(of_row)
                yield number, None
                continue
            if row is not None:
                yield number, row


def _some_rows(connection: sqlite3.Connection, start: int, last: int) -> list[Row]:
    """Return the first rows from a job on, of about `READ_AT_ONCE` bytes together."""
    query = "SELECT * FROM job WHERE job BETWEEN ? AND ? ORDER BY job LIMIT 1000"
    limit_values(connection)
    found: list[Row] = []
    n_bytes = 0
    cursor = connection.execute(query, (start, last))
    try:
        for row in cursor:
            found.append(row)
            n_bytes += sum(len(value) for value in row if isinstance(value, bytes))
            if n_bytes >= READ_AT_ONCE:
                break
    finally:
        cursor.close()  # releases the lock
    return found


def read_row(connection: sqlite3.Connection, number: int) -> Row | None:
    """Return the row of a job, or None if there is none."""
    limit_values(connection)
    found: Row | None = connection.execute("SELECT * FROM job WHERE job = ?", (number,)).fetchone()
    if found is not None and found[0] != number:
        raise sqlite3.DatabaseError("rows are not in order")
    return found


def _problem(connection: sqlite3.Connection) -> str | None:
    """Return the first problem that SQLite finds in a database, or None."""
    try:
        (result,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    except sqlite3.DatabaseError as error:
        raise_unless_damage(error)
        return str(error)
    return None if result == "ok" else str(result).replace("\n", " ")


def check_schema(connection: sqlite3.Connection, layout: Layout, where: Path) -> None:
    """Raise `Damaged` unless a database has our two tables, and nothing else that it defines."""
    found = connection.execute("SELECT name, sql FROM sqlite_master").fetchall()
    if sorted(found, key=str) != [("job", layout.job_table), ("run", RUN_TABLE)]:
        raise Damaged(f"{where} {OTHER_TABLES}")


def read_spec(connection: sqlite3.Connection, where: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the spec and the versions of a run; raise `Damaged` unless they are intact."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (number,) = connection.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION:
        raise Damaged(f"{where} is not a run of Heirloom: check the path")
    if number > FORMAT:
        raise Damaged(
            f"{where} has format {number}, and this version of Heirloom reads {FORMAT}: it was "
            "written by a newer version of Heirloom; upgrade Heirloom to read it"
        )
    statement = "SELECT sql FROM sqlite_master WHERE name = 'run' AND type = 'table'"
    if connection.execute(statement).fetchall() != [(RUN_TABLE,)]:
        raise Damaged(f"{where} {OTHER_TABLES}")
    found = connection.execute("SELECT spec, versions, checksum FROM run LIMIT 2").fetchall()
    try:
        ((spec, versions, checksum),) = found
        if checksum != checksum_of_run(spec, versions):
            raise ValueError
        stored = _json(spec)
        if not isinstance(stored, dict):
            raise ValueError
    except ValueError:
        raise Damaged(
            f"the spec in {where} is damaged: repeat the command that started the run, which "
            "restores it"
        ) from None
    return stored, texts_of(_json(versions))


def _json(text: object) -> Any:
    """Return what a JSON text contains; None if it cannot be parsed."""
    try:
        return json.loads(text)  # type: ignore[arg-type]
    except (ValueError, TypeError, RecursionError):
        return None
