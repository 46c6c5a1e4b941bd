"""JSON files that carry their own checksum, so that a change of any byte is noticed.

A file is one line: an object with the keys `heirloom` (the kind of the file), `format`, `content`
and `sha256`, the checksum of the line without that key. A file is intact only if it equals, byte by
byte, what `encode` writes for its content.
"""

import hashlib
import json
from typing import Any

from heirloom.errors import InvalidFile


def encode(kind: str, file_format: int, content: dict[str, Any]) -> bytes:
    """Return the bytes of a file of this kind and format."""
    sealed = {"heirloom": kind, "format": file_format, "content": content}
    text = json.dumps(sealed, allow_nan=False, separators=(",", ":"))
    return f'{text[:-1]},"sha256":"{digest(text.encode())}"}}\n'.encode()


def decode(data: bytes, kind: str, newest: int, where: str) -> dict[str, Any] | None:
    """Return the content of a file of this kind, or None if it is damaged.

    Raises:
        InvalidFile: if the file is intact, but has a format newer than `newest`.
    """
    try:
        sealed = json.loads(data)
        content, file_format = sealed["content"], sealed["format"]
        intact = isinstance(content, dict) and encode(kind, file_format, content) == data
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    if not intact or not isinstance(file_format, int):
        return None
    if file_format > newest:
        raise InvalidFile(
            f"{where} has format {file_format}, and this version of Heirloom reads up to {newest}: "
            "it was written by a newer version of Heirloom; upgrade Heirloom to read it"
        )
    return content


def digest(data: bytes | memoryview) -> str:
    """Return the SHA-256 checksum of some bytes, in hexadecimal."""
    return hashlib.sha256(data).hexdigest()
