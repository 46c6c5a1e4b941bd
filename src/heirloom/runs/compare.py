"""Compare agents on the same sequences of tasks."""

import math
import os
import tempfile
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from heirloom.agents.protocol import Agent
from heirloom.errors import InvalidArgument
from heirloom.experiments.job import Functions
from heirloom.experiments.spec import ExperimentSpec
from heirloom.experiments.variables import check_results
from heirloom.runs.run import run_on
from heirloom.runs.workers import check_workers
from heirloom.runs.workers.compute import compute_job, packed
from heirloom.runs.workers.processes import compute_locally
from heirloom.runs.worth import chosen_baseline, decimals, difference
from heirloom.stats import student_interval
from heirloom.storage.files import folder_path
from heirloom.validation import LARGEST_SIZE, one_of, real_number, shown, truth, whole_number
from heirloom.wording import printable

if TYPE_CHECKING:
    import xarray as xr

    from heirloom.envs.family import TaskFamily
    from heirloom.learning.lifetime import Task

MakeAgent = Callable[[np.random.Generator], Agent]
DrawTask = Callable[[np.random.Generator], "Task"]

FAMILY = f"{__name__}:draw_task"
"""The name of the family in the spec of a comparison, whose functions are stored nowhere."""


def compare(
    agents: Mapping[str, MakeAgent],
    draw_task: "DrawTask | TaskFamily",
    *,
    tasks: int,
    episodes: int,
    max_steps: int,
    repetitions: int = 5,
    seed: int = 0,
    jobs: int | None = None,
    out: str | os.PathLike[str] | None = None,
    masks: bool = False,
    measure: str | None = None,
    record: bool | Mapping[str, Any] | None = None,
) -> "xr.Dataset":
    """Run every agent on the same sequences of tasks, over several repetitions.

    A bar on a terminal shows the progress. Without `jobs`, all is computed in this process. The
    numbers are the same in any case.

    Args:
        agents: maps the name of each agent to a function that makes a new agent; the function is
            given the random generator that the agent should use.
        draw_task: draws a task, either a `TabularMDP` or an environment, with the generator it is
            given; or a family, whose tasks come in its order if it has a `sequence`. Environments
            are made anew for each agent: what differs between tasks must follow from the generator.
        tasks: number of tasks in a sequence.
        episodes: number of episodes per task.
        max_steps: number of steps after which an episode is truncated.
        repetitions: number of independent repetitions, each with a new sequence of tasks and new
            agents.
        seed: seed of all random streams. The stream of an agent depends on its name and on the
            repetition, so adding an agent does not change the results of the others.
        jobs: number of jobs (an agent and a repetition) that are computed in parallel, by processes
            to which the functions are sent, with what they refer to. Functions must not keep
            anything from one call to the next, since each process has a copy of them; what they
            return must depend on their generator alone.
        out: folder that results are written to, in the file `run.sqlite`. To resume an interrupted
            comparison, repeat the call. The names of agents and all numbers are compared with those
            of the stored comparison, and it is refused if they differ. Functions cannot be
            compared: give another name to an agent that you change.
        masks: whether agents obey the masks of available actions that environments give; see
            `learn`. The missing actions of a `TabularMDP` are always respected.
        measure: a quantity that is recorded in addition, as in a spec: "transfer" or "certificate"
            for the report's section on it, or another one that `heirloom list` shows.
            "optimal_after" needs exact tasks.
        record: True, or a dictionary with the keys of the table `[record]` of a spec, to record
            episodes, which `replay(out)` plays; needs `out`.

    Returns:
        The variables of a run, as in `heirloom.run`. Among them are `returns` [agent, repetition,
        task, episode], undiscounted; `updates` [agent, repetition, task], the number of model
        updates; `optimal` [repetition, task], the optimal expected return of an episode, NaN for
        environments, of which no exact model is known.
    """
    _check_arguments(agents, draw_task)
    masks = truth("masks", masks)
    seed = whole_number("seed", seed, least=0, most=math.inf)
    max_steps = whole_number("max_steps", max_steps)
    episodes = whole_number("episodes", episodes, most=LARGEST_SIZE)
    tasks = whole_number("tasks", tasks, most=LARGEST_SIZE)
    repetitions = whole_number("repetitions", repetitions, most=LARGEST_SIZE)
    if out is not None:
        out = folder_path(out, "out")
    elif record is not None and record is not False:
        raise InvalidArgument(
            f"record is {shown(record)}, but out is None: give out, the folder in which recordings "
            "are stored, and play them with replay(out)"
        )
    check_workers("local", jobs, None)
    family = {"name": FAMILY} | ({"masks": True} if masks else {})
    numbered = [{"name": n, "algorithm": f"{__name__}:agent_{i}"} for i, n in enumerate(agents)]
    sizes = {"tasks": tasks, "episodes": episodes, "steps": max_steps, "repetitions": repetitions}
    data = {"name": "comparison", "family": family, "agents": numbered, **sizes, "seed": seed}
    given = {"measure": measure, "record": None if record is False else record}
    data |= {key: value for key, value in given.items() if value is not None}
    spec, functions = ExperimentSpec.read(data), Functions(draw_task, dict(agents), masks)
    compute = partial(compute_job, packed(spec), functions=functions)
    engine: Any = nullcontext(lambda _, remaining: compute_locally(compute, remaining, jobs or 1))
    if out is not None:
        return run_on(lambda: engine, spec, out, functions)
    with tempfile.TemporaryDirectory() as folder:
        return run_on(lambda: engine, spec, os.path.join(folder, "run"), functions)


def is_comparison(spec: ExperimentSpec) -> bool:
    """Whether a spec is that of a comparison: `heirloom run` has no functions to run it again."""
    return spec.family.name == FAMILY


def _check_arguments(agents: Mapping[str, MakeAgent], draw_task: Any) -> None:
    if not isinstance(agents, Mapping) or not agents:
        raise InvalidArgument(
            f"agents is {shown(agents)}: expected a dictionary of one or more functions, each of "
            "which makes an agent, by the name of the agent"
        )
    for name, make in agents.items():
        if not callable(make):
            raise InvalidArgument(
                f"agents[{name!r}] is {shown(make)}: expected a function that makes a fresh agent "
                "for each repetition, such as lambda rng: hl.RMax(seed=rng, ...)"
            )
    draw = getattr(draw_task, "draw", draw_task)
    if not callable(draw):
        raise InvalidArgument(
            f"draw_task is {shown(draw_task)}: expected a family, or a function that draws a task, "
            "such as family.draw"
        )


def comparison_table(results: "xr.Dataset", *, last: int, baseline: str | None = None) -> str:
    """Format a text table with the mean returns of episodes, and differences from the baseline.

    The columns are the mean return in the first task, the mean return and the mean number of model
    updates in the `last` tasks, and the difference of mean returns from the baseline in those
    tasks, in the unit of rewards. Its 95 % Student interval over repetitions assumes that
    differences are normal (no interval for fewer than 3 repetitions, or if all are equal). The row
    `best` shows the optimal expected returns, if they are known for all of the `last` tasks.

    Args:
        results: the results of `compare` or `run`.
        last: the number of tasks at the end that are compared.
        baseline: the name of the agent that others are compared with; by default the first one.
    """
    names = check_results(results, ("returns", "updates", "optimal"))
    last = whole_number("last", last, most=results.sizes["task"])
    baseline = chosen_baseline(names, baseline)
    later = results.isel(task=slice(-last, None))
    means = results.returns.isel(task=0).mean("episode"), later.returns.mean(("task", "episode"))
    best = results.optimal.isel(task=0), later.optimal.mean("task", skipna=False)
    digits = max(decimals(float(np.abs(x).max())) for x in means)

    def row(label: str, returns: "tuple[xr.DataArray, xr.DataArray]") -> str:
        cells = (f"{float(x.mean()):>8.{digits}f}" for x in returns)
        return f"{label:<{width}}  {'  '.join(cells)}"

    labels = {name: printable(name) for name in names}
    width = max(len(label) for label in ("agent", *labels.values()))
    columns = f"{'task 1':>8}  {f'last {last}':>8}  {'updates':>8}"
    lines = [f"{'agent':<{width}}  {columns}  difference from {labels[baseline]}"]
    for name in names:
        own = tuple(x.sel(agent=name) for x in means)
        line = f"{row(labels[name], own)}  {float(later.updates.sel(agent=name).mean()):>8.1f}"
        if name != baseline:
            more = own[1].values - means[1].sel(agent=baseline).values
            mean, half = student_interval(more)
            line += f"  {difference(float(mean), float(half))}"
        lines.append(line)
    if np.isfinite(best[1]).all():
        lines.append(row("best", best))
    return "\n".join(lines)


def helps_from(
    results: "xr.Dataset",
    agent: str,
    *,
    baseline: str | None = None,
    confidence: float = 0.95,
) -> int | None:
    """Return the task from which on an agent has higher returns than the baseline.

    In that task and in all later ones, the Student interval over repetitions of the difference of
    mean returns is above 0. None if it is not in the last task, or with fewer than 3 repetitions or
    equal ones, which give no interval. The statement about all these tasks together has the given
    confidence, without a correction: tasks are tested from the last one backwards until a test
    fails, so a wrong statement requires that the first false one of them passes its own test. For a
    joint statement about several agents, divide 1 - confidence by their number.

    The confidence assumes that differences are normal. If an agent is a little better in most
    repetitions and far worse in a few, a small number of repetitions may show only the first kind:
    the statement is then wrong far more often. `docs/experiments.md` has a table.

    Args:
        results: the results of `compare` or `run`.
        agent: the name of the agent.
        baseline: the name of the agent that it is compared with; by default the first one.
        confidence: the confidence of each interval, above 0 and below 1.
    """
    names = check_results(results, ("returns",))
    one_of("agent", agent, names)
    baseline = chosen_baseline(names, baseline)
    what = "expected a probability above 0 and below 1"
    least_doubt = 1e-12  # the quantile of a smaller doubt is not accurate
    confidence = real_number("confidence", confidence, what, above=0, most=1 - least_doubt)
    mean = results.returns.mean("episode").transpose("agent", "repetition", "task")
    difference = mean.sel(agent=agent).values - mean.sel(agent=baseline).values
    centre, half = student_interval(difference, confidence=confidence)
    not_above = np.flatnonzero(~(centre - half > 0))
    first = 0 if not_above.size == 0 else int(not_above[-1]) + 1
    return None if first == centre.size else int(results.task.values[first])
