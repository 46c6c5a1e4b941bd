"""The size of a run, which follows from its spec; runs that are too large are refused."""

import shutil
from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np

from heirloom.errors import InvalidArgument
from heirloom.experiments.job import Functions, family_of
from heirloom.experiments.limits import MOST_JOBS
from heirloom.experiments.observers import OBSERVERS
from heirloom.experiments.spec import ExperimentSpec
from heirloom.runs.layout import Layout
from heirloom.runs.schema import SHARED, VARIABLES
from heirloom.runs.stored_run import DATABASE
from heirloom.storage.database import LARGEST_VALUE
from heirloom.wording import counted

MOST_BYTES_PER_JOB = LARGEST_VALUE - 10**7
"""A job is one row of the database; the rest is for what the row contains besides results."""
UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB", "EB")


@dataclass(frozen=True)
class RunSize:
    """The size of a run.

    Args:
        jobs: number of jobs.
        bytes: bytes of the results, including the largest possible size of recordings. The
            database has this size, and about 1 kB more per job.
    """

    jobs: int
    bytes: int

    def __str__(self) -> str:
        return f"{counted(self.jobs, 'job')}, {shown_bytes(self.bytes)} of results"


def size_of(spec: ExperimentSpec, functions: Functions | None = None) -> RunSize:
    """Compute the size of a run; the size of a dimension that a measure adds is that of a task."""
    layout, own = Layout(spec, {}), {}
    if layout.own_dimensions:
        family = family_of(spec, functions)
        task = family.draw(np.random.default_rng(0))
        measure = OBSERVERS[spec.measure or ""]
        own = {name: size(task) for name, (_, size) in measure.own_dimension.items()}
    sizes = layout.sizes(own)
    n_bytes = recorded_bytes(spec, functions) + sum(
        8 * prod(sizes[dimension] for dimension in VARIABLES[name].dimensions)
        for name in [*layout.names, *SHARED]
    )
    return RunSize(layout.n_jobs, n_bytes)


def recorded_bytes(spec: ExperimentSpec, functions: Functions | None = None) -> int:
    """Return a number of bytes that the recordings of a run never exceed.

    Raise `InvalidArgument` if the recordings of one job may become too large.
    """
    if spec.record is None:
        return 0
    family = family_of(spec, functions)
    n_pairs = family.draw(np.random.default_rng(0)).R.size
    tasks = spec.tasks if spec.record.tasks is None else len(set(spec.record.tasks))
    choice, lengths = spec.record.choice, {"episodes": spec.episodes, "steps": spec.steps}
    choice.check_size(**lengths, n_pairs=n_pairs, tasks=tasks)
    per_job = tasks * choice.most_bytes(**lengths, n_pairs=n_pairs)
    return per_job * spec.record.n_jobs(len(spec.agents))


def check_size(spec: ExperimentSpec, location: Path, functions: Functions | None = None) -> RunSize:
    """Return the size of a run; raise `InvalidArgument` if it is too large, before it is written.

    The limits are `MOST_JOBS` jobs, `MOST_BYTES_PER_JOB` bytes per job, and the free disk space.
    """
    n_jobs = len(spec.agents) * spec.repetitions
    if n_jobs > MOST_JOBS:
        raise InvalidArgument(
            f"the experiment has {n_jobs:,} jobs ({counted(len(spec.agents), 'agent')} times "
            f"{counted(spec.repetitions, 'repetition')}): expected at most {MOST_JOBS:,}; choose "
            "fewer repetitions or agents"
        )
    size = size_of(spec, functions)
    if size.bytes // n_jobs > MOST_BYTES_PER_JOB:
        raise InvalidArgument(
            f"each job of the experiment has {shown_bytes(size.bytes // n_jobs)} of results "
            f"({counted(spec.tasks, 'task')} of {counted(spec.episodes, 'episode')}): expected at "
            f"most {shown_bytes(MOST_BYTES_PER_JOB)}; choose fewer tasks or episodes"
        )
    free = free_space(location)
    if free is not None and size.bytes > free:
        raise InvalidArgument(
            f"the experiment has {shown_bytes(size.bytes)} of results, but {location} has space "
            f"for {shown_bytes(free)}: choose fewer repetitions or episodes, or another location"
        )
    return size


def free_space(folder: Path) -> int | None:
    """Return the bytes that a run may use: free space, and that of an earlier run in the folder.

    None if this is not known.
    """
    try:
        file = folder / DATABASE
        used = file.lstat().st_size if file.exists() else 0
        while not folder.exists():
            folder = folder.parent
        return shutil.disk_usage(folder).free + used
    except OSError:  # a folder that may not be read, or that another process changes
        return None


def shown_bytes(n: float) -> str:
    """Return a number of bytes as text, in a unit that suits it."""
    for unit in UNITS:
        if n < 1000 or unit == UNITS[-1]:
            break
        n /= 1000
    return f"{n:.0f} {unit}" if unit == UNITS[0] else f"{n:.3g} {unit}"
