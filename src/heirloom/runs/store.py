"""The results of a run, in a folder that xarray opens: `xr.open_zarr(folder)`.

Results are arrays over (agent, repetition, task, episode), one chunk a unit of work. A unit is
written in this order: its arrays, their checksum, and last the mark that it is done. What is marked
and agrees with its checksum is never computed again; all else is. The spec, the seed and the
versions stand beside the arrays, as attributes.

A unit depends on the spec alone, so that two runs at the same place, where nothing keeps them
apart, write the same bytes.
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

PART = re.compile(r"zarr\..*\.partial")
"""The name of a part of a group's first file."""

ATTEMPTS = 5  # to make a run where another one may be doing so


class RunStore(StoredRun):
    """The results of an experiment, to be written.

    Args:
        place: a folder or URL of its own; made if it is not there.
        spec: the experiment. A place that holds another one is refused.
        alone: whether no other run can be working there.
    """

    def __init__(
        self,
        location: str | os.PathLike[str] | Location,
        spec: ExperimentSpec,
        *,
        alone: bool = True,
    ) -> None:
        location = Location(location)
        self._set(location, _opened(location, spec, alone=alone), spec)
        for name, values in self.coordinates().items():
            self._repair(name, values)

    def is_done(self, job: Job) -> bool:
        """Whether a unit was computed, and is as it was written."""
        return self.read_job(job)[0] == "done"

    def left(self) -> list[Job]:
        """The units that are still to be computed."""
        return [job for job in self.jobs if not self.is_done(job)]

    def write(self, job: Job, results: dict[str, np.ndarray]) -> None:
        """Keep the results of a unit; the mark that it is done comes last."""
        with self.location.writing():
            if self.is_done(job):
                return  # another run at this place was faster
            # In the types that they are stored in, which is what the checksum is of.
            stored = {n: np.asarray(results[n], dtype=VARIABLES[n].dtype) for n in self.names}
            self.array("done")[job] = False
            for name, values in stored.items():
                self.array(name)[job] = values
            self.array("checksum")[job] = checksum(stored)
            self.array("done")[job] = True

    def repair_optimal(self, compute: Callable[[], tuple[np.ndarray, np.ndarray]]) -> None:
        """Keep the best expected returns, [repetition, task]; compute them if they are not there.

        `compute` returns them undiscounted and discounted.
        """
        if not all(self.is_readable(name) for name in SHARED):
            for name, values in zip(("optimal", "optimal_discounted"), compute(), strict=True):
                self._repair(name, values)

    def _repair(self, name: str, values: np.ndarray) -> None:
        """Write an array that belongs to no unit, unless it is there as it should be."""
        if not self.holds(name, values):
            with self.location.writing():
                self.array(name)[:] = values


def _opened(location: Location, spec: ExperimentSpec, *, alone: bool) -> zarr.Group:
    """The group of a run, with all its arrays; made if it is not there, or not as a whole."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            with location.writing():
                return _whole_group(location, spec, alone=alone) or _create(location, spec)
        except (CannotWrite, InvalidFile, ContainsGroupError):
            if alone or attempt == ATTEMPTS:
                raise
            time.sleep(0.1 * attempt)  # another run may be making it at this moment
    raise AssertionError("the last attempt returns or raises")


def _whole_group(location: Location, spec: ExperimentSpec, *, alone: bool) -> zarr.Group | None:
    """The group if all arrays of this experiment are there; parts of files that died are removed.

    Raises `InvalidArgument` if it is that of another experiment.
    """
    # A run that died while it wrote its first file leaves a part of it, and nothing else.
    if all(PART.fullmatch(name) for name in location.names()):
        if location.is_local and alone and location.path.is_dir():
            _remove_parts(location.path, [])
        return None
    group = open_group(location, read_only=False)
    if group.attrs.get("spec") != spec.as_json():  # it is read only to say in what it differs
        difference = spec.difference(spec_of(group, location))
        if difference:
            raise InvalidArgument(
                f"{location} holds another experiment ({difference}): choose another folder"
            )
    if location.is_local and alone:
        _remove_parts(location.path, _arrays(spec))
    # The consolidated metadata is written last; without it the run died while it was made.
    return group if group.metadata.consolidated_metadata is not None else None


def _remove_parts(folder: Path, names: list[str]) -> None:
    """Remove parts of chunks that were being written when a run died, and nobody else's files."""
    for name in names:
        for left in Path(folder, name).rglob("*.partial"):
            left.unlink()
    for left in folder.iterdir():
        if PART.fullmatch(left.name):
            left.unlink()


def _create(location: Location, spec: ExperimentSpec) -> zarr.Group:
    """Make a group with all arrays, or what is left to be made of one."""
    attributes: dict[str, Any] = {
        "heirloom_run": FORMAT,
        "spec": spec.as_json(),
        "seed": spec.seed,
        "versions": versions(),
    }
    group = zarr.open_group(zarr_store(location, read_only=False), mode="a", attributes=attributes)
    sizes = {name: values.size for name, values in _coordinates(spec).items()}
    for name in _arrays(spec):
        _create_array(group, name, sizes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ZarrUserWarning)  # other readers may not look for it
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
        # A unit has a checksum over all its arrays; other arrays have their own.
        "compressors": [ZstdCodec()] if per_job else [ZstdCodec(), Crc32cCodec()],
        "dimension_names": variable.dimensions,
        "attributes": {"long_name": variable.meaning, "units": variable.units},
    }
    try:
        group.create_array(name, **options)
    except ContainsArrayError:
        if not _is_like(group, name, options):
            group.create_array(name, overwrite=True, **options)


def _is_like(group: zarr.Group, name: str, options: dict[str, Any]) -> bool:
    """Whether an array that a run has left is as it should be."""
    try:
        array: Any = group[name]
        return bool(array.shape == options["shape"] and array.chunks == options["chunks"])
    except UNREADABLE:
        return False


def _arrays(spec: ExperimentSpec) -> list[str]:
    """The names of the arrays of a run."""
    return [*recorded(spec.measure), *SHARED, *MARKS, *_coordinates(spec)]


def _coordinates(spec: ExperimentSpec) -> dict[str, np.ndarray]:
    def size_of(name: str) -> int:
        _, size = OBSERVERS[spec.measure or ""].own_dimension[name]
        return size(draw_tasks(spec, 0)[0])

    return coordinates(spec, size_of)
