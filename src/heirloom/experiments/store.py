"""The results of a run, in a folder that xarray opens: `xr.open_zarr(folder)`.

Results are arrays over (agent, repetition, task, episode), one chunk a unit of work. A unit is
written in this order: its arrays, their checksum, and last the mark that it is done. What is marked
and agrees with its checksum is never computed again; all else is. The spec, the seed and the
versions stand beside the arrays, as attributes.
"""

import hashlib
import os
import re
import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from platform import python_version
from typing import TYPE_CHECKING, Any

import numpy as np
import zarr
from zarr.errors import ZarrUserWarning

from heirloom.errors import CannotWrite, InvalidArgument, InvalidFile
from heirloom.experiments.spec import ExperimentSpec
from heirloom.experiments.units import draw_tasks

if TYPE_CHECKING:
    import xarray as xr

FORMAT = 1
PACKAGES = ("heirloom-rl", "numpy", "scipy", "numba", "gymnasium", "zarr", "xarray", "joblib")
UNIT = ("agent", "repetition")
DIMENSIONS = {
    "returns": (*UNIT, "task", "episode"),
    "discounted_returns": (*UNIT, "task", "episode"),
    "updates": (*UNIT, "task"),
    "late_update": (*UNIT, "task"),
    "lipschitz_use": (*UNIT, "task"),
    "prior_use": (*UNIT, "task", "computation"),
    "optimal_after": (*UNIT, "task"),
}
MEANINGS = {
    "returns": "sum of rewards of an episode",
    "discounted_returns": "sum of discounted rewards of an episode",
    "updates": "how often the model was updated in a task",
    "late_update": "mean time step of the last 50 updates in a task",
    "lipschitz_use": "part of bound computations where the Lipschitz bound is at most v_max",
    "prior_use": "part of the pairs where the prior is below the computed distance",
    "optimal_after": "episodes until the greedy policy is optimal for the rest of a task",
    "optimal": "best expected return of an episode",
    "optimal_discounted": "best expected discounted return of an episode",
    "checksum": "of the arrays of a unit",
    "done": "whether a unit is complete",
}

PART = re.compile(r"zarr\..*\.partial")
"""The name of a part of a group's first file."""

UNREADABLE = (OSError, ValueError, RuntimeError, TypeError, KeyError)
"""What reading a chunk that is damaged may raise."""

Unit = tuple[int, int]
"""An agent and a repetition, by their places."""


class RunStore:
    """The results of an experiment in a folder.

    Args:
        folder: a folder of its own; made if it is not there.
        spec: the experiment. A folder that holds another one is refused.
    """

    def __init__(self, folder: str | os.PathLike[str], spec: ExperimentSpec) -> None:
        self.folder, self.spec = os.path.abspath(folder), spec
        names = ["returns", "discounted_returns", "updates", "late_update"]
        self.names = names if spec.measure is None else [*names, spec.measure]
        with _writing(self.folder):
            group = self._existing()
            self.group = self._create() if group is None else group
        for name, values in self._coordinates().items():
            self._repair(name, values)

    def is_done(self, unit: Unit) -> bool:
        """Whether a unit was computed, and is as it was written."""
        try:
            if not self._array("done")[unit]:
                return False
            stored = {name: np.asarray(self._array(name)[unit]) for name in self.names}
            return bool(self._array("checksum")[unit] == checksum(stored))
        except UNREADABLE:
            return False  # a chunk that cannot be read is not there

    def write(self, unit: Unit, results: dict[str, np.ndarray]) -> None:
        """Keep the results of a unit; the mark that it is done comes last."""
        with _writing(self.folder):
            self._array("done")[unit] = False
            for name in self.names:
                self._array(name)[unit] = results[name]
            self._array("checksum")[unit] = checksum({n: results[n] for n in self.names})
            self._array("done")[unit] = True

    def repair_optimal(self, optimal: np.ndarray, discounted: np.ndarray) -> None:
        """Keep the best expected returns, [repetition, task], unless they are there already."""
        for name, values in (("optimal", optimal), ("optimal_discounted", discounted)):
            self._repair(name, values)

    def _repair(self, name: str, values: np.ndarray) -> None:
        """Write an array that belongs to no unit, unless it is there as it should be."""
        try:
            if np.array_equal(np.asarray(self._array(name)[:]), values):
                return
        except UNREADABLE:
            pass  # written anew
        with _writing(self.folder):
            self._array(name)[:] = values

    def _coordinates(self) -> dict[str, np.ndarray]:
        spec = self.spec
        sizes = {"repetition": spec.repetitions, "task": spec.tasks, "episode": spec.episodes}
        if spec.measure == "prior_use":
            sizes["computation"] = draw_tasks(spec, 0)[0].R.size + 1
        names = np.array([agent.name for agent in spec.agents], dtype=object)
        return {"agent": names} | {name: np.arange(1, n + 1) for name, n in sizes.items()}

    def results(self) -> "xr.Dataset":
        """All results, in memory."""
        return read_results(self.folder)

    def _existing(self) -> zarr.Group | None:
        """The group that is there, if it is whole and that of this experiment."""
        if not os.path.exists(self.folder):
            return None
        # A run that died while it wrote its first file leaves a part of it, and nothing else.
        if all(PART.fullmatch(name) for name in os.listdir(self.folder)):
            return None
        group = open_run(self.folder)
        there = spec_of(group, self.folder)
        difference = self.spec.difference(there)
        if difference:
            raise InvalidArgument(
                f"{self.folder} holds another experiment ({difference}): choose another folder"
            )
        for name in self._own_names():
            for left in Path(self.folder, name).rglob("*.partial"):
                left.unlink()  # of a chunk that was being written when the run died
        # The consolidated metadata is written last; without it the run died while it was made.
        return group if group.metadata.consolidated_metadata is not None else None

    def _create(self) -> zarr.Group:
        spec = self.spec
        sizes = {name: values.size for name, values in self._coordinates().items()}
        attributes: dict[str, Any] = {
            "heirloom_run": FORMAT,
            "spec": spec.as_json(),
            "seed": spec.seed,
            "versions": {name: version(name) for name in PACKAGES} | {"python": python_version()},
        }
        # What a run that died while it was made has left; nobody else's files are touched.
        for name in self._own_names():
            shutil.rmtree(Path(self.folder, name), ignore_errors=True)
        for left in Path(self.folder).glob("zarr.*"):
            left.unlink()
        group = zarr.open_group(self.folder, mode="a", attributes=attributes)

        def create(name: str, dimensions: tuple[str, ...], dtype: Any, fill: Any = None) -> Any:
            shape = tuple(sizes[d] for d in dimensions)
            unit = dimensions[:2] == UNIT
            return group.create_array(
                name,
                shape=shape,
                chunks=(1, 1, *shape[2:]) if unit else shape,
                dtype=dtype,
                fill_value=fill,
                dimension_names=dimensions,
                attributes={"long_name": MEANINGS[name]} if name in MEANINGS else {},
            )

        for name in self.names:
            integer = name == "updates"
            create(name, DIMENSIONS[name], "i8" if integer else "f8", -1 if integer else np.nan)
        for name in ("optimal", "optimal_discounted"):
            create(name, ("repetition", "task"), "f8", np.nan)
        create("checksum", UNIT, "u8", 0)
        create("done", UNIT, "bool", fill=False)
        for name in sizes:
            create(name, (name,), str if name == "agent" else "i8")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ZarrUserWarning)  # other readers may not look for it
            return zarr.consolidate_metadata(group.store)

    def _own_names(self) -> list[str]:
        """The arrays of this run."""
        others = ["optimal", "optimal_discounted", "checksum", "done"]
        return [*self.names, *others, *self._coordinates()]

    def _array(self, name: str) -> Any:
        return self.group[name]


def open_run(folder: str) -> zarr.Group:
    """The group of a run; raises `InvalidFile` if the folder holds none."""
    try:
        group = zarr.open_group(folder, mode="r+")
        if int(group.attrs["heirloom_run"]) > FORMAT:  # type: ignore[arg-type]
            raise InvalidFile(
                f"{folder} was written by a newer Heirloom: install a newer one to read it"
            )
    except InvalidFile:
        raise
    except Exception as error:
        raise InvalidFile(
            f"{folder} is not a run of Heirloom's, or its zarr.json is damaged: choose a folder "
            "that is empty or not there"
        ) from error
    return group


def spec_of(group: zarr.Group, folder: str) -> ExperimentSpec:
    """The experiment of a run."""
    try:
        return ExperimentSpec.read(group.attrs["spec"])  # type: ignore[arg-type]
    except (KeyError, InvalidArgument) as error:
        raise InvalidFile(f"the spec of the run in {folder} is damaged ({error})") from None


def read_results(folder: str | os.PathLike[str]) -> "xr.Dataset":
    """All results of a run, in memory."""
    import xarray as xr

    open_run(os.fspath(folder))
    try:
        with xr.open_zarr(os.fspath(folder), chunks=None) as dataset:
            return dataset.load()
    except UNREADABLE as error:
        raise InvalidFile(
            f"{folder} is damaged ({error}): run the experiment again in this folder, which "
            "computes what is missing"
        ) from error


def checksum(results: dict[str, np.ndarray]) -> np.uint64:
    """64 bits that change if a bit of the arrays does."""
    digest = hashlib.blake2b(digest_size=8)
    for name, array in sorted(results.items()):
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return np.frombuffer(digest.digest(), dtype="<u8")[0]


@contextmanager
def _writing(folder: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise CannotWrite(
            f"{folder} could not be written ({error.strerror or error}): make room, or choose a "
            "folder that you may write to; the same command then goes on"
        ) from error
