"""The charts of a report, without their points: the script of the page adds them."""

from typing import TYPE_CHECKING, Any

from heirloom.report.curves import VIEWS, Curve

if TYPE_CHECKING:
    from bokeh.plotting import figure

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
