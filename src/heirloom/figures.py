"""Figures: each function draws what was computed, and computes only what `stats` does."""

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from heirloom.errors import CannotWrite
from heirloom.stats import student_interval

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours, which the colour-blind can tell apart; the same for an agent everywhere.
COLOURS = {
    "RMax": "#000000",
    "LRMax": "#56B4E9",
    "LRMax(0.2)": "#009E73",
    "LRMax(0.1)": "#0072B2",
    "MaxQInit": "#E69F00",
    "LRMaxQInit": "#CC79A7",
    "LRMaxQInit(0.1)": "#D55E00",
}
OTHERS = ("#F0E442", "#999999", "#882255", "#44AA99", "#332288")
MARKERS = "osD^vPX"


def colour_of(name: str, names: list[str]) -> str:
    """The colour of an agent, always the same for one that has a colour of its own."""
    if name in COLOURS:
        return COLOURS[name]
    others = [other for other in names if other not in COLOURS]
    return OTHERS[others.index(name) % len(OTHERS)]


def mean_return_per_task(ax: "Axes", results: "xr.Dataset") -> None:
    """Mean returns over the tasks in a row, with 95 % intervals over repetitions as bands."""
    names = [str(name) for name in results.agent.values]
    for i, name in enumerate(names):
        returns = results.returns.sel(agent=name).mean("episode")
        mean, half = student_interval(returns.transpose("repetition", "task").values)
        line(ax, results.task.values, mean, half, name, names, marker=MARKERS[i % len(MARKERS)])
    if np.isfinite(results.optimal).all():
        best = results.optimal.mean("repetition")
        ax.plot(results.task, best, color="0.6", linestyle=":", label="best possible")
    ax.set_xlabel("task")
    ax.set_ylabel("mean return")
    ax.locator_params(axis="x", integer=True)


def line(
    ax: "Axes",
    x: Any,
    mean: Any,
    half_width: Any,
    name: str,
    names: list[str],
    *,
    marker: str | None = None,
) -> None:
    """A mean, and its interval as a band, in the colour of the agent."""
    colour = colour_of(name, names)
    ax.plot(x, mean, color=colour, label=name, marker=marker, markersize=4)
    if np.isfinite(half_width).all():
        ax.fill_between(
            x, mean - half_width, mean + half_width, color=colour, alpha=0.15, linewidth=0
        )


def lifelong(results: "xr.Dataset", *, title: str) -> "Figure":
    """Mean returns over the tasks in a row."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    ax = figure.subplots()
    mean_return_per_task(ax, results)
    ax.set_title(title)
    figure.legend(loc="outside lower center", ncols=4, frameon=False, fontsize="small")
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    return figure


def save(figure: "Figure", path: str | os.PathLike[str]) -> None:
    """Write a figure in the format that its name ends in."""
    try:
        figure.savefig(path, dpi=150)
    except OSError as error:
        reason = error.strerror or error
        raise CannotWrite(
            f"{path} could not be written ({reason}): choose another place"
        ) from error
