"""Start-up times of commands: elapsed seconds, each the median of a few tries.

python benchmarks/run.py --only start-up
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rows import Measured, Row

TRIES = 5
ONE_EPISODE = """
name = "one episode"
tasks = 1
episodes = 1
steps = 10
repetitions = 2

[family]
name = "tight"

[[agents]]
algorithm = "RMax"
n_known = 10
"""


def seconds(*arguments: str, tries: int = TRIES, **environment: str) -> float:
    """Return the median elapsed time of Python with these arguments, each in a new folder."""
    taken = []
    for _ in range(tries):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "one.toml").write_text(ONE_EPISODE, encoding="utf-8")
            started = time.perf_counter()
            subprocess.run(
                [sys.executable, *arguments],
                cwd=folder,
                env={**os.environ, **environment},
                capture_output=True,
                check=True,
            )
            taken.append(time.perf_counter() - started)
    return statistics.median(taken)


def measure() -> Measured:
    """Measure commands with compiled code in the cache, and one without."""
    heirloom = "-m", "heirloom"
    tight = *heirloom, "reproduce", "tight"
    rows = [
        Row("`heirloom --help`", seconds(*heirloom, "--help"), at_most=0.3),
        Row("`import heirloom`", seconds("-c", "import heirloom"), at_most=0.3),
        Row("a run of one episode in each of two processes", seconds(*heirloom, "run", "one.toml")),
        Row("`heirloom reproduce tight`", seconds(*tight, tries=1), at_most=45),
    ]
    with tempfile.TemporaryDirectory() as cache:
        cold = seconds(*tight, tries=1, NUMBA_CACHE_DIR=cache)
    return Measured([*rows, Row("the same with nothing compiled yet", cold)])
