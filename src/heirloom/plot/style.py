"""The common style of all figures: one style per agent, and intervals drawn as bands.

A style is a colour, a dash pattern and a marker. Up to `N_STYLES` agents of one figure have styles
that differ in the dash pattern or in colours that colour-blind readers can tell apart. The HTML
report uses the same styles.
"""

import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from heirloom.errors import InvalidArgument
from heirloom.stats import Interval
from heirloom.storage.files import file_path, write_file
from heirloom.validation import instance, shown
from heirloom.wording import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# The palette of Okabe and Ito, which colour-blind readers can tell apart.
COLOURS = {
    "RMax": "#000000",
    "LRMax": "#56B4E9",
    "LRMax(0.2)": "#009E73",
    "LRMax(0.1)": "#0072B2",
    "MaxQInit": "#E69F00",
    "LRMaxQInit": "#CC79A7",
    "LRMaxQInit(0.1)": "#D55E00",
}
OTHER_COLOURS = ("#882255", "#44AA99", "#332288", "#999933", "#AA4499", "#CC6677", "#117733")
MARKERS = "osD^vPX*hd"
DASHES = ("-", "--", "-.", ":")
N_STYLES = len(OTHER_COLOURS) * (len(DASHES) - 1)
"""The number of agents that have different styles in every figure."""
# Metadata that would hold the time of rendering, by file format.
TIMESTAMPS = {"pdf": "CreationDate", "svg": "Date"}


def colour_of(name: str, names: list[str]) -> str:
    """Return the colour of an agent.

    Agents that have no entry in `COLOURS` get the other colours in their order in the figure.
    """
    if name in COLOURS:
        return COLOURS[name]
    others = [other for other in names if other not in COLOURS]
    return OTHER_COLOURS[others.index(name) % len(OTHER_COLOURS)]


class AgentStyle(NamedTuple):
    """How the curve of an agent is drawn."""

    colour: str
    dash: str
    """The dash pattern, as matplotlib's `linestyle`."""
    marker: str
    """The marker, as matplotlib's `marker`."""
    hollow: bool
    """Whether the marker is drawn without filling."""

    def options(self, *, markers: bool) -> dict[str, Any]:
        """Return options of `Axes.plot`, those of the marker only with `markers`."""
        line: dict[str, Any] = {"color": self.colour, "linestyle": self.dash}
        if not markers:
            return line
        face = {"markerfacecolor": "white"} if self.hollow else {}
        return {**line, "marker": self.marker, **face}


def agent_style(name: str, names: list[str]) -> AgentStyle:
    """Return the style of an agent.

    Agents of the paper have their own colours and solid lines. Each dash pattern is used for as
    many other agents as there are other colours; solid lines are among these patterns only if the
    figure shows no agent of the paper.
    """
    i = names.index(name)
    dash = 0
    if name not in COLOURS:
        others = [other for other in names if other not in COLOURS]
        first = 1 if len(others) < len(names) else 0
        dash = first + others.index(name) // len(OTHER_COLOURS)
    return AgentStyle(
        colour_of(name, names),
        DASHES[dash % len(DASHES)],
        MARKERS[i % len(MARKERS)],
        hollow=i // len(MARKERS) % 2 == 1,
    )


def new_figure(width: float = 6.4, height: float = 4.0) -> "tuple[Figure, Axes]":
    """Return a figure of this size in inches, and its only axes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    ax = figure.subplots()
    hide_frame(ax)
    return figure, ax


def hide_frame(ax: "Axes") -> None:
    """Hide the upper and the right border of the axes."""
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)


def draw_interval(ax: "Axes", x: Any, interval: Interval, *, color: Any, **options: Any) -> None:
    """Draw a mean as a line and its interval as a band.

    Where the width of the interval is not finite, no band is drawn. On a logarithmic scale,
    which cannot show 0, the band ends at 1 % of the mean at the lowest.
    """
    mean, half_width = interval
    ax.plot(x, mean, color=color, markersize=4, **options)
    if np.isfinite(half_width).any():
        low, high = mean - half_width, mean + half_width
        if ax.get_yscale() == "log":
            low = np.maximum(low, 0.01 * mean)
        ax.fill_between(x, low, high, color=color, alpha=0.15, linewidth=0)


def literal(text: str) -> str:
    """Return a text that matplotlib draws as it is, with control characters escaped.

    Otherwise matplotlib takes text between dollar signs for a formula, and leaves labels that begin
    with an underscore out of legends.
    """
    drawn = printable(text).replace("$", r"\$")
    return f" {drawn}" if drawn.startswith("_") else drawn


def legend_below(figure: "Figure") -> None:
    """Add a legend below the axes, with fewer columns the longer its labels are."""
    longest = max(len(str(label)) for label in figure.axes[0].get_legend_handles_labels()[1])
    columns = 4 if longest < 16 else 3 if longest < 22 else 2
    figure.legend(loc="outside lower center", ncols=columns, frameon=False, fontsize="small")


def render(figure: "Figure", file_format: str) -> bytes:
    """Return the content of an image file of a figure.

    As PNG, PDF and SVG, the same figure gives the same bytes: the time of rendering is left out.
    """
    from matplotlib import rc_context

    timestamp = TIMESTAMPS.get(file_format.lower())
    metadata = None if timestamp is None else {timestamp: None}
    data = io.BytesIO()
    with rc_context({"svg.hashsalt": "heirloom"}):  # otherwise the ids in an SVG are random
        figure.savefig(data, format=file_format, dpi=150, metadata=metadata)
    return data.getvalue()


def image_files(figure: "Figure", name: str) -> Iterator[tuple[str, bytes]]:
    """Yield the names and contents of the files of a figure, as PNG and PDF, laid out once."""
    for file_format in ("png", "pdf"):
        yield f"figures/{name}.{file_format}", render(figure, file_format)
        figure.set_layout_engine("none")


def save_figure(figure: "Figure", path: str | os.PathLike[str]) -> Path:
    """Write a figure to a file, and return its path.

    Args:
        figure: the figure.
        path: the file. Its extension is the format, such as png, pdf or svg; without one, `.png`
            is appended.
    """
    from matplotlib.figure import Figure

    instance("figure", figure, Figure, "such as draw_map(...)")
    file = file_path(path, ".png")
    formats = figure.canvas.get_supported_filetypes()
    if file.suffix[1:].lower() not in formats:
        raise InvalidArgument(
            f"path is {shown(path)}: expected an extension that is an image format, one of "
            f"{', '.join(sorted(formats))}"
        )
    data = render(figure, file.suffix[1:])
    return write_file(file, data)
