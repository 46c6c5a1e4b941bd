"""Compute jobs in processes on this machine.

If a process is killed, another one computes its jobs. `runs/workers/process.py` has one process,
and `runs/workers/idle.py` keeps processes for the next call.
"""

import logging
import multiprocessing
import os
from collections import Counter, deque
from collections.abc import Callable, Generator
from multiprocessing.connection import wait

from heirloom.errors import InvalidArgument, WorkerLost
from heirloom.experiments.job import Job
from heirloom.runs.workers.compute import Computed, reason
from heirloom.runs.workers.idle import hire, release, start
from heirloom.runs.workers.process import Worker, read_result
from heirloom.signals import uninterrupted

RETRIES = 3  # how often a job is computed again after its process ended
SHORT_SECONDS = 0.25  # a worker whose last job took less time receives the next job in advance
AHEAD = 2  # jobs that such a worker has, so that it does not wait for the next one
KILLED = -9  # exit status of a process that the system killed, perhaps for lack of memory


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
        n_parallel: number of processes; by default one per processor. With 1, and in a process that
            may not start others, this process computes the jobs.
    """
    n = min(n_parallel or processors(), len(jobs))
    if n > 1 and not multiprocessing.current_process().daemon:
        return _compute_in_processes(compute, jobs, n)
    return (compute(job) for job in jobs)


def _compute_in_processes(
    compute: Callable[[Job], Computed], jobs: list[Job], n_processes: int
) -> Generator[Computed]:
    """Yield the results of all jobs, and keep the processes for the next call.

    `compute` is pickled by value and unpickled for each job, so that no job depends on the jobs
    that the same process computed before, unless `compute` changes an importable module.

    Raises:
        WorkerLost: if `RETRIES` + 1 processes ended while they computed the same job.
    """
    packed, remaining = _packed(compute), deque(jobs)
    n_lost: Counter[Job] = Counter()
    workers: list[Worker] = []
    complete = False
    try:
        with uninterrupted():
            hire(workers, n_processes, threads=max(1, processors() // n_processes))
        for worker in workers:
            worker.send(packed, remaining, at_most=1)
        while busy := {worker.connection: worker for worker in workers if worker.jobs}:
            for connection in wait(list(busy)):
                worker = busy[connection]
                try:
                    message = worker.connection.recv_bytes()
                except (EOFError, OSError):
                    n_lost[worker.jobs[0]] += 1
                    with uninterrupted():
                        other = _replacement(worker, workers, remaining, n_lost[worker.jobs[0]])
                    other.send(packed, remaining, at_most=1)
                    continue
                result = read_result(message)
                worker.jobs.popleft()
                # The last jobs are not sent in advance: another worker may be free earlier.
                ahead = result.origin.seconds < SHORT_SECONDS and len(remaining) > len(workers)
                worker.send(packed, remaining, at_most=AHEAD if ahead else 1)
                yield result
        complete = True
    finally:
        with uninterrupted():
            release(workers, keep=complete)


def _packed(compute: Callable[[Job], Computed]) -> bytes:
    import cloudpickle

    try:
        return cloudpickle.dumps(compute)
    except Exception as error:  # user-defined objects may raise anything
        raise InvalidArgument(
            f"the functions cannot be sent to other processes ({reason(error)}): make them from "
            "objects that can be pickled, or use jobs=1"
        ) from error


def _replacement(
    worker: Worker, workers: list[Worker], remaining: deque[Job], n_lost: int
) -> Worker:
    """Put the jobs of a worker that ended back into the queue, and start another worker.

    Raises `WorkerLost` if too many workers ended while they computed the same job.
    """
    worker.stop()
    status = worker.process.exitcode
    why = ", perhaps because memory ran out" if status == KILLED else ""
    if n_lost > RETRIES:
        agent, repetition = worker.jobs[0]
        raise WorkerLost(
            f"{n_lost} worker processes ended while they computed the same job (agent {agent + 1}, "
            f"repetition {repetition + 1}; exit status {status}){why}: compute fewer jobs in "
            "parallel (--jobs, or jobs=...), and start the run again; stored jobs are not computed "
            "again"
        )
    logging.getLogger("heirloom").warning(
        "heirloom: a worker process ended (exit status %s)%s; its jobs are computed again",
        status,
        why,
    )
    remaining.extendleft(reversed(worker.jobs))
    workers.remove(worker)
    workers.append(start(worker.inherited))
    return workers[-1]
