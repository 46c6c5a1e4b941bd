"""Write the results of a run to a zarr group, which xarray opens: `xr.open_zarr(folder)`.

Results are arrays over (agent, repetition, task, episode), with one chunk per job. A job is written
in this order: its arrays, their checksum, and last the mark that it is done. A resumed run computes
all jobs except those that are marked as done and match their checksum. The spec, the seed and the
versions of libraries are attributes of the group.

The results of a job depend on the spec alone, so two runs at the same location write the same bytes
if no lock keeps them apart.
"""

import os
import re
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from zarr.codecs import Crc32cCodec, ZstdCodec
from zarr.errors import ContainsArrayError, ContainsGroupError, ZarrUserWarning

from heirloom.errors import CannotWrite, InvalidArgument, InvalidFile
from heirloom.experiments.job import Job, draw_tasks
from heirloom.experiments.observers import OBSERVERS
from heirloom.experiments.spec import ExperimentSpec
from heirloom.experiments.variables import JOB
from heirloom.runs.schema import MARKS, SHARED, VARIABLES, recorded
from heirloom.runs.stored_run import (
    FORMAT,
    UNREADABLE,
    StoredRun,
    checksum,
    coordinates,
    open_group,
    spec_of,
    zarr_store,
)
from heirloom.runs.versions import versions
from heirloom.storage.location import Location

PARTIAL = re.compile(r"zarr\..*\.partial")
"""Names of temporary files that zarr leaves if it is killed while it writes `zarr.json`."""

ATTEMPTS = 5  # to create a group while another run may be creating the same one


class RunStore(StoredRun):
    """A stored run that is open for writing.

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
        group = _open_or_create(location, spec, exclusive=exclusive)
        self._set_up(location, group, spec)
        for name, values in self.coordinates().items():
            self._repair(name, values)

    def is_done(self, job: Job) -> bool:
        """Return whether a job is complete and its checksum matches."""
        return self.read_job(job)[0] == "done"

    def remaining_jobs(self) -> list[Job]:
        """Return the jobs that are missing or damaged, and have to be computed."""
        return [job for job in self.jobs if not self.is_done(job)]

    def write(self, job: Job, results: dict[str, np.ndarray]) -> None:
        """Store the results of a job, then its checksum, then the mark that it is done."""
        with self.location.writing():
            if self.is_done(job):
                return  # another run at this location was faster
            # Convert to the stored types first: the checksum is that of the stored arrays.
            stored = {n: np.asarray(results[n], dtype=VARIABLES[n].dtype) for n in self.names}
            self.array("done")[job] = False
            for name, values in stored.items():
                self.array(name)[job] = values
            self.array("checksum")[job] = checksum(stored)
            self.array("done")[job] = True

    def repair_optimal(self, compute: Callable[[], tuple[np.ndarray, np.ndarray]]) -> None:
        """Compute and store the optimal expected returns if they are missing or damaged.

        `compute` returns two arrays [repetition, task]: undiscounted and discounted returns.
        """
        if not all(self.is_readable(name) for name in SHARED):
            for name, values in zip(("optimal", "optimal_discounted"), compute(), strict=True):
                self._repair(name, values)

    def _repair(self, name: str, values: np.ndarray) -> None:
        """Write an array that belongs to no job, unless it already has these values."""
        if not self.array_equals(name, values):
            with self.location.writing():
                self.array(name)[:] = values


def _open_or_create(location: Location, spec: ExperimentSpec, *, exclusive: bool) -> zarr.Group:
    """Open the group of a run with all its arrays; create what is missing of it."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            with location.writing():
                group = _open_complete(location, spec, exclusive=exclusive)
                return group or _create(location, spec)
        except (CannotWrite, InvalidFile, ContainsGroupError):
            if exclusive or attempt == ATTEMPTS:
                raise
            time.sleep(0.1 * attempt)  # another run may be creating the group at this moment
    raise AssertionError("the last attempt returns or raises")


def _open_complete(
    location: Location, spec: ExperimentSpec, *, exclusive: bool
) -> zarr.Group | None:
    """Open the group if all arrays of this experiment exist; return None otherwise.

    Temporary files that a killed run left are deleted.

    Raises:
        InvalidArgument: if the location contains another experiment.
    """
    # A run that was killed while it wrote its first file leaves only a temporary file.
    if all(PARTIAL.fullmatch(name) for name in location.names()):
        if location.is_local and exclusive and location.path.is_dir():
            _remove_temporary_files(location.path, [])
        return None
    group = open_group(location, read_only=False)
    if group.attrs.get("spec") != spec.as_json():  # parsed only to describe the difference
        difference = spec.difference(spec_of(group, location))
        if difference:
            raise InvalidArgument(
                f"{location} contains another experiment ({difference}): choose another folder"
            )
    if location.is_local and exclusive:
        _remove_temporary_files(location.path, _array_names(spec))
    # Consolidated metadata is written last: without it, the run was killed during creation.
    return group if group.metadata.consolidated_metadata is not None else None


def _remove_temporary_files(folder: Path, arrays: list[str]) -> None:
    """Delete the temporary files that zarr left in a group and in its `arrays`, and no others."""
    for name in arrays:
        for file in Path(folder, name).rglob("*.partial"):
            file.unlink()
    for file in folder.iterdir():
        if PARTIAL.fullmatch(file.name):
            file.unlink()


def _create(location: Location, spec: ExperimentSpec) -> zarr.Group:
    """Create a group with all arrays, or complete one that was only partly created."""
    attributes: dict[str, Any] = {
        "heirloom_run": FORMAT,
        "spec": spec.as_json(),
        "seed": spec.seed,
        "versions": versions(),
    }
    group = zarr.open_group(zarr_store(location, read_only=False), mode="a", attributes=attributes)
    sizes = {name: values.size for name, values in _coordinates(spec).items()}
    for name in _array_names(spec):
        _create_array(group, name, sizes)
    with warnings.catch_warnings():
        # zarr warns that consolidated metadata is not part of the zarr 3 specification.
        warnings.simplefilter("ignore", ZarrUserWarning)
        return zarr.consolidate_metadata(group.store)


def _create_array(group: zarr.Group, name: str, sizes: dict[str, int]) -> None:
    variable = VARIABLES[name]
    shape = tuple(sizes[dimension] for dimension in variable.dimensions)
    per_job = variable.dimensions[:2] == JOB
    options: dict[str, Any] = {
        "shape": shape,
        "chunks": (1, 1, *shape[2:]) if per_job else shape,
        "dtype": str if name == "agent" else variable.dtype,
        "fill_value": None if name in sizes else variable.fill,
        # One checksum covers all arrays of a job; the other arrays have one checksum per chunk.
        "compressors": [ZstdCodec()] if per_job else [ZstdCodec(), Crc32cCodec()],
        "dimension_names": variable.dimensions,
        "attributes": {"long_name": variable.meaning, "units": variable.units},
    }
    try:
        group.create_array(name, **options)
    except ContainsArrayError:
        if not _has_same_layout(group, name, options):
            group.create_array(name, overwrite=True, **options)


def _has_same_layout(group: zarr.Group, name: str, options: dict[str, Any]) -> bool:
    """Return whether an existing array is readable and has the shape and chunks of `options`."""
    try:
        array: Any = group[name]
        return bool(array.shape == options["shape"] and array.chunks == options["chunks"])
    except UNREADABLE:
        return False


def _array_names(spec: ExperimentSpec) -> list[str]:
    """Names of all arrays of a run."""
    return [*recorded(spec.measure), *SHARED, *MARKS, *_coordinates(spec)]


def _coordinates(spec: ExperimentSpec) -> dict[str, np.ndarray]:
    def size_of(name: str) -> int:
        _, size = OBSERVERS[spec.measure or ""].own_dimension[name]
        return size(draw_tasks(spec, 0)[0])

    return coordinates(spec, size_of)
