"""Ctrl-C: heard by the command also where it would be lost, and kept from what must be whole.

Python drops the exception if it comes while an object is cleaned up: then it comes once more.
Libraries drop it while they are loaded, or turn it into another one: so it is kept in mind, and
long work asks for it now and then.
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

_came: signal.Signals | None = None  # the last signal that was heard


def listen() -> None:
    """Keep Ctrl-C, and being told to end, in mind for the rest of this process."""
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) != signal.SIG_IGN:  # as in the background of a script
            signal.signal(number, _interrupt)
    sys.unraisablehook = _interrupt_again


def check() -> None:
    """Raise `KeyboardInterrupt` if there was one."""
    if _came is not None:
        raise KeyboardInterrupt


@contextmanager
def recognised() -> Iterator[None]:
    """What is raised within after a Ctrl-C is taken for it."""
    try:
        yield
    except Exception:
        check()
        raise


@contextmanager
def uninterrupted() -> Iterator[None]:
    """A Ctrl-C within comes after it, and processes that are started within never hear one.

    So none is left half started, and the process that started the others stops them.
    """
    with _later(signal.SIGTERM), _later(signal.SIGINT), _unheard(signal.SIGINT):
        yield


@contextmanager
def _later(number: int) -> Iterator[None]:
    """A signal that comes within is handled afterwards."""
    handler = signal.getsignal(number)
    if not callable(handler) or threading.current_thread() is not threading.main_thread():
        yield  # signals are the main thread's
        return
    came = []
    signal.signal(number, lambda *told: came.append(told))
    try:
        yield
    finally:
        signal.signal(number, handler)
        if came:
            handler(*came[0])


@contextmanager
def _unheard(number: int) -> Iterator[None]:
    """Processes that are started within do not hear a signal."""
    if not hasattr(signal, "pthread_sigmask"):  # on Windows
        yield
        return
    from multiprocessing import resource_tracker

    from joblib.externals.loky.backend import resource_tracker as loky_tracker

    # Processes inherit what is blocked. These two would unblock it when they start.
    resource_tracker.ensure_running()
    loky_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {number})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _interrupt(number: int, frame: FrameType | None) -> None:
    global _came
    _came = signal.Signals(number)
    raise KeyboardInterrupt


def _interrupt_again(unraisable: "UnraisableHookArgs") -> None:
    """Called with exceptions that Python drops."""
    if not issubclass(unraisable.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(unraisable)
    elif not sys.is_finalizing():
        _thread.start_new_thread(_interrupt_soon, ())  # within this call it would be dropped again


def _interrupt_soon() -> None:
    time.sleep(0.01)
    number = signal.SIGINT if _came is None else _came  # the other one may be ignored
    ident = threading.main_thread().ident
    if ident is not None and hasattr(signal, "pthread_kill"):
        signal.pthread_kill(ident, number)  # which wakes it if it waits
    else:  # on Windows
        _thread.interrupt_main(number)
