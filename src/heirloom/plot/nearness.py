"""The idea of a nearness, drawn from computed values: moved mass, and bounds over claims."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from heirloom.plot.style import OTHER_COLOURS, hide_frame, legend_below, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

KEPT, MOVED = "#56B4E9", "#D55E00"
CURVES = {  # colour and line style of each curve
    "RMax: v_max": ("black", "-"),
    "LRMax, a number": ("#0072B2", "-"),
    "LRMax, the exact distance": ("#0072B2", "-"),
    "NearRMax, a number": (MOVED, "-"),
    "NearRMax, two numbers": (MOVED, "-"),
    "optimal value": ("0.6", "-"),
    "NearRMax, arrays": (OTHER_COLOURS[0], "--"),
}


def draw_moved_mass(
    names: Sequence[str],
    values: np.ndarray,
    source: np.ndarray,
    favourable: np.ndarray,
    *,
    title: str,
) -> "Figure":
    """The transitions of a source, and the most favourable ones that are near to them.

    Args:
        names: the name of each outcome.
        values: the upper bound on the value of each outcome.
        source: the probability of each outcome in the source.
        favourable: its probability in the most favourable task.
        title: the title of the figure.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    kept = np.minimum(source, favourable)
    moved = 0.5 * np.abs(source - favourable).sum()
    _draw_row(left, kept, source - kept, f"taken away: {moved:.2g}", facecolor="white", hatch="//")
    _draw_row(right, kept, favourable - kept, f"added: {moved:.2g}", facecolor=MOVED)
    left.set_ylabel("probability")
    for ax, row, of in ((left, source, "source"), (right, favourable, "best case for the task")):
        ax.set_title(f"{of}\nexpected value {row @ values:.2f}", fontsize="medium")
        ticks = [f"{name}\nV = {v:.2f}" for name, v in zip(names, values, strict=True)]
        ax.set_xticks(np.arange(len(names)), ticks, fontsize="small")
        ax.legend(frameon=False, fontsize="small")
    figure.suptitle(title)
    return figure


def _draw_row(ax: "Axes", kept: np.ndarray, rest: np.ndarray, label: str, **options: Any) -> None:
    """Draw the mass that stays, and on top of it the mass that is taken away or added."""
    ax.bar(np.arange(kept.size), kept, 0.6, color=KEPT, label="unchanged")
    x = np.flatnonzero(rest > 1e-12)
    ax.bar(x, rest[x], 0.6, bottom=kept[x], label=label, edgecolor=MOVED, **options)
    ax.set_xlim(-0.5, kept.size - 0.5)
    ax.set_ylim(0, 1.05)
    hide_frame(ax)


def draw_claims(
    x: np.ndarray,
    curves: Mapping[str, np.ndarray],
    *,
    truth: float = -np.inf,
    xlabel: str,
    title: str,
) -> "Figure":
    """The bound on one value over what is claimed, for each form of knowledge, on a log scale.

    Claims below the truth are shaded: there a bound may be below the optimal value.

    Args:
        x: what is claimed.
        curves: the bound for each x; by name, which is a key of `CURVES`.
        truth: the smallest x that is true for the family; by default all are true.
        xlabel: the label of the x axis.
        title: the title of the figure.
    """
    figure, ax = new_figure(6.4, 4.4)
    if truth > x[0]:
        ax.axvspan(float(x[0]), truth, color="0.92", linewidth=0, label="the claim is false")
    for name, bound in curves.items():
        colour, style = CURVES[name]
        ax.plot(x, bound, style, color=colour, linewidth=2, label=name)
    ax.set_xlim(float(x[0]), float(x[-1]))
    ax.set_yscale("log")
    for axis in (ax.yaxis.set_major_formatter, ax.yaxis.set_minor_formatter):
        axis(lambda y, _: f"{y:g}" if f"{y:e}"[0] in "125" else "")
    ax.set_xlabel(xlabel)
    ax.set_ylabel("upper bound on the value of the start")
    ax.set_title(title)
    legend_below(figure)
    return figure
