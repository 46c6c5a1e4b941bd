"""Worker processes on this machine, each with its own connection to this process.

The pools of joblib and `concurrent.futures` have one pipe for the results of all workers. If a
worker is killed while it writes a result, part of a message remains in that pipe, and the pool
waits for the rest forever. Here each worker has its own connection, which is closed whenever the
worker is killed. joblib only starts the processes: unlike `multiprocessing`, it does not import the
main module in them.
"""

import logging
import os
import pickle
import sys
import threading
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable, Generator
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from typing import Any

from heirloom.errors import WorkerLost
from heirloom.experiments.job import Job
from heirloom.runs.workers.compute import Computed
from heirloom.signals import uninterrupted

RETRIES = 3  # how often a job is computed again after its process was killed
SHORT_SECONDS = 0.25  # a worker whose last job took less time receives several jobs in advance
AHEAD = 4  # jobs that such a worker has at most, so that it does not wait for the next one
IDLE_SECONDS = 300.0  # idle workers are stopped after this time
THREADS = (  # variables that limit the threads of the libraries that a worker uses
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
)


def processors() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def compute_locally(
    compute: Callable[[Job], Computed], jobs: list[Job], n_parallel: int | None = None
) -> Generator[Computed]:
    """Yield the results of all jobs in any order: from this process, or from several others.

    Args:
        compute: computes a job.
        jobs: the jobs.
        n_parallel: number of processes; by default one per processor. With 1, this process computes
            the jobs.
    """
    n = min(n_parallel or processors(), len(jobs))
    return _compute_in_processes(compute, jobs, n) if n > 1 else (compute(job) for job in jobs)


def _compute_in_processes(
    compute: Callable[[Job], Computed], jobs: list[Job], n_processes: int
) -> Generator[Computed]:
    """Yield the results of all jobs, and keep the processes for the next call.

    `compute` is pickled by value and unpickled for each job, so that no job depends on the jobs
    that the same process computed before. If a process is killed, another one computes its jobs.

    Raises:
        WorkerLost: if `RETRIES` + 1 processes were killed while they computed the same job.
    """
    from cloudpickle import dumps

    packed, remaining = dumps(compute), deque(jobs)
    n_lost: Counter[Job] = Counter()
    workers: list[_Worker] = []
    complete = False
    try:
        with uninterrupted():
            _hire(workers, n_processes)
        for worker in workers:
            worker.send(packed, remaining, at_most=1)
        while busy := {worker.connection: worker for worker in workers if worker.jobs}:
            for connection in wait(list(busy)):
                worker = busy[connection]
                try:
                    message = worker.connection.recv_bytes()
                except (EOFError, OSError) as error:
                    n_lost[worker.jobs[0]] += 1
                    if n_lost[worker.jobs[0]] > RETRIES:
                        raise worker_lost() from error
                    with uninterrupted():
                        _replace(worker, workers, packed, remaining)
                else:
                    result = _result(message)
                    worker.jobs.popleft()
                    short = result.origin.seconds < SHORT_SECONDS
                    worker.send(packed, remaining, at_most=AHEAD if short else 1)
                    yield result
        complete = True
    finally:
        with uninterrupted():
            _release(workers, keep=complete)


class _Worker:
    """A process that computes one job after the other."""

    def __init__(self, environment: dict[str, str]) -> None:
        from joblib.externals.loky.backend.context import get_context

        context = get_context("loky")
        self.environment = environment
        self.connection, other_end = context.Pipe()
        self.jobs: deque[Job] = deque()  # sent, result not received yet; it computes the first
        self.compute: bytes | None = None  # the pickled function that was sent last
        self.process = context.Process(
            target=_serve, args=(other_end, os.getpid()), daemon=True, env=environment
        )
        self.process.start()
        other_end.close()  # only the worker has it, so that the connection closes with it

    def send(self, compute: bytes, jobs: deque[Job], *, at_most: int) -> None:
        """Send jobs until the worker has `at_most`, with the function that computes them."""
        while jobs and len(self.jobs) < at_most:
            job = jobs.popleft()
            self.jobs.append(job)
            with suppress(OSError):  # the worker was killed; the next read reports it
                self.connection.send((None if compute is self.compute else compute, job))
            self.compute = compute

    def stop(self) -> None:
        """Kill the process, and the processes that it may have started."""
        from joblib.externals.loky.backend.utils import kill_process_tree

        kill_process_tree(self.process)
        self.connection.close()


def _result(message: bytes) -> Computed:
    """Return the results in a message of a worker, or raise the exception in it."""
    result, raised = pickle.loads(message)
    if raised is not None:
        raise raised
    return result


def worker_lost() -> WorkerLost:
    """Return the exception for worker processes that were killed."""
    return WorkerLost(
        "a worker process was killed, perhaps because memory ran out: compute fewer jobs in "
        "parallel (--jobs, or jobs=...), and start the run again; jobs that are stored are not "
        "computed again"
    )


def _replace(
    worker: _Worker, workers: list[_Worker], compute: bytes, remaining: deque[Job]
) -> None:
    """Put the jobs of a killed worker back at the front of the queue, and start another worker."""
    logging.getLogger("heirloom").warning(
        "heirloom: a worker process was killed, perhaps because memory ran out; another one "
        "computes its jobs"
    )
    worker.stop()
    remaining.extendleft(reversed(worker.jobs))
    workers.remove(worker)
    workers.append(_Worker(worker.environment))
    workers[-1].send(compute, remaining, at_most=1)


_idle: list[_Worker] = []
_idle_since = 0.0
_idle_setting: Any = None  # folder, sys.path and environment that the idle workers inherited
_lock = threading.Lock()


def _hire(workers: list[_Worker], n: int) -> None:
    """Append `n` workers: idle ones first, then new ones."""
    global _idle_setting
    threads = str(max(1, processors() // n))
    environment = {name: threads for name in THREADS if not os.environ.get(name)}
    setting = (os.getcwd(), tuple(sys.path), dict(os.environ), environment)
    with _lock:
        if setting != _idle_setting:
            _stop_idle()
            _idle_setting = setting
        while _idle and len(workers) < n:
            worker = _idle.pop()
            if worker.process.is_alive():
                workers.append(worker)
    while len(workers) < n:
        workers.append(_Worker(environment))


def _release(workers: list[_Worker], *, keep: bool) -> None:
    """Keep the workers for the next call if `keep`, otherwise stop them."""
    global _idle_since
    if not keep:
        for worker in workers:
            worker.stop()
        return
    with _lock:
        _idle.extend(workers)
        _idle_since = time.monotonic()
    timer = threading.Timer(IDLE_SECONDS, _stop_if_idle)
    timer.daemon = True
    timer.start()


def _stop_if_idle() -> None:
    with _lock:
        if time.monotonic() - _idle_since >= IDLE_SECONDS:
            _stop_idle()


def _stop_idle() -> None:
    while _idle:
        _idle.pop().stop()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        after_in_child=_idle.clear
    )  # a forked child must not use its parent's workers


def _serve(connection: Connection, parent: int) -> None:
    """Compute the jobs that the parent sends, until it closes the connection (in a worker)."""
    _exit_with_parent(parent)
    compute = b""
    with suppress(EOFError, OSError):  # the parent has closed the connection
        while True:
            changed, job = connection.recv()
            compute = changed or compute
            connection.send_bytes(_computed(compute, job))


def _computed(compute: bytes, job: Job) -> bytes:
    """Return the message with the results of a job, or with the exception that it raised."""
    try:
        return pickle.dumps((pickle.loads(compute)(job), None))
    except BaseException as error:
        error.add_note("In a worker process:\n" + "".join(traceback.format_exception(error)))
        try:
            message = pickle.dumps((None, error))
            pickle.loads(message)
        except Exception:  # the exception cannot be sent
            text = f"{type(error).__name__}: {error}\n{error.__notes__[-1]}"
            message = pickle.dumps((None, RuntimeError(text)))
        return message


def _exit_with_parent(parent: int) -> None:
    """Exit this process when its parent has ended, even if the parent was killed."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
