"""One unit of work, as a worker is asked for it."""

from collections.abc import Callable, Generator
from typing import Any

import numpy as np

from heirloom.errors import HeirloomError, InvalidArgument, WorkerLost
from heirloom.experiments.job import Job, run_job
from heirloom.experiments.spec import ExperimentSpec
from heirloom.runs.versions import differences, versions

Computed = tuple[Job, dict[str, np.ndarray]]
Compute = Callable[[ExperimentSpec, list[Job]], Generator[Computed]]
"""Computes units of an experiment, and yields them as they are done, in any order.

Workers may begin before the first is asked for. Closing the generator ends the work on those left.
"""


def compute_job(spec: dict[str, Any], job: Job) -> Computed:
    """A unit, from the spec in plain types."""
    return job, run_job(ExperimentSpec.read(spec), *job)


def portable() -> Callable[[dict[str, Any], Job, dict[str, str]], Computed]:
    """`compute_elsewhere`, to be sent to workers.

    A function within another is sent as its code, not as its name. So a worker that has no Heirloom
    can say so, where Dask would end it and Ray would raise an error of its own.
    """

    def compute(spec: dict[str, Any], job: Job, theirs: dict[str, str]) -> Computed:
        from heirloom.runs.workers.compute import compute_elsewhere

        return compute_elsewhere(spec, job, theirs)

    return compute


def compute_elsewhere(spec: dict[str, Any], job: Job, theirs: dict[str, str]) -> Computed:
    """A unit on another machine, if it has the versions of the one that asks."""
    differ = differences(versions(), theirs)
    if differ:
        from socket import gethostname

        raise InvalidArgument(
            f"a worker on {gethostname()} would not give the same bits ({differ[0]}): install the "
            "same versions on all machines"
        )
    return compute_job(spec, job)


def error_of_worker(error: BaseException, backend: str) -> BaseException:
    """What is to be raised where a run was started, if a worker raised `error`."""
    if isinstance(error, ModuleNotFoundError):
        return InvalidArgument(
            f"a worker has no {error.name}: install heirloom-rl[{backend}] where workers run"
        )
    if isinstance(error, OSError) and not isinstance(error, HeirloomError):
        return WorkerLost(
            f"a worker could not compute a unit ({error}): see to its machine; the same command "
            "goes on"
        )
    return error
