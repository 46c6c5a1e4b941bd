"""Run the jobs of an experiment in parallel, and resume a run that was stopped."""

import logging
import os
from collections.abc import Callable
from contextlib import AbstractContextManager, closing, suppress
from typing import TYPE_CHECKING

import numpy as np

from heirloom import signals
from heirloom.choices import Backend
from heirloom.errors import CannotWrite, HeirloomError, InvalidArgument
from heirloom.experiments.job import (
    Functions,
    Job,
    check_agents,
    draw_tasks,
    shared_results,
    with_declaration,
)
from heirloom.experiments.registry import is_user_defined, no_exit
from heirloom.experiments.spec import ExperimentSpec
from heirloom.progress import progress
from heirloom.runs.lock import lock
from heirloom.runs.size import check_size
from heirloom.runs.store import RunStore
from heirloom.runs.versions import differences, versions
from heirloom.runs.workers import check_workers, workers
from heirloom.runs.workers.compute import Compute
from heirloom.storage.files import folder_path
from heirloom.validation import instance
from heirloom.wording import counted

if TYPE_CHECKING:
    import xarray as xr


def run(
    spec: ExperimentSpec,
    location: str | os.PathLike[str],
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
        location: the folder that results are written to, in the file `run.sqlite`. Give the same
            folder again to resume the same experiment.
        jobs: number of jobs computed in parallel; by default the number of processors, or the size
            of the cluster.
        backend: `"local"` (processes on this machine, the default) or `"dask"`.
        address: address of the Dask cluster; by default that of the Dask client that this process
            already uses, or a cluster started on this machine if there is none.
    """
    check_workers(backend, jobs, address)
    instance("spec", spec, ExperimentSpec, "such as ExperimentSpec.load(path)")
    return run_on(lambda: workers(backend, jobs=jobs, address=address), spec, location)


def run_on(
    start_workers: Callable[[], AbstractContextManager[Compute]],
    spec: ExperimentSpec,
    location: str | os.PathLike[str],
    functions: Functions | None = None,
) -> "xr.Dataset":
    """Run an experiment like `run`, on the workers that `start_workers` provides.

    Workers are started, or handed over, only if there are jobs to compute. `functions` take the
    place of those that the spec names.
    """
    folder = folder_path(location)
    with no_exit("the code of a family, a measure or an agent"):
        spec = with_declaration(spec)
        check_size(spec, folder, functions)
        check_agents(spec, functions)
    with lock(folder):
        store = RunStore(folder, spec)
        remaining = store.remaining_jobs()
        if remaining:
            _warn_if_versions_differ(store)
            with no_exit(f"the code of family {spec.family.name!r}"):
                _check_tasks(store, remaining, functions)
            with start_workers() as compute:
                _compute(store, remaining, compute, logs=functions is None)
        arrays, done, own = store.load()  # reads back, and verifies, all that was written
        if not done.all():
            raise CannotWrite(
                f"{counted(int((~done).sum()), 'job')} written to {folder} could not be read back: "
                "check the disk, and choose a folder that no other program writes to"
            )
        return store.dataset(arrays, own)


def _warn_if_versions_differ(store: RunStore) -> None:
    for difference in differences(versions(), store.versions):
        logging.getLogger("heirloom").warning(
            "heirloom: %s was started with other versions (%s), so results may not be identical",
            store.location,
            difference,
        )


def _check_tasks(store: RunStore, remaining: list[Job], functions: Functions | None) -> None:
    """Raise `InvalidArgument` if a user-defined family no longer draws the tasks of stored jobs.

    The optimal returns of one stored repetition are compared: the code of a family may have been
    changed since.
    """
    spec = store.spec
    if not is_user_defined(spec.family.name) or len(remaining) == store.layout.n_jobs:
        return
    missing = set(remaining)
    stored = ((0, j) for j in range(spec.repetitions) if (0, j) not in missing)
    job = next(stored, None)
    if job is None:
        return
    stored_results = store.read_job(job)
    if stored_results is None:
        return
    before = stored_results["optimal"]
    now = shared_results(draw_tasks(spec, job[1], functions), spec.steps)["optimal"]
    if not np.allclose(now, before, rtol=1e-9, atol=1e-12, equal_nan=True):
        i = int(np.argmax(np.abs(now - before)))
        raise InvalidArgument(
            f"the tasks that {spec.family.name} draws now are not those of the jobs stored in "
            f"{store.location} (an optimal return was {before[i]:g}, and is {now[i]:g}): choose "
            "another folder, or restore the code of the family"
        )


def _compute(store: RunStore, jobs: list[Job], compute: Compute, *, logs: bool) -> None:
    """Compute jobs, and store them."""
    spec, n = store.spec, store.layout.n_jobs
    computed = compute(spec, jobs)
    bar = progress(spec.name, n, n - len(jobs), logs=logs)
    with closing(computed), bar as advance:

        def report(done: list[Job]) -> None:
            for i, j in done:
                advance(f"{spec.agents[i].name}, repetition {j + 1}")

        try:
            signals.check()
            for job, results, origin in computed:
                report(store.add(job, results, origin))
                signals.check()
            report(store.commit())
        except BaseException:
            with suppress(HeirloomError):  # the first error is the one to report
                store.commit()
            raise
