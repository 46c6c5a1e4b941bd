"""Kernels read and write only within their arrays."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_kernels_stay_within_their_arrays(tmp_path):
    """All kernels are compiled again, with a check of every index."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    checked = {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path)}
    result = subprocess.run(
        [sys.executable, "-m", "tests.kernels.with_bounds"],
        cwd=ROOT,
        env={**inherited, **checked},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stdout + result.stderr
