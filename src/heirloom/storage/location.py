"""Where results go: a folder of this machine, or a URL that fsspec opens (`s3://bucket/run`)."""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Self

from heirloom.errors import CannotWrite, HeirloomError, InvalidArgument, InvalidFile
from heirloom.storage.archive import write_atomically

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

LOCAL = ("file://", "local://")


class Location:
    """A folder, or what is like one behind a URL.

    Args:
        where: a path, or a URL; `file://` is a path too.
    """

    def __init__(self, where: "str | os.PathLike[str] | Location") -> None:
        text = where.name if isinstance(where, Location) else os.fspath(where)
        for scheme in LOCAL:
            text = text.removeprefix(scheme)
        self.is_local = "://" not in text
        if not self.is_local:
            text = text.rstrip("/")
        self.name: str = text
        """As it was given."""
        if text.endswith(":") or (self.is_local and "::" in text):
            raise InvalidArgument(
                f"{where} is not a place for results: give a folder without '::' in its name, or a "
                "URL with something after ://"
            )

    def __str__(self) -> str:
        return self.name

    def __truediv__(self, name: str) -> Self:
        return type(self)(os.path.join(self.name, name) if self.is_local else f"{self}/{name}")

    @property
    def path(self) -> Path:
        """The folder, with links followed; only of a local place."""
        return Path(self.name).resolve()

    def names(self) -> list[str]:
        """What is in it; nothing if it is not there."""
        with self.reading():
            if self.is_local:
                return sorted(os.listdir(self.path)) if self.path.is_dir() else []
            system, root = self._open()
            if not system.exists(root):
                return []
            return sorted(entry.rsplit("/", 1)[-1] for entry in system.ls(root, detail=False))

    def write(self, name: str, data: bytes) -> None:
        """Write a file of the place, as a whole or not at all."""
        with self.writing():
            if self.is_local:
                file = self.path / name
                file.parent.mkdir(parents=True, exist_ok=True)
                write_atomically(file, data)
            else:
                system, root = self._open()
                file_url = f"{root}/{name}"
                system.makedirs(file_url.rsplit("/", 1)[0], exist_ok=True)
                system.pipe_file(file_url, data)

    def reading(self) -> AbstractContextManager[None]:
        """Whatever goes wrong within is that the place could not be read."""
        remedy = "check the name, and that you may read it, and try again"
        return self._told_as(InvalidFile, "read", remedy)

    def writing(self) -> AbstractContextManager[None]:
        """Whatever goes wrong within is that the place could not be written to."""
        remedy = "make room, or choose a place that you may write to; the same command then goes on"
        return self._told_as(CannotWrite, "written", remedy)

    @contextmanager
    def _told_as(self, kind: type[HeirloomError], done: str, remedy: str) -> Iterator[None]:
        # Each object store has its own exceptions; those of folders are the system's.
        expected = OSError if self.is_local else Exception
        try:
            yield
        except HeirloomError:
            raise
        except expected as error:
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise kind(f"{self} could not be {done} ({reason}): {remedy}") from error

    def _open(self) -> "tuple[AbstractFileSystem, str]":
        import fsspec

        try:
            return fsspec.core.url_to_fs(self.name)
        except (ImportError, ValueError) as error:
            raise InvalidArgument(
                f"{self} cannot be reached ({error}): install what opens such a URL, or give a path"
            ) from error
