"""A lock that keeps a second run out of a folder."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from socket import gethostname

from heirloom.errors import CannotWrite, InvalidArgument
from heirloom.storage.files import regular_file, sync_folder

LOCK = "run.lock"
START = b"Heirloom runs in process "
LENGTH = 200  # bytes of the file, which is never truncated
ATTEMPTS = 100  # to lock a file that another run deletes at the same moment


@contextmanager
def lock(folder: Path) -> Iterator[None]:
    """Keep other runs out of a folder, which is created if it does not exist.

    The system releases the lock when the process ends. The lock file names the process. It is
    deleted at the end, and so are folders that were created and are still empty.
    """
    with ExitStack() as cleanup:
        try:
            missing = [each for each in (folder, *folder.parents) if not each.exists()]
            for each in reversed(missing):
                each.mkdir(exist_ok=True)
                cleanup.callback(_remove_if_empty, each, os.stat(each))
                sync_folder(each.parent)
            if not folder.is_dir():
                raise CannotWrite(f"{folder} is a file: choose a folder for the results")
            _acquire(folder / LOCK, cleanup)
        except OSError as error:
            if isinstance(error, CannotWrite):
                raise
            raise CannotWrite(
                f"{folder} could not be created, or no lock file in it ({error.strerror}): choose "
                "a folder that you are allowed to write to"
            ) from error
        yield


def _acquire(file: Path, cleanup: ExitStack) -> None:
    """Lock a file until `cleanup` is closed; raise `InvalidArgument` if another run has it."""
    for _ in range(ATTEMPTS):
        regular_file(file, CannotWrite, alone=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
        descriptor = os.open(file, flags, 0o666)
        with ExitStack() as closing:
            closing.callback(os.close, descriptor)
            content = os.pread(descriptor, LENGTH, 0)
            if content.strip(b"\0") and not content.startswith(START):
                raise CannotWrite(f"{file} was not written by Heirloom: move it away")
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                owner = content.removeprefix(START).decode("utf-8", "replace").strip()
                raise InvalidArgument(
                    f"another run is in progress in {file.parent} (process {owner or 'unknown'}): "
                    "wait until it ends, or choose another folder"
                ) from None
            if _is_at(descriptor, file):
                owner = f"{os.getpid()} on {gethostname()}"
                os.pwrite(descriptor, (START + owner.encode()).ljust(LENGTH - 1) + b"\n", 0)
                cleanup.push(closing.pop_all())
                cleanup.callback(_remove, descriptor, file)  # before the lock is released
                return
    raise CannotWrite(f"{file} is deleted again and again by other programs: end them")


def _is_at(descriptor: int, file: Path) -> bool:
    with suppress(OSError):
        return os.path.samestat(os.fstat(descriptor), os.lstat(file))
    return False


def _remove(descriptor: int, file: Path) -> None:
    if _is_at(descriptor, file):  # the folder may have been moved
        file.unlink(missing_ok=True)


def _remove_if_empty(folder: Path, created: os.stat_result) -> None:
    with suppress(OSError):
        if os.path.samestat(os.lstat(folder), created):  # not one that replaced it
            folder.rmdir()
