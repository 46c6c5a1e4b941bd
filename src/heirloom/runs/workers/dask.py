"""Compute jobs on a Dask cluster."""

import json
import logging
import os
import re
import socket
import time
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import CancelledError
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from heirloom.errors import HeirloomError, InvalidArgument, WorkerLost, missing
from heirloom.experiments.job import Job
from heirloom.experiments.spec import ExperimentSpec
from heirloom.runs.versions import versions
from heirloom.runs.workers.compute import Compute, Computed, packed, portable
from heirloom.runs.workers.process import processors
from heirloom.signals import blocked_in_children, uninterrupted
from heirloom.validation import shown
from heirloom.wording import reason

if TYPE_CHECKING:
    from distributed import Client

TIMEOUT = 5.0  # seconds for a cluster to answer, or to write its scheduler file
LARGEST_GREETING = 2**24  # a scheduler first sends its greeting, and before that its size
PORTION_SECONDS = 0.25  # of work in a portion, so that little is lost with a worker
PORTION_JOBS = 256  # at most in a portion, so that its results fit in a message
MOST_PORTIONS = 1000  # sent at the same time, if the number of parallel jobs is not given


@contextmanager
def dask_workers(n_parallel: int | None, address: str | None) -> Iterator[Compute]:
    """Provide the workers of a Dask cluster, which may grow and shrink, and start without any."""
    with _client(n_parallel, address) as client:
        yield lambda spec, jobs: _compute_jobs(client, spec, jobs, n_parallel)


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
            if future.status == "error":
                raise error_of_worker(future.exception())
            computed: list[Computed] = future.result()
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


def error_of_worker(error: BaseException) -> BaseException:
    """Return the exception that the run should raise when a worker raised `error`."""
    from distributed.scheduler import KilledWorker

    if isinstance(error, KilledWorker):
        return WorkerLost(
            "several Dask workers died while they computed the same job, perhaps because they ran "
            "out of memory: give workers more memory, then run the same command again to resume"
        )
    if isinstance(error, ModuleNotFoundError):
        return InvalidArgument(
            f"a worker cannot import {error.name}: install heirloom-rl[dask] on its machine"
        )
    if isinstance(error, OSError) and not isinstance(error, HeirloomError):
        return WorkerLost(
            f"a worker could not compute a job ({error}): repair its machine, then run the same "
            "command again to resume"
        )
    return error


@contextmanager
def _client(n_parallel: int | None, address: str | None) -> "Iterator[Client]":
    """Yield a client of the cluster at `address`, the one in use, or that of a new cluster."""
    try:
        from distributed import Client, LocalCluster, Security
    except ImportError:
        raise missing("backend is 'dask'", "dask") from None
    if address is not None:
        try:
            scheduler = _scheduler_address(address)
            check_reachable(scheduler)
            client = Client(scheduler, timeout=TIMEOUT)
        except (OSError, ValueError, TypeError, KeyError, RuntimeError) as error:
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
        if not os.environ.get("PYTHONSAFEPATH"):  # a file of the folder may be named random.py
            os.environ["PYTHONSAFEPATH"] = "1"
            started.callback(os.environ.pop, "PYTHONSAFEPATH", None)
        try:
            keys = Security.temporary()  # otherwise every user of this machine could run code in it
            # Ctrl-C must leave no process of the cluster running.
            with uninterrupted(), blocked_in_children():
                cluster = started.enter_context(
                    LocalCluster(
                        n_workers=n_parallel or processors(),
                        threads_per_worker=1,
                        host="127.0.0.1",  # other machines cannot reach it
                        protocol="tls://",
                        security=keys,
                        dashboard_address=None,
                        silence_logs=logging.CRITICAL,
                    )
                )
            client = started.enter_context(Client(cluster))
        except ImportError:  # cryptography makes the keys
            raise missing("backend is 'dask'", "dask") from None
        except (OSError, ValueError, RuntimeError) as error:
            raise WorkerLost(
                f"a Dask cluster could not be started on this machine ({reason(error)}): check its "
                "memory and the configuration of Dask, or use backend local"
            ) from error
        yield client


def _scheduler_address(address: str) -> str:
    """Return the address of a scheduler; read it from the file if `address` is a scheduler file."""
    if not address.endswith(".json"):
        return address
    deadline = time.monotonic() + TIMEOUT
    while not os.path.exists(address):  # the scheduler may be starting
        if time.monotonic() > deadline:
            raise FileNotFoundError("the file does not exist")
        time.sleep(0.1)
    return str(json.loads(Path(address).read_text("utf-8"))["address"])


def check_reachable(address: str) -> None:
    """Raise an error unless a Dask scheduler answers at HOST:PORT; other addresses pass.

    A client would wait for minutes for an answer of a server of another kind.
    """
    found = re.fullmatch(r"(?:[a-z]+://)?(\[[^]]*\]|[^:/]*):(-?[0-9]+)/?", address)
    if found is None:
        return
    is_encrypted = "://" in address.removeprefix("tcp://")
    where = found[1].strip("[]"), int(found[2])
    if not 0 < where[1] < 2**16:
        raise ValueError("expected a port from 1 to 65535")
    with socket.create_connection(where, timeout=TIMEOUT) as connection:
        answer = b"" if is_encrypted else connection.recv(8)
    is_dask = len(answer) == 8 and int.from_bytes(answer, "little") < LARGEST_GREETING
    if not (is_encrypted or is_dask):
        raise ConnectionError("another program listens there")


class Portions:
    """Jobs that have not been sent to workers: short ones are sent several per message.

    How long a job takes is estimated from measured jobs of the same agent. The estimate rises at
    once, and at most halves with each job, since the first job of a worker also loads kernels. A
    job of an agent without a measured job is a portion of its own.
    """

    def __init__(self, jobs: list[Job]):
        self._jobs = deque(jobs)
        self._seconds: dict[int, float] = {}  # estimate for a job of each agent

    def next(self) -> list[Job]:
        """Return the jobs to send next, or an empty list if all were sent."""
        portion: list[Job] = []
        seconds = 0.0
        while self._jobs and len(portion) < PORTION_JOBS:
            seconds += self._seconds.get(self._jobs[0][0], PORTION_SECONDS)
            if portion and seconds > PORTION_SECONDS:
                break
            portion.append(self._jobs.popleft())
        return portion

    def measure(self, portion: Iterable[Computed]) -> None:
        """Learn from computed jobs how long the jobs of their agents take."""
        for (agent, _), _, origin in portion:
            self._seconds[agent] = max(origin.seconds, self._seconds.get(agent, 0.0) / 2)
