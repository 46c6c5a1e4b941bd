"""Figures of docs about knowledge: moved mass, bounds over claims, and the power of checks."""

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


POWER_COLOURS = ("#0072B2", "#D55E00", "#009E73", "black")
POWER_STYLES = ("--", "-")
Curves = Mapping[str, Mapping[int, Sequence[float]]]


def draw_power(
    ratios: Sequence[float],
    parts: Mapping[str, Curves],
    says: Mapping[str, Mapping[str, Mapping[int, float | None]]],
    *,
    title: str,
) -> "Figure":
    """The share of lifetimes with an alarm, over the true difference divided by the claimed one.

    Args:
        ratios: true difference / claim.
        parts: for each part of the models, a panel: the shares by test and `n_known`.
        says: where an audit expects a share of 80 %, likewise, or None.
        title: the title of the figure.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, 3.6), layout="constrained")
    axes = figure.subplots(1, len(parts), sharey=True, squeeze=False)[0]
    for ax, (part, curves) in zip(axes, parts.items(), strict=True):
        for (test, by_visits), style in zip(curves.items(), POWER_STYLES, strict=False):
            for (n, shares), colour in zip(by_visits.items(), POWER_COLOURS, strict=False):
                never = "" if any(shares) else " (never)"
                label = f"{test}, n = {n}{never}"
                ax.plot(ratios, shares, style, color=colour, marker=".", label=label)
                expected = says[part][test][n]
                if expected is not None:
                    marker = "x" if style == "--" else "+"
                    ax.plot([expected], [0.8], marker, color=colour, markersize=9)
        ax.set_title(part, fontsize="medium")
        ax.set_xlabel("true difference / claim")
        hide_frame(ax)
    axes[0].set_ylabel("share of lifetimes with an alarm")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside lower center", ncols=2, frameon=False, fontsize="small"
    )
    figure.suptitle(title)
    return figure


def draw_algorithms(
    x: np.ndarray, curves: Mapping[str, np.ndarray], *, baseline: str, title: str
) -> "Figure":
    """One panel per algorithm: its returns, those of the baseline, and the optimum at 1.

    Args:
        x: the last episode of each block.
        curves: the return of each algorithm relative to the optimum, over blocks.
        baseline: the algorithm that every panel shows in grey.
        title: the title of the figure.
    """
    from matplotlib.figure import Figure

    n_columns = 5
    n_rows = -(-len(curves) // n_columns)
    figure = Figure(figsize=(9, 0.6 + 1.4 * n_rows), layout="constrained")
    panels = figure.subplots(n_rows, n_columns, sharex=True, sharey=True, squeeze=False)
    for ax in panels.flat[len(curves) :]:
        ax.set_visible(False)
    for ax, (name, y) in zip(panels.flat, curves.items(), strict=False):
        ax.axhline(1.0, color="0.6", linestyle="--", linewidth=0.8)
        ax.plot(x, curves[baseline], color="0.6", linewidth=1.0)
        ax.plot(x, y, color="black" if name == baseline else MOVED, linewidth=1.5)
        ax.set_title(name, fontsize="small")
        hide_frame(ax)
    figure.supxlabel("episode of the task", fontsize="medium")
    figure.supylabel("return / optimum", fontsize="medium")
    figure.suptitle(title, fontsize="medium")
    return figure
