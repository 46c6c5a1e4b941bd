"""The manifest of a run: its batches, and the files of its zarr arrays, with their checksums.

The manifest is written and synced after the files that it lists. A batch that is missing or damaged
is therefore noticed, and so is a change of any byte of the zarr arrays.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from heirloom.arrays import IntArray
from heirloom.runs.layout import BATCH_NAME, FORMAT, Layout
from heirloom.runs.numbers import from_ranges, ranges
from heirloom.storage import sealed_json

KIND = "manifest"


@dataclass
class Manifest:
    """What a run consists of.

    Args:
        batches: for each batch, by the name of its file, the numbers of its jobs.
        files: checksums of the files of the zarr group, by their names.
        in_arrays: numbers of the jobs that the zarr arrays contain.
    """

    batches: dict[str, IntArray] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    in_arrays: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    def encode(self, layout: Layout) -> bytes:
        """Return the bytes of the file."""
        content: dict[str, Any] = {
            "spec": layout.digest,
            "batches": {name: ranges(jobs) for name, jobs in self.batches.items()},
            "arrays": {"jobs": ranges(self.in_arrays), "files": self.files},
        }
        return sealed_json.encode(KIND, FORMAT, content)


def decode(data: bytes | None, layout: Layout, where: str) -> Manifest | None:
    """Return a manifest; None if it is missing, damaged, or that of another experiment."""
    content = None if data is None else sealed_json.decode(data, KIND, FORMAT, where)
    if content is None:
        return None
    try:
        if content["spec"] != layout.digest:
            return None
        batches = {
            name: from_ranges(text, layout.n_jobs) for name, text in content["batches"].items()
        }
        arrays = content["arrays"]
        files = {str(name): str(checksum) for name, checksum in arrays["files"].items()}
        in_arrays = from_ranges(arrays["jobs"], layout.n_jobs)
    except (KeyError, TypeError, ValueError, AttributeError):
        return None
    if not all(BATCH_NAME.fullmatch(name) for name in batches):
        return None
    return Manifest(batches, files, in_arrays)
