"""Versions of the code: those of libraries, and the files of the modules that were imported.

Results are identical to the bit only if Python and the libraries have the same versions.
"""

import os
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from platform import python_version
from socket import gethostname
from sqlite3 import sqlite_version

from heirloom.errors import InvalidArgument

COMPUTING = ("heirloom-rl", "numpy", "scipy", "numba", "llvmlite", "gymnasium")
CLOCK_NS = 10_000_000  # by which the times of files may be behind the clock

Stamps = dict[str, tuple[int, int]]
"""When files were changed last (in ns), and their sizes."""


def versions() -> dict[str, str]:
    """Return the versions of Python and of the libraries that compute and store a run."""
    return dict(_versions())


@cache
def _versions() -> dict[str, str]:
    libraries = {name: version(name) for name in COMPUTING}
    return libraries | {"python": python_version(), "sqlite": sqlite_version}


def differences(here: dict[str, str], there: dict[str, str]) -> list[str]:
    """Describe each difference between two sets of versions that may change results."""
    return [
        f"{name} {here.get(name, 'missing')} here and {there.get(name, 'missing')} there"
        for name in (*COMPUTING, "python")
        if here.get(name) != there.get(name)
    ]


def check_versions(expected: dict[str, str]) -> None:
    """Raise `InvalidArgument` if this machine has other versions than those expected."""
    if found := differences(expected, versions()):
        raise InvalidArgument(
            f"a worker on {gethostname()} has other versions ({found[0]}): install the same "
            "versions on all machines, so that results are identical to the bit"
        )


def stamps(files: Iterable[str]) -> Stamps:
    """Return the stamps of the files that exist."""
    found = {}
    for file in files:
        with suppress(OSError):
            status = os.stat(file)
            found[file] = status.st_mtime_ns, status.st_size
    return found


class ImportedFiles:
    """The files of the modules that this process has imported, which `started` at that time."""

    def __init__(self, started: int) -> None:
        self._seen: set[str] = set()
        self._looked = started

    def new(self) -> Stamps:
        """Return the stamps of the files of modules that were imported since the last call.

        A file that was changed since then may be newer than the module: its stamp matches no file.
        """
        names, looked = sys.modules.keys() - self._seen, self._looked - CLOCK_NS
        self._looked = time.time_ns()
        self._seen |= names
        files = [getattr(sys.modules.get(name), "__file__", None) for name in names]
        found = stamps(file for file in files if isinstance(file, str))
        return {file: (-1, -1) if stamp[0] >= looked else stamp for file, stamp in found.items()}
