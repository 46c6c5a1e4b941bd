"""Worker processes on this machine, each with its own connection to the process that started it.

The pools of the standard library have one pipe for the results of all workers. If a worker is
killed while it writes a result, part of a message remains in that pipe, and the pool waits for the
rest forever. Here each worker has its own connection, which is closed whenever the worker is
killed. Workers wait for the next call, which then need not start and import anything.
"""

import atexit
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from multiprocessing.connection import Pipe
from typing import NamedTuple

import heirloom
from heirloom import kernels
from heirloom.errors import InvalidArgument
from heirloom.experiments.job import Job
from heirloom.runs.workers.compute import Computed
from heirloom.runs.workers.serving import Stamps, stamps

START = """import sys
sys.path[:] = {path!r}
from heirloom.runs.workers.serving import serve
serve({connection}, {parent}, {now}, {idle_seconds})
"""
IDLE_SECONDS = 300.0  # a worker ends if it receives no job for this time
ENDING = 2.0  # seconds for a process to end after its connection was closed
LIBRARIES = "BLIS", "MKL", "NUMBA", "NUMEXPR", "OMP", "OPENBLAS"  # that start threads


class Setting(NamedTuple):
    """What a process is started with; it is used again only if all of this is the same."""

    folder: str
    path: tuple[str, ...]
    """Where it imports from."""
    environment: Mapping[str, str]


class Worker:
    """A process that computes one job after the other."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.jobs: deque[Job] = deque()  # sent, result not received yet; it computes the first
        self.compute: bytes | None = None  # the pickled function that was sent last
        self.files: Stamps = {}  # of the modules that it imported
        self.stopped_since: float | None = None
        self.connection, other_end = Pipe()
        code = START.format(
            path=list(setting.path),
            connection=other_end.fileno(),
            parent=os.getpid(),
            now=time.time_ns(),
            idle_seconds=IDLE_SECONDS,
        )
        flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
        self.process = subprocess.Popen(
            # -P, since a file of the folder may have the name of a module of the standard library.
            [sys.executable, *flags, "-P", "-c", code],
            cwd=setting.folder,
            env=dict(setting.environment),
            stdin=subprocess.DEVNULL,
            pass_fds=[other_end.fileno()],
            process_group=0,  # Ctrl-C reaches the parent only; `stop` ends the children of jobs too
        )
        _started.add(self)
        other_end.close()  # only the worker has it, so that the connection closes with it

    @property
    def is_current(self) -> bool:
        """Whether the process runs, and would import the same code again."""
        return self.process.poll() is None and self.files == stamps(self.files)

    @property
    def is_stopped(self) -> bool:
        """Whether a signal such as SIGSTOP has stopped the process, which can be continued."""
        with suppress(AttributeError, OSError):  # not all systems have waitid
            options = os.WSTOPPED | os.WNOHANG | os.WNOWAIT
            return os.waitid(os.P_PID, self.process.pid, options) is not None
        return False

    def send(self, compute: bytes, jobs: deque[Job], *, at_most: int) -> None:
        """Send jobs until the worker has `at_most`, with the function that computes them."""
        while jobs and len(self.jobs) < at_most:
            job = jobs.popleft()
            self.jobs.append(job)
            with suppress(OSError):  # the worker was killed; the next read reports it
                self.connection.send((None if compute is self.compute else compute, job))
            self.compute = compute

    def receive(self) -> tuple[Computed | None, BaseException | None]:
        """Return the results of a job, or the exception that it raised.

        Both are None if the worker only sends a notice about compilation. Raises `EOFError` or
        `OSError` if the worker has closed its connection.
        """
        message = pickle.loads(self.connection.recv_bytes())
        if isinstance(message, str):
            kernels.say(message)
            return None, None
        result, raised, files = message
        self.jobs.popleft()
        self.files |= files
        return result, raised

    def end(self) -> str:
        """Wait until the process has ended by itself, or else kill it; return why it ended."""
        try:
            status = self.process.wait(ENDING)
        except subprocess.TimeoutExpired:
            return "it closed its connection, and was killed"
        finally:
            self.stop()
        memory = ", perhaps because memory ran out" if status == -signal.SIGKILL else ""
        return f"exit status {status}{memory}"

    def stop(self) -> None:
        """Kill the process, and the processes that it may have started."""
        if self in _started:  # otherwise its number may belong to another process by now
            _started.discard(self)
            with suppress(OSError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.connection.close()


_started: set[Worker] = set()  # by this process, and not ended by it
_idle: list[Worker] = []
_lock = threading.Lock()


def hire(workers: list[Worker], n: int, setting: Setting) -> None:
    """Append `n` workers: idle ones with the same setting and code first, then new ones."""
    with _lock:
        while _idle and len(workers) < n:
            worker = _idle.pop()
            if worker.setting == setting and worker.is_current:
                workers.append(worker)
            else:
                worker.stop()
    while len(workers) < n:
        workers.append(Worker(setting))


def release(workers: list[Worker], *, keep: bool) -> None:
    """Keep the workers for the next call if `keep`, otherwise stop them."""
    for worker in workers:
        if keep:
            worker.compute = None
            _idle.append(worker)
        else:
            worker.stop()


def setting_now(*, threads: int, own_code: bool) -> Setting:
    """Return what workers are started with.

    Args:
        threads: the largest number of threads of each library.
        own_code: whether jobs import code of the user. Only then, workers import from the current
            folder too, if this process does.
    """
    try:
        folder = os.getcwd()
    except OSError as error:
        raise InvalidArgument(
            "the current folder was deleted, so that processes cannot start in it: change to "
            "another folder, or use jobs=1"
        ) from error
    path = [entry or folder for entry in sys.path]
    if not own_code:
        path = [entry for entry in path if entry != folder]
    package = os.path.dirname(os.path.dirname(os.path.abspath(heirloom.__file__)))
    names = [f"{library}_NUM_THREADS" for library in LIBRARIES]
    limits = {name: str(threads) for name in names if not os.environ.get(name)}
    return Setting(folder, (*path, package), {**os.environ, **limits})


@atexit.register
def stop_all() -> None:
    """Stop the workers of this process."""
    for worker in list(_started):
        worker.stop()
    _idle.clear()


def _forget_all() -> None:
    """Forget the workers of the parent, in a process that it forked."""
    global _lock
    _lock = threading.Lock()
    for worker in list(_started):
        worker.connection.close()
        worker.process.returncode = 0  # so that Python does not report that it is still running
    _started.clear()
    _idle.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
