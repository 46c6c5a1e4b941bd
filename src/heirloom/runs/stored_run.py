"""A run as it is stored: what is there, and whether it is as it was written.

Reading never changes anything, and nothing that is read is executed.
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
"""What reading a chunk that is damaged may raise."""

State = Literal["done", "missing", "damaged"]


@dataclass(frozen=True)
class Status:
    """How much of a run is there."""

    done: list[Job]
    missing: list[Job]
    """Never computed, or not finished."""
    damaged: list[Job]
    """Marked as done, but not as they were written."""
    repairable: list[str]
    """Arrays that belong to no unit and are missing or damaged."""

    @property
    def is_complete(self) -> bool:
        """Whether all is there, as it was written."""
        return not (self.missing or self.damaged or self.repairable)


class StoredRun:
    """A run that is there.

    Args:
        place: its folder or URL.
    """

    def __init__(self, location: str | os.PathLike[str] | Location) -> None:
        location = Location(location)
        group = open_group(location)
        self._set(location, group, spec_of(group, location))

    def _set(self, location: Location, group: zarr.Group, spec: ExperimentSpec) -> None:
        self.location, self.group, self.spec = location, group, spec
        self._opened: dict[str, Any] = {}

    @property
    def versions(self) -> dict[str, str]:
        """What the run was begun with."""
        there = self.group.attrs.get("versions")
        return {str(k): str(v) for k, v in there.items()} if isinstance(there, dict) else {}

    @property
    def names(self) -> list[str]:
        """What is recorded by unit."""
        return recorded(self.spec.measure)

    @property
    def jobs(self) -> list[Job]:
        """All units of the experiment, a repetition of all agents after the other."""
        spec = self.spec
        return [(i, j) for j in range(spec.repetitions) for i in range(len(spec.agents))]

    def read_job(self, job: Job) -> tuple[State, dict[str, np.ndarray]]:
        """Whether a unit was computed and is as it was written; and its results if it is."""
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
        """The state of everything; reads all of it."""
        states: dict[State, list[Job]] = {"done": [], "missing": [], "damaged": []}
        for job in self.jobs:
            states[self.read_job(job)[0]].append(job)
        repairable = [name for name in SHARED if not self.is_readable(name)]
        repairable += [
            name for name, values in self.coordinates().items() if not self.holds(name, values)
        ]
        return Status(states["done"], states["missing"], states["damaged"], repairable)

    def results(self) -> "xr.Dataset":
        """All results, in memory."""
        import xarray as xr

        with self.location.reading():
            try:
                store = zarr_store(self.location, read_only=True)
                with xr.open_zarr(store, chunks=None) as dataset:
                    return dataset.load()
            except self._unreadable as error:
                raise self._damaged(error) from error

    def shared(self) -> dict[str, np.ndarray]:
        """What is the same for all agents; raises `InvalidFile` if it is damaged."""
        with self.location.reading():
            try:
                return {name: np.asarray(self.array(name)[:]) for name in SHARED}
            except self._unreadable as error:
                raise self._damaged(error) from error

    def array(self, name: str) -> Any:
        """An array of the group."""
        if name not in self._opened:  # which takes zarr a millisecond
            self._opened[name] = self.group[name]
        return self._opened[name]

    def holds(self, name: str, values: np.ndarray) -> bool:
        """Whether an array is there and has these values."""
        with self.location.reading():
            try:
                return np.array_equal(np.asarray(self.array(name)[:]), values)
            except self._unreadable:
                return False

    def coordinates(self) -> dict[str, np.ndarray]:
        """The labels of each dimension; that of an observer is as long as it was made."""

        def size_of(name: str) -> int:
            try:
                return int(self.array(name).shape[0])
            except KeyError:  # the run died before it was made
                return 0

        return coordinates(self.spec, size_of)

    def is_readable(self, name: str) -> bool:
        """Whether an array is there as a whole, and not damaged."""
        with self.location.reading():
            try:
                return not np.isnan(self.array(name)[:]).any()  # what is not there reads as NaN
            except self._unreadable:
                return False

    def _damaged(self, error: Exception) -> InvalidFile:
        return InvalidFile(
            f"{self.location} is damaged ({error}): run the experiment again there, which computes "
            "what is missing"
        )

    @property
    def _unreadable(self) -> tuple[type[Exception], ...]:
        """What damage may raise; behind a URL, an OSError may be the network's."""
        return UNREADABLE if self.location.is_local else UNREADABLE[1:]


def coordinates(spec: ExperimentSpec, size_of: Callable[[str], int]) -> dict[str, np.ndarray]:
    """The labels of each dimension of an experiment; `size_of` that of its observer."""
    sizes = {"repetition": spec.repetitions, "task": spec.tasks, "episode": spec.episodes}
    if spec.measure is not None:
        sizes |= {name: size_of(name) for name in OBSERVERS[spec.measure].own_dimension}
    names = np.array([agent.name for agent in spec.agents], dtype=object)
    return {"agent": names} | {name: np.arange(1, n + 1) for name, n in sizes.items()}


def read_results(location: str | os.PathLike[str] | Location) -> "xr.Dataset":
    """All results of a run, in memory."""
    return StoredRun(location).results()


def runs_in(location: str | os.PathLike[str] | Location) -> list[Location]:
    """The run at a place, or else those below it; `heirloom reproduce` has several."""
    location = Location(location)
    runs = _runs_below(location, depth=2)
    if not runs:
        raise InvalidFile(f"there is no run in {location}: give the folder of one")
    return runs


def _runs_below(location: Location, depth: int) -> list[Location]:
    inside = location.names()
    if "zarr.json" in inside:
        return [location]
    return [run for name in inside if depth for run in _runs_below(location / name, depth - 1)]


def zarr_store(location: Location, *, read_only: bool) -> Store:
    """What zarr reads and writes a place through."""
    if location.is_local:
        return zarr.storage.LocalStore(location.path, read_only=read_only)
    return zarr.storage.FsspecStore.from_url(location.name, read_only=read_only)


def open_group(location: Location, *, read_only: bool = True) -> zarr.Group:
    """The group of a run; raises `InvalidFile` if the place holds none."""
    try:
        store = zarr_store(location, read_only=read_only)
        group = zarr.open_group(store, mode="r" if read_only else "r+")
        if int(group.attrs["heirloom_run"]) > FORMAT:  # type: ignore[arg-type]
            raise InvalidFile(
                f"{location} was written by a newer Heirloom: install a newer one to read it"
            )
    except InvalidFile:
        raise
    except Exception as error:
        if not location.is_local and location.names() == []:  # raises if it cannot be reached
            raise InvalidFile(f"there is nothing at {location}: check the URL") from error
        raise InvalidFile(
            f"{location} is not a run of Heirloom's, or its zarr.json is damaged: choose a folder "
            "that is empty or not there"
        ) from error
    return group


def checksum(results: dict[str, np.ndarray]) -> np.uint64:
    """64 bits that change if a bit of the arrays does."""
    digest = hashlib.blake2b(digest_size=8)
    for name, array in sorted(results.items()):
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return np.frombuffer(digest.digest(), dtype="<u8")[0]


def spec_of(group: zarr.Group, location: Location) -> ExperimentSpec:
    """The experiment that a group holds; raises `InvalidFile` if that cannot be read."""
    try:
        return ExperimentSpec.read(group.attrs["spec"])  # type: ignore[arg-type]
    except (KeyError, TypeError, InvalidArgument) as error:
        raise InvalidFile(f"the spec of the run in {location} is damaged ({error})") from None
