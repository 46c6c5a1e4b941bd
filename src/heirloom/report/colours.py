"""The styles of agents in the report: those of the figures, also for a dark background."""

import colorsys
from typing import NamedTuple

from heirloom.plot.style import AgentStyle, agent_style

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
        styles.append(_curve_style(style._replace(dash=dash, hollow=hollow)))
    return styles


def _curve_style(style: AgentStyle) -> CurveStyle:
    return CurveStyle(
        style.colour,
        on_dark(style.colour),
        BOKEH_DASHES[style.dash],
        MARKERS[style.marker],
        style.hollow,
    )


def on_dark(colour: str) -> str:
    """Return a colour of the same hue that has enough contrast on the dark background."""
    h, lightness, s = colorsys.rgb_to_hls(*_rgb(colour))
    while _contrast(colour) < LEAST_CONTRAST and lightness < 1:
        lightness = min(1.0, lightness + 0.02)
        rgb = colorsys.hls_to_rgb(h, lightness, s)
        colour = "#" + "".join(f"{round(255 * c):02x}" for c in rgb)
    return "#f4f4f4" if s == 0 else colour


def _contrast(colour: str) -> float:
    """Contrast with the dark background, as WCAG 2 defines it."""
    return (_luminance(colour) + 0.05) / (_luminance(DARK) + 0.05)


def _luminance(colour: str) -> float:
    light = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in _rgb(colour)]
    return 0.2126 * light[0] + 0.7152 * light[1] + 0.0722 * light[2]


def _rgb(colour: str) -> tuple[float, float, float]:
    r, g, b = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return r, g, b
