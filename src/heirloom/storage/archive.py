"""The container of all saved objects: named arrays and a header, with a checksum.

A file is an uncompressed ZIP archive with one `.npy` member per array and a member `header.json`,
so `numpy.load` opens it without Heirloom. The ZIP comment at its end is the seal, which identifies
the file and detects damage:

    heirloom KIND FORMAT SHA256

The checksum covers all bytes before it. Nothing in a file is ever unpickled or executed, and no
memory is allocated for sizes that a file claims and does not have.
"""

import hashlib
import io
import json
import os
import re
import stat
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from heirloom.errors import InvalidFile
from heirloom.storage.files import named, write_atomically

FORMAT = 4
HEADER = "header.json"
SEAL = re.compile(rb"heirloom ([a-z]+) ([1-9][0-9]{0,8}) ([0-9a-f]{64})\Z")
LONGEST_SEAL = 128
NPY = b"\x93NUMPY\x01\x00"


class Content(NamedTuple):
    """The content of a file: a header that JSON can represent, and arrays (read-only when read)."""

    header: dict[str, Any]
    arrays: dict[str, np.ndarray]


def write(path: str | os.PathLike[str], kind: str, content: Content) -> None:
    """Write `content` to `path` atomically: on failure an existing file is unchanged."""
    write_atomically(path, encode(kind, content))


def encode(kind: str, content: Content) -> memoryview:
    """Return the bytes of a file of this kind, a word of lower-case letters.

    Arrays must contain numbers or booleans. Arrays in the header become lists.
    """
    header = json.dumps(content.header, default=lambda array: array.tolist()).encode()
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        # The archive stores the length of its comment: reserve the bytes of the checksum first.
        archive.comment = f"heirloom {kind} {FORMAT} ".encode() + b"0" * 64
        # `ZipInfo` without a date: files with the same content have the same bytes.
        archive.writestr(zipfile.ZipInfo(HEADER), header)
        for name, array in content.arrays.items():
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                in_rows = np.asarray(array, order="C")
                np.lib.format.write_array(member, in_rows, version=(1, 0), allow_pickle=False)
    data = file.getbuffer()
    data[-64:] = hashlib.sha256(data[:-64]).hexdigest().encode()
    return data


def read(path: str | os.PathLike[str], kind: str, *, or_kind: str | None = None) -> Content:
    """Read a file; raise `InvalidFile` unless it is intact and of one of these kinds."""
    try:
        if not stat.S_ISREG(Path(path).stat().st_mode):  # a pipe or a device may never end
            raise ValueError("it is not a file")
        data = Path(path).read_bytes()
    except (OSError, ValueError, TypeError, MemoryError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InvalidFile(f"{named(path)} cannot be read ({reason}): check the path") from error
    return decode(data, kind, str(path), or_kind=or_kind)


def decode(data: bytes, kind: str, where: str, *, or_kind: str | None = None) -> Content:
    """Return the content of a file; raise `InvalidFile` unless it is intact and of these kinds."""
    if not data.startswith(b"PK"):
        what = "not a file of Heirloom" if data else "empty"
        raise InvalidFile(f"{where} is {what}: check the path")
    seal = SEAL.search(data, max(0, len(data) - LONGEST_SEAL))
    if seal is None:
        raise InvalidFile(
            f"{where} is truncated, or not a file of Heirloom: restore it from a backup"
        )
    found_kind, number, checksum = (part.decode() for part in seal.groups())
    if int(number) != FORMAT:
        raise InvalidFile(
            f"{where} has format {number}, and this version of Heirloom reads format {FORMAT}: "
            "use the version of Heirloom that wrote the file"
        )
    if hashlib.sha256(memoryview(data)[:-64]).hexdigest() != checksum:
        raise InvalidFile(f"{where} is damaged (wrong checksum): restore it from a backup")
    if found_kind not in (kind, or_kind):
        raise InvalidFile(
            f"{where} is a file of kind {found_kind!r}, not {kind!r}: choose another file"
        )
    try:
        return _content(data)
    except Exception as error:  # the checksum is right, so Heirloom never wrote this content
        raise InvalidFile(
            f"{where} is marked as a Heirloom file of kind {kind!r}, but was not written by "
            f"Heirloom ({error}): check the path"
        ) from error


def _content(data: bytes) -> Content:
    """Return the members of an archive; raise an exception unless they are as `encode` writes them.

    Members that are not compressed, and together not larger than the file, take at most as much
    memory as the file. The directory of the archive and the header take up to 50 times their size.
    """
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        infos = archive.infolist()
        if any(info.compress_type != zipfile.ZIP_STORED for info in infos):
            raise ValueError("a member is compressed")
        if sum(info.file_size for info in infos) > len(data):
            raise ValueError("its members are larger than the file")
        members = {info.filename: archive.read(info) for info in infos}
    if len(members) < len(infos):
        raise ValueError("two members have the same name")
    header = json.loads(members.pop(HEADER, b"null"))
    if not isinstance(header, dict):
        raise ValueError(f"{HEADER} is missing, or is not a JSON object")
    return Content(
        header, {name.removesuffix(".npy"): read_array(m) for name, m in members.items()}
    )


def read_array(data: bytes) -> np.ndarray:
    """Return the array of an `.npy` file as a read-only view of the bytes that are present.

    Raises an exception, usually a `ValueError`, unless these are the bytes of an array of numbers.
    """
    if not data.startswith(NPY):
        raise ValueError("an array is not in version 1.0 of the .npy format")
    start = len(NPY) + 2 + int.from_bytes(data[len(NPY) : len(NPY) + 2], "little")
    shape, is_fortran, dtype = _read_header(data[len(NPY) : start])
    if dtype.kind not in "biuf" or is_fortran:
        raise ValueError("an array does not contain numbers in row-major order")
    return np.frombuffer(data, dtype, offset=start).reshape(shape)


@lru_cache(maxsize=256)
def _read_header(header: bytes) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    return np.lib.format.read_array_header_1_0(io.BytesIO(header))


@contextmanager
def parsing(where: str, kind: str) -> Iterator[None]:
    """Re-raise errors of the block, which parses an intact file, as `InvalidFile`."""
    try:
        yield
    except Exception as error:  # content that Heirloom did not write can raise almost anything
        reason = f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else error
        raise InvalidFile(
            f"{where} does not contain a valid {kind} ({reason}): it was not written by Heirloom"
        ) from error


def take(
    arrays: Mapping[str, np.ndarray], name: str, dtype: type | str, shape: tuple[int, ...]
) -> Any:
    """Return an array of a file after checking its type and shape; -1 allows any length."""
    check(name in arrays, f"the array {name!r} is missing")
    array = arrays[name]
    sizes = zip(shape, array.shape, strict=False)
    fits = array.ndim == len(shape) and all(wanted in (-1, n) for wanted, n in sizes)
    check(
        array.dtype == np.dtype(dtype) and fits,
        f"the array {name!r} is {array.dtype} of shape {array.shape}: expected "
        f"{np.dtype(dtype)} of shape {shape}",
    )
    if array.dtype == np.bool_:
        is_boolean = (array.view(np.uint8) <= 1).all()
        check(is_boolean, f"the array {name!r} has an entry that is neither true nor false")
    return array


def check(is_valid: bool | np.bool_, message: str) -> None:  # noqa: FBT001 -- like an assertion
    """Raise `InvalidFile` with this message unless what was read is valid."""
    if not is_valid:
        raise InvalidFile(message)
