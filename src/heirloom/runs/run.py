"""Run the jobs of an experiment in parallel, and resume a run that was stopped."""

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
from heirloom.validation import instance

if TYPE_CHECKING:
    import xarray as xr

LOCK = ".lock"
PASSES = 3  # attempts to compute jobs whose results cannot be read back


def run(
    spec: ExperimentSpec,
    location: str | os.PathLike[str] | Location,
    *,
    jobs: int | None = None,
    backend: Backend | None = None,
    address: str | None = None,
) -> "xr.Dataset":
    """Run an experiment, or resume it, and return its results.

    Only jobs that are missing or damaged are computed. The results are identical to the bit for
    every backend, every number of workers and every order of jobs, and do not depend on how often
    the run was stopped and resumed.

    Args:
        spec: the experiment.
        location: the folder that results are written to, or a URL that fsspec opens. Give the same
            location again to resume the same experiment.
        jobs: number of jobs computed in parallel; by default the number of processors, or the size
            of the cluster.
        backend: `"local"`, `"dask"` or `"ray"`; by default the backend set by
            `joblib.parallel_config`, or local if none is set.
        address: address of the cluster; by default the Dask client or the Ray cluster that this
            process already uses, or a cluster started on this machine if there is none.
    """
    check_workers(backend, jobs, address)
    instance("spec", spec, ExperimentSpec, "such as ExperimentSpec.load(path)")
    return run_on(lambda: workers(backend, jobs=jobs, address=address), spec, location)


def run_on(
    start_workers: Callable[[], AbstractContextManager[Compute]],
    spec: ExperimentSpec,
    location: str | os.PathLike[str] | Location,
) -> "xr.Dataset":
    """Run an experiment like `run`, on the workers that `start_workers` provides.

    Args:
        start_workers: starts workers or hands over existing ones; called only if there are jobs to
            compute.
        spec: the experiment.
        location: the folder or URL that results are written to.
    """
    location = Location(location)
    check_agents(spec)
    with _lock(location) as exclusive:
        store = RunStore(location, spec, exclusive=exclusive)
        remaining = store.remaining_jobs()
        if remaining:
            _warn_if_versions_differ(store)
            with start_workers() as compute:
                remaining = _compute_all(store, remaining, compute, exclusive=exclusive)
        else:
            store.repair_optimal(lambda: _optimal(spec))
        if remaining:
            raise CannotWrite(
                f"{len(remaining)} jobs written to {location} could not be read back: choose a "
                "location that no other program writes to"
            )
        return store.results()


def _warn_if_versions_differ(store: RunStore) -> None:
    for difference in differences(versions(), store.versions):
        logging.getLogger("heirloom").warning(
            "heirloom: %s was started with other versions (%s), so results may not be identical",
            store.location,
            difference,
        )


def _compute_all(
    store: RunStore, remaining: list[Job], compute: Compute, *, exclusive: bool
) -> list[Job]:
    """Compute jobs until all can be read back; return those that cannot after `PASSES` attempts."""
    for _ in range(PASSES):
        remaining = _compute(store, remaining, compute)
        if not exclusive:  # another run may have overwritten jobs that were complete
            remaining = store.remaining_jobs()
        if not remaining:
            break
    return remaining


def _compute(store: RunStore, jobs: list[Job], compute: Compute) -> list[Job]:
    """Compute and store jobs; return those that cannot be read back as they were written."""
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
    """Optimal expected returns, undiscounted and discounted, each [repetition, task]."""
    tasks = [draw_tasks(spec, j) for j in range(spec.repetitions)]
    undiscounted, discounted = (
        np.array([optimal_returns(row, spec.steps, discounted=d) for row in tasks])
        for d in (False, True)
    )
    return undiscounted, discounted


@contextmanager
def _lock(location: Location) -> Iterator[bool]:
    """Keep other runs out of a folder; the system releases the lock when the process ends.

    Yields whether the run has exclusive access. There is no lock at a URL, or on a file system
    without locks; two runs may then compute the same jobs, but they write the same bytes.
    """
    try:
        import fcntl
    except ImportError:  # there is no fcntl on Windows
        yield False
        return
    if not location.is_local:
        yield False
        return
    try:
        path = location.path  # links are resolved, so that they share the lock
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = open(path.parent / f".{path.name}{LOCK}", "w")
    except OSError as error:
        if location.path.is_dir() and os.access(location.path, os.W_OK):
            yield False  # the lock file cannot be created beside the folder
            return
        raise CannotWrite(
            f"{location} could not be created ({error.strerror}): choose a folder that you are "
            "allowed to write to"
        ) from error
    with lock:
        exclusive = True
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InvalidArgument(
                f"another run is in progress in {location}: wait until it ends, or choose another "
                "folder"
            ) from None
        except OSError:
            exclusive = False  # a network file system without locks
        yield exclusive
