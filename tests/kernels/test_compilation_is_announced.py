"""The message about compilation, which may take half a minute."""

import os
import subprocess
import sys

import pytest

SCRIPT = """
import numpy as np
from heirloom.kernels import values
V, policy = np.empty(2), np.empty(2, dtype=np.int64)
values.maximise(np.arange(4.0), V, policy)
values.maximise(np.arange(4, dtype=np.float32), V, policy)
assert V.tolist() == [1, 3]
"""


@pytest.mark.skipif(bool(os.environ.get("NUMBA_DISABLE_JIT")), reason="nothing is compiled")
def test_compilation_is_announced_once_and_not_if_cached_on_disk(tmp_path):
    """The script compiles a kernel for two types; its second run loads both from the cache."""
    n_messages = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout == ""
        n_messages.append(done.stderr.count("compiling"))
    assert n_messages == [1, 0]
