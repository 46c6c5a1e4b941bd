"""How Ray's processes are started on this machine: on loopback only, and with early failure."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

ONLY_LOCAL = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"  # Ray's own switch, also read on Linux
INTERVAL = 0.5  # seconds between two looks at the processes
LONGEST_WAIT = 30.0  # seconds for a process to start


@contextmanager
def on_loopback() -> Iterator[None]:
    """Let all processes that Ray starts within the block listen on 127.0.0.1 only.

    By default Ray binds its servers to all interfaces, and replaces a loopback address that it is
    given. Where clusters of several machines are switched off, it takes 127.0.0.1 as the address of
    the machine and binds to that. Ray reads the switch when it is imported; its processes, and the
    workers that they start later, read it from the environment.
    """
    from ray._private import ray_constants

    before, variable = ray_constants.ENABLE_RAY_CLUSTER, os.environ.get(ONLY_LOCAL)
    ray_constants.ENABLE_RAY_CLUSTER = False
    os.environ[ONLY_LOCAL] = "0"
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before
        if variable is None:
            del os.environ[ONLY_LOCAL]
        else:
            os.environ[ONLY_LOCAL] = variable


class ProcessDied(Exception):
    """A process that should have kept running has ended."""

    def __str__(self) -> str:
        return "one of its processes ended at once"


@contextmanager
def failing_early() -> Iterator[None]:
    """Raise `ProcessDied` in a block that starts Ray as soon as one of its processes has ended.

    Ray itself waits for half a minute. It waits by calling two functions, one of which cannot be
    interrupted; within the block, these look at the processes from time to time. If the block
    fails, the other processes that it started are ended.
    """
    from ray._private import node as ray_node
    from ray._private import services

    node: Any = ray_node
    before = set(_children())
    wait, look = node.wait_for_persisted_port, services.get_node

    def check() -> None:
        if any(ended for pid, ended in _children().items() if pid not in before):
            raise ProcessDied

    def wait_briefly(*arguments: Any, **options: Any) -> Any:
        deadline = time.monotonic() + LONGEST_WAIT
        while True:
            try:
                return wait(*arguments, **{**options, "timeout_ms": int(1000 * INTERVAL)})
            except RuntimeError:
                check()
                if time.monotonic() > deadline:
                    raise

    def check_and_look(*arguments: Any, **options: Any) -> Any:
        check()
        return look(*arguments, **options)

    node.wait_for_persisted_port, services.get_node = wait_briefly, check_and_look
    try:
        yield
    except Exception:
        _end(set(_children()) - before)
        raise
    finally:
        node.wait_for_persisted_port, services.get_node = wait, look


def _children() -> dict[int, bool]:
    """Return the child processes of this process, and whether each has ended."""
    import psutil  # Ray contains it

    children = {}
    for child in psutil.Process().children():
        with suppress(psutil.Error):
            children[child.pid] = child.status() == psutil.STATUS_ZOMBIE
    return children


def _end(processes: set[int]) -> None:
    import psutil

    for pid in processes:
        with suppress(psutil.Error):
            psutil.Process(pid).kill()
