"""Write the results of a run: batches of jobs, the manifest, and the zarr arrays.

Only this process writes. A batch is a new file that is never changed; it is written aside, synced,
renamed, and its folder is synced. Then the manifest, which lists all batches, is replaced in the
same way. A job counts as done from then on. Whatever happens before, the folder contains the state
of the last manifest, and perhaps a batch that is intact and not listed yet, which is adopted.

Batches are the reason that a run of many small jobs has few files. Zarr shards are rewritten as a
whole, and objects of an object store cannot be appended to, so neither can serve as a journal. The
zarr arrays, for xarray, are therefore written from the batches when the run ends or is stopped.
Results are then stored twice, and one lost file never requires computation.

The results of a job depend on the spec alone, so two runs at the same location store the same
results if no lock keeps them apart. Each adds batches of its own, and reads those of the other.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from heirloom.errors import CannotWrite
from heirloom.experiments.job import Job
from heirloom.experiments.spec import ExperimentSpec
from heirloom.runs import spec_file
from heirloom.runs.arrays import write_arrays
from heirloom.runs.batch import Batch, Origin, encode, make_batch, merge, split
from heirloom.runs.finding import identify
from heirloom.runs.layout import BATCHES, FORMAT, MANIFEST, SPEC, TEMPORARY
from heirloom.runs.manifest import Manifest
from heirloom.runs.numbers import job_of, number_of
from heirloom.runs.spec_file import attributes
from heirloom.runs.stored_run import StoredRun
from heirloom.storage.location import Location
from heirloom.storage.sealed_json import digest

INTERVAL = 1.0  # seconds after which results that wait are committed
LARGE_JOB = 1.0  # seconds; a job that took longer is committed at once
MOST_JOBS = 1000  # in a batch
MOST_BYTES = 8 * 2**20  # in a batch that waits; one job may have more
SMALL_BATCH = 4 * 2**20  # bytes; smaller batches are merged
MANY_BATCHES = 64  # small batches that are merged into larger ones during the run
QUICK_TO_WRITE = 64 * 2**20  # bytes of results; a stopped run writes its arrays if it has fewer


class RunStore(StoredRun):
    """A stored run that is open for writing; nothing is written before the first result.

    Args:
        location: the folder or URL of the run; created if it does not exist.
        spec: the experiment. `InvalidArgument` is raised if the location contains another one.
        exclusive: whether a lock keeps other runs out of the location.
    """

    def __init__(
        self,
        location: str | os.PathLike[str] | Location,
        spec: ExperimentSpec,
        *,
        exclusive: bool = True,
    ) -> None:
        location = Location(location)
        identity, layout = identify(location, spec)
        self._set_up(location, identity, layout)
        self.exclusive = exclusive
        self._waiting: dict[int, tuple[int, dict[str, np.ndarray], Origin]] = {}
        self._waiting_bytes = 0
        self._last_commit = time.monotonic()
        self._folder: tuple[int, int] | None = None  # device and inode, once it was prepared

    def remaining_jobs(self) -> list[Job]:
        """Return the jobs that are missing or damaged, and have to be computed."""
        numbers = np.flatnonzero(~self.batches.done)
        return [job_of(number, self.layout.n_agents) for number in numbers]

    def add(self, job: Job, results: dict[str, np.ndarray], origin: Origin) -> list[Job]:
        """Add the results of a job; return the jobs that were committed and are done now.

        Results wait in memory until there are many, or `INTERVAL` seconds have passed, or the last
        job took long.
        """
        number = number_of(job, self.layout.n_agents)
        self._waiting[number] = number, results, origin
        self._waiting_bytes += sum(array.nbytes for array in results.values())
        is_due = (
            origin.seconds >= LARGE_JOB
            or time.monotonic() - self._last_commit >= INTERVAL
            or len(self._waiting) >= MOST_JOBS
            or self._waiting_bytes >= MOST_BYTES
        )
        return self.commit() if is_due else []

    def commit(self) -> list[Job]:
        """Write the results that wait as a batch, then the manifest; return the jobs done now."""
        if not self._waiting:
            return []
        waiting = list(self._waiting.values())
        batch = make_batch(self.layout, waiting)
        with self._writing():
            self._prepare()
            self._write_batch(batch)
            if not self._manifest.files:
                self._write_arrays()  # so that xarray opens the run from its first jobs on
            self._write_manifest()
            self._merge_batches(MANY_BATCHES)
        self._waiting.clear()
        self._waiting_bytes, self._last_commit = 0, time.monotonic()
        done = self.batches.done
        return [job_of(n, self.layout.n_agents) for n, _, _ in waiting if done[n]]

    def finish(self) -> None:
        """Commit what waits, merge small batches, and bring all files up to date."""
        self.commit()
        with self._writing():
            if self.exclusive and sum(map(self._is_small, self.batches.files)) > 1:
                self._prepare()
                self._merge_batches(2)
            if self.identity.format < FORMAT or self.repairable():
                self._prepare()
                self._write_arrays()
                self._write_manifest()

    def stop(self) -> None:
        """Commit what waits when the run is stopped; write the arrays if that is quick."""
        self.commit()
        size = sum(file.size for file in self.batches.files.values())
        if self._folder is not None and size <= QUICK_TO_WRITE:
            self.finish()

    def _prepare(self) -> None:
        """Create the folder, or repair what can be repaired without the zarr arrays; once."""
        if self._folder is not None:
            return
        batches = self.batches  # read before anything is written
        self.location.create()
        self.location.create_subfolder(BATCHES)
        self._folder = self._found_folder()
        self._manifest = self.manifest or Manifest()
        if self.exclusive:
            self._remove_temporary_files()
        if not self.identity.intact:
            self.location.replace(SPEC, spec_file.encode(self.layout.stored, self.versions))
            self.identity = self.identity._replace(intact=True)
        for batch in batches.held:
            for part in split(self.layout, batch, MOST_JOBS, MOST_BYTES):
                self._write_batch(part)
        batches.release()
        if batches.broken:
            broken, batches.broken = batches.broken, []
            self._write_manifest()
            for name in broken:
                self.location.delete(f"{BATCHES}/{name}")

    def _write_batch(self, batch: Batch) -> bool:
        """Write a batch, and read it back; return whether that gave the same bytes."""
        data = encode(self.layout, batch)
        name = self.batches.next_name(digest(data))
        self.location.replace(f"{BATCHES}/{name}", data)
        if self.location.read(f"{BATCHES}/{name}") != bytes(data):
            return False
        self.batches.add(name, batch, len(data))
        return True

    def _merge_batches(self, at_least: int) -> None:
        """Merge small batches if there are many; the old files are deleted after the manifest."""
        small = [name for name in self.batches.files if self._is_small(name)]
        if len(small) < at_least or not self.exclusive:
            return
        group: list[str] = []
        merged: list[str] = []
        for name in [*small, None]:
            size = sum(self.batches.files[each].size for each in group)
            if len(group) > 1 and (name is None or size >= SMALL_BATCH):
                batch = merge(self.layout, [self.batches.load(each) for each in group])
                merged += group if self._write_batch(batch) else []
            if name is not None:
                group = [name] if size >= SMALL_BATCH else [*group, name]
        if not merged:
            return
        self.batches.forget(merged)
        self._write_manifest()
        for name in merged:
            self.location.delete(f"{BATCHES}/{name}")

    def _is_small(self, name: str) -> bool:
        return self.batches.files[name].size < SMALL_BATCH

    def _write_arrays(self) -> None:
        stored = attributes(self.layout.stored, self.versions)
        written = write_arrays(self.location, self.batches, stored, exclusive=self.exclusive)
        self._manifest.files, self._manifest.in_arrays = written.files, written.in_arrays
        self.identity = self.identity._replace(format=FORMAT)

    def _write_manifest(self) -> None:
        files = self.batches.files.items()
        self._manifest.batches = {name: file.jobs for name, file in files}
        self.location.replace(MANIFEST, self._manifest.encode(self.layout))
        self._loaded = self._manifest, self.batches

    def _remove_temporary_files(self) -> None:
        for folder in (None, BATCHES, *self.layout.array_names()):
            at = self.location if folder is None else self.location / folder
            for name in at.names():
                if TEMPORARY.fullmatch(name):
                    at.delete(name)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Check before and after an error that the folder of the run is still in its place."""
        self._check_folder()
        try:
            yield
        except CannotWrite:
            self._check_folder()
            raise

    def _check_folder(self) -> None:
        if self._folder is not None and self._found_folder() != self._folder:
            raise CannotWrite(
                f"{self.location} was moved or deleted while the run was in progress: if you moved "
                "it, resume the run in its new place; jobs that were complete are there"
            )

    def _found_folder(self) -> tuple[int, int]:
        if not self.location.is_local:
            return 0, 0
        try:
            found = self.location.path.stat()
        except OSError:
            return -1, -1
        return found.st_dev, found.st_ino
