"""One look for all figures: the same colour for an agent everywhere, intervals as bands."""

import io
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from heirloom.errors import CannotWrite

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours, which the colour-blind can tell apart.
COLOURS = {
    "RMax": "#000000",
    "LRMax": "#56B4E9",
    "LRMax(0.2)": "#009E73",
    "LRMax(0.1)": "#0072B2",
    "MaxQInit": "#E69F00",
    "LRMaxQInit": "#CC79A7",
    "LRMaxQInit(0.1)": "#D55E00",
}
OTHERS = ("#882255", "#44AA99", "#332288", "#999933", "#AA4499", "#999999")
MARKERS = "osD^vPX"


def colour_of(name: str, names: list[str]) -> str:
    """The colour of an agent, always the same for one that has a colour of its own."""
    if name in COLOURS:
        return COLOURS[name]
    others = [other for other in names if other not in COLOURS]
    return OTHERS[others.index(name) % len(OTHERS)]


def new_figure(width: float = 6.4, height: float = 4.0) -> "tuple[Figure, Axes]":
    """A figure with one pair of axes, drawn without a window."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    ax = figure.subplots()
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    return figure, ax


def line(
    ax: "Axes", x: Any, mean: Any, half_width: Any, label: str, colour: str, **options: Any
) -> None:
    """A mean, and its interval as a band."""
    ax.plot(x, mean, color=colour, label=label, markersize=4, **options)
    if np.isfinite(half_width).all():
        low, high = mean - half_width, mean + half_width
        ax.fill_between(x, low, high, color=colour, alpha=0.15, linewidth=0)


def legend_below(figure: "Figure") -> None:
    """A legend that covers nothing, with as many columns as there is room for."""
    longest = max(len(str(label)) for label in figure.axes[0].get_legend_handles_labels()[1])
    columns = 4 if longest < 16 else 3 if longest < 22 else 2
    figure.legend(loc="outside lower center", ncols=columns, frameon=False, fontsize="small")


def rendered(figure: "Figure", ending: str) -> bytes:
    """A figure as the content of a file with this ending."""
    data = io.BytesIO()
    figure.savefig(data, format=ending, dpi=150)
    return data.getvalue()


def save_figure(figure: "Figure", path: str | os.PathLike[str]) -> Path:
    """Write a figure in the format that its name ends in, PNG if it has no ending."""
    place = Path(path)
    if not place.suffix:
        place = place.with_suffix(".png")
    data = rendered(figure, place.suffix[1:])
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
    except OSError as error:
        reason = error.strerror or error
        raise CannotWrite(
            f"{path} could not be written ({reason}): choose another place"
        ) from error
    return place
