"""Figures 1 and 2 of the paper."""

from typing import TYPE_CHECKING

import numpy as np

from heirloom.figures.style import legend_below, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SOURCES = ("#0072B2", "#009E73", "#CC79A7")


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
    """Q* over a parameter, what sampled tasks say of it, and what RMax and MaxQInit do."""
    figure, ax = new_figure(6.4, 4.6)
    ax.axhline(v_max, color="black", label="RMax: v_max")
    ax.axhline(sources.max(), color="#E69F00", linestyle="--", label="MaxQInit: the maximum")
    for i, bound in enumerate(lipschitz):
        shown = np.where(bound <= 1.05 * v_max, bound, np.nan)
        ax.plot(x, shown, color=SOURCES[i % 3], linewidth=1, label=f"Lipschitz, task {i + 1}")
    U = np.minimum(lipschitz.min(axis=0), v_max)
    ax.plot(x, U, color="#D55E00", linewidth=2.5, alpha=0.6, label="the least of them")
    ax.fill_between(x, Q, U, color="#D55E00", alpha=0.08, linewidth=0)
    ax.plot(x, Q, color="0.35", linewidth=2, label="Q*")
    ax.plot(sampled, sources, "o", color="0.35")
    ax.set_ylim(0, 1.1 * v_max)
    ax.set_xlabel(xlabel)
    ax.set_ylabel("value at one pair")
    ax.set_title(title)
    legend_below(figure)
    return figure


def draw_embedding(
    places: np.ndarray,
    parameter: np.ndarray,
    prior: float,
    largest: float,
    *,
    label: str,
    title: str,
) -> "Figure":
    """Tasks in the plane, with circles around one: all of it, and the middle of it."""
    from matplotlib.figure import Figure
    from matplotlib.patches import Circle

    figure = Figure(figsize=(8.4, 4.6), layout="constrained")
    middle = places[np.linalg.norm(places - places.mean(axis=0), axis=1).argmin()]
    for ax, reach in zip(figure.subplots(1, 2), (1.1 * largest, 1.3 * prior), strict=True):
        for radius, colour, name in (
            (largest, "0.6", f"the largest possible distance, {largest:.0f}"),
            (prior, "#D55E00", f"a prior that holds for these tasks, {prior:.2f}"),
        ):
            circle = Circle(middle, radius, fill=False, color=colour, linewidth=1.5, label=name)
            ax.add_patch(circle)
        size = 12 if reach > largest else 50
        dots = ax.scatter(
            places[:, 0], places[:, 1], s=size, c=parameter, cmap="cividis", edgecolor="black"
        )
        ax.set_xlim(middle[0] - reach, middle[0] + reach)
        ax.set_ylim(middle[1] - reach, middle[1] + reach)
        ax.set_aspect("equal")
        for side in ("top", "right"):
            ax.spines[side].set_visible(False)
    figure.colorbar(dots, ax=figure.axes, label=label, shrink=0.7)
    figure.suptitle(title)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", frameon=False, fontsize="small")
    return figure
