"""Every example runs, prints what is stored of it, and saves its figure."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from published import results

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))


def test_there_are_examples():
    assert len(EXAMPLES) >= 6


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_the_example_runs(example, tmp_path):
    out = subprocess.run(
        [sys.executable, "-W", "error", example],
        cwd=tmp_path,
        env={**os.environ, "MPLCONFIGDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert out.returncode == 0, out.stderr
    assert out.stdout == results.load("examples")[example.stem]["printed"]
    assert list(tmp_path.glob(f"{example.stem}*.png"))
