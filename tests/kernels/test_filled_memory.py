"""Results do not depend on entries of arrays that were never written."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from heirloom.mdp import learned
from tests.kernels import with_filled_memory

ROOT = Path(__file__).parents[2]


def run_lifetimes(*arguments):
    """Run lifetimes without the compiler, so that the arrays of kernels are filled, too."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    result = subprocess.run(
        [sys.executable, "-m", "tests.kernels.with_filled_memory", *arguments],
        cwd=ROOT,
        env={**inherited, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stdout + result.stderr


def test_lifetimes_do_not_depend_on_entries_that_were_never_written():
    """Lifetimes 249 and 258 compare the task with a source that has no known pair."""
    run_lifetimes("249", "260", "agents", "kernels")


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_hundreds_of_lifetimes_do_not_depend_on_entries_that_were_never_written():
    run_lifetimes("0", "400", "agents", "kernels", "transfer")


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint8, np.uint64, np.float64, np.bool_])
def test_entry_that_is_read_before_it_is_written_is_found(dtype, monkeypatch):
    def read(seed):
        return [learned.np.empty(1, dtype).tobytes()]

    monkeypatch.setattr(with_filled_memory, "lifetime", read)
    assert "give different results" in with_filled_memory.difference(0)
