"""Make Ctrl-C reliable, and defer it during critical sections.

Python discards a `KeyboardInterrupt` that is raised while an object is finalised; the signal is
then sent again. Some libraries discard it while they are imported, or replace it with another
exception; the signal is therefore recorded, and long computations call `check` regularly.
"""

import _thread
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

_received: signal.Signals | None = None  # the last SIGINT or SIGTERM


def install_handlers() -> None:
    """Record SIGINT (Ctrl-C) and SIGTERM, and raise `KeyboardInterrupt`, in this process."""
    for number in (signal.SIGINT, signal.SIGTERM):
        # A shell ignores SIGINT for the background commands of a script; leave that as it is.
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _interrupt)
    sys.unraisablehook = _resend_discarded_interrupt


def check() -> None:
    """Raise `KeyboardInterrupt` if a signal was received."""
    if _received is not None:
        raise KeyboardInterrupt


@contextmanager
def restoring_interrupts() -> Iterator[None]:
    """Raise `KeyboardInterrupt` in place of any exception that the block raises after a signal."""
    try:
        yield
    except Exception:
        check()
        raise


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Defer SIGINT and SIGTERM until the block ends, which prevents partly started processes."""
    with _deferred(signal.SIGTERM), _deferred(signal.SIGINT):
        yield


@contextmanager
def _deferred(number: int) -> Iterator[None]:
    """Handle a signal that arrives during the block when the block ends."""
    handler = signal.getsignal(number)
    if not callable(handler) or threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set signal handlers
        return
    deferred = []
    signal.signal(number, lambda *arguments: deferred.append(arguments))
    try:
        yield
    finally:
        signal.signal(number, handler)
        if deferred:
            handler(*deferred[0])


@contextmanager
def blocked_in_children() -> Iterator[None]:
    """Block SIGINT in the processes that the block starts: only this process stops them."""
    from multiprocessing import resource_tracker

    # Child processes inherit the signal mask. Starting this tracker may unblock the signal in this
    # process, so start it before blocking it.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _interrupt(number: int, frame: FrameType | None) -> None:
    global _received
    _received = signal.Signals(number)
    raise KeyboardInterrupt


def _resend_discarded_interrupt(unraisable: "UnraisableHookArgs") -> None:
    """Send the signal again if Python discarded its `KeyboardInterrupt` (`sys.unraisablehook`)."""
    if not issubclass(unraisable.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(unraisable)
    elif not sys.is_finalizing():
        # An exception that is raised within this hook would be discarded too.
        _thread.start_new_thread(_resend, ())


def _resend() -> None:
    time.sleep(0.01)
    number = signal.SIGINT if _received is None else _received  # the other one may be ignored
    ident = threading.main_thread().ident
    if ident is not None:
        signal.pthread_kill(ident, number)  # wakes the main thread if it is waiting
