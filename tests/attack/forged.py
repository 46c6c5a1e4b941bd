"""Archives with a valid checksum and any content: members may overlap, repeat, or be forged."""

import hashlib
import io
import json
import struct
import warnings
import zipfile
import zlib

import numpy as np

from heirloom.storage.archive import FORMAT

LOCAL = struct.Struct("<4s5H3L2H")
CENTRAL = struct.Struct("<4s6H3L5H2L")
END = struct.Struct("<4s4H2LH")


def npy(array):
    """Return the bytes of an array in a `.npy` file."""
    member = io.BytesIO()
    np.lib.format.write_array(member, np.asarray(array), allow_pickle=True)
    return member.getvalue()


def with_checksum(data):
    """Return an archive whose last 64 bytes are replaced by its checksum."""
    data = data[:-64]
    return data + hashlib.sha256(data).hexdigest().encode()


def archive_of(members, *, kind="memory", compression=zipfile.ZIP_STORED):
    """Return an archive with these members, pairs of a name and bytes; names may repeat."""
    file = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(file, "w", compression) as zipped:
        warnings.simplefilter("ignore")  # about names that repeat
        zipped.comment = f"heirloom {kind} {FORMAT} ".encode() + b"0" * 64
        for name, data in members:
            zipped.writestr(name, data)
    return with_checksum(file.getvalue())


def packed(header, arrays, *, kind="memory"):
    """Return an archive with this header and these arrays."""
    members = [("header.json", json.dumps(header).encode())]
    members += [(f"{name}.npy", npy(array)) for name, array in arrays.items()]
    return archive_of(members, kind=kind)


def overlapping(data, n, *, kind="memory"):
    """Return an archive of a few bytes more than `data` with n members that all are `data`."""
    crc, size = zlib.crc32(data), len(data)
    body = LOCAL.pack(b"PK\3\4", 20, 0, 0, 0, 33, crc, size, size, 1, 0) + b"x" + data
    directory = b"".join(
        CENTRAL.pack(b"PK\1\2", 20, 20, 0, 0, 0, 33, crc, size, size, len(name), 0, 0, 0, 0, 0, 0)
        + name
        for name in (b"x" if i == 0 else b"%07d" % i for i in range(n))
    )
    return ended(body, directory, n, kind=kind)


def ended(body, directory, n, *, kind="memory"):
    """Return an archive of members, a directory of n entries, and a seal."""
    comment = f"heirloom {kind} {FORMAT} ".encode() + b"0" * 64
    counted = min(n, 65535)
    end = (b"PK\5\6", 0, 0, counted, counted, len(directory), len(body), len(comment))
    return with_checksum(body + directory + END.pack(*end) + comment)
