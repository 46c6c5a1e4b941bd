"""Units on this machine, or wherever `joblib.parallel_config` sends them."""

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
from heirloom.runs.workers.compute import Compute, Computed, compute_elsewhere, compute_job
from heirloom.signals import uninterrupted


@contextmanager
def processes(n_parallel: int | None, *, local: bool) -> Iterator[Compute]:
    """Processes of this machine; unless told to be `local`, a joblib context may say otherwise."""
    from concurrent.futures.process import BrokenProcessPool

    def compute(spec: ExperimentSpec, jobs: list[Job]) -> Generator[Computed]:
        # That units are left when a run is stopped is known.
        warnings.filterwarnings("ignore", r"\d+ tasks (have been|which were)", UserWarning)
        context = None if local else _joblib_context()
        if context is not None:
            return _through_joblib(spec, jobs, n_parallel, *context)
        n = min(n_parallel or processors(), len(jobs))
        if n == 1:
            return (compute_job(spec.as_json(), job) for job in jobs)
        return _in_processes(spec, jobs, n)

    try:
        yield compute
    except BrokenProcessPool as error:
        raise WorkerLost(
            "a process of this run was killed, perhaps for want of memory: take fewer jobs; the "
            "same command goes on"
        ) from error


def processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _in_processes(spec: ExperimentSpec, jobs: list[Job], n_parallel: int) -> Generator[Computed]:
    from joblib import Parallel, delayed

    work = (delayed(_compute_child)(spec.as_json(), job, os.getpid()) for job in jobs)
    with ExitStack() as started:
        with uninterrupted():
            results: Generator[Computed] = Parallel(
                n_jobs=n_parallel, backend="loky", return_as="generator_unordered"
            )(work)
            started.callback(results.close)
        started.pop_all()  # from here on whoever asked closes it
    return results


def _joblib_context() -> tuple[Any, int] | None:
    """The backend that a joblib context has set, and how many jobs it has; None without one."""
    from joblib import parallel

    if not getattr(parallel._backend, "config", None):  # joblib has no question for that
        return None
    backend, n_jobs = parallel.get_active_backend()
    return backend, n_jobs


def _through_joblib(
    spec: ExperimentSpec, jobs: list[Job], n_parallel: int | None, backend: Any, n_jobs: int
) -> Generator[Computed]:
    from joblib import Parallel, delayed

    n_jobs = n_parallel or n_jobs
    asked = spec.as_json(), versions()
    work = [delayed(compute_elsewhere)(asked[0], job, asked[1]) for job in jobs]
    if getattr(backend, "supports_return_generator", False):
        yield from Parallel(n_jobs=n_jobs, return_as="generator_unordered")(work)
        return
    # A backend that returns only when all is done, Ray's say: some units at a time, by workers
    # that stay from one time to the next.
    size = max(1, backend.effective_n_jobs(n_jobs))
    with Parallel(n_jobs=n_jobs) as parallel:
        for i in range(0, len(work), size):
            yield from parallel(work[i : i + size])


def _compute_child(spec: dict[str, Any], job: Job, parent: int) -> Computed:
    _end_with(parent)
    return compute_job(spec, job)


_watching = False


def _end_with(parent: int) -> None:
    """End this process when the one that started it is gone, however that ended."""
    global _watching
    if _watching:
        return
    _watching = True

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
