"""Read the members of an archive that may be hostile, in memory proportional to its size.

The archive must have the layout that `archive.write` gives it: members that are not compressed, do
not overlap and have different names, and a directory after them. Reading then takes at most the
size of the file again, and 100 MiB for a directory and a header of 1 MiB each, whatever the sizes
that the file claims.
"""

import io
import json
import math
import re
import struct
import zipfile
from typing import Any

import numpy as np

HEADER = "header.json"
LARGEST_HEADER = 2**20  # bytes; parsing JSON takes up to 30 times as many
LARGEST_DIRECTORY = 2**20  # bytes of the directory of members, which has over 46 bytes per member

LOCAL_HEADER = 30  # bytes of the fixed part of a member's own header
END = struct.Struct("<4s4H2LH")  # end of directory: signature, 4 numbers, size, offset, comment
LOCATOR = struct.Struct("<4sLQL")  # position of the end of directory of a file of over 2 GiB
LONG_END = struct.Struct("<4sQ2H2L4Q")
LONG = 2**32 - 1  # stands for a number that is in the long record

NPY = re.compile(
    rb"\x93NUMPY\x01\x00..\{'descr': '([<>|][biuf][0-9]{1,2})', 'fortran_order': False, "
    rb"'shape': \(([0-9, ]*)\), \} *\n",
    re.DOTALL,
)
"""The start of an `.npy` file of version 1.0 with an array of numbers in row-major order."""


def members(
    data: bytes, comment: int, *, largest_header: int = LARGEST_HEADER
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the header and the arrays of an archive; raise an exception unless it is valid.

    Args:
        data: the archive.
        comment: the number of bytes of the ZIP comment, which ends the archive.
        largest_header: the number of bytes that the header may have.
    """
    _check_directory(data, comment)
    header: Any = None
    arrays = {}
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        _check_layout(archive.infolist(), len(data), largest_header)
        for info in archive.infolist():
            member = archive.read(info)
            if info.filename == HEADER:
                header = json.loads(member)
            else:
                arrays[info.filename.removesuffix(".npy")] = _array(member)
    if not isinstance(header, dict):
        raise ValueError(f"{HEADER} is missing, or is not a JSON object")
    return header, arrays


def _check_directory(data: bytes, comment: int) -> None:
    """Raise `ValueError` if the directory is too large; `zipfile` would read it as a whole."""
    start = len(data) - comment - END.size
    if start < 0 or not data.startswith(b"PK\5\6", start):
        raise ValueError("the end of its directory is missing")
    size = END.unpack_from(data, start)[5]
    at = start - LOCATOR.size
    if at >= 0 and data.startswith(b"PK\6\7", at):
        long_end = LOCATOR.unpack_from(data, at)[2]
        if not data.startswith(b"PK\6\6", long_end) or long_end + LONG_END.size > at:
            raise ValueError("the end of its directory is missing")
        size = max(size if size != LONG else 0, LONG_END.unpack_from(data, long_end)[8])
    if size > LARGEST_DIRECTORY:
        raise ValueError(f"its directory has {size} bytes, above {LARGEST_DIRECTORY}")


def _check_layout(infos: list[zipfile.ZipInfo], size: int, largest_header: int) -> None:
    """Raise `ValueError` unless members are stored one after the other, with different names."""
    end = 0
    names = set()
    for info in sorted(infos, key=lambda info: info.header_offset):
        name = info.filename
        if info.compress_type != zipfile.ZIP_STORED or info.compress_size != info.file_size:
            raise ValueError(f"the member {name!r} is compressed")
        if info.flag_bits & 1:
            raise ValueError(f"the member {name!r} is encrypted")
        if name in names:
            raise ValueError(f"there are two members {name!r}")
        if info.header_offset < end:
            raise ValueError(f"the member {name!r} overlaps another one")
        names.add(name)
        end = info.header_offset + LOCAL_HEADER + info.file_size
        if end > size:
            raise ValueError(f"the member {name!r} is larger than the file")
        if name == HEADER and info.file_size > largest_header:
            raise ValueError(f"the header has {info.file_size} bytes, above {largest_header}")


def _array(member: bytes) -> np.ndarray:
    """Return the array of an `.npy` member as a read-only view of its bytes.

    No memory is allocated for the size that the member claims, and nothing in it is evaluated.
    """
    start = NPY.match(member)
    if start is None or start.end() != 10 + int.from_bytes(member[8:10], "little"):
        raise ValueError("an array is not an .npy file of numbers, as Heirloom writes it")
    dtype = np.dtype(start[1].decode())
    shape = tuple(int(n) for n in start[2].decode().split(",") if n.strip())
    numbers = np.frombuffer(member, dtype, offset=start.end())
    if math.prod(shape) != numbers.size:
        raise ValueError(f"an array has {numbers.size} numbers, not those of shape {shape}")
    return numbers.reshape(shape)
