"""Files that are written as a whole, and folders that users choose for results.

After a failure, a file is the old or the new one. In a folder of results, Heirloom replaces only
regular files, with the names that it writes itself: links, pipes, devices and folders in their
place are refused.
"""

import errno
import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from heirloom.errors import CannotWrite, HeirloomError, InvalidArgument, InvalidFile
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
        aside = target.with_name(f".heirloom-{secrets.token_hex(8)}")
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


def folder_path(where: object, name: str = "the location") -> Path:
    """Return the path of a folder that a user gives; raise `InvalidArgument` unless it is one."""
    try:
        text = os.fspath(where)  # type: ignore[call-overload]
    except TypeError:
        text = None
    if not isinstance(text, str) or not text or "\0" in text:
        raise InvalidArgument(f"{name} is {shown(where)}: expected the path of a folder")
    if "://" in text:
        raise InvalidArgument(
            f"{name} is {shown(where)}: expected a folder on this machine, not a URL; copy the "
            "folder of a run that has ended to keep it elsewhere"
        )
    return Path(text)


def regular_file(
    path: Path, error: type[HeirloomError] = InvalidFile, *, alone: bool = False
) -> os.stat_result | None:
    """Return the status of a regular file, or None if there is nothing of this name.

    Raise `error` if it is a link, pipe, device or folder; with `alone`, also if it has another
    name (a hard link), under which a user would see it change.
    """
    try:
        found = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as failure:
        raise error(f"{path} cannot be read ({failure.strerror}): check the path") from failure
    if not stat.S_ISREG(found.st_mode):
        kinds = {stat.S_IFLNK: "link", stat.S_IFDIR: "folder", stat.S_IFIFO: "pipe"}
        kind = kinds.get(stat.S_IFMT(found.st_mode), "special file")
        raise error(
            f"{path} is a {kind}, not a regular file, so Heirloom does not touch it: move it away, "
            "or choose another folder"
        )
    if alone and found.st_nlink > 1:
        raise error(
            f"{path} has another name (a hard link), where it would change too: replace it by a "
            "copy, or choose another folder"
        )
    return found


def write_output(folder: Path, name: str, data: bytes) -> Path:
    """Write a file of a folder, such as `figures/tasks.png`, and return its path.

    Raise `CannotWrite` unless an earlier file is regular, and its subfolder is not a link.
    """
    file = folder / name
    if file.parent != folder and file.parent.is_symlink():
        raise CannotWrite(
            f"{file.parent} is a link, so Heirloom does not write there: move it away, or choose "
            "another folder"
        )
    regular_file(file, CannotWrite)  # with a message for folders of results
    return write_file(file, data)
