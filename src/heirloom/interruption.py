"""Ctrl-C for the command, also where it would be lost.

Python drops the exception if it comes while an object is cleaned up; libraries drop it while they
are loaded, or turn it into another one. So it is kept in mind, and long work asks for it now and
then.
"""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

_came = False


def listen() -> None:
    """Keep Ctrl-C, and being told to end, in mind for the rest of this process."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    sys.unraisablehook = _tell_others


def check() -> None:
    """Raise `KeyboardInterrupt` if there was one."""
    if _came:
        raise KeyboardInterrupt


@contextmanager
def recognised() -> Iterator[None]:
    """What is raised within after a Ctrl-C is taken for it."""
    try:
        yield
    except Exception:
        check()
        raise


def _interrupt(number: int, frame: FrameType | None) -> None:
    global _came
    _came = True
    raise KeyboardInterrupt


def _tell_others(unraisable: "UnraisableHookArgs") -> None:
    """Print what Python drops, as it does, but for a Ctrl-C."""
    if not issubclass(unraisable.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(unraisable)
