"""One file of named arrays: written whole or not at all, and checked before it is read.

It is a ZIP archive, not compressed, of one `.npy` member an array and of `header.json`, so that
`numpy.load` opens it without Heirloom. The comment at its end says what it is:

    heirloom KIND FORMAT SHA256

The checksum is that of all bytes before it. Nothing in a file is ever unpickled or executed.
"""

import hashlib
import io
import json
import os
import re
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from heirloom.errors import CannotWrite, HeirloomError, InvalidFile

FORMAT = 1
HEADER = "header.json"
SEAL = re.compile(rb"heirloom ([a-z]+) ([1-9][0-9]{0,8}) ([0-9a-f]{64})\Z")
LONGEST_SEAL = 128


class Content(NamedTuple):
    """What a file holds: anything that JSON can say, and arrays, which are read-only."""

    header: dict[str, Any]
    arrays: dict[str, np.ndarray]


def write(path: str | os.PathLike[str], kind: str, content: Content) -> None:
    """Write `content` to `path`, or leave what is there untouched."""
    file = io.BytesIO()
    seal = f"heirloom {kind} {FORMAT} ".encode()
    with zipfile.ZipFile(file, "w") as archive:
        # The length of the comment stands in the archive, so it is written before the checksum is.
        archive.comment = seal + b"0" * 64
        _write_member(archive, HEADER, json.dumps(content.header).encode())
        for name, array in content.arrays.items():
            member = io.BytesIO()
            np.lib.format.write_array(member, np.asarray(array, order="C"), allow_pickle=False)
            _write_member(archive, f"{name}.npy", member.getbuffer())
    whole = file.getbuffer()
    whole[-64:] = hashlib.sha256(whole[:-64]).hexdigest().encode()
    write_atomically(path, whole)


def write_atomically(path: str | os.PathLike[str], data: bytes | memoryview) -> None:
    """Either the old content or all of `data`, whatever happens."""
    aside = None
    try:
        target = Path(path).resolve()  # a link stays a link
        descriptor, aside = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:100]}.")
        with open(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            if hasattr(os, "fchmod"):
                os.fchmod(file.fileno(), _mode_for(target))
        os.replace(aside, target)
        aside = None
    except (OSError, ValueError, TypeError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise CannotWrite(
            f"{path} could not be written ({reason}): make room, or choose a file in a folder that "
            "is there and that you may write to; what the file held before is untouched"
        ) from error
    finally:
        if aside is not None:
            with suppress(OSError):
                os.unlink(aside)
    _sync_folder(target.parent)


def read(path: str | os.PathLike[str], kind: str) -> Content:
    """What a file of this kind holds; raises `InvalidFile` if it is not one, or not intact."""
    try:
        data = Path(path).read_bytes()
    except (OSError, ValueError, TypeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InvalidFile(f"{path} cannot be read ({reason}): check the path") from error
    check_seal(data, kind, str(path))
    try:
        return _content(data)
    except Exception as error:  # the checksum holds, so this was never written by Heirloom
        raise InvalidFile(
            f"{path} is not a {kind} file of Heirloom's, though it says so ({error})"
        ) from error


def check_seal(data: bytes, kind: str, where: str) -> None:
    """Raise `InvalidFile` unless `data` is of this kind, of a known format, and unaltered."""
    if not data:
        raise InvalidFile(f"{where} is empty: it was never written; use another file")
    seal = SEAL.search(data, max(0, len(data) - LONGEST_SEAL))
    if seal is None:
        is_zip = data.startswith(b"PK")
        raise InvalidFile(
            f"{where} is truncated, or not a file of Heirloom's: restore it from a copy"
            if is_zip
            else f"{where} is not a file of Heirloom's: it does not end in the mark of one"
        )
    what, number, checksum = (part.decode() for part in seal.groups())
    if int(number) > FORMAT:
        raise InvalidFile(
            f"{where} has format {number}, and this version of Heirloom reads up to {FORMAT}: "
            "install a newer Heirloom"
        )
    if hashlib.sha256(memoryview(data)[:-64]).hexdigest() != checksum:
        raise InvalidFile(f"{where} is damaged, its checksum does not hold: restore it from a copy")
    if what != kind:
        raise InvalidFile(f"{where} holds {what!r}, not {kind!r}: give it to what wrote it")


@contextmanager
def parsing(where: str, kind: str) -> Iterator[None]:
    """Whatever goes wrong within, of an intact file, is that it does not hold what it says."""
    try:
        yield
    except (HeirloomError, LookupError, TypeError, ValueError, AttributeError, OverflowError) as e:
        reason = f"{e.args[0]!r} is missing" if isinstance(e, KeyError) else e
        raise InvalidFile(
            f"{where} does not hold a valid {kind} ({reason}): it was not written by Heirloom"
        ) from e


def take(arrays: Mapping[str, np.ndarray], name: str, dtype: type, shape: tuple[int, ...]) -> Any:
    """An array of a file, in the type and shape that it must have; -1 leaves a length open."""
    if name not in arrays:
        raise InvalidFile(f"the array {name!r} is missing")
    array = arrays[name]
    fits = len(array.shape) == len(shape) and all(
        wanted in (-1, n) for n, wanted in zip(array.shape, shape, strict=True)
    )
    if array.dtype != dtype or not fits:
        raise InvalidFile(
            f"the array {name!r} is {array.dtype} of shape {array.shape}, not "
            f"{np.dtype(dtype)} of shape {shape}"
        )
    return array


def _write_member(archive: zipfile.ZipFile, name: str, data: bytes | memoryview) -> None:
    # Without a date of its own a file with the same content has the same bytes.
    with archive.open(zipfile.ZipInfo(name), "w", force_zip64=True) as member:
        member.write(data)


def _content(data: bytes) -> Content:
    header: dict[str, Any] = {}
    arrays = {}
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for info in archive.infolist():
            if info.compress_type != zipfile.ZIP_STORED:
                raise ValueError(f"the member {info.filename!r} is compressed")
            member = archive.read(info)
            if info.filename == HEADER:
                header = json.loads(member)
            else:
                arrays[info.filename.removesuffix(".npy")] = _array(member)
    if not isinstance(header, dict):
        raise ValueError(f"{HEADER} is no object")
    return Content(header, arrays)


def _array(member: bytes) -> np.ndarray:
    """The array of an `.npy` member: a read-only view of its bytes, whatever it says its size is.

    A type with objects in it is refused by numpy.
    """
    file = io.BytesIO(member)
    if np.lib.format.read_magic(file) != (1, 0):
        raise ValueError("an array is written in a newer form")
    shape, fortran_order, dtype = np.lib.format.read_array_header_1_0(file)
    if fortran_order:
        raise ValueError("an array is written column by column")
    return np.frombuffer(member, dtype, offset=file.tell()).reshape(shape)


def _mode_for(target: Path) -> int:
    """The permissions of the file that is replaced, or those that a new one would have."""
    if target.exists():
        return target.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def _sync_folder(folder: Path) -> None:
    """Make the new name last, where a folder can be synchronised; the file is in place already."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
