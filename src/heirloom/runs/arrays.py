"""Write the zarr arrays of a run, which xarray opens: a second copy of what the batches contain.

The arrays are over (agent, repetition, task, episode), with many jobs per chunk. They are written
from the batches when a run ends, so any file of them can be written again. Equal results give equal
files.
"""

import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from heirloom.arrays import IntArray
from heirloom.runs.batch import joined
from heirloom.runs.batches import Batches
from heirloom.runs.layout import GROUP, TEMPORARY, Layout
from heirloom.runs.manifest import Manifest
from heirloom.runs.schema import RAGGED, RECORDING, RECORDING_SIZE, SHARED, STORED, VARIABLES
from heirloom.storage.location import Location
from heirloom.storage.sealed_json import digest

CHUNK = 4 * 2**20  # bytes of a chunk before compression, unless one job has more


class Region(NamedTuple):
    """The jobs of a chunk: a range of agents and a range of repetitions."""

    agents: range
    repetitions: range

    @property
    def slices(self) -> tuple[slice, slice]:
        """The index of the region in an array [agent, repetition, ...]."""
        i, j = self
        return slice(i.start, i.stop), slice(j.start, j.stop)

    def numbers(self, n_agents: int) -> IntArray:
        """Return the numbers of the jobs, in the order of the chunk."""
        i, j = np.array(self.agents), np.array(self.repetitions)
        return (j[np.newaxis, :] * n_agents + i[:, np.newaxis]).ravel()


def chunk_of_jobs(layout: Layout, own: dict[str, int]) -> tuple[int, int]:
    """Return the numbers of agents and of repetitions in a chunk."""
    sizes = layout.sizes(own)
    per_job = max(
        8 * int(np.prod([sizes[d] for d in VARIABLES[name].dimensions[2:]]))
        for name in layout.names
    )
    jobs = max(1, CHUNK // max(per_job, 1))
    agents = min(layout.n_agents, jobs)
    return agents, min(layout.spec.repetitions, max(1, jobs // agents))


def regions(layout: Layout, own: dict[str, int]) -> Iterator[Region]:
    """Yield the jobs of each chunk."""
    agents, repetitions = chunk_of_jobs(layout, own)
    for j in range(0, layout.spec.repetitions, repetitions):
        for i in range(0, layout.n_agents, agents):
            yield Region(
                range(i, min(i + agents, layout.n_agents)),
                range(j, min(j + repetitions, layout.spec.repetitions)),
            )


def damaged_files(location: Location, layout: Layout, manifest: Manifest) -> list[str]:
    """Return the names of files of the arrays that are missing, damaged, or do not belong there."""
    found = []
    for name, expected in manifest.files.items():
        data = location.read(name)
        if data is None or digest(data) != expected:
            found.append(name)
    for name in layout.array_names():
        for file in (location / name).names():
            if f"{name}/{file}" not in manifest.files and not TEMPORARY.fullmatch(file):
                found.append(f"{name}/{file}")
    return found


def write_arrays(
    location: Location, batches: Batches, attributes: dict[str, Any], *, exclusive: bool
) -> Manifest:
    """Write the arrays of all jobs that are done; return a manifest with their files."""
    layout, own = batches.layout, batches.own_sizes
    files: dict[str, str] = {}
    memory: dict[str, Any] = {}

    def write(*, metadata: bool) -> None:
        for key in [key for key in memory if key.endswith(GROUP) == metadata]:
            data = memory.pop(key).to_bytes()
            files[key] = digest(data)
            location.replace(key, data, synced=False)

    for name in layout.array_names():
        location.create_subfolder(name)
    ragged = ragged_arrays(batches)
    sizes = {"byte": ragged[RECORDING].size} if ragged else {}
    group = _group_in_memory(memory, layout, own | sizes, attributes)
    checksums = np.zeros((layout.n_agents, layout.spec.repetitions), dtype="u8")
    for region in regions(layout, own):
        of_region, checksums[region.slices] = blocks(batches, region)
        for name, block in of_region.items():
            group[name][region.slices] = block
        write(metadata=False)
    done = batches.done.reshape(layout.spec.repetitions, layout.n_agents).T
    rest = shared_arrays(batches) | ragged | layout.coordinates(own)
    for name, values in {**rest, "checksum": checksums, "done": done}.items():
        group[name][:] = values
    write(metadata=False)
    write(metadata=True)  # last, so that readers find the chunks that it describes
    manifest = Manifest({}, files, np.flatnonzero(batches.done))
    for name in layout.array_names():
        for file in (location / name).names():
            in_use = TEMPORARY.fullmatch(file) and not exclusive
            if f"{name}/{file}" not in files and not in_use:
                location.delete(f"{name}/{file}")
    return manifest


def blocks(batches: Batches, region: Region) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return the arrays of the jobs of a region, with fill values, and the checksums of jobs."""
    layout = batches.layout
    numbers = region.numbers(layout.n_agents)
    is_done = batches.done[numbers]
    done = numbers[is_done]
    results = batches.gather(done, [*layout.names, *layout.ragged])
    is_first = done % layout.n_agents == 0
    shared = batches.gather(done[is_first], list(SHARED))
    shared_row = np.cumsum(is_first) - 1
    checksums = np.zeros(numbers.size, dtype="u8")
    for k, position in enumerate(np.flatnonzero(is_done)):
        of_job = {name: rows[k] for name, rows in results.items()}
        if is_first[k]:
            of_job |= {name: rows[shared_row[k]] for name, rows in shared.items()}
        checksums[position] = layout.checksum(of_job)
    shape = (len(region.agents), len(region.repetitions))
    arrays = {}
    for name in layout.names:
        rows = results[name]
        filled = np.full((numbers.size, *rows.shape[1:]), VARIABLES[name].fill, dtype=rows.dtype)
        filled[is_done] = rows
        arrays[name] = filled.reshape(*shape, *rows.shape[1:])
    return arrays, checksums.reshape(shape)


def whole_arrays(batches: Batches) -> dict[str, np.ndarray]:
    """Return all arrays of a run, except the coordinates; fill values where jobs are missing."""
    layout = batches.layout
    sizes = layout.sizes(batches.own_sizes)
    arrays = {}
    for name in [*layout.names, "checksum"]:
        shape = [sizes[dimension] for dimension in VARIABLES[name].dimensions]
        arrays[name] = np.empty(shape, dtype=VARIABLES[name].dtype)
    for region in regions(layout, batches.own_sizes):
        of_region, arrays["checksum"][region.slices] = blocks(batches, region)
        for name, block in of_region.items():
            arrays[name][region.slices] = block
    arrays["done"] = batches.done.reshape(layout.spec.repetitions, layout.n_agents).T
    return arrays | shared_arrays(batches) | ragged_arrays(batches)


def ragged_arrays(batches: Batches) -> dict[str, np.ndarray]:
    """Return the recordings of all jobs as one array of bytes, and their sizes by job.

    A job without a recording has the size 0, and one that is not done the size -1.
    """
    layout = batches.layout
    if not layout.ragged:
        return {}
    done = np.flatnonzero(batches.done)
    arrays = joined(batches.gather(done, [RECORDING])[RECORDING])
    sizes = np.full(layout.n_jobs, RAGGED[RECORDING_SIZE].fill, dtype=np.int64)
    sizes[done] = arrays[RECORDING_SIZE]
    by_job = sizes.reshape(layout.spec.repetitions, layout.n_agents).T
    return {RECORDING: arrays[RECORDING], RECORDING_SIZE: by_job}


def shared_arrays(batches: Batches) -> dict[str, np.ndarray]:
    """Return the variables that all agents share; NaN where the first agent's job is missing."""
    layout = batches.layout
    numbers = np.arange(0, layout.n_jobs, layout.n_agents)
    done = batches.done[numbers]
    gathered = batches.gather(numbers[done], list(SHARED))
    arrays = {}
    for name, rows in gathered.items():
        arrays[name] = np.full((numbers.size, *rows.shape[1:]), np.nan)
        arrays[name][done] = rows
    return arrays


def _group_in_memory(
    memory: dict[str, Any], layout: Layout, own: dict[str, int], attributes: dict[str, Any]
) -> Any:
    """Create the group with all its arrays, without values, in a dictionary of files."""
    import zarr
    from zarr.codecs import Crc32cCodec, ZstdCodec
    from zarr.errors import ZarrUserWarning

    store = zarr.storage.MemoryStore(memory)
    group = zarr.open_group(store, mode="w", attributes=attributes)
    sizes, chunk = own | layout.sizes(own), chunk_of_jobs(layout, own)
    for name in layout.array_names():
        variable = STORED[name]
        shape = tuple(sizes[dimension] for dimension in variable.dimensions)
        chunks = (*chunk, *shape[2:]) if name in layout.names else shape
        chunks = (min(CHUNK, shape[0]),) if name == RECORDING else chunks
        group.create_array(
            name,
            shape=shape,
            chunks=tuple(max(n, 1) for n in chunks),
            dtype=str if name == "agent" else variable.dtype,
            fill_value=None if name in sizes else variable.fill,
            compressors=[ZstdCodec(), Crc32cCodec()],
            dimension_names=variable.dimensions,
            attributes={"long_name": variable.meaning, "units": variable.units},
            chunk_key_encoding={"name": "default", "separator": "."},
        )
    with warnings.catch_warnings():
        # zarr warns that consolidated metadata is not part of the zarr 3 specification.
        warnings.simplefilter("ignore", ZarrUserWarning)
        zarr.consolidate_metadata(store)
    return group
