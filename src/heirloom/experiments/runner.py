"""Running an experiment: units of work in parallel, and going on where a run was stopped."""

import os
import signal
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from heirloom.arguments import whole_number
from heirloom.errors import CannotWrite, InvalidArgument, WorkerLost
from heirloom.experiments.life import best_returns
from heirloom.experiments.progress import Advance, progress
from heirloom.experiments.spec import ExperimentSpec
from heirloom.experiments.store import RunStore, Unit
from heirloom.experiments.units import check_agents, draw_tasks, run_unit

if TYPE_CHECKING:
    import xarray as xr

LOCK = ".lock"


def run(
    spec: ExperimentSpec, folder: str | os.PathLike[str], *, jobs: int | None = None
) -> "xr.Dataset":
    """Run an experiment, or what is left of it, and return its results.

    Results are the same bit for bit whatever the number of jobs, the order of units, and however
    often the run was stopped.

    Args:
        spec: the experiment.
        folder: where results go; the same folder goes on with the same experiment.
        jobs: how many processes work at once; one for each processor by default.
    """
    jobs = _processors() if jobs is None else whole_number("jobs", jobs)
    check_agents(spec)
    with _lock(folder):
        store = RunStore(folder, spec)
        all_units = [(i, j) for j in range(spec.repetitions) for i in range(len(spec.agents))]
        units = [unit for unit in all_units if not store.is_done(unit)]
        store.repair_optimal(*_optimal(spec))
        if units:
            with progress(spec.name, len(all_units), len(all_units) - len(units)) as advance:
                _run_units(spec, store, units, min(jobs, len(units)), advance)
        return store.results()


def _run_units(
    spec: ExperimentSpec, store: RunStore, units: list[Unit], jobs: int, advance: Advance
) -> None:
    for unit, results in _computed(spec, units, jobs):
        store.write(unit, results)
        advance(f"{spec.agents[unit[0]].name}, repetition {unit[1] + 1}")


def _computed(
    spec: ExperimentSpec, units: list[Unit], jobs: int
) -> Iterator[tuple[Unit, dict[str, np.ndarray]]]:
    if jobs == 1:
        for unit in units:
            yield _unit(spec.as_json(), unit)
        return
    from joblib import Parallel, delayed
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    work = (delayed(_unit)(spec.as_json(), unit, os.getpid()) for unit in units)
    with _uninterrupted():
        results = Parallel(n_jobs=jobs, return_as="generator_unordered")(work)
    try:
        yield from results
    except TerminatedWorkerError as error:
        raise WorkerLost(
            "a process of this run was killed, perhaps for want of memory: take fewer jobs; the "
            "same command goes on"
        ) from error
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that units are left is known
            results.close()


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Processes that are started within do not hear Ctrl-C: the one that reads it stops them."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may choose
        return
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


def _unit(
    spec: dict[str, Any], unit: Unit, parent: int | None = None
) -> tuple[Unit, dict[str, np.ndarray]]:
    if parent is not None:
        _end_with(parent)
    return unit, run_unit(ExperimentSpec.read(spec), *unit)


_watching = False


def _end_with(parent: int) -> None:
    """End this process when the one that started it is gone, however that ended."""
    global _watching
    if _watching:
        return
    _watching = True

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _optimal(spec: ExperimentSpec) -> tuple[np.ndarray, np.ndarray]:
    """The best expected returns, undiscounted and discounted, [repetition, task]."""
    tasks = [draw_tasks(spec, j) for j in range(spec.repetitions)]
    optimal, discounted = (
        np.array([best_returns(row, spec.steps, discounted=d) for row in tasks])
        for d in (False, True)
    )
    return optimal, discounted


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def _lock(folder: str | os.PathLike[str]) -> Iterator[None]:
    """Keep other runs out of the folder; the lock goes with the process, however it ends."""
    try:
        import fcntl
    except ImportError:  # no such locks on this system
        yield
        return
    try:
        path = Path(folder).resolve()  # a link leads to the same lock
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = open(path.parent / f".{path.name}{LOCK}", "w")
    except OSError as error:
        raise CannotWrite(
            f"{folder} could not be made ({error.strerror}): choose a folder that you may write to"
        ) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InvalidArgument(
                f"another run is working in {folder}: wait for it, or choose another folder"
            ) from None
        yield
