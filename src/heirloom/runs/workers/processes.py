"""Compute jobs in processes on this machine; if one is killed, another one computes its jobs."""

import logging
import multiprocessing
import os
import time
from collections import Counter, deque
from collections.abc import Callable, Generator
from importlib import import_module
from multiprocessing.connection import wait
from threading import Event, Thread
from typing import TYPE_CHECKING

from heirloom.errors import InvalidArgument, WorkerLost
from heirloom.runs.workers import process
from heirloom.runs.workers.process import Worker, hire, processors, release, setting_now
from heirloom.signals import uninterrupted
from heirloom.wording import reason

if TYPE_CHECKING:
    from heirloom.experiments.job import Job
    from heirloom.runs.workers.compute import Computed

RETRIES = 3  # how often a job is computed again after its process ended
SHORT_SECONDS = 0.25  # a worker whose last job took less time receives the next job in advance
AHEAD = 2  # jobs that such a worker has, so that it does not wait for the next one
STOPPED_SECONDS = 60.0  # after which a worker that was stopped is reported
LOOK_SECONDS = 5.0  # between two looks at workers that do not answer
MOST_EARLY = 4  # processes that are started before it is known how many jobs there are

needed_later = ["xarray"]
"""Modules that are needed for the results, imported while workers begin with their first jobs."""


def start_early(n_parallel: int | None) -> None:
    """Start processes, which import what jobs need while this one reads the experiment.

    They are used if jobs are then computed by `n_parallel` processes without code of the user.
    """
    n = n_parallel or processors()
    if n > 1 and _may_start():
        # Gymnasium sets it when it is imported; workers are used in the same environment only.
        os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "hide")
        with uninterrupted():
            workers: list[Worker] = []
            hire(workers, min(n, MOST_EARLY), setting_now(n, own_code=False))
            release(workers, keep=True)


def _may_start() -> bool:
    return not (process.is_worker or multiprocessing.current_process().daemon)


def compute_locally(
    compute: "Callable[[Job], Computed]",
    jobs: "list[Job]",
    n_parallel: int | None = None,
    *,
    own_code: bool = True,
) -> "Generator[Computed]":
    """Yield the results of all jobs in any order: from `n_parallel` processes, or from this one.

    With 1, in a worker, and in a process that may not start others, this process computes the
    jobs. Jobs import from the current folder only if they have `own_code`.
    """
    n = min(n_parallel or processors(), len(jobs))
    if n > 1 and _may_start():
        return _compute_in_processes(compute, jobs, n, own_code=own_code)
    return (compute(job) for job in jobs)


def _compute_in_processes(
    compute: "Callable[[Job], Computed]", jobs: "list[Job]", n_processes: int, *, own_code: bool
) -> "Generator[Computed]":
    """Yield the results of all jobs, and keep the processes for the next call.

    `compute` is pickled by value and unpickled for each job, so that no job depends on the jobs
    that the same process computed before, unless `compute` changes an importable module.
    """
    packed, remaining = _packed(compute), deque(_ordered(jobs, n_processes))
    n_lost: Counter[Job] = Counter()
    workers: list[Worker] = []
    complete, ended = False, Event()
    # In a thread, since `receive` waits for the rest of a message that a worker has begun.
    looking = Thread(target=_report_stopped, args=(workers, ended), daemon=True)
    try:
        with uninterrupted():
            hire(workers, n_processes, setting_now(n_processes, own_code=own_code))
        for worker in workers:
            worker.send(packed, remaining, at_most=1)
        for module in needed_later:
            import_module(module)
        looking.start()
        while busy := {worker.connection: worker for worker in workers if worker.jobs}:
            for connection in wait(list(busy)):
                worker = busy[connection]  # type: ignore[index]
                try:
                    result, raised = worker.receive()
                except (EOFError, OSError):
                    n_lost[worker.jobs[0]] += 1
                    with uninterrupted():
                        other = _replacement(worker, workers, remaining, n_lost[worker.jobs[0]])
                    other.send(packed, remaining, at_most=1)
                    continue
                if raised is not None:
                    raise raised
                if result is None:  # a notice
                    continue
                # The last jobs are not sent in advance: another worker may be free earlier.
                ahead = result.origin.seconds < SHORT_SECONDS and len(remaining) > len(workers)
                worker.send(packed, remaining, at_most=AHEAD if ahead else 1)
                yield result
        complete = True
    finally:
        with uninterrupted():
            ended.set()
            if looking.is_alive():
                looking.join()
            release(workers, keep=complete)


def _ordered(jobs: "list[Job]", n_workers: int) -> "list[Job]":
    """Return the jobs with those first that workers begin with, of agents that are far apart.

    Workers then compile different code, which the others find on disk later.
    """
    first_of = {agent: (agent, repetition) for agent, repetition in reversed(jobs)}
    agents = sorted(first_of)
    n = min(n_workers, len(agents))
    first = dict.fromkeys(first_of[agents[i * len(agents) // n]] for i in range(n))
    return [*first, *(job for job in jobs if job not in first)]


def _packed(compute: "Callable[[Job], Computed]") -> bytes:
    import cloudpickle

    try:
        return cloudpickle.dumps(compute)
    except Exception as error:  # user-defined objects may raise anything
        raise InvalidArgument(
            f"the functions cannot be sent to other processes ({reason(error)}): make them from "
            "objects that can be pickled, or use jobs=1"
        ) from error


def _replacement(
    worker: Worker, workers: list[Worker], remaining: "deque[Job]", n_lost: int
) -> Worker:
    """Put the jobs of a worker that ended back into the queue, and start another worker."""
    why = worker.end()
    if n_lost > RETRIES:
        agent, repetition = worker.jobs[0]
        raise WorkerLost(
            f"{n_lost} worker processes ended while they computed the same job (agent {agent + 1}, "
            f"repetition {repetition + 1}; {why}): compute fewer jobs in parallel (--jobs, or "
            "jobs=...), and start the run again; stored jobs are not computed again"
        )
    logging.getLogger("heirloom").warning(
        "heirloom: a worker process ended (%s); its jobs are computed again", why
    )
    remaining.extendleft(reversed(worker.jobs))
    workers.remove(worker)
    workers.append(Worker(worker.setting))
    return workers[-1]


def _report_stopped(workers: list[Worker], ended: Event) -> None:
    """Say once which workers were stopped a minute ago, since the run waits for them."""
    while not ended.wait(LOOK_SECONDS):
        now = time.monotonic()
        for worker in [worker for worker in workers if worker.jobs]:
            if not worker.is_stopped:
                worker.stopped_since = None
            elif worker.stopped_since is None:
                worker.stopped_since = now
            elif now - worker.stopped_since >= STOPPED_SECONDS:
                worker.stopped_since = float("inf")
                logging.getLogger("heirloom").warning(
                    "heirloom: the run waits for a worker process that was stopped; continue it "
                    "with `kill -CONT %d`, or kill it, and another one computes its job",
                    worker.process.pid,
                )
