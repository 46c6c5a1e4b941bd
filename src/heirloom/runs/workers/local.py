"""Compute jobs on this machine, or with the backend set by `joblib.parallel_config`."""

import os
import threading
import time
import warnings
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from heirloom.errors import WorkerLost
from heirloom.experiments.job import Job
from heirloom.experiments.spec import ExperimentSpec
from heirloom.runs.versions import versions
from heirloom.runs.workers.compute import Compute, Computed, compute_job, compute_on_cluster, packed
from heirloom.signals import uninterrupted


@contextmanager
def local_workers(n_parallel: int | None, *, local: bool) -> Iterator[Compute]:
    """Provide worker processes on this machine.

    Unless `local` is true, a backend set by `joblib.parallel_config` is used instead.
    """
    from concurrent.futures.process import BrokenProcessPool

    def compute(spec: ExperimentSpec, jobs: list[Job]) -> Generator[Computed]:
        # joblib warns that jobs remain when a run is stopped, which is intended.
        warnings.filterwarnings("ignore", r"\d+ tasks (have been|which were)", UserWarning)
        context = None if local else _joblib_context()
        if context is not None:
            return _compute_with_joblib(spec, jobs, n_parallel, *context)
        n = min(n_parallel or processors(), len(jobs))
        if n == 1:
            packed_spec = packed(spec)
            return (compute_job(packed_spec, job) for job in jobs)
        return _compute_in_processes(spec, jobs, n)

    try:
        yield compute
    except BrokenProcessPool as error:
        raise WorkerLost(
            "a worker process was killed, perhaps because memory ran out: compute fewer jobs in "
            "parallel (--jobs); run the same command again to resume"
        ) from error


def processors() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _compute_in_processes(
    spec: ExperimentSpec, jobs: list[Job], n_parallel: int
) -> Generator[Computed]:
    from joblib import Parallel, delayed

    packed_spec = packed(spec)
    calls = (delayed(_compute_in_child)(packed_spec, job, os.getpid()) for job in jobs)
    with ExitStack() as started:
        with uninterrupted():
            results: Generator[Computed] = Parallel(
                n_jobs=n_parallel, backend="loky", return_as="generator_unordered"
            )(calls)
            started.callback(results.close)
        started.pop_all()  # from here on the caller closes the generator
    return results


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
    from joblib import Parallel, delayed

    n_jobs = n_parallel or n_jobs
    packed_spec, expected = packed(spec), versions()
    calls = [delayed(compute_on_cluster)(packed_spec, [job], expected) for job in jobs]
    if getattr(backend, "supports_return_generator", False):
        for computed in Parallel(n_jobs=n_jobs, return_as="generator_unordered")(calls):
            yield from computed
        return
    # Some backends, such as Ray's, return only when all jobs are complete. They compute one batch
    # of jobs after the other, and keep their workers between batches.
    size = max(1, backend.effective_n_jobs(n_jobs))
    with Parallel(n_jobs=n_jobs) as parallel:
        for i in range(0, len(calls), size):
            for computed in parallel(calls[i : i + size]):
                yield from computed


def _compute_in_child(spec: str, job: Job, parent: int) -> Computed:
    _exit_with_parent(parent)
    return compute_job(spec, job)


_watching = False


def _exit_with_parent(parent: int) -> None:
    """Exit this process when its parent has ended, even if the parent was killed."""
    global _watching
    if _watching:
        return
    _watching = True

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
