"""The experiments of agents on many tasks in a row: tight, corridor, maze."""

from typing import TYPE_CHECKING, Any

import numpy as np

from heirloom.envs.families import CORRIDOR, MAZE, TIGHT
from heirloom.envs.grid import GridMap
from heirloom.experiments import paper
from heirloom.experiments.claims import (
    Ratios,
    claims_of_corridor,
    claims_of_maze,
    claims_of_tight,
    judged,
)
from heirloom.experiments.spec import ExperimentSpec
from heirloom.figures.grids import draw_map
from heirloom.figures.lifelong import over_episodes, over_tasks
from heirloom.figures.style import colour_of
from heirloom.reproduce.report import Options, Report, band, or_none, over
from heirloom.stats import Interval, moving_average, student_interval
from heirloom.transfer.confidence import tasks_for_max_q

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

LATE = 0.1  # of the episodes of a task, at its end: by then RMax has converged if it has
WINDOW = 100  # episodes of a moving average
Y_TASK, Y_EPISODE = "discounted return / that of RMax", "discounted return / late RMax"


def tight(options: Options) -> Report:
    """The main experiment; as released also with every source kept."""
    spec = options.apply(paper.tight(options.variant))
    results = options.run(spec)
    report = report_tight(spec, results)
    if options.variant == "released" and not options.quick:
        everything = options.apply(paper.tight(options.variant, all_sources=True))
        kept = options.run(everything, "run-every-source")
        title = f"The first source only, and every source kept, {spec.name}"
        report.summary["every_source_kept"] = _add_every_source(report, kept, results, title)
    return report


def corridor(options: Options) -> Report:
    """The corridor of the appendix."""
    spec = options.apply(paper.corridor(options.variant))
    return report_corridor(spec, options.run(spec))


def maze(options: Options) -> Report:
    """The maze of the appendix."""
    spec = options.apply(paper.maze(options.variant), {"tasks": 8})
    return report_maze(spec, options.run(spec))


def report_tight(spec: ExperimentSpec, results: "xr.Dataset") -> Report:
    """Claims, figures 3a to 3c, and numbers of the main experiment."""
    compared = _compared(spec, results)
    p_min = 1 / (spec.distinct_tasks or spec.tasks)
    start = tasks_for_max_q(p_min, compared["MaxQInit"].agent.delta) + 1
    later = results.discounted_returns.isel(task=slice(1, None)).mean("task")
    episodes = {name: later.sel(agent=name).values for name in compared}
    return Report(
        spec=spec,
        summary=_summary(spec, compared, results),
        claims=judged(claims_of_tight(compared, episodes, p_min=p_min), spec.repetitions),
        figures={
            "environment": draw_map(GridMap.read(TIGHT), title="tight"),
            "3a": _per_task_figure(spec, compared),
            "3b": _per_episode_figure(spec, results),
            "3c": _instances(spec, results, start),
        },
    )


def report_corridor(spec: ExperimentSpec, results: "xr.Dataset") -> Report:
    """Claims, the two figures, and numbers of the corridor."""
    compared = _compared(spec, results)
    return Report(
        spec=spec,
        summary=_summary(spec, compared, results),
        claims=judged(
            claims_of_corridor(compared, p_min=1 / (spec.distinct_tasks or spec.tasks)),
            spec.repetitions,
        ),
        figures={
            "environment": draw_map(GridMap.read(CORRIDOR), title="corridor"),
            "corridor-tasks": _per_task_figure(spec, compared),
            "corridor-episodes": _per_episode_figure(spec, results, window=1),
        },
    )


def report_maze(spec: ExperimentSpec, results: "xr.Dataset") -> Report:
    """Claims, the figure, and numbers of the maze.

    As released RMax often returns nothing at all in a task, so returns are also given over the best
    possible ones.
    """
    compared = _compared(spec, results)
    optimal = {name: band(_vs_optimal(results, name)) for name in compared}
    return Report(
        spec=spec,
        summary=_summary(spec, compared, results),
        claims=judged(
            claims_of_maze(
                {name: _vs_optimal(results, name) for name in compared},
                {agent.name: agent for agent in spec.agents},
            ),
            spec.repetitions,
        ),
        figures={
            "environment": draw_map(
                GridMap.read(MAZE), title="maze: the orange or the green cell is a wall"
            ),
            "maze": over_tasks(
                optimal,
                ylabel="discounted return / the best possible",
                title=f"Mean discounted return of each task, {spec.name}",
            ),
        },
    )


def _compared(spec: ExperimentSpec, results: "xr.Dataset") -> dict[str, Ratios]:
    return {
        agent.name: Ratios(agent, _vs_rmax(results, agent.name, results)) for agent in spec.agents
    }


def _summary(
    spec: ExperimentSpec, compared: dict[str, Ratios], results: "xr.Dataset"
) -> dict[str, Any]:
    numbers = {}
    for name, (_, vs_rmax) in compared.items():
        mean, half = student_interval(vs_rmax)
        numbers[name] = {
            "return_vs_rmax": or_none(mean),
            "return_vs_optimal": or_none(_vs_optimal(results, name).mean(axis=0)),
            "ci95": or_none(half),
        }
    return {"repetitions": spec.repetitions, "agents": numbers}


def _per_task_figure(spec: ExperimentSpec, compared: dict[str, Ratios]) -> "Figure":
    per_task = {name: band(ratios.vs_rmax) for name, ratios in compared.items()}
    title = f"Mean discounted return of each task, {spec.name}"
    return over_tasks(per_task, ylabel=Y_TASK, title=title)


def _per_episode_figure(
    spec: ExperimentSpec, results: "xr.Dataset", window: int = WINDOW
) -> "Figure":
    curves = {agent.name: _per_episode(results, agent.name, window) for agent in spec.agents}
    title = f"Each episode, over all tasks, {spec.name}"
    return over_episodes(curves, ylabel=Y_EPISODE, title=title)


def _vs_rmax(results: "xr.Dataset", name: str, rmax: "xr.Dataset") -> np.ndarray:
    """Mean discounted returns over those of RMax in the same task, [repetition, task]."""
    one = results.discounted_returns.sel(agent=name).mean("episode")
    return over(one, rmax.discounted_returns.sel(agent="RMax").mean("episode")).values


def _vs_optimal(results: "xr.Dataset", name: str) -> np.ndarray:
    one = results.discounted_returns.sel(agent=name).mean("episode")
    return over(one, results.optimal_discounted).values


def _late_rmax(results: "xr.Dataset") -> "xr.DataArray":
    """RMax's mean discounted return in the late episodes, (repetition, task)."""
    rmax = results.discounted_returns.sel(agent="RMax")
    late = max(1, int(LATE * rmax.sizes["episode"]))
    return rmax.isel(episode=slice(-late, None)).mean("episode")


def _per_episode(results: "xr.Dataset", name: str, window: int) -> Interval:
    relative = over(results.discounted_returns.sel(agent=name), _late_rmax(results))
    curve = relative.mean("task").transpose("repetition", "episode").values
    return band(moving_average(curve, window))


def _instances(spec: ExperimentSpec, results: "xr.Dataset", start: int) -> "Figure":
    """Figure 3c: single tasks before and after transfer begins."""
    start = min(start, spec.tasks)
    chosen = [
        ("RMax", 2, "-"),
        ("LRMax(0.1)", 1, "--"),
        ("LRMax(0.1)", 2, "-"),
        ("MaxQInit", start - 1, "--"),
        ("MaxQInit", start, "-"),
    ]
    curves, styles = {}, {}
    for name, task, style in chosen:
        one = results.discounted_returns.sel(agent=name, task=task)
        relative = over(one, _late_rmax(results).sel(task=task))
        curve = relative.transpose("repetition", "episode").values
        label = f"{name}, task {task}"
        curves[label] = band(moving_average(curve, WINDOW))
        styles[label] = {"color": colour_of(name, [name]), "linestyle": style}
    title = f"Single tasks, {spec.name}"
    return over_episodes(curves, ylabel=Y_EPISODE, title=title, styles=styles)


def _add_every_source(
    report: Report, kept: "xr.Dataset", results: "xr.Dataset", title: str
) -> dict[str, dict[str, Any]]:
    """What a full memory adds to the first source: another figure, notes, and numbers."""
    added, lines = {}, {}
    for name in kept.agent.values.tolist():
        every, first = (_vs_rmax(one, name, results) for one in (kept, results))
        gained = student_interval((every - first)[:, 2:].mean(axis=1))
        full = f"{name}, every source"
        lines[name], lines[full] = band(first), band(every)
        added[name] = {
            "return_vs_rmax": or_none(lines[full].mean),
            "ci95": or_none(lines[full].half_width),
        }
        report.notes.append(
            f"{name} with every source kept, tasks 3 on: {gained.mean:+.3f} ± "
            f"{gained.half_width:.3f} times RMax against keeping the first only"
        )
    styles = {
        label: {"color": colour_of(label.split(",")[0], []), "linestyle": "--"}
        for label in lines
        if label.endswith("every source")
    }
    report.figures["3a-every-source"] = over_tasks(lines, ylabel=Y_TASK, title=title, styles=styles)
    return added
