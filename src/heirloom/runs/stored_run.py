"""Read a stored run, and check which of its jobs are complete, missing or damaged.

Reading changes no file, and executes nothing that is read.
"""

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import zarr
from zarr.abc.store import Store

from heirloom.errors import InvalidArgument, InvalidFile
from heirloom.experiments.job import Job
from heirloom.experiments.observers import OBSERVERS
from heirloom.experiments.spec import ExperimentSpec
from heirloom.runs.schema import SHARED, recorded
from heirloom.storage.location import Location

if TYPE_CHECKING:
    import xarray as xr

FORMAT = 1

UNREADABLE: tuple[type[Exception], ...] = (OSError, ValueError, RuntimeError, TypeError, KeyError)
"""Exceptions that reading a damaged chunk may raise."""

State = Literal["done", "missing", "damaged"]


@dataclass(frozen=True)
class Status:
    """State of each job of a run, and of the arrays that belong to no job."""

    done: list[Job]
    """Jobs that are complete and whose checksums match."""
    missing: list[Job]
    """Jobs that were never computed, or not completely written."""
    damaged: list[Job]
    """Jobs that are marked as done, but are unreadable or do not match their checksum."""
    repairable: list[str]
    """Arrays that belong to no job and are missing or damaged; resuming the run repairs them."""

    @property
    def is_complete(self) -> bool:
        """Whether no job and no array is missing or damaged."""
        return not (self.missing or self.damaged or self.repairable)


class StoredRun:
    """A run that exists on disk or at a URL.

    Args:
        location: its folder or URL.
    """

    def __init__(self, location: str | os.PathLike[str] | Location) -> None:
        location = Location(location)
        group = open_group(location)
        self._set_up(location, group, spec_of(group, location))

    def _set_up(self, location: Location, group: zarr.Group, spec: ExperimentSpec) -> None:
        self.location, self.group, self.spec = location, group, spec
        self._opened: dict[str, Any] = {}

    @property
    def versions(self) -> dict[str, str]:
        """Versions of Python and of the libraries that the run was started with."""
        stored = self.group.attrs.get("versions")
        return {str(k): str(v) for k, v in stored.items()} if isinstance(stored, dict) else {}

    @property
    def names(self) -> list[str]:
        """Names of the variables recorded for each job."""
        return recorded(self.spec.measure)

    @property
    def jobs(self) -> list[Job]:
        """All jobs of the experiment: all agents of the first repetition, then of the next."""
        spec = self.spec
        return [(i, j) for j in range(spec.repetitions) for i in range(len(spec.agents))]

    def read_job(self, job: Job) -> tuple[State, dict[str, np.ndarray]]:
        """Return the state of a job, and its results if the state is `"done"`."""
        with self.location.reading():
            try:
                if not self.array("done")[job]:
                    return "missing", {}
                results = {name: np.asarray(self.array(name)[job]) for name in self.names}
                if self.array("checksum")[job] == checksum(results):
                    return "done", results
            except self._unreadable:
                pass  # a chunk that cannot be decoded
        return "damaged", {}

    def status(self) -> Status:
        """Check all jobs and arrays; this reads the whole run."""
        states: dict[State, list[Job]] = {"done": [], "missing": [], "damaged": []}
        for job in self.jobs:
            states[self.read_job(job)[0]].append(job)
        repairable = [name for name in SHARED if not self.is_readable(name)]
        repairable += [
            name
            for name, values in self.coordinates().items()
            if not self.array_equals(name, values)
        ]
        return Status(states["done"], states["missing"], states["damaged"], repairable)

    def results(self) -> "xr.Dataset":
        """Load all results into memory."""
        import xarray as xr

        with self.location.reading():
            try:
                store = zarr_store(self.location, read_only=True)
                with xr.open_zarr(store, chunks=None) as dataset:
                    return dataset.load()
            except self._unreadable as error:
                raise self._damaged(error) from error

    def shared(self) -> dict[str, np.ndarray]:
        """Read the variables that all agents share; raise `InvalidFile` if one is damaged."""
        with self.location.reading():
            try:
                return {name: np.asarray(self.array(name)[:]) for name in SHARED}
            except self._unreadable as error:
                raise self._damaged(error) from error

    def array(self, name: str) -> Any:
        """Return an array of the group."""
        if name not in self._opened:  # cached because opening an array takes a millisecond
            self._opened[name] = self.group[name]
        return self._opened[name]

    def array_equals(self, name: str, values: np.ndarray) -> bool:
        """Return whether an array exists, is readable and has these values."""
        with self.location.reading():
            try:
                return np.array_equal(np.asarray(self.array(name)[:]), values)
            except self._unreadable:
                return False

    def coordinates(self) -> dict[str, np.ndarray]:
        """Return the labels of each dimension.

        The size of a dimension that belongs to a measure is that of the stored array.
        """

        def size_of(name: str) -> int:
            try:
                return int(self.array(name).shape[0])
            except KeyError:  # the run was killed before it created the array
                return 0

        return coordinates(self.spec, size_of)

    def is_readable(self, name: str) -> bool:
        """Return whether an array is complete and undamaged."""
        with self.location.reading():
            try:
                return not np.isnan(self.array(name)[:]).any()  # missing chunks read as NaN
            except self._unreadable:
                return False

    def _damaged(self, error: Exception) -> InvalidFile:
        return InvalidFile(
            f"{self.location} is damaged ({error}): run the same experiment there again, which "
            "computes the damaged parts"
        )

    @property
    def _unreadable(self) -> tuple[type[Exception], ...]:
        """Exceptions that indicate damage; at a URL, an `OSError` may be a network error."""
        return UNREADABLE if self.location.is_local else UNREADABLE[1:]


def coordinates(spec: ExperimentSpec, size_of: Callable[[str], int]) -> dict[str, np.ndarray]:
    """Return the labels of each dimension of an experiment.

    `size_of` returns the size of a dimension that belongs to the measure of the experiment.
    """
    sizes = {"repetition": spec.repetitions, "task": spec.tasks, "episode": spec.episodes}
    if spec.measure is not None:
        sizes |= {name: size_of(name) for name in OBSERVERS[spec.measure].own_dimension}
    names = np.array([agent.name for agent in spec.agents], dtype=object)
    return {"agent": names} | {name: np.arange(1, n + 1) for name, n in sizes.items()}


def read_results(location: str | os.PathLike[str] | Location) -> "xr.Dataset":
    """Load all results of a run into memory."""
    return StoredRun(location).results()


def runs_in(location: str | os.PathLike[str] | Location) -> list[Location]:
    """Find the run at a location, or the runs in its subfolders.

    `heirloom reproduce` writes several runs to one folder.
    """
    location = Location(location)
    runs = _runs_below(location, depth=2)
    if not runs:
        raise InvalidFile(f"there is no run in {location}: give the folder of a run")
    return runs


def _runs_below(location: Location, depth: int) -> list[Location]:
    names = location.names()
    if "zarr.json" in names:
        return [location]
    return [run for name in names if depth for run in _runs_below(location / name, depth - 1)]


def zarr_store(location: Location, *, read_only: bool) -> Store:
    """Return the zarr store of a location."""
    if location.is_local:
        return zarr.storage.LocalStore(location.path, read_only=read_only)
    return zarr.storage.FsspecStore.from_url(location.name, read_only=read_only)


def open_group(location: Location, *, read_only: bool = True) -> zarr.Group:
    """Open the group of a run; raise `InvalidFile` if there is no run at the location."""
    try:
        store = zarr_store(location, read_only=read_only)
        group = zarr.open_group(store, mode="r" if read_only else "r+")
        if int(group.attrs["heirloom_run"]) > FORMAT:  # type: ignore[arg-type]
            raise InvalidFile(
                f"{location} was written by a newer version of Heirloom: upgrade Heirloom to read "
                "it"
            )
    except InvalidFile:
        raise
    except Exception as error:
        # `names` raises an error of its own if the URL cannot be reached.
        if not location.is_local and location.names() == []:
            raise InvalidFile(f"there is nothing at {location}: check the URL") from error
        raise InvalidFile(
            f"{location} is not a run of Heirloom, or its zarr.json is damaged: give the folder of "
            "a run, or an empty or new folder to start one"
        ) from error
    return group


def checksum(results: dict[str, np.ndarray]) -> np.uint64:
    """Return a 64-bit BLAKE2b digest of the names and the bytes of the arrays."""
    digest = hashlib.blake2b(digest_size=8)
    for name, array in sorted(results.items()):
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return np.frombuffer(digest.digest(), dtype="<u8")[0]


def spec_of(group: zarr.Group, location: Location) -> ExperimentSpec:
    """Read the experiment that a group holds; raise `InvalidFile` if its spec is damaged."""
    try:
        return ExperimentSpec.read(group.attrs["spec"])  # type: ignore[arg-type]
    except (KeyError, TypeError, InvalidArgument) as error:
        raise InvalidFile(
            f"the spec of the run in {location} is damaged ({error}): choose another folder"
        ) from None
