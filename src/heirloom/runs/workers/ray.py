"""Compute jobs on a Ray cluster."""

import logging
import os
import signal
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

from heirloom.errors import InvalidArgument, WorkerLost
from heirloom.experiments.job import Job
from heirloom.experiments.spec import ExperimentSpec
from heirloom.runs.versions import versions
from heirloom.runs.workers.addresses import check_reachable
from heirloom.runs.workers.compute import (
    Compute,
    Computed,
    error_of_worker,
    packed,
    portable,
    reason,
)
from heirloom.runs.workers.portions import MOST_PORTIONS, Portions
from heirloom.runs.workers.processes import processors
from heirloom.runs.workers.ray_start import failing_early, on_loopback
from heirloom.signals import uninterrupted
from heirloom.validation import shown

RETRIES = 3  # of a job whose worker died


@contextmanager
def ray_workers(n_parallel: int | None, address: str | None) -> Iterator[Compute]:
    """Provide the workers of a Ray cluster; if a worker dies, another one computes its job."""
    try:
        import ray
    except ImportError:
        raise InvalidArgument(
            "backend is 'ray', which is not installed: pip install '.[ray]' in the clone"
        ) from None

    def compute(spec: ExperimentSpec, jobs: list[Job]) -> Generator[Computed]:
        return _compute_jobs(spec, jobs, n_parallel)

    if ray.is_initialized():
        if address is not None:
            raise InvalidArgument(
                f"address is {shown(address)}, but this process already uses a Ray cluster: leave "
                "out the address, or call ray.shutdown() first"
            )
        yield compute
        return
    try:
        _connect(n_parallel, address)
        yield compute
    finally:
        ray.shutdown()  # at the exit of Python, Ray may crash


def _connect(n_parallel: int | None, address: str | None) -> None:
    """Connect to the cluster at `address`, or to one that is started here."""
    import ray

    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address is None:
        _start_cluster(n_parallel, options)
        return
    try:
        encrypted = os.environ.get("RAY_USE_TLS", "0") not in ("0", "")
        check_reachable(address, None if encrypted else "grpc")
        with _preserved_sigterm_handler():
            ray.init(address=address, **options)
    except (OSError, ValueError, RuntimeError) as error:
        if isinstance(error, InvalidArgument):
            raise
        raise InvalidArgument(
            f"address is {shown(address)}, but no Ray cluster answers there ({reason(error)}): "
            "start one with `ray start --head`, or give its address; if the cluster requires a "
            "token, set RAY_AUTH_MODE=token"
        ) from error


def _start_cluster(n_parallel: int | None, options: dict[str, Any]) -> None:
    """Start a cluster on this machine, even if another one runs here."""
    import ray

    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # send no usage statistics
    try:
        with _preserved_sigterm_handler(), uninterrupted(), on_loopback(), failing_early():
            ray.init(
                address="local",
                num_cpus=n_parallel or processors(),
                include_dashboard=False,
                **options,
            )
    except Exception as error:  # Ray raises plain exceptions too
        raise WorkerLost(
            f"a Ray cluster could not be started on this machine ({reason(error)}): check its "
            "memory and the logs in /tmp/ray, or use backend local"
        ) from error


@contextmanager
def _preserved_sigterm_handler() -> Iterator[None]:
    """Restore the SIGTERM handler that Ray replaces when it starts.

    Ray's own handler raises `SystemExit`, which is turned into `KeyboardInterrupt`.
    """
    handler = signal.getsignal(signal.SIGTERM)
    try:
        yield
    except SystemExit:
        raise KeyboardInterrupt from None
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)


def _compute_jobs(
    spec: ExperimentSpec, jobs: list[Job], n_parallel: int | None
) -> Generator[Computed]:
    import ray
    from ray.exceptions import RayError, RayTaskError

    task = ray.remote(num_cpus=1, max_retries=RETRIES)(portable())
    if ray.cluster_resources().get("CPU", 0) < 1:
        logging.getLogger("heirloom").warning(
            "heirloom: the Ray cluster has no processors yet; the run waits until it has one"
        )
    packed_spec, expected = ray.put(packed(spec)), ray.put(versions())
    portions, pending = Portions(jobs), []

    def submit() -> None:
        if portion := portions.next():
            pending.append(task.remote(packed_spec, portion, expected))

    try:
        for _ in range(n_parallel or MOST_PORTIONS):
            submit()
        while pending:
            (ready,), _ = ray.wait(pending, num_returns=1)
            computed = ray.get(ready)
            pending.remove(ready)
            portions.measure(computed)
            submit()
            yield from computed
    except RayTaskError as error:
        raise error_of_worker(error.cause, "ray") from error
    except RayError as error:
        raise WorkerLost(
            f"Ray could not compute a job ({str(error).splitlines()[0]}): run the same command "
            "again to resume"
        ) from error
    finally:
        for reference in pending:
            ray.cancel(reference, force=True)
