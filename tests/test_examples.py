"""Every example runs, prints its stored output, and saves its figure."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from heirloom.envs import icu_sepsis
from published import results

SHORT = {"cliff_walking", "frozen_lake", "queueing", "taxi"}
"""Examples that take less than 20 seconds; `test_numbers.py` runs the first tasks of each one."""
EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))


def test_at_least_six_examples_are_found():
    assert len(EXAMPLES) >= 6


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example_compares_all_agents_with_the_same_options(example):
    text = example.read_text(encoding="utf-8")
    for agent in ("RMax", "LRMax", "MaxQInit", "NearRMax"):
        (call,) = text.split(f'"{agent}": lambda rng: hl.{agent}(')[1:]
        assert "**options" in call.split('": lambda')[0]


@pytest.mark.parametrize(
    "example",
    [
        pytest.param(path, id=path.stem, marks=getattr(pytest.mark, kind))
        for path in EXAMPLES
        for kind in [("full", "slow")[path.stem in SHORT]]
    ],
)
def test_example_prints_its_stored_output_and_saves_a_figure(example, tmp_path):
    if example.stem == "icu_sepsis" and icu_sepsis.tables_path() is None:
        pytest.skip("needs `pip install --no-deps icu-sepsis`")
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
