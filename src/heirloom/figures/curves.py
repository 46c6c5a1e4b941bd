"""Returns over tasks and over episodes."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from heirloom.figures.style import MARKERS, colour_of, legend_below, line, new_figure
from heirloom.stats import Interval, student_interval

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure


def draw_lifelong(results: "xr.Dataset", *, title: str) -> "Figure":
    """Mean returns over the tasks in a row, with 95 % intervals over repetitions as bands."""
    figure, ax = new_figure()
    names = [str(name) for name in results.agent.values]
    for i, name in enumerate(names):
        returns = results.returns.sel(agent=name).mean("episode")
        mean, half = student_interval(returns.transpose("repetition", "task").values)
        colour, marker = colour_of(name, names), MARKERS[i % len(MARKERS)]
        line(ax, results.task.values, mean, half, name, colour, marker=marker)
    if np.isfinite(results.optimal).all():
        best = results.optimal.mean("repetition")
        ax.plot(results.task, best, color="0.6", linestyle=":", label="best possible")
    ax.set_xlabel("task")
    ax.set_ylabel("mean return")
    ax.set_title(title)
    ax.locator_params(axis="x", integer=True)
    legend_below(figure)
    return figure


def over_tasks(
    per_task: Mapping[str, Interval],
    *,
    ylabel: str,
    title: str,
    styles: Mapping[str, dict[str, Any]] | None = None,
) -> "Figure":
    """One line an agent over tasks, and the level of the baseline; `styles` as of episodes."""
    figure, ax = new_figure()
    names = list(per_task)
    for i, (name, (mean, half)) in enumerate(per_task.items()):
        marker = MARKERS[i % len(MARKERS)]
        x = np.arange(1, mean.size + 1)
        style = dict((styles or {}).get(name, {}))
        colour = style.pop("color", None) or colour_of(name, names)
        line(ax, x, mean, half, name, colour, marker=marker, **style)
    ax.axhline(1.0, color="0.7", linewidth=0.8, zorder=0)
    ax.set_xlabel("task")
    ax.set_ylabel(ylabel)
    ax.set_title(title)
    ax.locator_params(axis="x", integer=True)
    legend_below(figure)
    return figure


def over_episodes(
    curves: Mapping[str, Interval],
    *,
    ylabel: str,
    title: str,
    styles: Mapping[str, dict[str, Any]] | None = None,
) -> "Figure":
    """One line a curve over episodes; `styles` has the colour and more for those not of agents."""
    figure, ax = new_figure()
    names = list(curves)
    for name, (mean, half) in curves.items():
        style = dict((styles or {}).get(name, {}))
        colour = style.pop("color", None) or colour_of(name, names)
        line(ax, np.arange(1, mean.size + 1), mean, half, name, colour, **style)
    ax.axhline(1.0, color="0.7", linewidth=0.8, zorder=0)
    ax.set_xlabel("episode")
    ax.set_ylabel(ylabel)
    ax.set_title(title)
    legend_below(figure)
    return figure


def ratios(x: Any, lines: Mapping[str, Interval], *, xlabel: str, title: str) -> "Figure":
    """A few ratios, in percent, over a parameter."""
    figure, ax = new_figure()
    for i, (name, (mean, half)) in enumerate(lines.items()):
        colour = ("#0072B2", "#D55E00", "#009E73")[i % 3]
        line(ax, x, 100 * mean, 100 * half, name, colour, marker=MARKERS[i])
    ax.axhline(0.0, color="0.7", linewidth=0.8, zorder=0)
    ax.set_xlabel(xlabel)
    ax.set_ylabel("%")
    ax.set_title(title)
    legend_below(figure)
    return figure


def prior_use_curves(curves: Mapping[str, Interval], *, title: str) -> "Figure":
    """The percentage of use over computations, one line a prior."""
    from matplotlib import colormaps

    figure, ax = new_figure()
    shades = colormaps["cividis"](np.linspace(0, 0.9, len(curves)))
    for shade, (name, (mean, half)) in zip(shades, curves.items(), strict=True):
        line(ax, np.arange(mean.size), mean, half, name, shade)
    ax.set_xlabel("computation of the bound")
    ax.set_ylabel("pairs where the prior is used, %")
    ax.set_title(title)
    legend_below(figure)
    return figure


def episodes_to_optimality(x: Any, lines: Mapping[str, Interval], *, title: str) -> "Figure":
    """One line an agent over the length of the task, on a logarithmic scale."""
    figure, ax = new_figure()
    names = list(lines)
    for i, (name, (mean, half)) in enumerate(lines.items()):
        marker = MARKERS[i % len(MARKERS)]
        low = np.minimum(half, 0.99 * mean) if np.isfinite(half).all() else half
        line(ax, x, mean, low, name, colour_of(name, names), marker=marker)
    ax.set_yscale("log")
    ax.set_xlabel("inner states k")
    ax.set_ylabel("episodes")
    ax.set_title(title)
    legend_below(figure)
    return figure
