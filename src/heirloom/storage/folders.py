"""Folders that users choose for results, and the files that Heirloom writes to them.

Heirloom replaces only regular files there, with the names that it writes itself: links, pipes,
devices and folders in their place are refused.
"""

import os
import stat
from pathlib import Path

from heirloom.errors import CannotWrite, HeirloomError, InvalidArgument, InvalidFile
from heirloom.storage.atomic import write_file
from heirloom.validation import shown


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
