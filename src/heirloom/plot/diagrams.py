"""Figures 1 and 2 of the paper, drawn from computed values."""

from typing import TYPE_CHECKING

import numpy as np

from heirloom.plot.style import hide_frame, legend_below, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SOURCE_COLOURS = ("#0072B2", "#009E73", "#CC79A7")


def draw_bounds(
    x: np.ndarray,
    Q: np.ndarray,
    sampled: np.ndarray,
    sources: np.ndarray,
    lipschitz: np.ndarray,
    v_max: float,
    *,
    xlabel: str,
    title: str,
) -> "Figure":
    """Q* at one pair over a parameter of the task, with the bounds of RMax, MaxQInit and LRMax.

    A Lipschitz bound is not drawn where it exceeds `v_max` by more than 5 %.

    Args:
        x: values of the parameter.
        Q: Q* at the pair, for each x.
        sampled: the values of the parameter of the source tasks.
        sources: Q* at the pair, for each source task.
        lipschitz: the Lipschitz bound from each source task, [source, x].
        v_max: the bound of RMax.
        xlabel: the label of the x axis.
        title: the title of the figure.
    """
    figure, ax = new_figure(6.4, 4.6)
    ax.axhline(v_max, color="black", label="RMax: v_max")
    ax.axhline(sources.max(), color="#E69F00", linestyle="--", label="MaxQInit: maximum of Q*")
    for i, bound in enumerate(lipschitz):
        shown = np.where(bound <= 1.05 * v_max, bound, np.nan)
        colour = SOURCE_COLOURS[i % len(SOURCE_COLOURS)]
        ax.plot(x, shown, color=colour, linewidth=1, label=f"Lipschitz bound, task {i + 1}")
    U = np.minimum(lipschitz.min(axis=0), v_max)
    ax.plot(x, U, color="#D55E00", linewidth=2.5, alpha=0.6, label="LRMax: smallest bound")
    ax.fill_between(x, Q, U, color="#D55E00", alpha=0.08, linewidth=0)
    ax.plot(x, Q, color="0.35", linewidth=2, label="Q*")
    ax.plot(sampled, sources, "o", color="0.35")
    ax.set_ylim(0, 1.1 * v_max)
    ax.set_xlabel(xlabel)
    ax.set_ylabel("value at one state-action pair")
    ax.set_title(title)
    legend_below(figure)
    return figure


def draw_embedding(
    points: np.ndarray,
    parameter: np.ndarray,
    prior: float,
    largest: float,
    *,
    label: str,
    title: str,
) -> "Figure":
    """Tasks as points in the plane, inside circles whose radii are two upper bounds on distances.

    The circles are centred on the task nearest to the mean of all points. The left axes show both
    circles, and the right axes zoom in on the smaller one.

    Args:
        points: the coordinates of the tasks, [task, 2].
        parameter: a number for each task, shown as its colour.
        prior: the radius of the smaller circle, a valid prior on the distances between these tasks.
        largest: the radius of the larger circle, the largest possible distance.
        label: the label of the colour bar, which shows `parameter`.
        title: the title of the figure.
    """
    from matplotlib.figure import Figure
    from matplotlib.patches import Circle

    figure = Figure(figsize=(8.4, 4.6), layout="constrained")
    centre = points[np.linalg.norm(points - points.mean(axis=0), axis=1).argmin()]
    for ax, reach in zip(figure.subplots(1, 2), (1.1 * largest, 1.3 * prior), strict=True):
        for radius, colour, name in (
            (largest, "0.6", f"largest possible distance, {largest:.0f}"),
            (prior, "#D55E00", f"valid prior for these tasks, {prior:.2f}"),
        ):
            circle = Circle(centre, radius, fill=False, color=colour, linewidth=1.5, label=name)
            ax.add_patch(circle)
        size = 12 if reach > largest else 50
        dots = ax.scatter(
            points[:, 0], points[:, 1], s=size, c=parameter, cmap="cividis", edgecolor="black"
        )
        ax.set_xlim(centre[0] - reach, centre[0] + reach)
        ax.set_ylim(centre[1] - reach, centre[1] + reach)
        ax.set_aspect("equal")
        ax.set_xlabel("first coordinate (units of D)")
        ax.set_ylabel("second coordinate (units of D)")
        hide_frame(ax)
    figure.colorbar(dots, ax=figure.axes, label=label, shrink=0.7)
    figure.suptitle(title)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", frameon=False, fontsize="small")
    return figure
