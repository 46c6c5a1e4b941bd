"""Numbers of jobs, and their compact form as text.

Job (i, j), of agent i in repetition j, has the number j * A + i, where A is the number of agents:
jobs are numbered in the order in which they are computed.
"""

import re
from typing import SupportsInt

import numpy as np

from heirloom.arrays import IntArray
from heirloom.experiments.job import Job

RANGES = re.compile(r"\d{1,12}(-\d{1,12})?(,\d{1,12}(-\d{1,12})?)*")


def number_of(job: Job, n_agents: int) -> int:
    """Return the number of a job."""
    return job[1] * n_agents + job[0]


def job_of(number: SupportsInt, n_agents: int) -> Job:
    """Return the job of a number."""
    return int(number) % n_agents, int(number) // n_agents


def ranges(numbers: IntArray) -> str:
    """Return increasing numbers as text: "0-199,205" for 0 to 199 and 205."""
    if not numbers.size:
        return ""
    breaks = np.flatnonzero(np.diff(numbers) != 1) + 1
    parts = np.split(numbers, breaks)
    return ",".join(f"{p[0]}-{p[-1]}" if p.size > 1 else f"{p[0]}" for p in parts)


def from_ranges(text: object, n_jobs: int) -> IntArray:
    """Return the numbers that `ranges` wrote; raise `ValueError` unless all are below `n_jobs`."""
    if text == "":
        return np.empty(0, dtype=np.int64)
    if not isinstance(text, str) or not RANGES.fullmatch(text):
        raise ValueError(f"{text!r} is not a list of jobs")
    parts = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        start, end = int(first), int(last or first)
        if end < start or end >= n_jobs:
            raise ValueError(f"there is no job {part} among {n_jobs}")
        parts.append(np.arange(start, end + 1))
    numbers = np.concatenate(parts)
    if (np.diff(numbers) <= 0).any():
        raise ValueError(f"the jobs {text!r} do not increase")
    return numbers
