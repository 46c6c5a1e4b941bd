"""Files that are written as a whole: after a failure, a file is the old or the new one."""

import errno
import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from heirloom.errors import CannotWrite, InvalidArgument
from heirloom.validation import shown

FULL = (errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC))


def file_path(path: object, extension: str) -> Path:
    """Return the path of a file that is to be written, with `extension` if it has none.

    Raises `InvalidArgument` unless it is the name of a file.
    """
    try:
        file = Path(path)  # type: ignore[arg-type]
        if "\0" in str(file) or not file.name:
            raise ValueError
    except (TypeError, ValueError):
        raise InvalidArgument(f"path is {shown(path)}: expected the name of a file") from None
    return file if file.suffix else file.with_suffix(extension)


def write_file(path: Path, data: bytes) -> Path:
    """Write a file atomically, create the folders that contain it, and return its path."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _cannot_write(path, error) from error
    write_atomically(path, data)
    return path


def write_atomically(path: str | os.PathLike[str], data: bytes | memoryview) -> None:
    """Write `data` to `path`; after a failure or a crash the file is the old or the new one."""
    temporary = None
    try:
        target = Path(path)
        mode = _mode_of(target)
        aside = target.with_name(f".{target.name[:100]}.{secrets.token_hex(8)}")
        created_with = 0o666 if mode is None else mode  # the system removes the bits of the umask
        with open(aside, "xb", opener=lambda name, how: os.open(name, how, created_with)) as file:
            temporary = aside
            if mode is not None:
                os.chmod(aside, mode)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
        temporary = None
    except (OSError, ValueError, TypeError, RuntimeError) as error:
        raise _cannot_write(path, error) from error
    finally:
        if temporary is not None:
            with suppress(OSError):
                os.unlink(temporary)
    sync_folder(target.parent)


def check_folder(path: str | os.PathLike[str]) -> None:
    """Raise `CannotWrite` unless the folder exists in which a file is to be written later."""
    try:
        if not Path(path).absolute().parent.is_dir():
            raise FileNotFoundError(errno.ENOENT, "its folder does not exist")
    except (OSError, ValueError, TypeError) as error:
        raise _cannot_write(path, error) from error


def _cannot_write(path: object, error: Exception) -> CannotWrite:
    reason = getattr(error, "strerror", None) or error
    if isinstance(error, FileNotFoundError):
        remedy = "create its folder, or choose an existing one"
    elif isinstance(error, OSError) and error.errno in FULL:
        remedy = "free some disk space, or choose another disk"
    else:
        remedy = "choose another file, in a folder that you may write to"
    return CannotWrite(
        f"{named(path)} could not be written ({reason}): {remedy}; an earlier file of this name is "
        "unchanged"
    )


def named(path: object) -> str:
    """Return a path as the subject of a message; what is not a path is shown as such."""
    is_path = isinstance(path, str | os.PathLike) and os.fspath(path)
    return str(path) if is_path else f"path is {shown(path)}, which"


def _mode_of(target: Path) -> int | None:
    """Return the permissions of a file that is to be replaced; None if there is no file.

    Raises `ValueError` unless it is a regular file: a link may lead to a file that must not change,
    and a device or a pipe would be replaced by a file.
    """
    try:
        mode = target.lstat().st_mode
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(mode):
        raise ValueError("it is a link" if stat.S_ISLNK(mode) else "it is not a regular file")
    return stat.S_IMODE(mode)


def sync_folder(folder: Path) -> None:
    """Make new names and renamings in a folder durable, on systems that can sync a folder."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
