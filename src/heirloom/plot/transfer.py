"""Figures of transfer: where it came from, what an audit found, and what knowledge is worth."""

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Literal

import numpy as np

from heirloom.errors import InvalidArgument
from heirloom.experiments.measures import KINDS
from heirloom.experiments.variables import check_results
from heirloom.naming import shortened
from heirloom.plot.style import MARKERS, colour_of, legend_below, literal, new_figure
from heirloom.stats import Interval
from heirloom.transfer.refutation.audit_result import TITLES, Audit
from heirloom.validation import instance, one_of

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

KIND_COLOURS = ("#AAB2BD", "#0072B2", "#E69F00", "#882255", "#009E73", "#CC79A7")
"""The colours of `KINDS`, which the HTML report uses too."""

MOST_ACTIONS = 6  # that are all labelled; otherwise only the first and the last
MOST_STATES = 12  # that have their names
LONGEST = 18  # characters of a name
ROW_HEIGHT = 0.62  # inches
SPREAD = 0.7  # of the height of a row, over which its points are spread


def draw_transfer(results: "xr.Dataset", agent: str, *, title: str = "") -> "Figure":
    """Bars per task: the number of pairs whose bound each kind of bound decided.

    The numbers are means over repetitions. Pairs that keep the largest possible value are those of
    `v_max`.

    Args:
        results: the results of a run whose spec has `measure = "transfer"`.
        agent: the name of the agent.
        title: the title of the figure.
    """
    names = check_results(results, ("returns",))
    if "bound_pairs" not in results:
        raise InvalidArgument(
            "results has no variable bound_pairs: expected the results of a run whose spec has "
            'measure = "transfer"'
        )
    one_of("agent", agent, names)
    pairs = results.bound_pairs.sel(agent=agent).transpose("repetition", "task", "kind").values
    if (pairs < 0).all():
        raise InvalidArgument(f"agent is {agent!r}: expected an agent that has bounds")
    mean = pairs[(pairs >= 0).all(axis=(1, 2))].mean(axis=0)
    figure, ax = new_figure()
    below = np.zeros(mean.shape[0])
    for kind, colour, of_kind in zip(KINDS, KIND_COLOURS, mean.T, strict=True):
        if of_kind.any():
            ax.bar(results.task.values, of_kind, bottom=below, color=colour, label=literal(kind))
            below += of_kind
    ax.locator_params(axis="x", integer=True)
    ax.set_xlabel("task")
    ax.set_ylabel("pairs")
    ax.set_title(literal(title))
    legend_below(figure)
    return figure


def draw_audit(audit: Audit, *, title: str = "") -> "Figure":
    """Draw lower bounds on the largest differences between two tasks, by state and action.

    There is one map for rewards, one for transitions and one for the distance D. Pairs that no two
    tasks know are white. Crosses mark pairs that contradict the knowledge. Actions have their
    names, if they have any, and so have up to 12 states.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    instance("audit", audit, Audit, "such as hl.audit(memory)")
    n_states, n_actions = audit.compared.shape
    figure = Figure(figsize=(6.5, 5.0), layout="constrained")
    axes = figure.subplots(3, 1)
    contradicted = {found.part: found.pairs for found in audit.contradictions}
    for ax, (name, part) in zip(axes, audit.parts.items(), strict=True):
        values = np.where(audit.compared, part.sure, np.nan).T
        image = ax.imshow(values, aspect="auto", cmap="cividis", vmin=0, interpolation="none")
        figure.colorbar(image, ax=ax)
        if name in contradicted:
            states, actions = np.nonzero(contradicted[name])
            ax.plot(states, actions, "x", color="#D55E00", markersize=4)
        ax.set_title(TITLES[name], fontsize="medium")
        ax.set_ylabel("action")
        shown = np.arange(n_actions) if n_actions <= MOST_ACTIONS else [0, n_actions - 1]
        ax.set_yticks(shown, _labels(audit.pair_names.actions, shown))
        ax.set_xlim(-0.5, n_states - 0.5)
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes[-1].set_xlabel("state")
    if audit.pair_names.states is not None and n_states <= MOST_STATES:
        for ax in axes[:-1]:
            ax.set_xticks(np.arange(n_states), [])
        labels = _labels(audit.pair_names.states, np.arange(n_states))
        axes[-1].set_xticks(np.arange(n_states), labels, rotation=30, ha="right")
    if title:
        figure.suptitle(title, fontsize="medium")
    return figure


def _labels(names: tuple[str, ...] | None, shown: Iterable[int]) -> list[str]:
    """Return the labels of some states or actions: their names, or their numbers if without."""
    return [str(i) if names is None else literal(shortened(names[i], LONGEST)) for i in shown]


def draw_rows(
    rows: Mapping[str, Mapping[str, Interval]],
    *,
    levels: Mapping[str, float],
    xlabel: str,
    title: str,
    hollow: Collection[str] = (),
    xscale: Literal["linear", "symlog"] = "linear",
) -> "Figure":
    """Means as points with their intervals, in one row per group, from top to bottom.

    Each agent has a marker, a colour and a height within a row, so the figure is readable without
    colours too. An interval whose width is not finite is not drawn. An agent may be missing in some
    rows. `levels` are the positions of vertical lines, by the labels above them. The markers of
    `hollow` agents are not filled. The scale "symlog" is logarithmic from 1 on.
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
    ax.set_xscale(xscale)
    ax.set_xlabel(xlabel)
    ax.set_title(title, pad=18)
    legend_below(figure)
    return figure
