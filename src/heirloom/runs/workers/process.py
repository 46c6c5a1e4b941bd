"""Worker processes on this machine, each with its own connection to the process that started it.

In a pipe for the results of all workers, as the pools of the standard library have it, part of a
message would remain if a worker were killed while it writes. Workers wait for the next call, which
then need not start and import anything. They never import the main module of the program.
"""

import atexit
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from heirloom.errors import InvalidArgument
from heirloom.runs.versions import ImportedFiles, Stamps, stamps

if TYPE_CHECKING:  # at run time, only workers import what jobs need
    from heirloom.experiments.job import Job
    from heirloom.runs.workers.compute import Computed

IDLE_SECONDS = 300.0  # a worker ends if it receives no job for this time
ENDING = 2.0  # seconds for a process to end after its connection was closed
LIBRARIES = "BLIS", "MKL", "NUMBA", "NUMEXPR", "OMP", "OPENBLAS"  # that start threads

is_worker = False
"""Whether this process is a worker, which starts no workers itself."""


class Setting(NamedTuple):
    """What a process is started with; it is used again only if all of this is the same."""

    folder: str
    path: tuple[str, ...]  # where it imports from
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
        arguments = other_end.fileno(), os.getpid(), time.time_ns(), IDLE_SECONDS
        code = f"import sys; sys.path[:] = {list(setting.path)!r}; " + (
            f"from heirloom.runs.workers.process import serve; serve{arguments}"
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

    def send(self, compute: bytes, jobs: "deque[Job]", *, at_most: int) -> None:
        """Send jobs until the worker has `at_most`, with the function that computes them."""
        while jobs and len(self.jobs) < at_most:
            job = jobs.popleft()
            self.jobs.append(job)
            with suppress(OSError):  # the worker was killed; the next read reports it
                self.connection.send((None if compute is self.compute else compute, job))
            self.compute = compute

    def receive(self) -> "tuple[Computed | None, BaseException | None]":
        """Return the results of a job, or the exception that it raised, or neither: a notice.

        Raises `EOFError` or `OSError` if the worker has closed its connection.
        """
        message = pickle.loads(self.connection.recv_bytes())
        if isinstance(message, str):
            from heirloom import kernels

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


def processors() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def setting_now(n_workers: int, *, own_code: bool) -> Setting:
    """Return what workers are started with; the threads of their libraries share the processors.

    Workers import from the current folder if this process does, and only for code of the user.
    """
    try:
        folder = os.getcwd()
    except OSError as error:
        raise InvalidArgument(
            "the current folder was deleted, so that processes cannot start in it: change to "
            "another folder, or use jobs=1"
        ) from error
    path = [entry or folder for entry in sys.path if isinstance(entry, str)]
    if not own_code:
        path = [entry for entry in path if entry != folder]
    package = str(Path(__file__).resolve().parents[3])
    names = [f"{library}_NUM_THREADS" for library in LIBRARIES]
    threads = str(max(1, processors() // n_workers))
    limits = {name: threads for name in names if not os.environ.get(name)}
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


os.register_at_fork(after_in_child=_forget_all)


def serve(descriptor: int, parent: int, started: int, idle_seconds: float) -> None:
    """Compute jobs until the parent closes the connection, or sends none for `idle_seconds`."""
    global is_worker
    is_worker = True
    threading.Thread(target=_exit_with_parent, args=(parent,), daemon=True).start()
    from heirloom import kernels

    connection = Connection(descriptor)
    # A process that a job starts must not keep the connection open when this one is killed.
    os.set_inheritable(descriptor, False)  # noqa: FBT003 -- it takes no keywords
    os.register_at_fork(after_in_child=connection.close)
    os.register_at_fork(after_in_child=partial(setattr, kernels, "forward", None))
    kernels.forward = lambda notice: connection.send_bytes(pickle.dumps(notice))
    compute, files = b"", ImportedFiles(started)
    with suppress(EOFError, OSError):  # the parent has closed the connection
        while connection.poll(idle_seconds):
            changed, job = connection.recv()
            compute = changed or compute
            message = _computed(compute, job, files)
            for stream in (sys.stdout, sys.stderr):
                with suppress(Exception):
                    stream.flush()  # since the process will be killed
            connection.send_bytes(message)
    os.killpg(0, signal.SIGKILL)  # this process, and those that jobs have started


def _computed(compute: bytes, job: "Job", files: ImportedFiles) -> bytes:
    """Return the message with the results of a job, or with the exception that it raised."""
    from heirloom.experiments.registry import no_exit

    try:
        with no_exit("the code of a job"):
            result = pickle.loads(compute)(job)
        return pickle.dumps((result, None, files.new()))
    except BaseException as error:
        import cloudpickle  # the class of the exception may be defined in the main module

        where = "In a worker process:\n" + "".join(traceback.format_exception(error))
        error.add_note(where)
        try:
            message: bytes = cloudpickle.dumps((None, error, {}))
            pickle.loads(message)
        except Exception:  # the exception cannot be sent
            summary = traceback.format_exception_only(error)[0].strip()
            message = pickle.dumps((None, RuntimeError(f"{summary}\n{where}"), {}))
        return message


def _exit_with_parent(parent: int) -> None:
    """End this process and those that it started when its parent has ended, even by a kill."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os.killpg(0, signal.SIGKILL)
