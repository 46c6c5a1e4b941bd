"""Speed-up from a second local process, on the main experiment.

The time of a few repetitions is subtracted from that of many, so that start-up does not count.

    python benchmarks/run.py --only workers
"""

import tempfile
import time
from pathlib import Path

from rows import Measured, Row

from heirloom.paper import tight
from heirloom.runs.run import run

FEW, MANY = 4, 24  # repetitions


def seconds(repetitions: int, jobs: int) -> float:
    """Return the elapsed time of a run of the main experiment."""
    spec = tight.settings("released").with_changes(repetitions=repetitions)
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        run(spec, Path(folder) / "run", jobs=jobs)
        return time.perf_counter() - started


def measure() -> Measured:
    """Measure the ratio of the time with one process to that with two."""
    taken = {jobs: seconds(MANY, jobs) - seconds(FEW, jobs) for jobs in (1, 2)}
    return Measured(
        [Row("one process / two, on the main experiment", taken[1] / taken[2], at_least=1.7)],
        {f"{MANY - FEW} repetitions of tight, jobs={jobs}": s for jobs, s in taken.items()},
    )
