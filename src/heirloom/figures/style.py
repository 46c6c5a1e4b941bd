"""The common style of all figures: one colour per agent, and intervals drawn as bands."""

import io
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from heirloom.errors import CannotWrite, InvalidArgument
from heirloom.escaping import printable
from heirloom.stats import Interval
from heirloom.validation import instance, shown

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
OTHER_COLOURS = ("#882255", "#44AA99", "#332288", "#999933", "#AA4499", "#999999", "#117733")
MARKERS = "osD^vPX"
# Metadata that would hold the time of rendering, by file format.
TIMESTAMPS = {"pdf": "CreationDate", "svg": "Date"}


def colour_of(name: str, names: list[str]) -> str:
    """Return the colour of an agent.

    Args:
        name: the agent.
        names: all agents of the figure. Agents that have no entry in `COLOURS` get the other
            colours in this order.
    """
    if name in COLOURS:
        return COLOURS[name]
    others = [other for other in names if other not in COLOURS]
    return OTHER_COLOURS[others.index(name) % len(OTHER_COLOURS)]


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

    If the width of the interval is not finite at some x, no band is drawn. On a logarithmic scale,
    which cannot show 0, the band ends at 1 % of the mean at the lowest.

    Args:
        ax: the axes to draw on.
        x: the positions of the means.
        interval: the means, and half the widths of their intervals.
        color: the colour of line and band.
        options: of `Axes.plot`, such as `label` and `marker`.
    """
    mean, half_width = interval
    ax.plot(x, mean, color=color, markersize=4, **options)
    if np.isfinite(half_width).all():
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

    Args:
        figure: the figure.
        file_format: the extension of the file without its dot, such as "png".
    """
    from matplotlib import rc_context

    timestamp = TIMESTAMPS.get(file_format.lower())
    metadata = None if timestamp is None else {timestamp: None}
    data = io.BytesIO()
    with rc_context({"svg.hashsalt": "heirloom"}):  # otherwise the ids in an SVG are random
        figure.savefig(data, format=file_format, dpi=150, metadata=metadata)
    return data.getvalue()


def save_figure(figure: "Figure", path: str | os.PathLike[str]) -> Path:
    """Write a figure to a file, and return its path.

    Args:
        figure: the figure.
        path: the file. Its extension is the format, such as png, pdf or svg; without one, `.png`
            is appended.
    """
    from matplotlib.figure import Figure

    instance("figure", figure, Figure, "such as draw_map(...)")
    try:
        file = Path(path)
        file = file if file.suffix else file.with_suffix(".png")
    except (TypeError, ValueError):  # not a path, or one without a name
        raise InvalidArgument(f"path is {shown(path)}: expected the name of a file") from None
    formats = figure.canvas.get_supported_filetypes()
    if file.suffix[1:].lower() not in formats:
        raise InvalidArgument(
            f"path is {shown(path)}: expected an extension that is an image format, one of "
            f"{', '.join(sorted(formats))}"
        )
    data = render(figure, file.suffix[1:])
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    except OSError as error:
        reason = error.strerror or error
        raise CannotWrite(
            f"{path} could not be written ({reason}): choose another location"
        ) from error
    return file
