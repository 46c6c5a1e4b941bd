"""Locations of results: folders on this machine, or URLs that fsspec opens (`s3://bucket/run`)."""

import os
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Self

from heirloom.errors import CannotWrite, HeirloomError, InvalidArgument, InvalidFile
from heirloom.storage.atomic import sync_folder, write_atomically
from heirloom.validation import shown

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

LOCAL = ("file://", "local://")


class Location:
    """A folder, given by a path or by a URL.

    Args:
        where: a path or a URL; a `file://` URL is treated as a path.
    """

    def __init__(self, where: "str | os.PathLike[str] | Location") -> None:
        try:
            text = where.name if isinstance(where, Location) else os.fspath(where)
        except TypeError:
            text = None
        if not isinstance(text, str) or not text or "\0" in text:
            raise InvalidArgument(
                f"the location is {shown(where)}: expected the path of a folder, or a URL"
            )
        for scheme in LOCAL:
            text = text.removeprefix(scheme)
        self.is_local = "://" not in text
        if not self.is_local:
            text = text.rstrip("/")
        self.name: str = text
        """The path, or the URL without trailing slashes."""
        if text.endswith(":") or (self.is_local and "::" in text):
            raise InvalidArgument(
                f"{shown(where)} is not a valid location: give a folder without '::' in its name, "
                "or a URL with a path after ://"
            )

    def __str__(self) -> str:
        return self.name

    def __truediv__(self, name: str) -> Self:
        return type(self)(os.path.join(self.name, name) if self.is_local else f"{self}/{name}")

    @property
    def path(self) -> Path:
        """The folder, with links resolved; only for a local location."""
        return Path(self.name).resolve()

    def names(self) -> list[str]:
        """Return the sorted names of its files and folders; none if it does not exist."""
        with self.reading():
            if self.is_local:
                return sorted(os.listdir(self.path)) if self.path.is_dir() else []
            system, root = self._open()
            system.invalidate_cache(root)  # another run may have written files
            if not system.exists(root):
                return []
            return sorted(entry.rsplit("/", 1)[-1] for entry in system.ls(root, detail=False))

    def write(self, name: str, data: bytes) -> None:
        """Write a whole file: atomically in a local folder, as one object behind a URL."""
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

    def read(self, name: str) -> bytes | None:
        """Return the content of a file, or None if it does not exist.

        A local file that the disk cannot read is returned as empty, so that its checksum is wrong.
        """
        with self.reading():
            try:
                if not self.is_local:
                    system, root = self._open()
                    return bytes(system.cat_file(f"{root}/{name}"))
                return (self.path / name).read_bytes()
            except (FileNotFoundError, NotADirectoryError):
                return None
            except OSError as error:
                if not self.is_local or isinstance(error, PermissionError):
                    raise
                return b""

    def create(self) -> None:
        """Create the folder, if it does not exist; in a local folder, durably."""
        with self.writing():
            if not self.is_local:
                return  # folders of an object store exist as soon as they contain a file
            missing = [self.path]
            while not missing[-1].parent.is_dir():
                missing.append(missing[-1].parent)
            for folder in reversed(missing):
                folder.mkdir(exist_ok=True)
                sync_folder(folder.parent)

    def create_subfolder(self, name: str) -> None:
        """Create a subfolder of a local folder that exists, durably; the folder is not created."""
        with self.writing():
            if self.is_local and not (self.path / name).is_dir():
                (self.path / name).mkdir(exist_ok=True)
                sync_folder(self.path)

    def replace(self, name: str, data: bytes | memoryview, *, synced: bool = True) -> None:
        """Write a whole file into a folder that exists; the folder is never created here.

        Args:
            name: name of the file, or of an existing subfolder and the file in it.
            data: the new content.
            synced: whether the file and its name are on the disk when this function returns. A
                file that can be derived from others need not be synced.
        """
        with self.writing():
            if self.is_local:
                write_atomically(self.path / name, data, synced=synced)
            else:
                system, root = self._open()
                system.pipe_file(f"{root}/{name}", bytes(data))

    def delete(self, name: str) -> None:
        """Delete a file or a folder with its content, if it exists."""
        with self.writing():
            if not self.is_local:
                system, root = self._open()
                with suppress(FileNotFoundError):
                    system.rm(f"{root}/{name}", recursive=True)
                return
            path = self.path / name
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)

    def reading(self) -> AbstractContextManager[None]:
        """Re-raise errors of the block as `InvalidFile`: the location could not be read."""
        remedy = "check the name and your permission to read it, and try again"
        return self._errors_as(InvalidFile, "read", remedy)

    def writing(self) -> AbstractContextManager[None]:
        """Re-raise errors of the block as `CannotWrite`: the location could not be written to."""
        remedy = "free some space and repeat the command to resume, or choose a writable location"
        return self._errors_as(CannotWrite, "written", remedy)

    @contextmanager
    def _errors_as(
        self, error_type: type[HeirloomError], action: str, remedy: str
    ) -> Iterator[None]:
        # Each object store raises exceptions of its own types; local folders raise OSError.
        expected = OSError if self.is_local else Exception
        try:
            yield
        except HeirloomError:
            raise
        except expected as error:
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise error_type(f"{self} could not be {action} ({reason}): {remedy}") from error

    def _open(self) -> "tuple[AbstractFileSystem, str]":
        import fsspec

        try:
            return fsspec.core.url_to_fs(self.name)
        except (ImportError, ValueError) as error:
            raise InvalidArgument(
                f"{self} cannot be opened ({error}): install the package that fsspec needs for "
                "this URL, or give a path"
            ) from error
