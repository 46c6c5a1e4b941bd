"""A worker process: it computes the jobs that its parent sends (`process.py` has the other side).

It imports this module and what its jobs name, never the main module of the program.
"""

import os
import pickle
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterable
from contextlib import suppress
from multiprocessing.connection import Connection

from heirloom import kernels
from heirloom.experiments.job import Job

CLOCK_NS = 10_000_000  # by which the times of files may be behind the clock

Stamps = dict[str, tuple[int, int]]
"""When files were changed last (in ns), and their sizes."""

is_worker = False
"""Whether this process is a worker, which starts no workers itself."""


def serve(descriptor: int, parent: int, started: int, idle_seconds: float) -> None:
    """Compute jobs until the parent closes the connection, or sends none for `idle_seconds`."""
    global is_worker
    is_worker = True
    threading.Thread(target=_exit_with_parent, args=(parent,), daemon=True).start()
    connection = Connection(descriptor)
    # A process that a job starts must not keep the connection open when this one is killed.
    os.set_inheritable(descriptor, False)  # noqa: FBT003 -- it takes no keywords
    os.register_at_fork(after_in_child=connection.close)
    kernels.forward = lambda notice: connection.send_bytes(pickle.dumps(notice))
    compute, modules = b"", _Modules(started)
    with suppress(EOFError, OSError):  # the parent has closed the connection
        while connection.poll(idle_seconds):
            changed, job = connection.recv()
            compute = changed or compute
            message = _computed(compute, job, modules)
            for stream in (sys.stdout, sys.stderr):
                with suppress(Exception):
                    stream.flush()  # since the process will be killed
            connection.send_bytes(message)


def _computed(compute: bytes, job: Job, modules: "_Modules") -> bytes:
    """Return the message with the results of a job, or with the exception that it raised."""
    try:
        result = pickle.loads(compute)(job)
        return pickle.dumps((result, None, modules.new_files()))
    except BaseException as error:
        import cloudpickle  # the class of the exception may be defined in the main module

        where = "In a worker process:\n" + "".join(traceback.format_exception(error))
        with suppress(Exception):
            error.add_note(where)
        try:
            message: bytes = cloudpickle.dumps((None, error, {}))
            pickle.loads(message)
        except Exception:  # the exception cannot be sent
            summary = traceback.format_exception_only(error)[0].strip()
            message = pickle.dumps((None, RuntimeError(f"{summary}\n{where}"), {}))
        return message


class _Modules:
    """The modules that this process has imported, and the files that they were read from."""

    def __init__(self, started: int) -> None:
        self._seen: set[str] = set()
        self._looked = started

    def new_files(self) -> Stamps:
        """Return the stamps of the files of modules that were imported since the last call.

        A file that was changed since the last call may be newer than the module; its stamp is one
        that no file has.
        """
        names, looked = sys.modules.keys() - self._seen, self._looked - CLOCK_NS
        self._looked = time.time_ns()
        self._seen |= names
        files = [getattr(sys.modules.get(name), "__file__", None) for name in names]
        found = stamps(file for file in files if isinstance(file, str))
        return {file: (-1, -1) if stamp[0] >= looked else stamp for file, stamp in found.items()}


def stamps(files: Iterable[str]) -> Stamps:
    """Return the stamps of the files that exist."""
    found = {}
    for file in files:
        with suppress(OSError):
            status = os.stat(file)
            found[file] = status.st_mtime_ns, status.st_size
    return found


def _exit_with_parent(parent: int) -> None:
    """End this process and those that it started when its parent has ended, even by a kill."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os.killpg(0, signal.SIGKILL)
