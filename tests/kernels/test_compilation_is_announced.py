"""Compiling takes a while: it is said once, and only if it happens."""

import os
import subprocess
import sys

SCRIPT = """
import numpy as np
from heirloom.kernels import values
V, policy = np.empty(2), np.empty(2, dtype=np.int64)
values.maximise(np.arange(4.0), V, policy)
values.maximise(np.arange(4, dtype=np.float32), V, policy)
assert V.tolist() == [1, 3]
"""


def test_once_and_only_if_it_is_not_on_disk(tmp_path):
    said = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout == ""
        said.append(done.stderr.count("compiling"))
    assert said == [1, 0]
