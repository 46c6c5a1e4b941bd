"""A batch: the results of many jobs in one immutable file, which carries its checksum.

The file is an archive (`heirloom.storage.archive`) that `numpy.load` opens. Its arrays are

    job                  numbers of the jobs, increasing (`heirloom.runs.numbers`)
    VARIABLE             results, with one row per job; the variables that all agents share have one
                         row per job of the first agent
    recording            recordings of the jobs, one after the other, in runs that record episodes
    recording_size       the number of bytes of each of them
    seconds              time that the computation of each job took
    worker, version      for each job, an index into the lists of the header

The header has the checksum of the spec, the names of workers and the versions of libraries.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from heirloom.arrays import FloatArray, IntArray
from heirloom.errors import InvalidFile
from heirloom.runs.layout import Layout
from heirloom.runs.schema import RECORDING, RECORDING_SIZE, SHARED, VARIABLES
from heirloom.storage import archive

KIND = "batch"
FIRST_AGENT = 0


class Origin(NamedTuple):
    """How a job was computed."""

    seconds: float
    """Time that the computation took; NaN if it was not recorded."""
    worker: str
    """Host and process that computed the job; empty if it was not recorded."""
    versions: dict[str, str]
    """Versions of Python and of libraries that computed the job."""


class Batch(NamedTuple):
    """The results of some jobs, and their origins."""

    jobs: IntArray
    """Numbers of the jobs, increasing."""
    results: dict[str, np.ndarray]
    """Arrays with one row per job; those of `SHARED` have one row per job of the first agent.

    Recordings are bytes in an array of objects.
    """
    seconds: FloatArray
    worker: list[str]
    versions: list[dict[str, str]]

    @property
    def size(self) -> int:
        """Number of bytes of the results."""
        return sum(
            sum(map(len, array)) if array.dtype == object else array.nbytes
            for array in self.results.values()
        )


def make_batch(layout: Layout, jobs: Sequence[tuple[int, dict[str, np.ndarray], Origin]]) -> Batch:
    """Collect jobs, each given by its number, its results and its origin, in a batch."""
    ordered = sorted(jobs, key=lambda job: job[0])
    numbers = np.array([number for number, _, _ in ordered], dtype=np.int64)
    results = {}
    for name in layout.names:
        rows = [arrays[name] for _, arrays, _ in ordered]
        results[name] = np.asarray(np.stack(rows), dtype=VARIABLES[name].dtype)
    for name in layout.ragged:
        results[name] = as_objects(bytes(arrays[name]) for _, arrays, _ in ordered)
    for name in SHARED:
        rows = [arrays[name] for number, arrays, _ in ordered if number % layout.n_agents == 0]
        shape = (len(rows), *layout.shape_per_job(name))
        results[name] = np.asarray(rows, dtype=VARIABLES[name].dtype).reshape(shape)
    origins = [origin for _, _, origin in ordered]
    return Batch(
        numbers,
        results,
        np.array([origin.seconds for origin in origins]),
        [origin.worker for origin in origins],
        [origin.versions for origin in origins],
    )


def merge(layout: Layout, batches: Sequence[Batch]) -> Batch:
    """Return one batch with the jobs of several; of a job that several have, the first counts."""
    numbers, first = np.unique(np.concatenate([b.jobs for b in batches]), return_index=True)
    results = {
        name: np.concatenate([b.results[name] for b in batches])[first]
        for name in [*layout.names, *layout.ragged]
    }
    of_first = [b.jobs[b.jobs % layout.n_agents == FIRST_AGENT] for b in batches]
    _, first_rows = np.unique(np.concatenate(of_first), return_index=True)
    for name in SHARED:
        results[name] = np.concatenate([b.results[name] for b in batches])[first_rows]
    worker = [name for b in batches for name in b.worker]
    versions = [each for b in batches for each in b.versions]
    return Batch(
        numbers,
        results,
        np.concatenate([b.seconds for b in batches])[first],
        [worker[i] for i in first],
        [versions[i] for i in first],
    )


def split(layout: Layout, batch: Batch, most_jobs: int, most_bytes: int) -> Iterator[Batch]:
    """Split a batch into batches of at most this many jobs and about this many bytes."""
    jobs = max(1, min(most_jobs, most_bytes * batch.jobs.size // max(batch.size, 1)))
    for start in range(0, batch.jobs.size, jobs):
        yield _slice(batch, layout, np.arange(start, min(start + jobs, batch.jobs.size)))


def _slice(batch: Batch, layout: Layout, rows: IntArray) -> Batch:
    is_first = batch.jobs % layout.n_agents == 0
    shared_rows = (np.cumsum(is_first) - 1)[rows][is_first[rows]]
    results = {
        name: values[shared_rows if name in SHARED else rows]
        for name, values in batch.results.items()
    }
    return Batch(
        batch.jobs[rows],
        results,
        batch.seconds[rows],
        [batch.worker[i] for i in rows],
        [batch.versions[i] for i in rows],
    )


def encode(layout: Layout, batch: Batch) -> memoryview:
    """Return the bytes of the file of a batch."""
    workers, worker = _indexed(batch.worker)
    versions, version = _indexed([tuple(sorted(each.items())) for each in batch.versions])
    header: dict[str, Any] = {"spec": layout.digest, "workers": workers}
    header["versions"] = [dict(each) for each in versions]
    arrays = {"job": batch.jobs, **batch.results, "seconds": batch.seconds}
    for name in layout.ragged:
        arrays |= joined(batch.results[name])
    arrays |= {"worker": worker, "version": version}
    return archive.encode(KIND, archive.Content(header, arrays))


def decode(layout: Layout, data: bytes, where: str) -> Batch:
    """Return the batch of a file; raise `InvalidFile` unless it is intact and of this run."""
    content = archive.decode(data, KIND, where)
    with archive.parsing(where, KIND):
        header, arrays = content
        if header["spec"] != layout.digest:
            raise InvalidFile("it belongs to another experiment")
        jobs = archive.take(arrays, "job", np.int64, (-1,))
        n = jobs.size
        if not n or jobs[0] < 0 or jobs[-1] >= layout.n_jobs or (jobs[1:] <= jobs[:-1]).any():
            raise InvalidFile("its jobs are not increasing numbers of jobs of the run")
        of_first = int((jobs % layout.n_agents == FIRST_AGENT).sum())
        results = {}
        for name in [*layout.names, *SHARED]:
            rows = of_first if name in SHARED else n
            shape = (rows, *layout.shape_per_job(name))
            results[name] = archive.take(arrays, name, VARIABLES[name].dtype, shape)
        for name in layout.ragged:
            sizes = archive.take(arrays, RECORDING_SIZE, np.int64, (n,))
            results[name] = separated(archive.take(arrays, name, np.uint8, (-1,)), sizes)
        seconds = archive.take(arrays, "seconds", np.float64, (n,))
        worker, version = (
            archive.take(arrays, name, np.int32, (n,)).tolist() for name in ("worker", "version")
        )
        workers = [str(name) for name in header["workers"]]
        versions = [{str(k): str(v) for k, v in each.items()} for each in header["versions"]]
        if worker and (min(*worker, *version, 0) < 0):
            raise InvalidFile("an index is negative")
        return Batch(
            jobs, results, seconds, [workers[i] for i in worker], [versions[i] for i in version]
        )


def joined(recordings: np.ndarray) -> dict[str, np.ndarray]:
    """Return recordings of several jobs as one array of bytes, and their sizes."""
    sizes = np.array([len(each) for each in recordings], dtype=np.int64)
    data = np.frombuffer(b"".join(recordings), dtype=np.uint8)
    return {RECORDING: data, RECORDING_SIZE: sizes}


def separated(data: np.ndarray, sizes: IntArray) -> np.ndarray:
    """Return the recordings that `joined` put into one array; check their sizes."""
    if (sizes < 0).any() or int(sizes.sum()) != data.size:
        raise InvalidFile("the sizes of the recordings do not add up to their bytes")
    ends = np.cumsum(sizes)
    parts = zip((ends - sizes).tolist(), ends.tolist(), strict=True)
    return as_objects(data[start:end].tobytes() for start, end in parts)


def as_objects(values: Iterable[bytes]) -> np.ndarray:
    """Return bytes as an array of objects."""
    given = list(values)
    array = np.empty(len(given), dtype=object)
    array[:] = given
    return array


def spec_digest(data: bytes) -> str | None:
    """Return the checksum of the spec that an intact batch belongs to; None if it is damaged."""
    try:
        digest = archive.decode(data, KIND, "a batch").header.get("spec")
    except InvalidFile:
        return None
    return digest if isinstance(digest, str) else None


def _indexed(values: Sequence[Any]) -> tuple[list[Any], np.ndarray]:
    """Return the distinct values, and for each value its index among them."""
    distinct = list(dict.fromkeys(values))
    index = {value: i for i, value in enumerate(distinct)}
    return distinct, np.array([index[value] for value in values], dtype=np.int32)
