"""Results do not depend on entries of arrays that were never written."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import heirloom as hl
from tests.kernels.with_filled_memory import FILLINGS, differences, filled_memory

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
    """Lifetimes 249 and 258 have a source without a known pair, whose entries were read once."""
    run_lifetimes("246", "260")


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_hundreds_of_lifetimes_do_not_depend_on_entries_that_were_never_written():
    """They also reach every place of these packages where arrays are allocated (5 minutes)."""
    run_lifetimes("0", "400", "kernels", "agents", "transfer", "mdp/learned.py")


def test_array_that_is_read_before_it_is_written_is_found(monkeypatch):
    """Each kind of entry makes a difference, in a lifetime whose results include it."""
    from tests.kernels import with_filled_memory

    source = "import numpy as np\ndef read(dtype): return [np.empty(1, dtype).tobytes()]"
    for dtype in (np.int64, np.int32, np.uint8, np.uint64, np.float64, bool):
        module = {"__name__": "heirloom.forged"}
        exec(source, module)
        monkeypatch.setattr(with_filled_memory, "lifetime", lambda _: module["read"](dtype))  # noqa: B023
        assert "give different results" in differences(0)
