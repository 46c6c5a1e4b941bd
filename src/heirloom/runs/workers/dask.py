"""Units on a Dask cluster."""

import json
import logging
import os
import time
from collections.abc import Generator, Iterator
from concurrent.futures import CancelledError
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heirloom.errors import InvalidArgument, WorkerLost
from heirloom.experiments.job import Job
from heirloom.experiments.spec import ExperimentSpec
from heirloom.runs.versions import versions
from heirloom.runs.workers.compute import Compute, Computed, error_of_worker, portable
from heirloom.runs.workers.local import processors
from heirloom.signals import uninterrupted

if TYPE_CHECKING:
    from distributed import Client

PATIENCE = 30.0  # seconds to find a scheduler


@contextmanager
def dask_workers(n_parallel: int | None, address: str | None) -> Iterator[Compute]:
    """The workers of a Dask cluster.

    The cluster may grow and shrink, and begin with no worker at all. A unit whose worker died is
    computed by another one.
    """
    with _client(n_parallel, address) as client:

        def compute(spec: ExperimentSpec, jobs: list[Job]) -> Generator[Computed]:
            return _computed(client, spec, jobs, n_parallel)

        yield compute


def _computed(
    client: "Client", spec: ExperimentSpec, jobs: list[Job], n_parallel: int | None
) -> Generator[Computed]:
    from distributed import as_completed

    work, asked = portable(), (spec.as_json(), versions())
    if not client.scheduler_info()["workers"]:
        logging.getLogger("heirloom").warning(
            "heirloom: no Dask worker is there yet, and the run waits for one: `dask worker %s`",
            client.scheduler_info()["address"],
        )

    def submit(job: Job) -> Any:
        return client.submit(work, asked[0], job, asked[1], pure=False)

    left = iter(jobs)
    pending = {submit(job) for job in islice(left, n_parallel)}
    futures = as_completed(pending)
    try:
        for future in futures:
            yield _result(future)
            pending.discard(future)  # forgotten here, it is forgotten by its worker
            for job in islice(left, 1):
                pending.add(another := submit(job))
                futures.add(another)
    except (CancelledError, OSError) as error:
        raise WorkerLost(
            "the Dask scheduler is gone: start one again; the same command goes on"
        ) from error
    finally:
        if client.status == "running":
            client.cancel(list(pending))


def _result(future: Any) -> Computed:
    """What a worker computed, or what went wrong there."""
    from distributed.scheduler import KilledWorker

    error = future.exception() if future.status == "error" else None
    if isinstance(error, KilledWorker):
        raise WorkerLost(
            "a unit was lost with its Dask worker several times, perhaps for want of memory: give "
            "workers more of it; the same command goes on"
        ) from error
    if error is not None:
        raise error_of_worker(error, "dask")
    computed: Computed = future.result()
    return computed


@contextmanager
def _client(n_parallel: int | None, address: str | None) -> "Iterator[Client]":
    """A client of the cluster at an address, of the one in use, or of one that is started here."""
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        raise InvalidArgument(
            "backend is 'dask', which is not installed: pip install 'heirloom-rl[dask]'"
        ) from None
    if address is not None:
        try:
            client = Client(**_where(address), timeout=PATIENCE)
        except (OSError, ValueError) as error:
            raise InvalidArgument(
                f"address is {address!r}, and no Dask scheduler answers there ({error}): start one "
                "with `dask scheduler`, or give its address"
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
        with uninterrupted():  # and what was started is stopped
            cluster = started.enter_context(
                LocalCluster(
                    n_workers=n_parallel or processors(),
                    threads_per_worker=1,
                    dashboard_address=":0",
                    silence_logs=logging.CRITICAL,
                )
            )
        yield started.enter_context(Client(cluster))


def _where(address: str) -> dict[str, str]:
    """An address, or the file that a scheduler writes it to; that may take it a moment."""
    if not address.endswith(".json"):
        return {"address": address}
    deadline = time.monotonic() + PATIENCE
    while not os.path.exists(address):  # Dask would wait for it for ever
        if time.monotonic() > deadline:
            raise FileNotFoundError("there is no such file")
        time.sleep(0.1)
    written = json.loads(Path(address).read_text())
    if not (isinstance(written, dict) and isinstance(written.get("address"), str)):
        raise ValueError("the file is not one that a scheduler writes")
    return {"address": written["address"]}
