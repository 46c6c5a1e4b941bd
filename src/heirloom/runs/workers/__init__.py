"""Where units of work are computed: processes of this machine, a Dask cluster, or a Ray cluster.

A unit is computed from the spec alone, so that its bits do not depend on where that happens. Only
the run itself writes results; workers need no access to where they go.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import get_args

from heirloom.choices import Backend
from heirloom.errors import InvalidArgument
from heirloom.runs.workers.compute import Compute
from heirloom.validation import whole_number

BACKENDS = get_args(Backend)


@contextmanager
def workers(
    backend: Backend | None = None, *, jobs: int | None = None, address: str | None = None
) -> Iterator[Compute]:
    """Workers to compute units; those that are started here end here.

    Args:
        backend: `"local"`, processes of this machine; `"dask"` or `"ray"`. By default what
            `joblib.parallel_config` says, which is local unless you said otherwise.
        jobs: how many units are computed at once; by default as many as there are processors, or
            all that a cluster can.
        address: where the cluster is. Without one a Dask client or a Ray cluster that is in use
            already is taken, or else one is started on this machine.
    """
    check_workers(backend, jobs, address)
    if backend == "dask":
        from heirloom.runs.workers.dask import dask_workers

        with dask_workers(jobs, address) as compute:
            yield compute
    elif backend == "ray":
        from heirloom.runs.workers.ray import ray_workers

        with ray_workers(jobs, address) as compute:
            yield compute
    else:
        from heirloom.runs.workers.local import processes

        with processes(jobs, local=backend == "local") as compute:
            yield compute


def check_workers(backend: str | None, jobs: int | None, address: str | None) -> None:
    """Raise `InvalidArgument` unless these go together."""
    if backend not in (None, *BACKENDS):
        raise InvalidArgument(f"backend is {backend!r}: it is one of {', '.join(BACKENDS)}")
    if jobs is not None:
        whole_number("jobs", jobs)
    if address is not None and backend not in ("dask", "ray"):
        raise InvalidArgument(
            f"address is {address!r}, and the backend is not a cluster: add backend dask or ray"
        )
