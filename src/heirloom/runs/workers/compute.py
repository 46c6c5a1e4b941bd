"""Compute one job, in this process or in a worker."""

import os
import time
from collections.abc import Callable, Generator
from functools import lru_cache
from socket import gethostname
from typing import NamedTuple

import numpy as np

from heirloom.experiments.job import Functions, Job, run_job
from heirloom.experiments.registry import no_exit
from heirloom.experiments.spec import ExperimentSpec
from heirloom.runs.layout import Origin
from heirloom.runs.versions import versions


class Computed(NamedTuple):
    """A job that a worker computed."""

    job: Job
    results: dict[str, np.ndarray]
    origin: Origin


Compute = Callable[[ExperimentSpec, list[Job]], Generator[Computed]]
"""Compute jobs of an experiment, and yield each when it is complete, in any order.

Closing the generator cancels the remaining jobs.
"""


def packed(spec: ExperimentSpec) -> str:
    """Return a spec in the form in which it is sent to workers."""
    return spec.model_dump_json(exclude_none=True)


@lru_cache(maxsize=2)
@no_exit("the code that the spec names")
def _unpacked(spec: str) -> ExperimentSpec:
    return ExperimentSpec.model_validate_json(spec)


def compute_job(spec: str, job: Job, functions: Functions | None = None) -> Computed:
    """Compute a job of a spec that was `packed`."""
    started = time.perf_counter()
    experiment = _unpacked(spec)
    where = f"agent {experiment.agents[job[0]].name!r}, repetition {job[1] + 1}"
    with no_exit(f"{where}: the code of the job"):
        results = run_job(experiment, *job, functions)
    seconds = time.perf_counter() - started
    return Computed(job, results, Origin(seconds, f"{gethostname()}:{os.getpid()}", versions()))


def portable() -> Callable[[str, list[Job], dict[str, str]], list[Computed]]:
    """Return a function that computes jobs, unless versions of libraries are not those expected.

    A nested function is sent as code, not by name. Therefore a worker where Heirloom is not
    installed raises a `ModuleNotFoundError`; otherwise Dask would stop that worker.
    """

    # Annotations are strings because they are sent too, and classes by name.
    def compute(spec: str, jobs: "list[Job]", expected: dict[str, str]) -> "list[Computed]":
        from heirloom.runs.versions import check_versions
        from heirloom.runs.workers.compute import compute_job

        check_versions(expected)
        return [compute_job(spec, job) for job in jobs]

    return compute
