"""The charts of a report: their styles, and their curves as numbers for the script of the page.

Episodes (and tasks, if there are many) are averaged in blocks.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from heirloom.arrays import FloatArray
from heirloom.plot.style import agent_style
from heirloom.report.markup import packed
from heirloom.report.sources import ShownRun
from heirloom.report.tables import baseline_of, find_baseline
from heirloom.stats import moving_average, student_interval

if TYPE_CHECKING:
    from bokeh.plotting import figure

DARK = "#15181d"
"""The background of the dark appearance."""
LEAST_CONTRAST = 4.0  # of a curve and the dark background

BOKEH_DASHES = {"-": [], "--": [7, 3], "-.": [8, 3, 2, 3], ":": [2, 3]}


class Marker(NamedTuple):
    """A marker in Bokeh, and its outline in an SVG picture, around the origin, of radius 4."""

    bokeh: str
    path: str


MARKERS = {
    "o": Marker("circle", "M-3.4,0a3.4,3.4 0 1,0 6.8,0a3.4,3.4 0 1,0 -6.8,0Z"),
    "s": Marker("square", "M-3,-3H3V3H-3Z"),
    "D": Marker("diamond", "M0,-4.4L3,0L0,4.4L-3,0Z"),
    "^": Marker("triangle", "M0,-3.8L3.6,3H-3.6Z"),
    "v": Marker("inverted_triangle", "M0,3.8L3.6,-3H-3.6Z"),
    "P": Marker("plus", "M-1.3,-4H1.3V-1.3H4V1.3H1.3V4H-1.3V1.3H-4V-1.3H-1.3Z"),
    "X": Marker("x", "M-3,-3L3,3M-3,3L3,-3"),
    "*": Marker(
        "star",
        "M0,-4.4L1.2,-1.4L4.2,-1.4L1.8,.6L2.7,3.8L0,1.9L-2.7,3.8L-1.8,.6L-4.2,-1.4L-1.2,-1.4Z",
    ),
    "h": Marker("hex", "M0,-4L3.5,-2V2L0,4L-3.5,2V-2Z"),
    "d": Marker(
        "square_pin",
        "M-3.6,-3.6Q0,-1.6 3.6,-3.6Q1.6,0 3.6,3.6Q0,1.6 -3.6,3.6Q-1.6,0 -3.6,-3.6Z",
    ),
}


class CurveStyle(NamedTuple):
    """How the curve of an agent is drawn on the page."""

    light: str
    """The colour on a light background."""
    dark: str
    dash: list[int]
    marker: Marker
    hollow: bool


def curve_styles(names: list[str]) -> list[CurveStyle]:
    """Return a style for each curve, by the names of agents.

    A name that occurs several times, in several runs, keeps its colour and marker shape; the dash
    pattern changes.
    """
    unique = list(dict.fromkeys(names))
    dashes = list(BOKEH_DASHES)
    styles = []
    for i, name in enumerate(names):
        style, earlier = agent_style(name, unique), names[:i].count(name)
        dash = dashes[(dashes.index(style.dash) + earlier) % len(dashes)]
        hollow = style.hollow != (earlier % 2 == 1)
        colours = style.colour, on_dark(style.colour)
        styles.append(CurveStyle(*colours, BOKEH_DASHES[dash], MARKERS[style.marker], hollow))
    return styles


def on_dark(colour: str) -> str:
    """Return a colour of the same hue that has enough contrast on the dark background."""
    from bokeh.colors import RGB

    rgb, least = RGB.from_hex_string(colour), LEAST_CONTRAST * _light(RGB.from_hex_string(DARK))
    if rgb.to_hsl().s == 0:
        return "#f4f4f4"
    while _light(rgb) < least:
        rgb = rgb.lighten(0.02)
    return rgb.to_hex()


def _light(rgb: Any) -> float:
    """Return the term of a colour in the contrast of WCAG 2, which is a ratio of two of them."""
    return float(rgb.luminance) + 0.05


MOST_CURVES = 60
MOST_AT_FIRST = 20  # curves that are shown when the page opens
MOST_POINTS = 200  # of a curve
FEWEST_POINTS = 20
MOST_NUMBERS = 1500  # points of all curves of a chart together
OPTIMUM = "\0optimum"
"""Stands for the optimal return where others are the names of agents."""
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
    is_on: bool
    """Whether the curve is shown when the page opens."""


def all_curves(runs: list[ShownRun]) -> tuple[list[Curve], int]:
    """Return the curves of all agents of all runs, and the number that is left out."""
    found = [(i, name) for i, run in enumerate(runs) for name in run.agents]
    shown = found[:MOST_CURVES]
    styles = curve_styles([name for _, name in shown])
    curves = [
        Curve(
            i,
            name,
            f"{name} · {runs[i].suffix}" if runs[i].suffix else name,
            style,
            is_on=k < MOST_AT_FIRST and (i == 0 or bool(runs[0].suffix)),
        )
        for k, ((i, name), style) in enumerate(zip(shown, styles, strict=True))
    ]
    return curves, len(found) - len(shown)


def chart_data(
    runs: list[ShownRun], curves: list[Curve], baseline: str | None = None
) -> dict[str, Any]:
    """Return what the script of the page draws: the means and intervals of all curves."""
    points = max(FEWEST_POINTS, min(MOST_POINTS, MOST_NUMBERS // len(curves)))
    name = baseline_of(runs, runs[0], baseline).name
    optimal = any(np.isfinite(run.optimal).any() for run in runs)
    return {
        "baseline": name,
        "references": [name, OPTIMUM] if optimal else [name],
        "runs": [_positions(run, points) for run in runs],
        "curves": [
            {
                "run": curve.run,
                "label": curve.label,
                "on": curve.is_on,
                "light": curve.style.light,
                "dark": curve.style.dark,
                "lines": _lines(runs, curve, name, points),
            }
            for curve in curves
        ],
    }


def blocks(n: int, most: int) -> np.ndarray:
    """Return the borders of blocks of consecutive episodes, or tasks, that curves average over."""
    return np.linspace(0, n, min(n, most) + 1).round().astype(int)


def block_means(values: FloatArray, borders: np.ndarray) -> FloatArray:
    """Average values [..., n] over blocks of the last axis."""
    sums = np.add.reduceat(values, borders[:-1], axis=-1)
    return np.asarray(sums / np.diff(borders))


def _positions(run: ShownRun, points: int) -> dict[str, Any]:
    """Return the first and the last task, or episode, of each point of a run's curves."""
    data: dict[str, Any] = {"label": run.label}
    for view, n in zip(VIEWS, run.returns.shape[2:], strict=True):
        borders = blocks(n, points)
        data[view] = {"first": (borders[:-1] + 1).tolist(), "last": borders[1:].tolist()}
    return data


def _lines(
    runs: list[ShownRun], curve: Curve, baseline: str, points: int
) -> dict[str, dict[str, str]]:
    """Return the means and half-widths of a curve, by view and by `key` of what is shown."""
    run = runs[curve.run]
    found: dict[str, dict[str, str]] = {view: {} for view in VIEWS}
    for kind, optimum in KINDS.items():
        if kind not in run.arrays:
            continue
        own = run.arrays[kind][run.agents.index(curve.agent)]
        references: dict[str, FloatArray] = {}
        other, agent = find_baseline(runs, run, baseline)
        if other.agents[agent] == baseline and kind in other.arrays:
            references[baseline] = other.arrays[kind][agent]
        if optimum in run.arrays:
            references[OPTIMUM] = np.broadcast_to(run.arrays[optimum][..., np.newaxis], own.shape)
        for view, axis in (("tasks", 2), ("episodes", 1)):
            borders = blocks(own.mean(axis=axis).shape[1], points)
            rows = block_means(own.mean(axis=axis), borders)
            compared = {
                name: block_means(of.mean(axis=axis), borders) for name, of in references.items()
            }
            for smooth in (False, True):
                window = max(2, round((borders.size - 1) / 20)) if smooth else None
                found[view][key("absolute", "", kind, smooth=smooth)] = _interval(rows, window)
                for name, of in compared.items():
                    ratios = rows / np.where(of == 0, np.nan, of)
                    for mode, shown in (("difference", rows - of), ("ratio", ratios)):
                        line = _interval(shown, window)
                        found[view][key(mode, name, kind, smooth=smooth)] = line
    return found


def key(mode: str, compared: str, kind: str, *, smooth: bool) -> str:
    """Return the key of what a chart shows, as the script of the page makes it."""
    return "\n".join([mode, compared, kind, "smooth" if smooth else ""])


def _interval(rows: FloatArray, window: int | None) -> str:
    """Return the means over repetitions, and then the half-widths of their intervals.

    Repetitions without any number, whose job is missing, are left out. With a window, moving
    averages of the others are taken.
    """
    rows = rows[~np.isnan(rows).all(axis=1)]
    if not len(rows):
        rows = np.full((1, rows.shape[1]), np.nan)
    if window is not None:
        rows = moving_average(rows, window)
    return packed(np.concatenate(student_interval(rows)))


FIRST = 1  # the coordinates of a point that the script replaces; Bokeh needs one to set the ranges


def chart_item(view: str, curves: list[Curve]) -> dict[str, Any]:
    """Return a chart as the JSON that Bokeh's script draws, as `bokeh.embed.json_item` does.

    `bokeh.embed` would also import Bokeh's server, which takes longer than everything else.
    """
    from bokeh import __version__ as version
    from bokeh.document import Document

    document, chart = Document(), empty_chart(view, curves)
    document.add_root(chart)
    return {
        "target_id": f"chart-{view}",
        "root_id": chart.ref["id"],
        "doc": {**document.to_json(deferred=False), "title": ""},
        "version": version,
    }


def bokeh_script() -> str:
    """Return Bokeh's script: its core, without widgets and tables."""
    from bokeh.resources import Resources

    script = Resources(mode="inline", components=["bokeh"]).js_raw[0]
    return str(script).replace("</script", "<\\/script")


def empty_chart(view: str, curves: list[Curve]) -> "figure":
    """Return a Bokeh figure with a band, a line and markers per curve, without the points.

    The script of the page finds the data sources by their names.
    """
    from bokeh.models import ColumnDataSource, DataRange1d, Line, Scatter, VArea
    from bokeh.models.annotations.geometry import Span
    from bokeh.plotting import figure as new_chart

    chart = new_chart(
        name=view,
        height=380,
        sizing_mode="stretch_width",
        tools="pan,box_zoom,reset,save",
        active_drag=None,  # so that a finger on a phone scrolls the page
        toolbar_location="above",
        output_backend="canvas",
        x_axis_label=VIEWS[view],
        x_range=DataRange1d(only_visible=True),
        y_range=DataRange1d(only_visible=True),
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
        line: dict[str, Any] = {"line_color": colour, "line_width": 1.8}
        fill = None if curve.style.hollow else colour
        marker = curve.style.marker.bokeh
        # `add_glyph` makes one model per glyph; the methods of a figure make five.
        filled = VArea(x="x", y1="low", y2="high", fill_color=colour, fill_alpha=0.13)
        dashed = Line(x="x", y="mean", line_dash=curve.style.dash, **line)
        marked = Scatter(x="x", y="mean", marker=marker, size=7, fill_color=fill, **line)
        _, drawn, _ = (
            chart.add_glyph(source, glyph, visible=curve.is_on)
            for source, glyph in ((band, filled), (points, dashed), (marks, marked))
        )
        hovered.append(drawn)
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
