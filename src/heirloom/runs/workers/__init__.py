"""Workers that compute jobs: processes on this machine, or a Dask cluster.

A job is computed from the spec alone, so its results do not depend on which worker computes it.
Only the process that started the run writes results; workers need no access to their location.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, get_args

from heirloom.choices import Backend
from heirloom.errors import InvalidArgument
from heirloom.validation import one_of, shown, text, whole_number

if TYPE_CHECKING:
    from heirloom.runs.workers.compute import Compute


@contextmanager
def workers(
    backend: Backend | None = None, *, jobs: int | None = None, address: str | None = None
) -> "Iterator[Compute]":
    """Provide workers that compute jobs; workers that are started here are stopped at the end.

    The arguments are those of `heirloom.run`.
    """
    check_workers(backend, jobs, address)
    if backend == "dask":
        from heirloom.runs.workers.dask import dask_workers

        with dask_workers(jobs, address) as compute:
            yield compute
        return

    from heirloom.experiments.job import names_own_code
    from heirloom.runs.workers.compute import compute_job, packed
    from heirloom.runs.workers.processes import compute_locally

    yield lambda spec, remaining: compute_locally(
        partial(compute_job, packed(spec)), remaining, jobs, own_code=names_own_code(spec)
    )


def check_workers(backend: str | None, jobs: int | None, address: str | None) -> None:
    """Raise `InvalidArgument` unless the arguments of `workers` are valid and fit together."""
    if backend is not None:
        one_of("backend", backend, get_args(Backend))
    if jobs is not None:
        whole_number("jobs", jobs)
    if address is not None:
        text("address", address)
    if address is not None and backend != "dask":
        raise InvalidArgument(
            f"address is {shown(address)}, but the backend is not a cluster: choose backend dask"
        )
