"""Units on a Ray cluster."""

import logging
import os
import signal
import socket
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager, nullcontext
from itertools import islice
from typing import Any

from heirloom.errors import InvalidArgument, WorkerLost
from heirloom.experiments.job import Job
from heirloom.experiments.spec import ExperimentSpec
from heirloom.runs.versions import versions
from heirloom.runs.workers.compute import Compute, Computed, error_of_worker, portable
from heirloom.runs.workers.local import processors
from heirloom.signals import uninterrupted

PATIENCE = 10.0  # seconds for a cluster to answer
RETRIES = 3  # of a unit whose worker died


@contextmanager
def ray_workers(n_parallel: int | None, address: str | None) -> Iterator[Compute]:
    """The workers of a Ray cluster; a unit whose worker died is computed by another one."""
    try:
        import ray
    except ImportError:
        raise InvalidArgument(
            "backend is 'ray', which is not installed: pip install 'heirloom-rl[ray]'"
        ) from None

    def compute(spec: ExperimentSpec, jobs: list[Job]) -> Generator[Computed]:
        return _computed(spec, jobs, n_parallel)

    if ray.is_initialized():
        if address is not None:
            raise InvalidArgument(
                f"address is {address!r}, and Ray is in use in this process: leave the address "
                "out, or call ray.shutdown() before"
            )
        yield compute
        return
    try:
        _connect(n_parallel, address)
        yield compute
    finally:
        ray.shutdown()  # left to the end of Python, it may crash


def _connect(n_parallel: int | None, address: str | None) -> None:
    """Use the cluster at an address, or one that is started here."""
    import ray

    where: dict[str, Any] = {"address": address}
    if address is None:  # a cluster of its own, whatever else there is on this machine
        where = {"address": "local", "num_cpus": n_parallel or processors()}
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # a run tells nobody of itself
    try:
        _check_answers(address)
        with _own_handler(), nullcontext() if address else uninterrupted():
            ray.init(
                **where,
                include_dashboard=None if address else False,
                log_to_driver=False,
                logging_level=logging.ERROR,
            )
    except (OSError, ValueError, RuntimeError) as error:
        raise InvalidArgument(
            f"address is {address!r}, and no Ray cluster answers there ({error}): start one with "
            "`ray start --head`, or give its address; if it asks for a token, set "
            "RAY_AUTH_MODE=token"
        ) from error


@contextmanager
def _own_handler() -> Iterator[None]:
    """Ray takes SIGTERM for itself, and leaves; afterwards it is whose it was before."""
    handler = signal.getsignal(signal.SIGTERM)
    try:
        yield
    except SystemExit:
        raise KeyboardInterrupt from None
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)


def _check_answers(address: str | None) -> None:
    """Raise `OSError` if nothing listens at HOST:PORT; Ray would try for minutes."""
    host, colon, port = (address or "").removeprefix("ray://").rpartition(":")
    if colon and port.isdigit():
        socket.create_connection((host, int(port)), timeout=PATIENCE).close()


def _computed(spec: ExperimentSpec, jobs: list[Job], n_parallel: int | None) -> Generator[Computed]:
    import ray
    from ray.exceptions import RayError, RayTaskError

    work = ray.remote(num_cpus=1, max_retries=RETRIES)(portable())
    if ray.cluster_resources().get("CPU", 0) < 1:
        logging.getLogger("heirloom").warning(
            "heirloom: the Ray cluster has no processors, and the run waits for one"
        )
    asked = ray.put(spec.as_json()), ray.put(versions())
    left = iter(jobs)
    pending = [work.remote(asked[0], job, asked[1]) for job in islice(left, n_parallel)]
    try:
        while pending:
            ready, pending = ray.wait(pending, num_returns=1)
            yield ray.get(ready[0])
            pending += [work.remote(asked[0], job, asked[1]) for job in islice(left, 1)]
    except RayTaskError as error:
        raise error_of_worker(error.cause, "ray") from error
    except RayError as error:
        raise WorkerLost(
            f"Ray could not compute a unit ({str(error).splitlines()[0]}): the same command goes on"
        ) from error
    finally:
        for reference in pending:
            ray.cancel(reference, force=True)
