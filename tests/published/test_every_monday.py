"""The job of the tutorial `every-monday.md` survives SIGKILL, and then writes the same page."""

import os
import shutil
import signal
import subprocess
import sys

import pytest

from published import code_blocks
from published.documents import DOCUMENTS

(PAGE,) = (path for path in DOCUMENTS if path.stem == "every-monday")
CODES = [block.code for block in code_blocks.blocks(PAGE) if block.language == "python"]
JOB = "".join(CODES[: next(i for i, code in enumerate(CODES) if "def monday(" in code) + 1])
KILLED = {
    "after a checkpoint": "monday({week}, callback=lambda done, _: die() if done == 90 else None)",
    "within an episode": """
step, steps = Market.step, []
def counted(env, action):
    steps.append(action)
    return die() if len(steps) == 2600 else step(env, action)
Market.step = counted
monday({week})
""",
    "while saving": """
fsync, calls = os.fsync, []
def counted(file):
    calls.append(file)
    return die() if len(calls) == 5 else fsync(file)
os.fsync = counted
monday({week})
""",
}
"""Programs that end themselves on a Wednesday night, and on a Thursday."""


def run(folder, program):
    """Run the job in a folder, followed by a program; return its exit code."""
    die = "import os, signal\ndef die():\n    os.kill(os.getpid(), signal.SIGKILL)\n"
    (folder / "job.py").write_text(f"{JOB}\n{die}{program}\n", encoding="utf-8")
    command = [sys.executable, "-W", "error", "job.py"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="sends SIGKILL")
def test_job_that_is_killed_writes_the_same_page_when_it_is_started_again(tmp_path):
    two_weeks, whole = tmp_path / "two", tmp_path / "whole"
    two_weeks.mkdir()
    assert run(two_weeks, "monday(1)\nmonday(2)") == 0
    shutil.copytree(two_weeks, whole)
    assert run(whole, "monday(3)\nmonday(4)") == 0
    for name, program in KILLED.items():
        folder = tmp_path / name
        shutil.copytree(two_weeks, folder)
        assert run(folder, program.format(week=3)) == -signal.SIGKILL
        assert not (folder / "week-3.txt").exists()
        assert run(folder, "assert hl.NearRMax.load(FILE).n_episodes in (60, 90)") == 0
        assert run(folder, "catch_up(4)") == 0  # a week later
        for page in ("week-3.txt", "policy-3.csv", "week-4.txt", "agent.heirloom"):
            assert (folder / page).read_bytes() == (whole / page).read_bytes(), name
