"""The curves of a report: numbers per repetition for the script of the page, and empty charts.

The script computes means, intervals, differences and ratios from the numbers of each repetition, so
that every reference can be chosen. Episodes (and tasks, if there are many) are averaged in blocks.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special

from heirloom.arrays import FloatArray
from heirloom.reporting.colours import CurveStyle, curve_styles
from heirloom.reporting.markup import packed
from heirloom.reporting.sources import ShownRun

if TYPE_CHECKING:
    from bokeh.plotting import figure as Figure

MOST_CURVES = 60
MOST_POINTS = 200  # of a curve
FEWEST_POINTS = 20
MOST_NUMBERS = 60_000  # of all curves of a chart together, for each kind of return
FIRST = 1  # the coordinates of a point that the script replaces; Bokeh needs one to set the ranges
VIEWS = {"tasks": "task", "episodes": "episode"}
"""The charts, and the labels of their x axes."""
KINDS = {"returns": "optimal", "discounted_returns": "optimal_discounted"}
"""The kinds of returns, and the variable with the optimal value of each."""


@dataclass(frozen=True)
class Curve:
    """The curve of one agent of one run."""

    run: int
    agent: str
    label: str
    style: CurveStyle


def all_curves(runs: list[ShownRun]) -> tuple[list[Curve], int]:
    """Return the curves of all agents of all runs, and the number that is left out."""
    found = [(i, name) for i, run in enumerate(runs) for name in run.agents]
    shown = found[:MOST_CURVES]
    styles = curve_styles([name for _, name in shown])
    curves = [
        Curve(i, name, f"{name} · {runs[i].suffix}" if runs[i].suffix else name, style)
        for (i, name), style in zip(shown, styles, strict=True)
    ]
    return curves, len(found) - len(shown)


def chart_data(runs: list[ShownRun], curves: list[Curve]) -> dict[str, Any]:
    """Return what the script of the page needs to draw the curves."""
    n_curves = len(curves)
    most = max(run.returns.shape[1] for run in runs)
    quantiles = [None, None, *special.stdtrit(np.arange(1, max(most, 2)), 0.975)]
    return {
        "quantiles": quantiles,
        "runs": [_of_run(run, n_curves) for run in runs],
        "curves": [
            {
                "run": curve.run,
                "agent": curve.agent,
                "label": curve.label,
                "light": curve.style.light,
                "dark": curve.style.dark,
                "values": _of_agent(runs[curve.run], curve.agent, n_curves),
            }
            for curve in curves
        ],
    }


def kept_repetitions(run: ShownRun, n_curves: int) -> int:
    """Return the number of repetitions that the charts of a report use; all, unless it is large."""
    return min(run.returns.shape[1], max(10, MOST_NUMBERS // (n_curves * FEWEST_POINTS)))


def blocks(n: int, n_curves: int, repetitions: int) -> np.ndarray:
    """Return the borders of blocks of consecutive episodes, or tasks, that curves average over."""
    room = MOST_NUMBERS // (n_curves * repetitions)
    points = min(n, max(FEWEST_POINTS, min(MOST_POINTS, room)))
    return np.linspace(0, n, points + 1).round().astype(int)


def block_means(values: FloatArray, borders: np.ndarray) -> FloatArray:
    """Average values [..., n] over blocks of the last axis."""
    sums = np.add.reduceat(values, borders[:-1], axis=-1)
    return np.asarray(sums / np.diff(borders))


def _of_run(run: ShownRun, n_curves: int) -> dict[str, Any]:
    """Return the positions of points, and the optimal returns of a run."""
    kept = kept_repetitions(run, n_curves)
    _, _, n_tasks, n_episodes = run.returns.shape
    data: dict[str, Any] = {"label": run.label, "repetitions": kept, "tasks": {}, "episodes": {}}
    for view, n in (("tasks", n_tasks), ("episodes", n_episodes)):
        borders = blocks(n, n_curves, kept)
        data[view] = {"first": (borders[:-1] + 1).tolist(), "last": borders[1:].tolist()}
        for kind, optimal in KINDS.items():
            if kind in run.arrays and optimal in run.arrays:
                best = run.arrays[optimal][:kept]
                means = block_means(best, borders) if view == "tasks" else _constant(best, borders)
                data[view][kind] = packed(means)
    return data


def _constant(optimal: FloatArray, borders: np.ndarray) -> FloatArray:
    return np.repeat(optimal.mean(axis=1)[:, np.newaxis], borders.size - 1, axis=1)


def _of_agent(run: ShownRun, agent: str, n_curves: int) -> dict[str, Any]:
    """Return the mean returns of an agent, per repetition and point, for each chart."""
    i, kept = run.agents.index(agent), kept_repetitions(run, n_curves)
    data: dict[str, Any] = {view: {} for view in VIEWS}
    for kind in KINDS:
        if kind not in run.arrays:
            continue
        returns = run.arrays[kind][i, :kept]
        for view, axis in (("tasks", 2), ("episodes", 1)):
            means = returns.mean(axis=axis)
            data[view][kind] = packed(block_means(means, blocks(means.shape[1], n_curves, kept)))
    return data


def empty_chart(view: str, curves: list[Curve]) -> "Figure":
    """Return a Bokeh figure with a band, a line and markers per curve, without the points.

    The script of the page finds the data sources by their names.
    """
    from bokeh.models import ColumnDataSource, Line, Scatter, Span, VArea
    from bokeh.plotting import figure

    chart = figure(
        name=view,
        height=380,
        sizing_mode="stretch_width",
        tools="pan,box_zoom,reset,save",
        active_drag=None,  # so that a finger on a phone scrolls the page
        toolbar_location="above",
        output_backend="canvas",
        x_axis_label=VIEWS[view],
        background_fill_color=None,
        border_fill_color=None,
        outline_line_color=None,
    )
    chart.toolbar.logo = None
    chart.add_layout(Span(name=f"{view}-level", dimension="width", location=0, visible=False))
    hovered = []
    for i, curve in enumerate(curves):
        colour, columns = curve.style.light, ("x", "mean", "half", "label", "at")
        points, marks, band = (
            ColumnDataSource({name: [FIRST] for name in names}, name=f"{view}-{i}-{part}")
            for part, names in (
                ("points", columns),
                ("marks", columns),
                ("band", ("x", "low", "high")),
            )
        )
        line = {"line_color": colour, "line_width": 1.8}
        fill = None if curve.style.hollow else colour
        marker = curve.style.marker.bokeh
        # `add_glyph` makes one model per glyph; the methods of a figure make five.
        chart.add_glyph(band, VArea(x="x", y1="low", y2="high", fill_color=colour, fill_alpha=0.13))
        hovered += [
            chart.add_glyph(points, Line(x="x", y="mean", line_dash=curve.style.dash, **line)),
            chart.add_glyph(
                marks, Scatter(x="x", y="mean", marker=marker, size=7, fill_color=fill, **line)
            ),
        ]
    chart.add_tools(_hover(view, hovered))
    return chart


def _hover(view: str, renderers: list[Any]) -> Any:
    from bokeh.models import HoverTool

    return HoverTool(
        renderers=renderers,
        line_policy="nearest",
        tooltips=[
            ("agent", "@label"),
            (VIEWS[view], "@at"),
            ("mean", "@mean{0.0000}"),
            ("95 % interval", "± @half{0.0000}"),
        ],
    )
