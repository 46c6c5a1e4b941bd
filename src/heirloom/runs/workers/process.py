"""One worker process on this machine, with its own connection to the process that started it.

The pools of joblib and `concurrent.futures` have one pipe for the results of all workers. If a
worker is killed while it writes a result, part of a message remains in that pipe, and the pool
waits for the rest forever. Here each worker has its own connection, which is closed whenever the
worker is killed. joblib only starts the processes: unlike `multiprocessing`, it does not import the
main module in them.
"""

import atexit
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import NamedTuple
from weakref import WeakSet

from heirloom.experiments.job import Job
from heirloom.runs.workers.compute import Computed


class Inherited(NamedTuple):
    """What a process inherits when it starts; it is used again only if all of this is the same."""

    folder: str
    path: tuple[str, ...]
    environment: Mapping[str, str]
    threads: Mapping[str, str]
    """Variables that limit the threads of libraries, in addition to the environment."""


class Worker:
    """A process that computes one job after the other."""

    def __init__(self, inherited: Inherited) -> None:
        import joblib  # noqa: F401 -- first, since threads cannot import its parts simultaneously
        from joblib.externals.loky.backend.context import get_context

        context = get_context("loky")
        self.inherited, self.owner = inherited, os.getpid()
        self.connection, other_end = context.Pipe()
        self.jobs: deque[Job] = deque()  # sent, result not received yet; it computes the first
        self.compute: bytes | None = None  # the pickled function that was sent last
        self.code: dict[str, int] = {}  # when the files of modules were changed last
        self.process = context.Process(
            target=_serve, args=(other_end, self.owner), daemon=True, env=dict(inherited.threads)
        )
        self.process.start()
        _started.add(self)
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
        if self.owner == os.getpid():  # in a forked process it belongs to the parent
            from joblib.externals.loky.backend.utils import kill_process_tree

            with suppress(Exception):  # it needs psutil or the command pgrep
                kill_process_tree(self.process)
            if self.process.is_alive():
                with suppress(ProcessLookupError):
                    os.kill(self.process.pid, getattr(signal, "SIGKILL", signal.SIGTERM))
            self.process.join()
        self.connection.close()


_started: WeakSet[Worker] = WeakSet()


@atexit.register  # runs before the function of multiprocessing, which sends SIGTERM and waits
def _stop_all() -> None:
    for worker in list(_started):
        worker.stop()


def _forget_all() -> None:
    """Forget the workers of the parent, in a process that it forked."""
    for worker in list(_started):
        multiprocessing.process._children.discard(worker.process)  # type: ignore[attr-defined]
    _started.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)


def read_result(message: bytes) -> Computed:
    """Return the results in a message of a worker, or raise the exception in it."""
    result, raised = pickle.loads(message)
    if raised is not None:
        raise raised
    return result


def _serve(connection: Connection, parent: int) -> None:
    """Compute the jobs that the parent sends, until it closes the connection (in a worker)."""
    _exit_with_parent(parent)
    # A process that a job starts must not keep the connection open when this one is killed.
    os.set_inheritable(connection.fileno(), False)  # noqa: FBT003 -- it takes no keywords
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=connection.close)
    compute = b""
    while True:
        try:
            changed, job = connection.recv()
        except (EOFError, OSError):  # the parent has closed the connection
            return
        compute = changed or compute
        message = _computed(compute, job)
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):
                stream.flush()  # since the process will be killed
        with suppress(OSError):
            connection.send_bytes(message)


def _computed(compute: bytes, job: Job) -> bytes:
    """Return the message with the results of a job, or with the exception that it raised."""
    try:
        return pickle.dumps((pickle.loads(compute)(job), None))
    except BaseException as error:
        import cloudpickle  # the class of the exception may be defined in the main module

        where = "In a worker process:\n" + "".join(traceback.format_exception(error))
        with suppress(Exception):
            error.add_note(where)
        try:
            message: bytes = cloudpickle.dumps((None, error))
            pickle.loads(message)
        except Exception:  # the exception cannot be sent
            summary = traceback.format_exception_only(error)[0].strip()
            message = pickle.dumps((None, RuntimeError(f"{summary}\n{where}")))
        return message


def _exit_with_parent(parent: int) -> None:
    """Exit this process when its parent has ended, even if the parent was killed."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
