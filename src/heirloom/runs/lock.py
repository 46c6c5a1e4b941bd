"""A lock that keeps two runs out of one folder."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TextIO

from heirloom.errors import CannotWrite, InvalidArgument
from heirloom.storage.location import Location

LOCK = ".lock"
ATTEMPTS = 100  # to lock a file that another run deletes at the same moment


@contextmanager
def lock(location: Location) -> Iterator[bool]:
    """Keep other runs out of a folder; the system releases the lock when the process ends.

    Yields whether the run has exclusive access. There is no lock at a URL, or on a file system
    without locks; two runs may then compute the same jobs. The lock file is deleted at the end, and
    so are the parent folders that were created for it, if they are still empty.
    """
    try:
        import fcntl  # noqa: F401 -- only to find out whether it exists
    except ImportError:  # there is no fcntl on Windows
        yield False
        return
    if not location.is_local:
        yield False
        return
    path = location.path  # links are resolved, so that they share the lock
    with ExitStack() as cleanup:
        try:
            for folder in reversed([each for each in path.parents if not each.exists()]):
                folder.mkdir(exist_ok=True)
                cleanup.callback(_remove_if_empty, folder)
            exclusive = _acquire(path.parent / f".{path.name}{LOCK}", location, cleanup)
        except OSError as error:
            if not (path.is_dir() and os.access(path, os.W_OK)):
                raise CannotWrite(
                    f"{location} could not be created ({error.strerror}): choose a folder that you "
                    "are allowed to write to"
                ) from error
            exclusive = False  # the lock file cannot be created beside the folder
        yield exclusive


def _acquire(file: Path, location: Location, cleanup: ExitStack) -> bool:
    """Lock a file until `cleanup` is closed; return False if the file system has no locks."""
    import fcntl

    for _ in range(ATTEMPTS):
        opened = open(file, "w")
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            opened.close()
            raise InvalidArgument(
                f"another run is in progress in {location}: wait until it ends, or choose another "
                "folder"
            ) from None
        except OSError:  # a network file system without locks
            opened.close()
            return False
        if _is_at(opened, file):
            cleanup.callback(opened.close)  # the lock is released after the file is deleted
            cleanup.callback(_remove, file)
            return True
        opened.close()  # another run deleted the file after it was opened here
    return False


def _is_at(opened: TextIO, file: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(opened.fileno()), os.stat(file))
    except OSError:
        return False


def _remove(file: Path) -> None:
    with suppress(OSError):
        file.unlink()


def _remove_if_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()
