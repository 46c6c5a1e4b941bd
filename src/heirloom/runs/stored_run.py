"""Read a stored run, and check which of its jobs are complete, missing or damaged.

Results are read from the batches of the run, and from its zarr arrays where a batch is lost, or the
run has format 1. Reading changes no file, and executes nothing that is read.
"""

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from heirloom.arrays import IntArray
from heirloom.errors import InvalidFile
from heirloom.experiments.job import Job
from heirloom.runs import manifest as manifests
from heirloom.runs.arrays import damaged_files, shared_arrays, whole_arrays
from heirloom.runs.batches import Batches
from heirloom.runs.finding import not_a_run
from heirloom.runs.layout import BATCHES, FORMAT, MANIFEST, SPEC, Layout
from heirloom.runs.manifest import Manifest
from heirloom.runs.numbers import job_of, number_of
from heirloom.runs.restoring import restore
from heirloom.runs.schema import STORED
from heirloom.runs.spec_file import Identity, attributes, read_identity, recorded_digests
from heirloom.storage.location import Location

if TYPE_CHECKING:
    import xarray as xr

ATTEMPTS = 5  # to read a run while another process writes to it

ARRAYS = "zarr arrays"
"""Stands for all files of the zarr arrays, if they lack jobs that are complete."""

State = Literal["done", "missing", "damaged"]


@dataclass(frozen=True)
class Status:
    """State of each job of a run, and of its files."""

    done: list[Job]
    """Jobs that are complete and whose checksums match."""
    missing: list[Job]
    """Jobs that were never computed, or not completely written."""
    damaged: list[Job]
    """Jobs that were complete, and have to be computed again."""
    repairable: list[str] = field(default_factory=list)
    """Files that are missing, damaged or out of date, and can be written again from the others."""

    @property
    def is_complete(self) -> bool:
        """Whether no job and no file is missing or damaged."""
        return not (self.missing or self.damaged or self.repairable)


class SameVersions(NamedTuple):
    """Jobs that were computed with the same versions of Python and libraries."""

    versions: dict[str, str]
    jobs: list[Job]


class Origins(NamedTuple):
    """How the complete jobs of a run were computed."""

    seconds: float
    """Time that the computation of all jobs took together, where it was recorded."""
    workers: int
    """Number of processes that computed jobs."""
    by_versions: list[SameVersions]


class StoredRun:
    """A run that exists on disk or at a URL.

    Args:
        location: its folder or URL.
    """

    def __init__(self, location: str | os.PathLike[str] | Location) -> None:
        location = Location(location)
        identity = read_identity(location)
        if identity is None:
            raise not_a_run(location)
        layout = identity.layout(location)
        if not identity.intact and layout.digest not in (
            recorded_digests(location) or layout.digest
        ):
            raise InvalidFile(
                f"both copies of the spec of the run in {location} are damaged: run the same "
                "experiment there again, which restores them"
            )
        self._set_up(location, identity, layout)

    def _set_up(self, location: Location, identity: Identity, layout: Layout) -> None:
        self.location, self.identity, self.layout = location, identity, layout
        self.spec = layout.spec
        self._loaded: tuple[Manifest | None, Batches] | None = None

    @property
    def versions(self) -> dict[str, str]:
        """Versions of Python and of the libraries that the run was started with."""
        return self.identity.versions

    @property
    def names(self) -> list[str]:
        """Names of the variables recorded for each job."""
        return self.layout.names

    @property
    def jobs(self) -> list[Job]:
        """All jobs of the experiment: all agents of the first repetition, then of the next."""
        return [job_of(n, self.layout.n_agents) for n in range(self.layout.n_jobs)]

    @property
    def manifest(self) -> Manifest | None:
        """The manifest; None if it is missing or damaged."""
        return self._load()[0]

    @property
    def batches(self) -> Batches:
        """All intact batches, and the jobs that were restored from the zarr arrays."""
        return self._load()[1]

    def refresh(self) -> None:
        """Read the run again when it is next used."""
        self._loaded = None

    def read_job(self, job: Job) -> tuple[State, dict[str, np.ndarray]]:
        """Return the state of a job, and its results if the state is `"done"`."""
        number = number_of(job, self.layout.n_agents)
        if not self.batches.done[number]:
            return ("damaged" if number in self._lost() else "missing"), {}
        gathered = self.batches.gather(np.array([number]), self.layout.names_of(job))
        return "done", {name: rows[0] for name, rows in gathered.items()}

    def status(self) -> Status:
        """Check all jobs and files; this reads the whole run."""
        self.refresh()
        done = self.batches.done
        lost = np.zeros_like(done)
        lost[self._lost()] = True
        done_jobs, missing, damaged = (
            [job_of(n, self.layout.n_agents) for n in np.flatnonzero(mask)]
            for mask in (done, ~done & ~lost, lost)
        )
        return Status(done_jobs, missing, damaged, self.repairable())

    def repairable(self) -> list[str]:
        """Return the files that are missing, damaged or out of date."""
        manifest, batches = self._load()
        if self.identity.format < FORMAT:
            return []  # the run is converted when it is resumed
        found = [] if self.identity.intact else [SPEC]
        found += [f"{BATCHES}/{name}" for name in batches.broken]
        if manifest is None:
            return [*found, MANIFEST]
        listed = [name for name in batches.files if name in manifest.batches]
        in_listed = [batches.files[name].jobs for name in listed] or [np.empty(0, dtype=np.int64)]
        if len(np.unique(np.concatenate(in_listed))) < int(batches.done.sum()):
            found.append(MANIFEST)
        found += damaged_files(self.location, self.layout, manifest)
        if not np.array_equal(manifest.in_arrays, np.flatnonzero(batches.done)):
            found.append(ARRAYS)
        return found

    def results(self) -> "xr.Dataset":
        """Load all results into memory; the values of jobs that are not done are fill values."""
        import xarray as xr

        coordinates, arrays = self.coordinates(), whole_arrays(self.batches)
        dataset = xr.Dataset(
            {name: (STORED[name].dimensions, values) for name, values in arrays.items()},
            coords={name: (STORED[name].dimensions, c) for name, c in coordinates.items()},
            attrs=attributes(self.identity.spec, self.versions),
        )
        for key in dataset.variables:
            variable = STORED[str(key)]
            dataset[key].attrs |= {"long_name": variable.meaning, "units": variable.units}
        return dataset

    def origins(self) -> Origins:
        """Return how the complete jobs were computed."""
        batches = self.batches
        groups = []
        for k, found in enumerate(batches.versions):
            numbers = np.flatnonzero(batches.done & (batches.version == k))
            if numbers.size:
                jobs = [job_of(n, self.layout.n_agents) for n in numbers]
                groups.append(SameVersions(found, jobs))
        used = np.unique(batches.worker[batches.done])
        workers = sum(1 for k in used if batches.workers[k])
        return Origins(float(np.nansum(batches.seconds[batches.done])), workers, groups)

    def shared(self) -> dict[str, np.ndarray]:
        """Read the variables that all agents share, NaN where they are missing or damaged."""
        return shared_arrays(self.batches)

    def coordinates(self) -> dict[str, np.ndarray]:
        """Return the labels of each dimension."""
        return self.layout.coordinates(self.batches.own_sizes)

    def _lost(self) -> IntArray:
        """Return the numbers of the jobs that were complete and are not readable any more."""
        manifest, batches = self._load()
        if manifest is None:
            return np.empty(0, dtype=np.int64)
        listed = np.unique(np.concatenate([manifest.in_arrays, *manifest.batches.values()]))
        return listed[~batches.done[listed]]

    def _load(self) -> tuple[Manifest | None, Batches]:
        if self._loaded is None:
            self._loaded = self._read()
        return self._loaded

    def _read(self) -> tuple[Manifest | None, Batches]:
        """Read the manifest and all batches.

        Another process may replace batches by a larger one between both steps, so a manifest that
        lists a missing batch is read again.
        """
        for _ in range(ATTEMPTS):
            data = self.location.read(MANIFEST)
            manifest = manifests.decode(data, self.layout, f"{self.location}/{MANIFEST}")
            listed = () if manifest is None else manifest.batches
            batches = Batches(self.location, self.layout, listed)
            if not batches.broken or self.location.read(MANIFEST) == data:
                break
        wanted = np.flatnonzero(~batches.done)
        if manifest is not None:
            wanted = np.intersect1d(wanted, manifest.in_arrays)
        if wanted.size and "done" in self.location.names():
            versions, number = self.identity.versions, self.identity.format
            restored = restore(self.location, self.layout, wanted, versions, number)
            if restored is not None:
                batches.hold(restored)
        return manifest, batches


def read_results(location: str | os.PathLike[str] | Location) -> "xr.Dataset":
    """Load all results of a run into memory."""
    return StoredRun(location).results()
