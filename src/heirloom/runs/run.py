"""Running an experiment: units of work in parallel, and going on where a run was stopped."""

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from typing import TYPE_CHECKING

import numpy as np

from heirloom import signals
from heirloom.choices import Backend
from heirloom.errors import CannotWrite, InvalidArgument
from heirloom.experiments.job import Job, check_agents, draw_tasks
from heirloom.experiments.spec import ExperimentSpec
from heirloom.learning.lifetime import optimal_returns
from heirloom.runs.progress import progress
from heirloom.runs.store import RunStore
from heirloom.runs.versions import differences, versions
from heirloom.runs.workers import check_workers, workers
from heirloom.runs.workers.compute import Compute
from heirloom.storage.location import Location

if TYPE_CHECKING:
    import xarray as xr

LOCK = ".lock"
PASSES = 3  # over units that are not there once they were written


def run(
    spec: ExperimentSpec,
    location: str | os.PathLike[str] | Location,
    *,
    jobs: int | None = None,
    backend: Backend | None = None,
    address: str | None = None,
) -> "xr.Dataset":
    """Run an experiment, or what is left of it, and return its results.

    Results are the same bit for bit whatever the number of jobs, the backend and the order of
    units, and however often the run was stopped.

    Args:
        spec: the experiment.
        location: the folder where results go, or a URL that fsspec opens; the same location resumes
            the same experiment.
        jobs: how many units are computed at once; by default as many as there are processors, or
            all that a cluster can.
        backend: `"local"`, `"dask"` or `"ray"`; by default local, or what a context of
            `joblib.parallel_config` says.
        address: where the cluster is. Without one a Dask client or a Ray cluster that is in use
            already is taken, or else one is started on this machine.
    """
    check_workers(backend, jobs, address)
    return run_on(lambda: workers(backend, jobs=jobs, address=address), spec, location)


def run_on(
    start_workers: Callable[[], AbstractContextManager[Compute]],
    spec: ExperimentSpec,
    location: str | os.PathLike[str] | Location,
) -> "xr.Dataset":
    """`run`, on workers that are started, or handed over, when there is something to compute."""
    location = Location(location)
    check_agents(spec)
    with _lock(location) as alone:
        store = RunStore(location, spec, alone=alone)
        left = store.left()
        if left:
            _warn_of_versions(store)
            with start_workers() as compute:
                left = _compute_all(store, left, compute, alone=alone)
        else:
            store.repair_optimal(lambda: _optimal(spec))
        if left:
            raise CannotWrite(
                f"{len(left)} jobs written to {location} could not be read back: choose a location "
                "that no other program writes to"
            )
        return store.results()


def _warn_of_versions(store: RunStore) -> None:
    for difference in differences(versions(), store.versions):
        logging.getLogger("heirloom").warning(
            "heirloom: %s was begun with other versions (%s), and bits may differ",
            store.location,
            difference,
        )


def _compute_all(store: RunStore, left: list[Job], compute: Compute, *, alone: bool) -> list[Job]:
    """Compute units until all are there as they were written; returns those that never are."""
    for _ in range(PASSES):
        left = _compute(store, left, compute)
        if not alone:  # another run may have spoilt what was there
            left = store.left()
        if not left:
            break
    return left


def _compute(store: RunStore, jobs: list[Job], compute: Compute) -> list[Job]:
    """Compute and keep units; returns those that cannot be read again as they were written."""
    lost = []
    spec, n = store.spec, len(store.jobs)
    computed = compute(spec, jobs)
    with closing(computed), progress(spec.name, n, n - len(jobs)) as advance:
        signals.check()
        store.repair_optimal(lambda: _optimal(spec))  # while workers start
        for job, results in computed:
            store.write(job, results)
            if not store.is_done(job):
                lost.append(job)
            advance(f"{spec.agents[job[0]].name}, repetition {job[1] + 1}")
            signals.check()
    return lost


def _optimal(spec: ExperimentSpec) -> tuple[np.ndarray, np.ndarray]:
    """The best expected returns, undiscounted and discounted, [repetition, task]."""
    tasks = [draw_tasks(spec, j) for j in range(spec.repetitions)]
    undiscounted, discounted = (
        np.array([optimal_returns(row, spec.steps, discounted=d) for row in tasks])
        for d in (False, True)
    )
    return undiscounted, discounted


@contextmanager
def _lock(location: Location) -> Iterator[bool]:
    """Keep other runs out of a folder; the lock goes with the process, however it ends.

    Yields whether the run is alone. Behind a URL, and where the file system has no locks, it may
    not be: then two runs compute the same twice, and write the same bytes.
    """
    try:
        import fcntl
    except ImportError:  # no such locks on this system
        yield False
        return
    if not location.is_local:
        yield False
        return
    try:
        path = location.path  # a link leads to the same lock
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = open(path.parent / f".{path.name}{LOCK}", "w")
    except OSError as error:
        if location.path.is_dir() and os.access(location.path, os.W_OK):
            yield False  # there is no place for a lock beside it
            return
        raise CannotWrite(
            f"{location} could not be created ({error.strerror}): choose a folder that you may "
            "write to"
        ) from error
    with lock:
        alone = True
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InvalidArgument(
                f"another run is working in {location}: wait for it, or choose another folder"
            ) from None
        except OSError:
            alone = False  # a network file system without locks
        yield alone
