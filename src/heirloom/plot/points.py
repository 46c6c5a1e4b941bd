"""Points with intervals in rows, one row per group and one point per agent."""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

import numpy as np

from heirloom.plot.style import MARKERS, colour_of, legend_below, new_figure
from heirloom.stats import Interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROW_HEIGHT = 0.62  # inches
SPREAD = 0.7  # of the height of a row, over which its points are spread


def draw_rows(
    rows: Mapping[str, Mapping[str, Interval]],
    *,
    levels: Mapping[str, float],
    xlabel: str,
    title: str,
    hollow: Collection[str] = (),
) -> "Figure":
    """Means as points with their intervals, in one row per group, from top to bottom.

    Each agent has a marker, a colour and a height within a row, so the figure is readable without
    colours too. An interval whose width is not finite is not drawn.

    Args:
        rows: the mean and the interval of each agent, by the label of the row. An agent may be
            missing in some rows.
        levels: the positions of vertical lines, by their labels, which are above the lines.
        xlabel: the label of the x axis.
        title: the title of the figure.
        hollow: the agents whose markers are not filled.
    """
    names = list(dict.fromkeys(name for row in rows.values() for name in row))
    figure, ax = new_figure(7.2, 1.6 + ROW_HEIGHT * len(rows))
    heights = np.linspace(-SPREAD / 2, SPREAD / 2, len(names)) if len(names) > 1 else np.zeros(1)
    for i, name in enumerate(names):
        drawn = [(j, row[name]) for j, row in enumerate(rows.values()) if name in row]
        x = np.array([float(interval.mean) for _, interval in drawn])
        half = np.array([float(interval.half_width) for _, interval in drawn])
        colour = colour_of(name, names)
        ax.errorbar(
            x,
            np.array([j for j, _ in drawn]) + heights[i],
            xerr=half,  # no bar is drawn where it is NaN
            label=name,
            color=colour,
            marker=MARKERS[i % len(MARKERS)],
            markerfacecolor="white" if name in hollow else colour,
            markersize=4.5,
            linestyle="none",
            elinewidth=1.0,
        )
    for label, position in levels.items():
        ax.axvline(position, color="0.6", linewidth=0.8, zorder=0)
        ax.annotate(
            label,
            (position, 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(0, 2),
            textcoords="offset points",
            ha="center",
            va="bottom",
            fontsize="small",
        )
    for j in range(1, len(rows)):
        ax.axhline(j - 0.5, color="0.9", linewidth=0.6, zorder=0)
    ax.set_yticks(range(len(rows)), list(rows))
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(len(rows) - 0.5, -0.5)
    ax.set_xlabel(xlabel)
    ax.set_title(title, pad=18)
    legend_below(figure)
    return figure
