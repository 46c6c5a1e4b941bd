"""Read jobs from the zarr arrays of a run: those of a lost batch, or of a run of format 1.

A job is restored only if its checksum, which is stored in the arrays, matches.
"""

from typing import Any

import numpy as np

from heirloom.arrays import IntArray
from heirloom.errors import InvalidFile
from heirloom.experiments.variables import JOB
from heirloom.runs.batch import Batch, Origin, make_batch, separated
from heirloom.runs.layout import Layout, checksum
from heirloom.runs.numbers import job_of
from heirloom.runs.schema import RECORDING, RECORDING_SIZE, SHARED, VARIABLES
from heirloom.storage.location import Location

UNREADABLE: tuple[type[Exception], ...] = (OSError, ValueError, RuntimeError, TypeError, KeyError)
"""Exceptions that reading a damaged array may raise."""


def restore(
    location: Location,
    layout: Layout,
    wanted: IntArray,
    versions: dict[str, str],
    file_format: int,
) -> Batch | None:
    """Read jobs from the arrays; return those that are complete and match their checksum."""
    stored = _Stored(location, layout)
    agents, repetitions = wanted % layout.n_agents, wanted // layout.n_agents
    marks = {name: stored.rows(name, agents, repetitions) for name in ("done", "checksum")}
    if any(rows is None for rows in marks.values()):
        return None
    is_done = np.asarray(marks["done"], dtype=bool)
    wanted, checksums = wanted[is_done], np.asarray(marks["checksum"])[is_done]
    agents, repetitions = agents[is_done], repetitions[is_done]
    columns = {name: stored.rows(name, agents, repetitions) for name in [*layout.names, *SHARED]}
    if layout.ragged:
        columns[RECORDING] = stored.recordings(agents, repetitions)
    if not wanted.size or any(rows is None for rows in columns.values()):
        return None
    origin = Origin(float("nan"), "", versions)
    intact = []
    for k, number in enumerate(wanted):
        names = layout.names_of(job_of(number, layout.n_agents))
        results = {name: columns[name][k] for name in names}  # type: ignore[index]
        if file_format == 1:  # its checksum is that of the variables recorded for each job
            found = checksum({name: results[name] for name in layout.names})
            complete = not any(np.isnan(results[name]).any() for name in SHARED if name in results)
        else:
            found, complete = layout.checksum(results), True
        if complete and found == checksums[k]:
            intact.append((int(number), results, origin))
    return make_batch(layout, intact) if intact else None


class _Stored:
    """The arrays at a location, as far as they are readable."""

    def __init__(self, location: Location, layout: Layout) -> None:
        import zarr

        self.location, self.layout = location, layout
        self.store: Any = (
            zarr.storage.LocalStore(location.path, read_only=True)
            if location.is_local
            else zarr.storage.FsspecStore.from_url(location.name, read_only=True)
        )

    def rows(self, name: str, agents: IntArray, repetitions: IntArray) -> np.ndarray | None:
        """Return the rows of some jobs; rows that cannot be read have arbitrary values."""
        import zarr

        variable, unreadable = VARIABLES[name], self._unreadable
        with self.location.reading():
            try:
                array: Any = zarr.open_array(self.store, path=name, mode="r")
            except unreadable:
                return None
            sizes = self.layout.sizes({})
            fits = array.dtype == np.dtype(variable.dtype) and array.ndim == len(
                variable.dimensions
            )
            for dimension, n in zip(variable.dimensions, array.shape, strict=False):
                own = dimension in self.layout.own_dimensions
                fits = fits and (own or n == sizes[dimension])
            if not fits:
                return None
            index: tuple[IntArray, ...] = (repetitions,)
            if variable.dimensions[:2] == JOB:
                index = (agents, repetitions)
            try:
                return np.asarray(array[:])[index]
            except unreadable:
                return self._rows_by_chunk(array, index)

    def recordings(self, agents: IntArray, repetitions: IntArray) -> np.ndarray | None:
        """Return the recordings of some jobs as objects; None if they cannot be read."""
        import zarr

        unreadable: tuple[type[Exception], ...] = (*self._unreadable, InvalidFile)
        with self.location.reading():
            try:
                data, sizes = (
                    np.asarray(zarr.open_array(self.store, path=name, mode="r")[:])
                    for name in (RECORDING, RECORDING_SIZE)
                )
                by_job = sizes.T.reshape(-1)
                every = separated(data, np.maximum(by_job, 0))
                return every[repetitions * self.layout.n_agents + agents]
            except unreadable:
                return None

    def _rows_by_chunk(self, array: Any, index: tuple[IntArray, ...]) -> np.ndarray:
        """Read the chunks of the rows one by one; leave rows of unreadable chunks zero."""
        rows = np.zeros((index[0].size, *array.shape[len(index) :]), dtype=array.dtype)
        size = np.array(array.chunks[: len(index)])
        chunks = np.stack(index, axis=1) // size
        for chunk in np.unique(chunks, axis=0):
            chosen = (chunks == chunk).all(axis=1)
            region = tuple(slice(c * n, (c + 1) * n) for c, n in zip(chunk, size, strict=True))
            try:
                values = np.asarray(array[region])
            except self._unreadable:
                continue
            rows[chosen] = values[tuple(i[chosen] % n for i, n in zip(index, size, strict=True))]
        return rows

    @property
    def _unreadable(self) -> tuple[type[Exception], ...]:
        """Exceptions that indicate damage; at a URL, an `OSError` may be a network error."""
        return UNREADABLE if self.location.is_local else UNREADABLE[1:]
