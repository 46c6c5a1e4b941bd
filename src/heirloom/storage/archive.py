"""A file of named arrays that is written atomically, and verified when it is read.

The file is an uncompressed ZIP archive with one `.npy` member per array and a member `header.json`;
`numpy.load` opens it without Heirloom. The ZIP comment at its end is the
seal, which identifies the file and detects damage:

    heirloom KIND FORMAT SHA256

The checksum covers all bytes before it. Nothing in a file is ever unpickled or executed.
`storage/members.py` reads the members.
"""

import hashlib
import io
import json
import os
import re
import stat
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from heirloom.errors import HeirloomError, InvalidArgument, InvalidFile
from heirloom.storage.atomic import named, write_atomically
from heirloom.storage.members import HEADER, LARGEST_HEADER, members

FORMAT = 1
SEAL = re.compile(rb"heirloom ([a-z]+) ([1-9][0-9]{0,8}) ([0-9a-f]{64})\Z")
LONGEST_SEAL = 128
LARGEST_HEADERS = {"numbers": 2**28, "recording": 2**28}
"""The number of bytes that a header may have, for kinds that store more there than settings."""


class Content(NamedTuple):
    """The content of a file: a header that JSON can represent, and arrays (read-only when read)."""

    header: dict[str, Any]
    arrays: dict[str, np.ndarray]


def write(
    path: str | os.PathLike[str],
    kind: str,
    content: Content,
    check: Callable[[Content], object] | None = None,
) -> None:
    """Write `content` to `path` atomically: on failure an existing file is unchanged.

    Args:
        path: the file.
        kind: the kind of content, a word of lower-case letters.
        content: the content.
        check: parses the content as a reader will. If it raises an error, nothing is written.

    Raises:
        InvalidArgument: if the file could not be read again.
    """
    data = encode(kind, content)
    try:
        read_back = decode(bytes(data), kind, "the content")
        if check is not None:
            check(read_back)
    except Exception as error:
        raise InvalidArgument(
            f"the {kind} cannot be saved to {named(path)}, because it could not be loaded again "
            f"({error}): correct it; nothing was written"
        ) from error
    write_atomically(path, data)


def encode(kind: str, content: Content) -> memoryview:
    """Return the bytes of a file of this kind, with its seal."""
    file = io.BytesIO()
    seal = f"heirloom {kind} {FORMAT} ".encode()
    with zipfile.ZipFile(file, "w") as archive:
        # The archive stores the length of its comment: reserve the bytes of the checksum first.
        archive.comment = seal + b"0" * 64
        _write_member(archive, HEADER, json.dumps(content.header).encode())
        for name, array in content.arrays.items():
            member = io.BytesIO()
            np.lib.format.write_array(member, np.asarray(array, order="C"), allow_pickle=False)
            _write_member(archive, f"{name}.npy", member.getbuffer())
    data = file.getbuffer()
    data[-64:] = hashlib.sha256(data[:-64]).hexdigest().encode()
    return data


def read(path: str | os.PathLike[str], kind: str) -> Content:
    """Read a file; raise `InvalidFile` unless it is intact and of this kind."""
    try:
        if not stat.S_ISREG(Path(path).stat().st_mode):  # a pipe or a device may never end
            raise ValueError("it is not a file")
        data = Path(path).read_bytes()
    except (OSError, ValueError, TypeError, MemoryError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InvalidFile(f"{named(path)} cannot be read ({reason}): check the path") from error
    return decode(data, kind, str(path))


def decode(data: bytes, kind: str, where: str) -> Content:
    """Return the content of a file; raise `InvalidFile` unless it is intact and of this kind."""
    comment = check_seal(data, kind, where)
    try:
        return _content(data, comment, kind)
    except Exception as error:  # the checksum is right, so Heirloom never wrote this content
        raise InvalidFile(
            f"{where} is marked as a Heirloom file of kind {kind!r}, but was not written by "
            f"Heirloom ({error}): check the path"
        ) from error


def check_seal(data: bytes, kind: str, where: str) -> int:
    """Return the length of the seal that ends `data`.

    Raises:
        InvalidFile: unless `data` is of this kind, of a known format, and intact.
    """
    if not data:
        raise InvalidFile(f"{where} is empty, so it is not a file of Heirloom: check the path")
    seal = SEAL.search(data, max(0, len(data) - LONGEST_SEAL))
    if seal is None:
        is_zip = data.startswith(b"PK")
        raise InvalidFile(
            f"{where} is truncated, or not a file of Heirloom: restore it from a backup"
            if is_zip
            else f"{where} is not a file of Heirloom: check the path"
        )
    found_kind, number, checksum = (part.decode() for part in seal.groups())
    if int(number) > FORMAT:
        raise InvalidFile(
            f"{where} has format {number}, and this version of Heirloom reads up to {FORMAT}: "
            "install a newer Heirloom"
        )
    if hashlib.sha256(memoryview(data)[:-64]).hexdigest() != checksum:
        raise InvalidFile(f"{where} is damaged (wrong checksum): restore it from a backup")
    if found_kind != kind:
        other = "choose another file"
        if (found_kind, kind) == ("agent", "memory"):
            other = "load it with OptimisticAgent.load, and use the memory of the agent"
        raise InvalidFile(f"{where} is a file of kind {found_kind!r}, not {kind!r}: {other}")
    return len(seal[0])


@contextmanager
def parsing(where: str, kind: str) -> Iterator[None]:
    """Re-raise errors of the block, which parses an intact file, as `InvalidFile`."""
    try:
        yield
    except (
        *(HeirloomError, LookupError, TypeError, ValueError, AttributeError),
        *(ArithmeticError, MemoryError, RecursionError),
    ) as e:
        reason = f"{e.args[0]!r} is missing" if isinstance(e, KeyError) else e
        raise InvalidFile(
            f"{where} does not contain a valid {kind} ({reason}): it was not written by Heirloom"
        ) from e


def take(
    arrays: Mapping[str, np.ndarray], name: str, dtype: type | str, shape: tuple[int, ...]
) -> Any:
    """Return an array of a file after checking its type and shape; -1 allows any length."""
    if name not in arrays:
        raise InvalidFile(f"the array {name!r} is missing")
    array = arrays[name]
    fits = len(array.shape) == len(shape) and all(
        wanted in (-1, n) for n, wanted in zip(array.shape, shape, strict=True)
    )
    if array.dtype != np.dtype(dtype) or not fits:
        raise InvalidFile(
            f"the array {name!r} is {array.dtype} of shape {array.shape}: expected "
            f"{np.dtype(dtype)} of shape {shape}"
        )
    return array


def _write_member(archive: zipfile.ZipFile, name: str, data: bytes | memoryview) -> None:
    # `ZipInfo` without a date: files with the same content have the same bytes.
    with archive.open(zipfile.ZipInfo(name), "w", force_zip64=True) as member:
        member.write(data)


def _content(data: bytes, comment: int, kind: str) -> Content:
    largest = LARGEST_HEADERS.get(kind, LARGEST_HEADER)
    return Content(*members(data, comment, largest_header=largest))
