"""Run agents and tasks that are given as Python functions with the engine that runs specs.

The spec of such a run names the functions `heirloom.runs.callables:draw_task` and `...:agent_0` and
so on. These names exist while the run is computed, here and in the processes to which the functions
are sent. A stored run contains the names only: nothing of the functions is written to a file.
"""

import os
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from heirloom.errors import InvalidArgument
from heirloom.experiments import registry
from heirloom.experiments.job import Job
from heirloom.experiments.spec import ExperimentSpec
from heirloom.learning.streams import stream
from heirloom.mdp.tabular import TabularMDP
from heirloom.runs.run import run_on
from heirloom.runs.workers import check_workers
from heirloom.runs.workers.compute import Compute, Computed, compute_job, packed
from heirloom.runs.workers.processes import compute_locally
from heirloom.validation import shown

if TYPE_CHECKING:
    import xarray as xr

FAMILY = f"{__name__}:draw_task"
"""The name of the family of a comparison."""

_active: dict[str, Callable[..., Any]] = {}
_lock = threading.RLock()  # comparisons in several threads wait for each other


def _renew_lock() -> None:
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)  # another thread may have held it


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

    @contextmanager
    def start_workers() -> Iterator[Compute]:
        yield lambda spec, jobs_: compute_locally(_computing(functions, spec), jobs_, jobs)

    with _available(functions, spec.seed):
        if out is not None:
            return run_on(start_workers, spec, out)
        with tempfile.TemporaryDirectory() as folder:
            return run_on(start_workers, spec, os.path.join(folder, "run")).load()


@contextmanager
def _available(functions: Mapping[str, Callable[..., Any]], seed: int) -> Iterator[None]:
    """Let the names in the spec of a comparison refer to these functions."""
    draw = functions["draw_task"]
    with _lock:
        outer = dict(_active)  # those of a comparison in which an agent makes this one
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
            _active.update(outer)
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
        if not isinstance(task, TabularMDP):
            raise InvalidArgument(
                f"draw_task returned {shown(task)}, a {type(task).__name__}, not a TabularMDP: "
                "leave out jobs, out and measure to compare agents in environments"
            )
        self.gamma = task.gamma


def _computing(
    functions: Mapping[str, Callable[..., Any]], spec: ExperimentSpec
) -> Callable[[Job], Computed]:
    """Return the function that computes a job, here or in a worker process."""
    return partial(_compute, functions, packed(spec), spec.seed)


def _compute(
    functions: Mapping[str, Callable[..., Any]], spec: str, seed: int, job: Job
) -> Computed:
    if _active:  # in the process that runs the comparison
        return compute_job(spec, job)
    with _available(functions, seed):
        return compute_job(spec, job)
