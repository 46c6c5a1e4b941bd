"""Run agents and tasks that are given as Python functions with the engine that runs specs.

The spec of such a run names the functions `heirloom.runs.callables:draw_task` and `...:agent_0` and
so on. These names exist while the run is computed, here and in the processes to which the functions
are sent. A stored run contains the names only: nothing of the functions is written to a file.
"""

import os
import tempfile
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from heirloom.errors import WorkerLost
from heirloom.experiments import registry
from heirloom.experiments.job import Job
from heirloom.experiments.spec import ExperimentSpec
from heirloom.learning.streams import stream
from heirloom.mdp.tabular import check_task
from heirloom.runs.run import run_on
from heirloom.runs.workers import check_workers
from heirloom.runs.workers.compute import Compute, compute_job, packed
from heirloom.runs.workers.local import processors

if TYPE_CHECKING:
    import xarray as xr

FAMILY = f"{__name__}:draw_task"
"""The name of the family of a comparison."""

_active: dict[str, Callable[..., Any]] = {}


def __getattr__(name: str) -> Callable[..., Any]:
    if name in _active:
        return _active[name]
    raise AttributeError(f"there is no {name!r}: the functions of a comparison are not stored")


def spec_of(names: list[str], **keys: Any) -> ExperimentSpec:
    """Return the spec of a comparison of agents with these names; keys that are None are left out.

    Its other keys are those of any spec, such as `tasks` and `measure`.
    """
    agents = [{"name": n, "algorithm": f"{__name__}:agent_{i}"} for i, n in enumerate(names)]
    given = {key: value for key, value in keys.items() if value is not None}
    return ExperimentSpec.read(
        {"name": "comparison", "family": {"name": FAMILY}, "agents": agents, **given}
    )


def is_comparison(spec: ExperimentSpec) -> bool:
    """Whether a spec is that of a comparison: `heirloom run` has no functions to run it again."""
    return spec.family.name == FAMILY


def run_callables(
    agents: Mapping[str, Callable[..., Any]],
    draw_task: Callable[..., Any],
    spec: ExperimentSpec,
    *,
    jobs: int | None,
    out: str | os.PathLike[str] | None,
) -> "xr.Dataset":
    """Compute the jobs of a comparison in parallel, and return its results.

    Without `out`, results are stored in a temporary folder.
    """
    check_workers("local", jobs, None)
    functions = {"draw_task": draw_task}
    functions |= {f"agent_{i}": make for i, make in enumerate(agents.values())}
    n_parallel = jobs or processors()

    @contextmanager
    def start_workers() -> Iterator[Compute]:
        yield lambda spec, jobs: _compute(functions, spec, jobs, n_parallel)

    with _available(functions, spec.seed):
        if out is not None:
            return run_on(start_workers, spec, out)
        with tempfile.TemporaryDirectory() as folder:
            return run_on(start_workers, spec, os.path.join(folder, "run")).load()


@contextmanager
def _available(functions: Mapping[str, Callable[..., Any]], seed: int) -> Iterator[None]:
    """Let the names in the spec of a comparison refer to these functions."""
    draw = functions["draw_task"]
    _active.clear()
    _active["draw_task"] = lambda: _Family(draw, seed)
    for name, make in functions.items():
        if name != "draw_task":
            _active[name] = _maker(make)
    registry._cached_family.cache_clear()  # it may hold the family of another comparison
    try:
        yield
    finally:
        _active.clear()
        registry._cached_family.cache_clear()


def _maker(make: Callable[..., Any]) -> Callable[..., Any]:
    def made(*, n_states: int, n_actions: int, gamma: float, seed: Any) -> Any:
        return make(seed)

    return made


class _Family:
    """The tasks that a function draws; they share the discount factor of the first one."""

    def __init__(self, draw: Callable[..., Any], seed: int) -> None:
        self.draw = draw
        task = draw(stream(seed, "tasks", 0))
        check_task(task)
        self.gamma = task.gamma


def _compute(
    functions: Mapping[str, Callable[..., Any]],
    spec: ExperimentSpec,
    jobs: list[Job],
    n_parallel: int,
) -> Generator[Any]:
    """Yield what `compute_job` returns for each job, in any order."""
    from concurrent.futures.process import BrokenProcessPool

    from joblib import Parallel, delayed

    packed_spec = packed(spec)
    if min(n_parallel, len(jobs)) == 1:
        yield from (compute_job(packed_spec, job) for job in jobs)
        return
    calls = (delayed(_compute_in_child)(functions, packed_spec, spec.seed, job) for job in jobs)
    try:
        yield from Parallel(n_jobs=n_parallel, backend="loky", return_as="generator_unordered")(
            calls
        )
    except BrokenProcessPool as error:
        raise WorkerLost(
            "a worker process was killed, perhaps because memory ran out: compute fewer jobs in "
            "parallel; repeat the call to resume"
        ) from error


def _compute_in_child(
    functions: Mapping[str, Callable[..., Any]], spec: str, seed: int, job: Job
) -> Any:
    with _available(functions, seed):
        return compute_job(spec, job)
