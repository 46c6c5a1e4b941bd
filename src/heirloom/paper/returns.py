"""Returns of agents on many tasks in a row, beside those of RMax: numbers and figures."""

from typing import TYPE_CHECKING, Any

import numpy as np

from heirloom.experiments.spec import ExperimentSpec
from heirloom.figures.curves import over_episodes, over_tasks
from heirloom.paper.claims import Ratios
from heirloom.paper.experiment import band, or_none, over
from heirloom.stats import Interval, moving_average, student_interval

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

LATE = 0.1  # of the episodes of a task, at its end: by then RMax has converged if it has
WINDOW = 100  # episodes of a moving average
Y_TASK, Y_EPISODE = "discounted return / that of RMax", "discounted return / late RMax"


def ratios_to_rmax(spec: ExperimentSpec, results: "xr.Dataset") -> dict[str, Ratios]:
    """By agent: its mean discounted returns over those of RMax in the same task."""
    return {
        agent.name: Ratios(agent, vs_rmax(results, agent.name, results)) for agent in spec.agents
    }


def summary(
    spec: ExperimentSpec, compared: dict[str, Ratios], results: "xr.Dataset"
) -> dict[str, Any]:
    """The numbers of `summary.json`: returns per task, over those of RMax and over the optimum."""
    numbers = {}
    for name, (_, vs_rmax) in compared.items():
        mean, half = student_interval(vs_rmax)
        numbers[name] = {
            "return_vs_rmax": or_none(mean),
            "return_vs_optimal": or_none(vs_optimal(results, name).mean(axis=0)),
            "ci95": or_none(half),
        }
    return {"repetitions": spec.repetitions, "agents": numbers}


def per_task_figure(spec: ExperimentSpec, compared: dict[str, Ratios]) -> "Figure":
    """Figure 3a: the mean return of each task, over that of RMax."""
    per_task = {name: band(ratios.vs_rmax) for name, ratios in compared.items()}
    title = f"Mean discounted return of each task, {spec.name}"
    return over_tasks(per_task, ylabel=Y_TASK, title=title)


def per_episode_figure(
    spec: ExperimentSpec, results: "xr.Dataset", window: int = WINDOW
) -> "Figure":
    """Figure 3b: the return of each episode as a mean over tasks, over that of late RMax."""
    curves = {agent.name: per_episode(results, agent.name, window) for agent in spec.agents}
    title = f"Each episode, over all tasks, {spec.name}"
    return over_episodes(curves, ylabel=Y_EPISODE, title=title)


def vs_rmax(results: "xr.Dataset", name: str, rmax: "xr.Dataset") -> np.ndarray:
    """Mean discounted returns over those of RMax in the same task, [repetition, task]."""
    one = results.discounted_returns.sel(agent=name).mean("episode")
    return over(one, rmax.discounted_returns.sel(agent="RMax").mean("episode")).values


def vs_optimal(results: "xr.Dataset", name: str) -> np.ndarray:
    """Mean discounted returns over the best expected one, [repetition, task]."""
    one = results.discounted_returns.sel(agent=name).mean("episode")
    return over(one, results.optimal_discounted).values


def late_rmax(results: "xr.Dataset") -> "xr.DataArray":
    """RMax's mean discounted return in the late episodes, (repetition, task)."""
    rmax = results.discounted_returns.sel(agent="RMax")
    late = max(1, int(LATE * rmax.sizes["episode"]))
    return rmax.isel(episode=slice(-late, None)).mean("episode")


def per_episode(results: "xr.Dataset", name: str, window: int) -> Interval:
    """A moving average of the return of each episode, over that of late RMax, [episode]."""
    relative = over(results.discounted_returns.sel(agent=name), late_rmax(results))
    curve = relative.mean("task").transpose("repetition", "episode").values
    return band(moving_average(curve, window))
