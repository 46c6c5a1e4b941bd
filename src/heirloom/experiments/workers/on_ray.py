"""Units on a Ray cluster."""

import logging
import os
import socket
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from itertools import islice

from heirloom.errors import InvalidArgument, WorkerLost
from heirloom.experiments.spec import ExperimentSpec
from heirloom.experiments.units import Unit
from heirloom.experiments.versions import versions
from heirloom.experiments.workers.processes import processors
from heirloom.experiments.workers.unit import Compute, Computed, compute_elsewhere

PATIENCE = 10.0  # seconds for a cluster to answer
RETRIES = 3  # of a unit whose worker died


@contextmanager
def ray_workers(jobs: int | None, address: str | None) -> Iterator[Compute]:
    """The workers of a Ray cluster; a unit whose worker died is computed by another one."""
    try:
        import ray
    except ImportError:
        raise InvalidArgument(
            "backend is 'ray', which is not installed: pip install 'heirloom-rl[ray]'"
        ) from None

    def compute(spec: ExperimentSpec, units: list[Unit]) -> Generator[Computed]:
        return _computed(spec, units, jobs)

    if ray.is_initialized():
        yield compute
        return
    where = {"num_cpus": jobs or processors()} if address is None else {"address": address}
    if address is None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # a run tells nobody of itself
    try:
        _check_answers(address)
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
    try:
        yield compute
    finally:
        ray.shutdown()


def _check_answers(address: str | None) -> None:
    """Raise `OSError` if nothing listens at HOST:PORT; Ray would try for minutes."""
    host, colon, port = (address or "").removeprefix("ray://").rpartition(":")
    if colon and port.isdigit():
        socket.create_connection((host, int(port)), timeout=PATIENCE).close()


def _computed(spec: ExperimentSpec, units: list[Unit], jobs: int | None) -> Generator[Computed]:
    import ray
    from ray.exceptions import RayError, RayTaskError

    work = ray.remote(num_cpus=1, max_retries=RETRIES)(compute_elsewhere)
    asked = ray.put(spec.as_json()), ray.put(versions())
    left = iter(units)
    pending = [work.remote(asked[0], unit, asked[1]) for unit in islice(left, jobs)]
    try:
        while pending:
            ready, pending = ray.wait(pending, num_returns=1)
            yield ray.get(ready[0])
            pending += [work.remote(asked[0], unit, asked[1]) for unit in islice(left, 1)]
    except RayTaskError as error:
        raise error.cause from error
    except RayError as error:
        raise WorkerLost(
            f"Ray could not compute a unit ({str(error).splitlines()[0]}): the same command goes on"
        ) from error
    finally:
        for reference in pending:
            ray.cancel(reference, force=True)
