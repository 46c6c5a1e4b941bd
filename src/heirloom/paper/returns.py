"""Returns of agents on a sequence of tasks relative to those of RMax: numbers and figures."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from heirloom.experiments.spec import ExperimentSpec
from heirloom.paper.claims import Ratios
from heirloom.paper.experiment import nan_to_none, ratio
from heirloom.plot.curves import draw_relative_returns
from heirloom.stats import Interval, moving_average, student_interval

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

LATE_FRACTION = 0.1  # of the episodes of a task, the last ones, to estimate RMax's final return
WINDOW = 100  # episodes in a moving average
Y_TASK = "discounted return relative to RMax"
Y_EPISODE = "return relative to RMax's final return"


def ratios_to_rmax(spec: ExperimentSpec, results: "xr.Dataset") -> dict[str, Ratios]:
    """Mean discounted returns divided by those of RMax in the same task, by agent."""
    return {
        agent.name: Ratios(agent, vs_rmax(results, agent.name, results)) for agent in spec.agents
    }


def summary(
    spec: ExperimentSpec, compared: dict[str, Ratios], results: "xr.Dataset"
) -> dict[str, Any]:
    """Content of `summary.json`: returns per task relative to RMax and to the optimal return."""
    numbers = {}
    for name, (_, vs_rmax) in compared.items():
        mean, half = student_interval(vs_rmax)
        numbers[name] = {
            "return_vs_rmax": nan_to_none(mean),
            "return_vs_optimal": nan_to_none(vs_optimal(results, name).mean(axis=0)),
            "ci95": nan_to_none(half),
        }
    return {"repetitions": spec.repetitions, "agents": numbers}


def per_task_figure(spec: ExperimentSpec, compared: dict[str, Ratios]) -> "Figure":
    """Figure 3a: the mean return per task, relative to RMax."""
    per_task = {name: student_interval(ratios.vs_rmax) for name, ratios in compared.items()}
    title = f"Mean discounted return per task, {spec.name}"
    return draw_relative_returns(per_task, per="task", ylabel=Y_TASK, title=title)


def per_episode_figure(
    spec: ExperimentSpec, results: "xr.Dataset", names: Iterable[str], window: int = WINDOW
) -> "Figure":
    """Figure 3b: the return per episode, averaged over tasks, relative to RMax's final return."""
    curves = {name: per_episode(results, name, window) for name in names}
    title = f"Mean discounted return per episode, {spec.name}"
    return draw_relative_returns(curves, per="episode", ylabel=Y_EPISODE, title=title)


def vs_rmax(results: "xr.Dataset", name: str, rmax: "xr.Dataset") -> np.ndarray:
    """Mean discounted returns divided by those of RMax in the same task, [repetition, task].

    Args:
        results: the results of the agent.
        name: the agent.
        rmax: the results of RMax, which may be those of another run on the same tasks.
    """
    returns = results.discounted_returns.sel(agent=name).mean("episode")
    return ratio(returns, rmax.discounted_returns.sel(agent="RMax").mean("episode")).values


def vs_optimal(results: "xr.Dataset", name: str) -> np.ndarray:
    """Mean discounted returns divided by the optimal expected return, [repetition, task]."""
    returns = results.discounted_returns.sel(agent=name).mean("episode")
    return ratio(returns, results.optimal_discounted).values


def late_rmax(results: "xr.Dataset") -> "xr.DataArray":
    """RMax's final return: its mean discounted return in the last episodes, (repetition, task)."""
    rmax = results.discounted_returns.sel(agent="RMax")
    n_late = max(1, int(LATE_FRACTION * rmax.sizes["episode"]))
    return rmax.isel(episode=slice(-n_late, None)).mean("episode")


def per_episode(results: "xr.Dataset", name: str, window: int) -> Interval:
    """Moving average of the return per episode, relative to RMax's final return, [episode]."""
    relative = ratio(results.discounted_returns.sel(agent=name), late_rmax(results))
    curve = relative.mean("task").transpose("repetition", "episode").values
    return student_interval(moving_average(curve, window))
