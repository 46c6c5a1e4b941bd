"""Write the results of a run to its database.

Only the process that started the run writes. Results wait in memory, and are committed in groups:
after `INTERVAL` seconds, or earlier if there are many. The database is open during a commit only,
so that no worker inherits it, and so that a folder that was moved is noticed.
"""

import logging
import os
import sqlite3
import threading
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from heirloom.errors import CannotWrite, HeirloomError, InvalidArgument
from heirloom.experiments.job import Job
from heirloom.experiments.spec import ExperimentSpec
from heirloom.runs.layout import APPLICATION, FORMAT, N_ABOUT, RUN_TABLE, Layout, Origin, Row
from heirloom.runs.stored_run import (
    DATABASE,
    StoredRun,
    check_schema,
    read_spec,
    rows,
)
from heirloom.runs.versions import versions
from heirloom.storage import database
from heirloom.storage.database import DATABASE_START, JOURNAL, LARGEST_VALUE, Damaged
from heirloom.storage.files import folder_path, regular_file, sync_folder
from heirloom.wording import counted_of

INTERVAL = 1.0  # seconds after which results that wait are committed
MOST_BYTES = 32 * 2**20  # of results that wait; one job may have more
NEW = f"{DATABASE}.new"
"""Name of a database while it is made from a damaged one."""
PAGE = 4096  # bytes
N_PAGES = slice(28, 32)  # bytes of the first page that have the number of pages


class RunStore(StoredRun):
    """A run that is open for writing, in a folder that is locked.

    A database that is damaged is replaced at once by a new one with the jobs that can be read, and
    is kept under another name. Otherwise nothing is written before the first result.

    Raises `InvalidArgument` if the folder contains another experiment.
    """

    def __init__(self, location: str | os.PathLike[str], spec: ExperimentSpec) -> None:
        self.location, self.spec = folder_path(location), spec
        self.layout, self.versions = Layout(spec, spec.as_json()), versions()
        self._waiting: dict[int, Row] = {}
        self._waiting_bytes = 0
        self._guard = threading.RLock()
        self._timer: threading.Timer | None = None
        self._committed: list[Job] = []
        self._failure: HeirloomError | None = None
        self._inode: tuple[int, int] | None = None  # once the database exists
        self._done: set[int] = set()
        if self._open():
            self._inode = self._found_inode()

    def remaining_jobs(self) -> list[Job]:
        """Return the jobs that have to be computed."""
        return [job for number, job in enumerate(self.jobs) if number not in self._done]

    def add(self, job: Job, results: dict[str, np.ndarray], origin: Origin) -> list[Job]:
        """Add the results of a job; return the jobs that were committed since the last call."""
        row = self.layout.row(job, results, origin)
        if _size(row) > LARGEST_VALUE - 2**20:
            raise InvalidArgument(
                f"the results of {self.spec.agents[job[0]].name} in repetition {job[1] + 1} have "
                f"{_size(row):,} bytes, more than a database can store: choose fewer tasks or "
                "episodes, or record fewer"
            )
        with self._guard:
            self._wait(row)
            if self._waiting_bytes >= MOST_BYTES:
                return self.commit()
            if self._timer is None:
                self._timer = threading.Timer(INTERVAL, self._commit_in_time)
                self._timer.daemon = True
                self._timer.start()
            return self._take()

    def commit(self) -> list[Job]:
        """Commit the results that wait; return the jobs committed since the last call."""
        with self._guard:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            if self._waiting:
                numbers = list(self._waiting)
                self._check_place()
                self._flush(self.file)
                self._done.update(numbers)
                self._committed += map(self.layout.job, numbers)
            return self._take()

    def _wait(self, row: Row) -> None:
        self._waiting[row[0]] = row
        self._waiting_bytes += _size(row)

    def _take(self) -> list[Job]:
        """Return the jobs committed since the last call, or raise what a timed commit raised."""
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        committed, self._committed = self._committed, []
        return committed

    def _commit_in_time(self) -> None:
        with self._guard:
            try:
                self._committed = self.commit()
            except HeirloomError as error:
                self._failure = error  # raised in the thread of the run

    def _check_place(self) -> None:
        """Create the database, or raise `CannotWrite` if it is no longer in its place."""
        if self._inode is None:
            _create(self.file, self.layout, self.versions)
            self._inode = self._found_inode()
        elif self._found_inode() != self._inode:
            raise CannotWrite(
                f"{self.location} was moved or deleted while the run was in progress: if you moved "
                "it, resume the run in its new place; jobs that were complete are there"
            )

    def _found_inode(self) -> tuple[int, int]:
        with suppress(OSError):
            found = os.lstat(self.file)
            return found.st_dev, found.st_ino
        return -1, -1

    def _open(self) -> bool:
        """Return whether there is a database; check its spec, and find the jobs that are done."""
        new = self.location / NEW
        if not os.path.lexists(self.file) and _is_ours(new) and new.stat().st_size:
            if not os.path.lexists(f"{new}{JOURNAL}"):
                os.rename(new, self.file)  # the process was killed before this step
        found = regular_file(self.file, CannotWrite, alone=True)
        if found is None or not found.st_size:  # the run was killed before its first commit
            return False
        database.check_files(self.file, alone=True)
        if database.was_never_committed(self.file):  # killed during its first commit
            return False
        try:
            stored = StoredRun(self.location)
        except Damaged as error:
            self._salvage(error)
            return True
        difference = self.spec.difference(stored.spec)
        if difference:
            raise InvalidArgument(
                f"{self.location} contains another experiment ({difference}): choose another folder"
            )
        self.layout, self.versions = Layout(self.spec, stored.layout.stored), stored.versions
        status = stored.status()
        self._done = {self.layout.number(job) for job in status.done}
        if not status.is_intact:
            self._salvage(None)
        return True

    def _salvage(self, doubt: Damaged | None) -> None:
        """Make a new database of the jobs that can be read; keep the old one under another name.

        The first page of a database, with its tables, follows from the spec. So a copy is read
        whose first page is restored, and damage there loses nothing. Nothing is changed, and
        `doubt` is raised, if what can be read does not show that it is this experiment.
        """
        new = self.location / NEW
        if os.path.lexists(new) and not _is_ours(new):
            raise CannotWrite(f"{new} was not written by Heirloom: move it away")
        for path in (new, new.with_name(NEW + JOURNAL)):
            if regular_file(path, CannotWrite, alone=True):
                path.unlink()  # of a process that was killed here
        with TemporaryDirectory() as folder:
            _create(new, self.layout, self.versions)
            first_page = new.read_bytes()[:PAGE]
            copy = database.copied(self.file, Path(folder), partial(_restore, first_page))
            self._done = set()
            with suppress(Damaged), database.reading(copy) as source:
                check_schema(source, self.layout, copy)
                doubt = None if self._is_this_experiment(source) else doubt
                for number, row in rows(source, self.layout):
                    if row is not None and self.layout.is_intact(row):
                        doubt = None
                        self._done.add(number)
                        self._wait(row)
                        if self._waiting_bytes >= MOST_BYTES:
                            self._flush(new)
        if doubt is not None:
            new.unlink()
            raise doubt
        self._flush(new)
        with database.writing(new) as connection:  # the spec and the versions that were read
            row = self.layout.run_row(self.versions)
            connection.execute("UPDATE run SET spec = ?, versions = ?, checksum = ?", row)
        kept = self._kept_name()
        journal = self.file.with_name(DATABASE + JOURNAL)
        if regular_file(journal):
            os.rename(journal, kept.with_name(kept.name + JOURNAL))
        os.rename(self.file, kept)
        os.rename(new, self.file)
        sync_folder(self.location)
        logging.getLogger("heirloom").warning(
            "heirloom: %s was damaged: it is kept as %s, and %s could be read and copied to a new "
            "%s; the others are computed again",
            self.file,
            kept.name,
            counted_of(len(self._done), self.layout.n_jobs, "job"),
            DATABASE,
        )

    def _is_this_experiment(self, connection: sqlite3.Connection) -> bool:
        """Return whether the stored spec is ours; if so, take it and its versions over."""
        try:
            stored, found = read_spec(connection, self.file)
            if self.spec.difference(ExperimentSpec.read(stored, stored=True)):
                return False
        except (sqlite3.DatabaseError, HeirloomError):
            return False
        self.layout, self.versions = Layout(self.spec, stored), found
        return True

    def _flush(self, file: Path) -> None:
        places = ", ".join("?" * (N_ABOUT + len(self.layout.columns)))
        with database.writing(file) as connection:
            statement = f"INSERT OR REPLACE INTO job VALUES ({places})"
            connection.executemany(statement, self._waiting.values())
        self._waiting.clear()
        self._waiting_bytes = 0

    def _kept_name(self) -> Path:
        """Return a path for the damaged database at which there is nothing yet."""
        for n in count(1):
            path = self.location / f"run.damaged-{n}.sqlite"
            if not any(os.path.lexists(f"{path}{ending}") for ending in ("", JOURNAL)):
                break
        return path


def _is_ours(new: Path) -> bool:
    """Return whether this is a file that a salvage began: a run of Heirloom, or empty."""
    if regular_file(new, CannotWrite, alone=True) is None:
        return False
    with open(new, "rb") as file:
        start = file.read(72)
    is_run = start.startswith(DATABASE_START) and start[68:72] == APPLICATION.to_bytes(4)
    return is_run or not start


def _create(file: Path, layout: Layout, versions: dict[str, str]) -> None:
    """Create the database of a run, durably."""
    if regular_file(file, CannotWrite, alone=True) is None:
        database.create(file)
    with database.writing(file) as connection:
        connection.execute(f"PRAGMA application_id = {APPLICATION}")
        connection.execute(f"PRAGMA user_version = {FORMAT}")
        connection.execute(RUN_TABLE)
        connection.execute(layout.job_table)
        connection.execute("INSERT INTO run VALUES (?, ?, ?)", layout.run_row(versions))
    sync_folder(file.parent)


def _restore(first_page: bytes, copy: Path) -> None:
    """Replace the first page of a database, but for the number of pages."""
    with open(copy, "r+b") as file:
        page = bytearray(first_page)
        page[N_PAGES] = (copy.stat().st_size // PAGE).to_bytes(4)
        file.write(page)


def _size(row: Row) -> int:
    return sum(len(value) for value in row[N_ABOUT:] if value is not None)
