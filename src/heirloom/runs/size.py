"""The size of a run, which follows from its spec, and an estimate of the time that it takes."""

import math
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
from rich.filesize import decimal

from heirloom.errors import InvalidArgument
from heirloom.experiments.job import (
    Functions,
    draw_tasks,
    example_task,
    learn_job,
    shared_results,
    with_declaration,
)
from heirloom.experiments.measures import measure_class, n_pairs_of
from heirloom.experiments.reading import MOST_JOBS
from heirloom.experiments.spec import ExperimentSpec
from heirloom.learning.clock import learning_time
from heirloom.runs.layout import SHARED, Layout
from heirloom.runs.stored_run import DATABASE
from heirloom.storage.database import LARGEST_VALUE
from heirloom.wording import counted

MOST_BYTES_PER_JOB = LARGEST_VALUE - 10**7
"""A job is one row of the database; the rest is for what the row contains besides results."""

ENOUGH = 0.3  # seconds of a measurement that is not repeated with more episodes or tasks
GROWTH = 4
MOST_MEASURED = 8  # agents whose time is measured


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
        return f"{counted(self.jobs, 'job')}, {decimal(self.bytes)} of results"


def size_of(spec: ExperimentSpec, functions: Functions | None = None) -> RunSize:
    """Compute the size of a run; the size of a dimension that a measure adds is that of a task."""
    layout, own = Layout(with_declaration(spec), {}), {}
    if layout.own_dimensions:
        task = example_task(spec, functions)
        measure = measure_class(spec.measure or "")
        own = {name: size(task) for name, (_, size) in measure.own_dimension.items()}
    sizes = layout.sizes(own)
    n_bytes = recorded_bytes(spec, functions) + sum(
        8 * prod(sizes[dimension] for dimension in layout.variables[name].dimensions)
        for name in [*layout.names, *SHARED]
    )
    return RunSize(layout.n_jobs, n_bytes)


def recorded_bytes(spec: ExperimentSpec, functions: Functions | None = None) -> int:
    """Return a number of bytes that the recordings of a run never exceed.

    Raise `InvalidArgument` if the recordings of one job may become too large.
    """
    if spec.record is None:
        return 0
    n_pairs = n_pairs_of(example_task(spec, functions))
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
            f"each job of the experiment has {decimal(size.bytes // n_jobs)} of results "
            f"({counted(spec.tasks, 'task')} of {counted(spec.episodes, 'episode')}): expected at "
            f"most {decimal(MOST_BYTES_PER_JOB)}; choose fewer tasks or episodes"
        )
    free = free_space(location)
    if free is not None and size.bytes > free:
        raise InvalidArgument(
            f"the experiment has {decimal(size.bytes)} of results, but {location} has space "
            f"for {decimal(free)}: choose fewer repetitions or episodes, or another location"
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


def estimate_seconds(spec: ExperimentSpec) -> float:
    """Estimate the processor time of a run in seconds, by computing parts of a few jobs.

    Up to `MOST_MEASURED` agents, of as many algorithms as possible, learn the first task of a
    sequence, for more and more episodes. If that takes little time, they learn more and more tasks,
    since agents that use earlier tasks take longer in later ones. The time of the rest is
    extrapolated, and that of other agents is the mean of those with their algorithm.
    """
    spec = spec.model_copy(update={"record": None})  # recordings take hardly any time
    algorithms = [agent.algorithm for agent in spec.agents]
    order = sorted(range(len(algorithms)), key=lambda i: algorithms.index(algorithms[i]) != i)
    measured = {i: _seconds_per_job(spec, i) for i in order[:MOST_MEASURED]}
    total = sum(measured.values())
    for i in order[MOST_MEASURED:]:
        alike = [x for j, x in measured.items() if algorithms[j] == algorithms[i]]
        total += mean(alike or measured.values())
    first = draw_tasks(spec.with_changes(tasks=1), 0)
    shared = _timed(lambda: shared_results(first, spec.steps))
    return (total + shared * spec.tasks) * spec.repetitions


def _seconds_per_job(spec: ExperimentSpec, agent: int) -> float:
    def seconds(tasks: int, episodes: int) -> float:
        part = spec.with_changes(tasks=tasks, episodes=episodes, repetitions=1)
        return _timed(lambda: learn_job(part, agent, 0, draw_tasks(part, 0)))

    seconds(min(2, spec.tasks), 1)  # compiles kernels
    limit = np.inf if spec.limit is None else spec.limit
    return min(extrapolated(seconds, spec.tasks, spec.episodes), limit)


def extrapolated(seconds: Callable[[int, int], float], tasks: int, episodes: int) -> float:
    """Return the time of all tasks and episodes, from `seconds(tasks, episodes)` of parts."""
    measured, of_first = _grown(lambda n: seconds(1, n), episodes)
    if measured == episodes:
        return _grown(lambda n: seconds(n, episodes), tasks)[1]
    if tasks == 1:
        return of_first
    # Each later task takes as long as the second one, and not less than the first.
    of_two = _grown(lambda n: seconds(2, n), episodes)[1]
    return of_first + max(of_first, of_two - of_first) * (tasks - 1)


def _grown(seconds: Callable[[int], float], size: int) -> tuple[int, float]:
    """Measure larger and larger parts; return the size of the last one, and the time of the whole.

    Each part is `GROWTH` times as large as the one before. If the time that this adds grows by a
    smaller factor, as it does when agents learn less and less, it goes on to grow by this factor.
    """
    n, now = 1, seconds(1)
    least, added, factor = now, 0.0, float(GROWTH)
    while n < size and now - least < ENOUGH:
        n, before, added_before = min(GROWTH * n, size), now, added
        now = seconds(n)
        added = max(now - before, 0.0)
        if added_before > 0:
            factor = min(max(added / added_before, 1 + 1e-9), GROWTH)
    further = math.log(size / n, GROWTH)
    return n, now + added * factor * (factor**further - 1) / (factor - 1)


def _timed(call: Callable[[], Any]) -> float:
    started = learning_time()  # processor time does not depend on what else the machine does
    call()
    return learning_time() - started
