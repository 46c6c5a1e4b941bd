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
from heirloom.experiments.registry import draw_sequence
from heirloom.experiments.spec import ExperimentSpec
from heirloom.experiments.variables import check_results
from heirloom.learning.lifetime import learn_tasks, naming_job, optimal_returns
from heirloom.learning.streams import stream
from heirloom.mdp.gymnasium import sizes_of
from heirloom.mdp.tabular import TabularMDP
from heirloom.runs.run import run_on
from heirloom.runs.workers import check_workers
from heirloom.runs.workers.compute import compute_job, packed
from heirloom.runs.workers.processes import compute_locally
from heirloom.stats import paired_difference, relative_difference, student_interval
from heirloom.storage.folders import folder_path
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

    With `jobs`, `out` or `measure`, the comparison is computed by the engine of
    `heirloom.runs.run`, which shows its progress; the numbers are the same. Tasks must then be of
    the type `TabularMDP`.

    Args:
        agents: maps the name of each agent to a function that makes a new agent; the function is
            given the random generator that the agent should use.
        draw_task: draws a task, either a `TabularMDP` or an environment, with the generator it is
            given; or a family, whose tasks come in its order if it has a `sequence`.
        tasks: number of tasks in a sequence.
        episodes: number of episodes per task.
        max_steps: number of steps after which an episode is truncated.
        repetitions: number of independent repetitions, each with a new sequence of tasks and new
            agents.
        seed: seed of all random streams. The stream of an agent depends on its name and on the
            repetition, so adding an agent does not change the results of the others.
        jobs: number of jobs (an agent and a repetition) that are computed in parallel, by processes
            to which the functions are sent. Functions must not keep anything from one call to the
            next, since each process has a copy of them.
        out: folder that results are written to, in the file `run.sqlite`. To resume an interrupted
            comparison, repeat the call. The names of agents and all numbers are compared with those
            of the stored comparison, and it is refused if they differ. Functions cannot be
            compared: give another name to an agent that you change.
        masks: whether agents obey the masks of available actions that environments give; see
            `learn`. The missing actions of a `TabularMDP` are always respected.
        measure: a quantity that is recorded in addition, as in a spec: "transfer" or "certificate"
            for the report's section on it, or another one that `heirloom list` shows.
        record: True, or a dictionary with the keys of the table `[record]` of a spec, to record
            episodes, which `replay(out)` plays; needs `out`.

    Returns:
        `returns` [agent, repetition, task, episode], undiscounted; `updates` [agent, repetition,
        task], the number of model updates; `optimal` [repetition, task], the optimal expected
        return of an episode, NaN for environments without an exact model.
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
    if jobs is not None or out is not None or measure is not None:
        check_workers("local", jobs, None)
        spec = _spec_of(
            list(agents),
            tasks=tasks,
            episodes=episodes,
            steps=max_steps,
            repetitions=repetitions,
            seed=seed,
            measure=measure,
            record=None if record is False else record,
        )
        return _run(spec, Functions(draw_task, dict(agents), seed), jobs, out)
    returns = np.empty((len(agents), repetitions, tasks, episodes))
    updates = np.empty(returns.shape[:3], dtype=np.int64)
    optimal = np.empty((repetitions, tasks))
    options: Any = {"episodes": episodes, "steps": max_steps, "seed": seed, "masks": masks}
    previous: dict[str, Agent] = {}
    for j in range(repetitions):
        rng = stream(seed, "tasks", j)
        drawn = draw_sequence(draw_task, rng, tasks)
        for task in drawn:
            if not isinstance(task, TabularMDP):
                sizes_of(task, "the task that draw_task returned")
        optimal[j] = optimal_returns(drawn, max_steps, discounted=False)
        for i, (name, make_agent) in enumerate(agents.items()):
            agent = make_agent(stream(seed, "agent", name, j))
            if agent is previous.get(name):
                raise InvalidArgument(
                    f"agents[{name!r}] returned the same agent in repetitions {j} and {j + 1}: "
                    "expected a function that makes a new agent in each call"
                )
            previous[name] = agent
            with naming_job(name, j):
                record = learn_tasks(agent, drawn, **options, name=name, repetition=j)
            returns[i, j], updates[i, j] = record["returns"], record["updates"]
    import xarray as xr

    numbers = {"repetition": repetitions, "task": tasks, "episode": episodes}
    return xr.Dataset(
        {
            "returns": (("agent", *numbers), returns),
            "updates": (("agent", "repetition", "task"), updates),
            "optimal": (("repetition", "task"), optimal),
        },
        coords={"agent": list(agents)} | {k: np.arange(1, n + 1) for k, n in numbers.items()},
    )


def _spec_of(names: list[str], **keys: Any) -> ExperimentSpec:
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


def _run(
    spec: ExperimentSpec,
    functions: Functions,
    jobs: int | None,
    out: str | os.PathLike[str] | None,
) -> "xr.Dataset":
    """Compute a comparison in parallel; without `out`, results are in a temporary folder."""
    compute = partial(compute_job, packed(spec), functions=functions)
    engine: Any = nullcontext(lambda _, remaining: compute_locally(compute, remaining, jobs))
    if out is not None:
        return run_on(lambda: engine, spec, out, functions)
    with tempfile.TemporaryDirectory() as folder:
        return run_on(lambda: engine, spec, os.path.join(folder, "run"), functions)


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


def comparison_table(results: "xr.Dataset", *, last: int, baseline: str = "RMax") -> str:
    """Format a text table with the performance of each agent, and its gain over the baseline.

    The columns are the mean return in the first task, the mean return and the mean number of model
    updates in the `last` tasks, and the difference of mean returns from the baseline in those
    tasks, in percent of the baseline's, with its 95 % Student interval over repetitions, which
    assumes that differences are normal (no interval for fewer than 3 repetitions, or if all are
    equal). If the returns of the baseline are near zero, so that percentages mean nothing, the last
    column has differences in return instead. The row `best` shows the optimal expected returns, if
    they are known for all of the `last` tasks.
    """
    check_results(results, ("returns", "updates", "optimal"))
    last = whole_number("last", last, most=results.sizes["task"])
    names = [str(name) for name in results.agent.values]
    one_of("baseline", baseline, names)
    later = results.isel(task=slice(-last, None))
    labels = {name: printable(name) for name in names}
    width = max(len(label) for label in ("agent", *labels.values()))
    mean = later.returns.mean(("task", "episode"))
    reference = mean.sel(agent=baseline).values
    in_percent = not _is_near_zero(reference, mean.values)
    title = "gain over" if in_percent else "difference from"
    columns = f"{'task 1':>8}  {f'last {last}':>8}  {'updates':>8}"
    lines = [f"{'agent':<{width}}  {columns}  {title} {labels[baseline]}"]
    for name in names:
        first = float(results.returns.sel(agent=name, task=1).mean())
        own = mean.sel(agent=name).values
        compared_with = relative_difference if in_percent else paired_difference
        centre, half = compared_with(own, reference)
        form = ".1%" if in_percent else ".3f"
        compared = f"{centre:+{form}}" + (f" ± {half:{form}}" if np.isfinite(half) else "")
        lines.append(
            f"{labels[name]:<{width}}  {first:>8.3f}  {float(own.mean()):>8.3f}  "
            f"{float(later.updates.sel(agent=name).mean()):>8.1f}  "
            + ("" if name == baseline else compared)
        )
    if np.isfinite(later.optimal).all():
        first, best = (float(x.mean()) for x in (results.optimal.sel(task=1), later.optimal))
        lines.append(f"{'best':<{width}}  {first:>8.3f}  {best:>8.3f}")
    return "\n".join(lines)


def _is_near_zero(reference: np.ndarray, all_means: np.ndarray) -> bool:
    """Whether percentages of the mean returns of a baseline, one per repetition, mean nothing.

    That is so if they have both signs, if one of them is less than a tenth of their mean, or if
    all are less than a hundredth of the returns of another agent.
    """
    sizes = np.abs(reference)
    changes_sign = reference.min() < 0 < reference.max()
    largest = np.abs(all_means.mean(axis=1)).max()
    return bool(changes_sign or sizes.min() <= 0.1 * sizes.mean() or sizes.mean() <= 0.01 * largest)


def helps_from(
    results: "xr.Dataset", agent: str, *, baseline: str = "RMax", confidence: float = 0.95
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
        baseline: the name of the agent that it is compared with.
        confidence: the confidence of each interval, above 0 and below 1.
    """
    check_results(results, ("returns",))
    names = [str(name) for name in results.agent.values]
    for key, name in (("agent", agent), ("baseline", baseline)):
        one_of(key, name, names)
    what = "expected a probability above 0 and below 1"
    least_doubt = 1e-12  # the quantile of a smaller doubt is not accurate
    confidence = real_number("confidence", confidence, what, above=0, most=1 - least_doubt)
    mean = results.returns.mean("episode").transpose("agent", "repetition", "task")
    difference = mean.sel(agent=agent).values - mean.sel(agent=baseline).values
    centre, half = student_interval(difference, confidence=confidence)
    not_above = np.flatnonzero(~(centre - half > 0))
    first = 0 if not_above.size == 0 else int(not_above[-1]) + 1
    return None if first == centre.size else int(results.task.values[first])
