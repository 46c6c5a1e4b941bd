"""Compute jobs on a Dask cluster."""

import json
import logging
import os
import time
from collections.abc import Generator, Iterator
from concurrent.futures import CancelledError
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heirloom.errors import InvalidArgument, WorkerLost
from heirloom.experiments.job import Job
from heirloom.experiments.spec import ExperimentSpec
from heirloom.runs.versions import versions
from heirloom.runs.workers.addresses import TIMEOUT, check_reachable
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
from heirloom.signals import uninterrupted
from heirloom.validation import shown

if TYPE_CHECKING:
    from distributed import Client

FILE_TIMEOUT = 5.0  # seconds to find a scheduler file
LOOPBACK = "127.0.0.1"  # a cluster on this machine cannot be reached from other machines


@contextmanager
def dask_workers(n_parallel: int | None, address: str | None) -> Iterator[Compute]:
    """Provide the workers of a Dask cluster.

    The cluster may grow and shrink, and may start without workers. If a worker dies, another one
    computes its job.
    """
    with _client(n_parallel, address) as client:

        def compute(spec: ExperimentSpec, jobs: list[Job]) -> Generator[Computed]:
            return _compute_jobs(client, spec, jobs, n_parallel)

        yield compute


def _compute_jobs(
    client: "Client", spec: ExperimentSpec, jobs: list[Job], n_parallel: int | None
) -> Generator[Computed]:
    from distributed import as_completed

    compute, packed_spec, expected = portable(), packed(spec), versions()
    if not client.scheduler_info()["workers"]:
        logging.getLogger("heirloom").warning(
            "heirloom: the run waits for a Dask worker; start one with `dask worker %s`",
            client.scheduler_info()["address"],
        )

    portions, futures, pending = Portions(jobs), as_completed(), set()

    def submit() -> None:
        if portion := portions.next():
            future = client.submit(compute, packed_spec, portion, expected, pure=False)
            pending.add(future)
            futures.add(future)

    try:
        for _ in range(n_parallel or MOST_PORTIONS):
            submit()
        for future in futures:
            computed = _result(future)
            pending.discard(future)  # the worker frees a result when no future refers to it
            portions.measure(computed)
            submit()
            yield from computed
    except (CancelledError, OSError) as error:
        raise WorkerLost(
            "the connection to the Dask scheduler was lost: start a scheduler, then run the same "
            "command again to resume"
        ) from error
    finally:
        if client.status == "running":
            client.cancel(list(pending))


def _result(future: Any) -> list[Computed]:
    """Return the result of a worker, or raise its error."""
    from distributed.scheduler import KilledWorker

    error = future.exception() if future.status == "error" else None
    if isinstance(error, KilledWorker):
        raise WorkerLost(
            "several Dask workers died while they computed the same job, perhaps because they ran "
            "out of memory: give workers more memory, then run the same command again to resume"
        ) from error
    if error is not None:
        raise error_of_worker(error, "dask")
    computed: list[Computed] = future.result()
    return computed


@contextmanager
def _client(n_parallel: int | None, address: str | None) -> "Iterator[Client]":
    """Yield a client of the cluster at `address`.

    Without an address, yield the client in use, or else that of a cluster started here.
    """
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        raise InvalidArgument(
            "backend is 'dask', which is not installed: pip install '.[dask]' in the clone"
        ) from None
    if address is not None:
        try:
            scheduler = _scheduler_address(address)
            check_reachable(
                scheduler, None if "://" in scheduler.removeprefix("tcp://") else "dask"
            )
            client = Client(scheduler, timeout=TIMEOUT)
        except (OSError, ValueError, TypeError, RuntimeError) as error:
            if isinstance(error, InvalidArgument):
                raise
            raise InvalidArgument(
                f"address is {shown(address)}, but no Dask scheduler answers there "
                f"({reason(error)}): start one with `dask scheduler`, or give its address"
            ) from error
        with client:
            yield client
        return
    try:
        in_use = Client.current()
    except ValueError:
        in_use = None
    if in_use is not None:
        yield in_use
        return
    with ExitStack() as started:
        try:
            with uninterrupted():  # so that Ctrl-C leaves no process of the cluster running
                cluster = started.enter_context(
                    LocalCluster(
                        n_workers=n_parallel or processors(),
                        threads_per_worker=1,
                        host=LOOPBACK,
                        dashboard_address=f"{LOOPBACK}:0",
                        silence_logs=logging.CRITICAL,
                    )
                )
            client = started.enter_context(Client(cluster))
        except (OSError, ValueError, RuntimeError) as error:
            raise WorkerLost(
                f"a Dask cluster could not be started on this machine ({reason(error)}): check its "
                "memory and the configuration of Dask, or use backend local"
            ) from error
        yield client


def _scheduler_address(address: str) -> str:
    """Return the address of a scheduler; read it from the file if `address` is a scheduler file.

    A scheduler that is starting may need a moment to write its file.
    """
    if not address.endswith(".json"):
        return address
    deadline = time.monotonic() + FILE_TIMEOUT
    while not os.path.exists(address):  # Dask itself would wait without a time limit
        if time.monotonic() > deadline:
            raise FileNotFoundError("the file does not exist")
        time.sleep(0.1)
    written = json.loads(Path(address).read_text())
    if not (isinstance(written, dict) and isinstance(written.get("address"), str)):
        raise ValueError("the file was not written by a Dask scheduler")
    return written["address"]
