"""Compute jobs on this machine, or with the backend set by `joblib.parallel_config`."""

import warnings
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from heirloom.errors import WorkerLost
from heirloom.experiments.job import Job
from heirloom.experiments.spec import ExperimentSpec
from heirloom.runs.versions import versions
from heirloom.runs.workers.compute import (
    Compute,
    Computed,
    compute_job,
    compute_on_cluster,
    packed,
    reason,
)
from heirloom.runs.workers.processes import compute_locally


@contextmanager
def local_workers(n_parallel: int | None, *, local: bool) -> Iterator[Compute]:
    """Provide worker processes on this machine.

    Unless `local` is true, a backend set by `joblib.parallel_config` is used instead.
    """

    def compute(spec: ExperimentSpec, jobs: list[Job]) -> Generator[Computed]:
        context = None if local else _joblib_context()
        if context is not None:
            return _compute_with_joblib(spec, jobs, n_parallel, *context)
        return compute_locally(partial(compute_job, packed(spec)), jobs, n_parallel)

    yield compute


def _joblib_context() -> tuple[Any, int] | None:
    """Return the backend and `n_jobs` set by `joblib.parallel_config`, or None if none is set."""
    from joblib import parallel

    if not getattr(parallel._backend, "config", None):  # joblib has no public function for this
        return None
    backend, n_jobs = parallel.get_active_backend()
    return backend, n_jobs


def _compute_with_joblib(
    spec: ExperimentSpec, jobs: list[Job], n_parallel: int | None, backend: Any, n_jobs: int
) -> Generator[Computed]:
    from concurrent.futures.process import BrokenProcessPool

    from joblib import Parallel, delayed

    # joblib warns that jobs remain when a run is stopped, which is intended.
    warnings.filterwarnings("ignore", r"\d+ tasks (have been|which were)", UserWarning)
    n_jobs = n_parallel or n_jobs
    packed_spec, expected = packed(spec), versions()
    calls = [delayed(compute_on_cluster)(packed_spec, [job], expected) for job in jobs]
    try:
        if getattr(backend, "supports_return_generator", False):
            for computed in Parallel(n_jobs=n_jobs, return_as="generator_unordered")(calls):
                yield from computed
            return
        # Some backends, such as Ray's, return only when all jobs are complete. They compute one
        # batch of jobs after the other, and keep their workers between batches.
        size = max(1, backend.effective_n_jobs(n_jobs))
        with Parallel(n_jobs=n_jobs) as parallel:
            for i in range(0, len(calls), size):
                for computed in parallel(calls[i : i + size]):
                    yield from computed
    except BrokenProcessPool as error:
        raise WorkerLost(
            f"a worker process of joblib ended ({reason(error)}): compute fewer jobs in parallel "
            "(--jobs, or jobs=...), and start the run again; stored jobs are not computed again"
        ) from error
