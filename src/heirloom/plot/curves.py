"""Curves over tasks, over episodes and over a parameter, with intervals as bands."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from heirloom.arrays import FloatArray
from heirloom.errors import InvalidArgument
from heirloom.experiments.variables import check_results
from heirloom.plot.style import (
    MARKERS,
    agent_style,
    draw_interval,
    legend_below,
    literal,
    new_figure,
)
from heirloom.stats import Interval, student_interval
from heirloom.validation import one_of, shown

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Styles = Mapping[str, dict[str, Any]]
"""Options of `Axes.plot` for each curve, by its label."""
RATIO_COLOURS = ("#0072B2", "#D55E00", "#009E73")


def draw_lifelong(
    results: "xr.Dataset",
    *,
    title: str,
    baseline: str | None = None,
    loss: bool = False,
    xlabel: str = "task",
    ylabel: str | None = None,
) -> "Figure":
    """Mean return per task of each agent, with 95 % intervals over repetitions as bands.

    A dotted line shows the optimal expected return, if it is known for all tasks.

    With a baseline, the figure shows differences to the return of this agent in the same task of
    the same repetition, and with `loss` by how much the optimal expected return exceeds the return.
    Their intervals are narrower where returns vary more between tasks than between agents.

    Args:
        results: the results of `run` or `compare`.
        title: the title of the figure.
        baseline: the agent that others are compared with; by default none.
        loss: whether agents are compared with the optimal policy; then `baseline` must be None.
        xlabel: the label of the x axis.
        ylabel: the label of the y axis; by default, the name of what is drawn.
    """
    names = check_results(results, ("returns", "optimal"))
    returns = results.returns.mean("episode").transpose("agent", "repetition", "task")
    drawn = dict(zip(names, returns.values, strict=True))
    optimal = results.optimal.transpose("repetition", "task").values
    label, styles, zero = "mean return", _agent_styles(names, markers=True), np.zeros(1)
    if baseline is not None:
        one_of("baseline", baseline, names)
        label, zero = f"{label}, difference to {baseline}", drawn.pop(baseline)
    if loss:
        _check_loss(optimal, baseline)
        label, drawn = "optimal minus mean return", {k: optimal - x for k, x in drawn.items()}
    curves = {name: student_interval(values - zero) for name, values in drawn.items()}
    figure, ax = new_figure()
    _draw_curves(ax, results.task.values, curves, styles)
    dotted: dict[str, Any] = {"color": "0.6", "linestyle": ":", "label": "optimal"}
    if loss:
        ax.axhline(0.0, **dotted)
    elif np.isfinite(optimal).all():
        ax.plot(results.task, (optimal - zero).mean(axis=0), **dotted)
    if baseline is not None:
        ax.axhline(0.0, color=styles[baseline]["color"], linewidth=0.8, zorder=0)
    ax.locator_params(axis="x", integer=True)
    return _finish(figure, xlabel=xlabel, ylabel=label if ylabel is None else ylabel, title=title)


def _check_loss(optimal: FloatArray, baseline: str | None) -> None:
    """Raise `InvalidArgument` unless the loss of agents can be drawn."""
    if baseline is not None:
        raise InvalidArgument(
            f"loss is True, and baseline is {shown(baseline)}: expected one of them, since an "
            "agent is compared with the optimal policy or with another agent"
        )
    if not np.isfinite(optimal).all():
        raise InvalidArgument(
            "loss is True, and the optimal return of a task is not known: expected results of "
            "exact tasks (TabularMDP); draw the returns instead"
        )


def draw_episodes(
    results: "xr.Dataset", *, title: str, xlabel: str = "episode", ylabel: str = "mean return"
) -> "Figure":
    """Mean return per episode of each agent, over all tasks, with 95 % intervals as bands.

    Args:
        results: the results of `run` or `compare`.
        title: the title of the figure.
        xlabel: the label of the x axis.
        ylabel: the label of the y axis.
    """
    names = check_results(results, ("returns",))
    returns = results.returns.mean("task").transpose("agent", "repetition", "episode")
    curves = {name: student_interval(returns.sel(agent=name).values) for name in names}
    figure, ax = new_figure()
    _draw_curves(ax, results.episode.values, curves, _agent_styles(names, markers=False))
    ax.locator_params(axis="x", integer=True)
    return _finish(figure, xlabel=xlabel, ylabel=ylabel, title=title)


def draw_relative_returns(
    curves: Mapping[str, Interval],
    *,
    per: Literal["task", "episode"],
    ylabel: str,
    title: str,
    styles: Styles | None = None,
) -> "Figure":
    """Returns relative to a baseline, over tasks or episodes, with a thin line at 1.

    Points that stand for tasks have markers. `styles` are options of `Axes.plot` for curves that do
    not have the style of the agent of that name.
    """
    figure, ax = new_figure()
    own_styles = _agent_styles(list(curves), markers=per == "task")
    for label, style in (styles or {}).items():
        own_styles[label] |= style
    _draw_curves(ax, None, curves, own_styles)
    ax.axhline(1.0, color="0.7", linewidth=0.8, zorder=0)
    if per == "task":
        ax.locator_params(axis="x", integer=True)
    return _finish(figure, xlabel=per, ylabel=ylabel, title=title)


def draw_ratios(
    x: Any,
    curves: Mapping[str, Interval],
    *,
    xlabel: str,
    title: str,
    styles: Styles | None = None,
) -> "Figure":
    """Ratios over a parameter, drawn in percent, with a thin line at 0."""
    figure, ax = new_figure()
    percent = {name: Interval(100 * mean, 100 * half) for name, (mean, half) in curves.items()}
    own_styles: dict[str, dict[str, Any]] = {
        name: {"color": RATIO_COLOURS[i % len(RATIO_COLOURS)], "marker": MARKERS[i % len(MARKERS)]}
        for i, name in enumerate(curves)
    }
    for label, style in (styles or {}).items():
        own_styles[label] |= style
    _draw_curves(ax, x, percent, own_styles)
    ax.axhline(0.0, color="0.7", linewidth=0.8, zorder=0)
    return _finish(figure, xlabel=xlabel, ylabel="ratio (%)", title=title)


def draw_prior_use(curves: Mapping[str, Interval], *, title: str) -> "Figure":
    """Percentage of pairs where each prior is used, over computations of the bound."""
    from matplotlib import colormaps

    figure, ax = new_figure()
    shades = colormaps["cividis"](np.linspace(0, 0.9, len(curves)))
    styles = {name: {"color": shade} for name, shade in zip(curves, shades, strict=True)}
    _draw_curves(ax, None, curves, styles, first=0)
    return _finish(
        figure,
        xlabel="computation of the bound (index)",
        ylabel="pairs where the prior is used (%)",
        title=title,
    )


def draw_episodes_to_optimality(x: Any, curves: Mapping[str, Interval], *, title: str) -> "Figure":
    """Episodes until the policy of each agent stays optimal, over the length of the task.

    The y axis is logarithmic.
    """
    figure, ax = new_figure()
    ax.set_yscale("log")
    _draw_curves(ax, x, curves, _agent_styles(list(curves), markers=True))
    return _finish(
        figure,
        xlabel="number of inner states k",
        ylabel="episodes until optimal",
        title=title,
    )


def _agent_styles(names: list[str], *, markers: bool) -> dict[str, dict[str, Any]]:
    """Return the options of `Axes.plot` for each agent, with markers if asked for."""
    return {name: agent_style(name, names).options(markers=markers) for name in names}


def _draw_curves(
    ax: "Axes", x: Any, curves: Mapping[str, Interval], styles: Styles, *, first: int = 1
) -> None:
    """Draw each curve with its style; without `x`, at the integers from `first` on."""
    for label, interval in curves.items():
        points = np.arange(first, first + interval.mean.size) if x is None else x
        draw_interval(ax, points, interval, label=literal(label), **styles[label])


def _finish(figure: "Figure", *, xlabel: str, ylabel: str, title: str) -> "Figure":
    (ax,) = figure.axes
    ax.set_xlabel(literal(xlabel))
    ax.set_ylabel(literal(ylabel))
    ax.set_title(literal(title))
    legend_below(figure)
    return figure


def draw_profiles(
    profiles: Mapping[str, FloatArray], *, xlabel: str, ylabel: str, title: str
) -> "Figure":
    """Draw which share of the numbers of each agent is at least x, from 0 to 1, as a staircase.

    The numbers are sorted; -∞ counts, and is never reached.
    """
    figure, ax = new_figure()
    x = np.linspace(0, 1, 401)
    for name, numbers in profiles.items():
        share = (numbers.size - np.searchsorted(numbers, x)) / numbers.size
        style = agent_style(name, list(profiles)).options(markers=False)
        ax.plot(x, share, label=literal(name), **style)
    ax.set_ylim(0, 1.02)
    return _finish(figure, xlabel=xlabel, ylabel=ylabel, title=title)


def draw_lines(
    lines: Mapping[str, Sequence[float]], *, first: int, xlabel: str, ylabel: str, title: str
) -> "Figure":
    """Draw one line per agent, without intervals, over the whole numbers from `first` on."""
    figure, ax = new_figure()
    for name, numbers in lines.items():
        x = np.arange(first, first + len(numbers))
        style = agent_style(name, list(lines)).options(markers=True)
        ax.plot(x, numbers, label=literal(name), **style)
    ax.locator_params(axis="x", integer=True)
    return _finish(figure, xlabel=xlabel, ylabel=ylabel, title=title)
