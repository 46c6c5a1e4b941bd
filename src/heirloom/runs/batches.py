"""All batches of a run: which jobs they contain, and access to the results of these jobs."""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from heirloom.arrays import BoolArray, IntArray
from heirloom.errors import InvalidFile
from heirloom.runs.batch import FIRST_AGENT, Batch, decode
from heirloom.runs.layout import BATCH_NAME, BATCHES, Layout
from heirloom.runs.schema import SHARED, VARIABLES
from heirloom.storage.location import Location

CACHED = 8  # decoded batches that are kept in memory


class File(NamedTuple):
    """An intact batch."""

    jobs: IntArray
    size: int
    """Number of bytes of the file."""


class Batches:
    """The intact batches of a run, found by reading all files and checking their checksums.

    Args:
        location: the location of the run.
        layout: its layout.
        listed: names of the batches in its manifest.
    """

    def __init__(self, location: Location, layout: Layout, listed: Iterable[str] = ()) -> None:
        self.location, self.layout = location, layout
        self.files: dict[str, File] = {}
        self.broken: list[str] = []
        """Names of batches that are damaged, or listed and missing."""
        self.own_sizes: dict[str, int] = {}
        """Sizes of the dimensions that a measure adds."""
        self.seconds = np.full(layout.n_jobs, np.nan)
        self.versions: list[dict[str, str]] = []
        self.version = np.full(layout.n_jobs, -1)
        self.workers: list[str] = []
        self.worker = np.full(layout.n_jobs, -1)
        self._names: list[str] = []
        self._owner = np.full(layout.n_jobs, -1)  # for each job, an index into `_names`
        self._cache: OrderedDict[str, Batch] = OrderedDict()
        self._held: dict[str, Batch] = {}
        found = [n for n in (location / BATCHES).names() if BATCH_NAME.fullmatch(n)]
        for name in sorted({*found, *listed}):
            self._read(name)

    @property
    def done(self) -> BoolArray:
        """For each job, by its number, whether a batch contains it."""
        return self._owner >= 0

    @property
    def held(self) -> list[Batch]:
        """Batches that are only in memory."""
        return list(self._held.values())

    def next_name(self, digest: str) -> str:
        """Return the name of a new batch with this checksum."""
        numbers = [int(name.partition("-")[0]) for name in (*self.files, *self.broken)]
        return f"{max(numbers, default=0) + 1:06}-{digest[:16]}.npz"

    def add(self, name: str, batch: Batch, size: int) -> None:
        """Add a batch whose file was read or written."""
        self.files[name] = File(batch.jobs, size)
        self._index(name, batch)

    def hold(self, batch: Batch) -> None:
        """Add a batch that is only in memory: jobs that were restored from the zarr arrays."""
        name = f"restored {len(self._held)}"
        self._held[name] = batch
        self._index(name, batch)

    def release(self) -> None:
        """Forget the batches that are only in memory, after their jobs were written."""
        self._held.clear()

    def forget(self, names: Iterable[str]) -> None:
        """Remove batches whose jobs are also in batches that were added later."""
        for name in names:
            self.files.pop(name, None)
            self._cache.pop(name, None)

    def load(self, name: str) -> Batch:
        """Read a batch that was intact before; raise `InvalidFile` if it no longer is."""
        if name in self._held:
            return self._held[name]
        if name not in self._cache:
            where = f"{self.location}/{BATCHES}/{name}"
            data = self.location.read(f"{BATCHES}/{name}")
            if data is None:
                raise InvalidFile(f"{where} was deleted while the run was read: try again")
            self._keep(name, decode(self.layout, data, where))
        self._cache.move_to_end(name)
        return self._cache[name]

    def gather(self, numbers: IntArray, names: Sequence[str]) -> dict[str, np.ndarray]:
        """Return the results of jobs that are done, with one row per job.

        Variables that all agents share are given for the jobs of the first agent only.
        """
        sizes = self.layout.sizes(self.own_sizes)
        gathered = {}
        for name in names:
            inner = VARIABLES[name].dimensions[1 if name in SHARED else 2 :]
            shape = (numbers.size, *(sizes[dimension] for dimension in inner))
            gathered[name] = np.empty(shape, dtype=VARIABLES[name].dtype)
        owners = self._owner[numbers]
        for owner in np.unique(owners):
            batch, chosen = self.load(self._names[owner]), owners == owner
            first = batch.jobs[batch.jobs % self.layout.n_agents == FIRST_AGENT]
            for name in names:
                rows = np.searchsorted(first if name in SHARED else batch.jobs, numbers[chosen])
                gathered[name][chosen] = batch.results[name][rows]
        return gathered

    def _read(self, name: str) -> None:
        data = self.location.read(f"{BATCHES}/{name}")
        try:
            if data is None:
                raise InvalidFile(f"{name} is missing")
            batch = decode(self.layout, data, name)
        except InvalidFile:
            self.broken.append(name)
            return
        self.add(name, batch, len(data))
        self._keep(name, batch)

    def _keep(self, name: str, batch: Batch) -> None:
        self._cache[name] = batch
        while len(self._cache) > CACHED:
            self._cache.popitem(last=False)

    def _index(self, name: str, batch: Batch) -> None:
        self._owner[batch.jobs] = len(self._names)
        self._names.append(name)
        self.seconds[batch.jobs] = batch.seconds
        self.version[batch.jobs] = _positions(self.versions, batch.versions)
        self.worker[batch.jobs] = _positions(self.workers, batch.worker)
        for name in self.layout.names:
            for dimension in self.layout.own_dimensions:
                if dimension in VARIABLES[name].dimensions:
                    axis = VARIABLES[name].dimensions.index(dimension) - 1
                    self.own_sizes[dimension] = batch.results[name].shape[axis]


def _positions(known: list[Any], values: list[Any]) -> list[int]:
    """Return the index of each value among those known; add the values that are new."""
    found: dict[int, int] = {}  # by identity: most values are the same object
    positions = []
    for value in values:
        if id(value) not in found:
            if value not in known:
                known.append(value)
            found[id(value)] = known.index(value)
        positions.append(found[id(value)])
    return positions
