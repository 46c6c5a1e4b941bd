"""Worker processes that wait for the next call, which then need not start and import anything."""

import os
import sys
import threading
import time
from collections.abc import Iterable
from contextlib import suppress

from heirloom.errors import InvalidArgument
from heirloom.runs.workers.process import Inherited, Worker

IDLE_SECONDS = 300.0  # idle workers are stopped after this time
THREADS = (  # variables that limit the threads of the libraries that a worker uses
    "BLIS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)

_idle: list[Worker] = []
_idle_since = 0.0
_timer: threading.Timer | None = None
_lock = threading.Lock()


def hire(workers: list[Worker], n: int, *, threads: int) -> None:
    """Append `n` workers: idle ones that inherited the same first, then new ones."""
    inherited = _inherited_now(threads)
    with _lock:
        while _idle and len(workers) < n:
            worker = _idle.pop()
            is_current = worker.inherited == inherited and worker.code == _times(worker.code)
            if is_current and worker.process.is_alive():
                workers.append(worker)
            else:
                worker.stop()
    while len(workers) < n:
        workers.append(start(inherited))


def start(inherited: Inherited) -> Worker:
    """Start a worker, and remember which code it may import."""
    code = _times(_loaded_files())
    worker = Worker(inherited)
    worker.code = code
    return worker


def release(workers: list[Worker], *, keep: bool) -> None:
    """Keep the workers for the next call if `keep`, otherwise stop them."""
    global _idle_since, _timer
    if not keep:
        for worker in workers:
            worker.stop()
        return
    code = _times(_loaded_files())
    with _lock:
        for worker in workers:
            worker.compute, worker.code = None, {**code, **worker.code}
        _idle.extend(workers)
        _idle_since = time.monotonic()
        if _timer is not None:
            _timer.cancel()
        _timer = threading.Timer(IDLE_SECONDS, _stop_if_idle)
        _timer.daemon = True
        try:
            _timer.start()
        except RuntimeError:  # there are too many threads, or Python is about to end
            _timer = None
            _stop_all()


def stop_idle() -> None:
    """Stop all workers that wait."""
    with _lock:
        _stop_all()


def _inherited_now(threads: int) -> Inherited:
    try:
        folder = os.getcwd()
    except OSError as error:
        raise InvalidArgument(
            "the current folder was deleted, so that processes cannot start in it: change to "
            "another folder, or use jobs=1"
        ) from error
    limits = {name: str(threads) for name in THREADS if not os.environ.get(name)}
    return Inherited(folder, tuple(sys.path), dict(os.environ), limits)


def _loaded_files() -> list[str]:
    """Return the source files of the imported modules that a user may change while Python runs."""
    files = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    return [
        file
        for file in files
        if isinstance(file, str) and not file.startswith((sys.prefix, sys.base_prefix))
    ]


def _times(files: Iterable[str]) -> dict[str, int]:
    """Return when files were changed last."""
    times = {}
    for file in files:
        with suppress(OSError):
            times[file] = os.stat(file).st_mtime_ns
    return times


def _stop_if_idle() -> None:
    with _lock:
        if time.monotonic() - _idle_since >= IDLE_SECONDS:
            _stop_all()


def _stop_all() -> None:
    while _idle:
        _idle.pop().stop()


def _forget_all() -> None:
    """Forget the workers of the parent, in a process that it forked."""
    global _lock, _timer
    _lock, _timer = threading.Lock(), None
    _idle.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
