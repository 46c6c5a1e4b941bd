"""Compute one job in a worker, and translate the errors of workers."""

from collections.abc import Callable, Generator
from typing import Any

import numpy as np

from heirloom.errors import HeirloomError, InvalidArgument, WorkerLost
from heirloom.experiments.job import Job, run_job
from heirloom.experiments.spec import ExperimentSpec
from heirloom.runs.versions import differences, versions

Computed = tuple[Job, dict[str, np.ndarray]]
Compute = Callable[[ExperimentSpec, list[Job]], Generator[Computed]]
"""Compute jobs of an experiment, and yield each when it is complete, in any order.

Workers may start before the first result is requested. Closing the generator cancels the remaining
jobs.
"""


def compute_job(spec: dict[str, Any], job: Job) -> Computed:
    """Compute a job; the spec is given as plain types, as in JSON."""
    return job, run_job(ExperimentSpec.read(spec), *job)


def portable() -> Callable[[dict[str, Any], Job, dict[str, str]], Computed]:
    """Return a version of `compute_on_cluster` that can be sent to workers without Heirloom.

    A nested function is sent as code, not by name. Therefore a worker where Heirloom is not
    installed raises a `ModuleNotFoundError`; otherwise Dask would stop that worker, and Ray would
    raise an error of its own.
    """

    def compute(spec: dict[str, Any], job: Job, expected: dict[str, str]) -> Computed:
        from heirloom.runs.workers.compute import compute_on_cluster

        return compute_on_cluster(spec, job, expected)

    return compute


def compute_on_cluster(spec: dict[str, Any], job: Job, expected: dict[str, str]) -> Computed:
    """Compute a job on a worker that may run on another machine.

    Raises:
        InvalidArgument: unless the worker has the `expected` versions of Python and libraries.
    """
    found = differences(expected, versions())
    if found:
        from socket import gethostname

        raise InvalidArgument(
            f"a worker on {gethostname()} has other versions ({found[0]}): install the same "
            "versions on all machines, so that results are identical to the bit"
        )
    return compute_job(spec, job)


def error_of_worker(error: BaseException, backend: str) -> BaseException:
    """Return the exception that the run should raise when a worker raised `error`."""
    if isinstance(error, ModuleNotFoundError):
        return InvalidArgument(
            f"a worker cannot import {error.name}: install heirloom-rl[{backend}] on its machine"
        )
    if isinstance(error, OSError) and not isinstance(error, HeirloomError):
        return WorkerLost(
            f"a worker could not compute a job ({error}): repair its machine, then run the same "
            "command again to resume"
        )
    return error


def reason(error: BaseException) -> str:
    """Return what an error of another library says, on one line."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
