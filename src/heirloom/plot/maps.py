"""Grid maps, and values, bounds or the known set as colours on their cells."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from heirloom.envs.grid import ACTIONS, GridMap
from heirloom.errors import InvalidArgument
from heirloom.plot.style import new_figure
from heirloom.validation import numbers, real_number, shown, text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

GOAL_COLOUR = "#9fd5c5"
CLOSABLE_COLOURS = {"o": "#E69F00", "g": "#009E73"}
# For each action, two corners of its triangle relative to the centre of the cell, its third corner.
TRIANGLES = {
    "up": ((-0.5, -0.5), (0.5, -0.5)),
    "right": ((0.5, -0.5), (0.5, 0.5)),
    "down": ((0.5, 0.5), (-0.5, 0.5)),
    "left": ((-0.5, 0.5), (-0.5, -0.5)),
}


def draw_map(grid: GridMap | str | Sequence[str], *, title: str = "") -> "Figure":
    """Draw a map: walls, start, goals, and cells that can be closed.

    Closed cells are drawn as walls. If none is closed, the cells `o` and `g` are drawn in orange
    and green.
    """
    grid = grid if isinstance(grid, GridMap) else GridMap.read(grid)
    empty = np.full(grid.n_states, np.nan)
    return _figure(grid, empty, "", text("title", title), (None, None), ACTIONS)


def draw_on_grid(
    grid: GridMap | str | Sequence[str],
    values: ArrayLike,
    *,
    label: str,
    title: str = "",
    limits: tuple[float | None, float | None] = (None, None),
    actions: tuple[str, ...] = ACTIONS,
) -> "Figure":
    """Draw values, bounds or the known set on a map, as colours with a colour bar.

    Values [s] fill the cells of their states. Values [s, a] fill one triangle per pair, on the side
    of the cell that the action points to. A state where some value is not finite keeps the
    colour that it has on the map.

    Args:
        grid: the map, or its rows.
        values: numbers or booleans, [s] or [s, a].
        label: the label of the colour bar.
        title: the title of the figure.
        limits: the numbers that get the darkest and the lightest colour. The default for either is
            the least or the greatest finite value.
        actions: the names of the actions, in the order of the second axis of `values`.
    """
    grid = grid if isinstance(grid, GridMap) else GridMap.read(grid)
    array = numbers("values", values)
    label, title = text("label", label), text("title", title)
    is_list = isinstance(actions, list | tuple)
    if not is_list or not all(isinstance(name, str) and name in ACTIONS for name in actions):
        raise InvalidArgument(
            f"actions is {shown(actions)}: expected names among {', '.join(ACTIONS)}"
        )
    limits = _checked_limits(limits)
    if array.shape not in ((grid.n_states,), (grid.n_states, len(actions))):
        raise InvalidArgument(
            f"values has shape {array.shape}: expected ({grid.n_states},) or "
            f"({grid.n_states}, {len(actions)}), for the states of the map and the actions"
        )
    return _figure(grid, array, label, title, limits, tuple(actions))


def _checked_limits(limits: Any) -> tuple[float | None, float | None]:
    """Return the limits of a colour bar, each a finite number or None, the lower one first."""
    expected = "expected a pair of finite numbers or None, the lower limit first"
    if not isinstance(limits, list | tuple) or len(limits) != 2:
        raise InvalidArgument(f"limits is {shown(limits)}: {expected}")
    low, high = (
        None if limit is None else real_number("an entry of limits", limit, expected)
        for limit in limits
    )
    if low is not None and high is not None and not low <= high:
        raise InvalidArgument(f"limits is {shown(limits)}: {expected}")
    return low, high


def _figure(
    grid: GridMap,
    values: np.ndarray,
    label: str,
    title: str,
    limits: tuple[float | None, float | None],
    actions: tuple[str, ...],
) -> "Figure":
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    n_rows, n_columns = grid.symbols.shape
    bar_width = 0.9 if label else 0.0
    figure, ax = new_figure(max(2.2, 0.36 * n_columns + bar_width), max(1.4, 0.36 * n_rows + 0.3))
    finite = values[np.isfinite(values)]
    low, high = limits
    norm = Normalize(
        low if low is not None else (finite.min() if finite.size else 0.0),
        high if high is not None else (finite.max() if finite.size else 1.0),
    )
    colours = colormaps["cividis"]  # made for colour-blind readers too

    def colour(value: float) -> object:
        return colours(norm(value)) if np.isfinite(value) else "white"

    _draw_cells(ax, grid)
    for s, (row, column) in enumerate(grid.positions):
        if np.isfinite(values[s]).all():
            _draw_values(ax, (row, column), values[s], colour, actions)
        symbol = str(grid.symbols[row, column])
        if symbol in "SG":
            is_dark = np.isfinite(values[s]).all() and norm(float(np.mean(values[s]))) < 0.5
            text_colour = "white" if is_dark else "black"
            ax.text(column, row, symbol, ha="center", va="center", color=text_colour, weight="bold")
    ax.set_xlim(-0.5, n_columns - 0.5)
    ax.set_ylim(n_rows - 0.5, -0.5)
    ax.set_aspect("equal")
    ax.axis("off")
    if title:
        ax.set_title(title, fontsize="medium")
    if label:
        figure.colorbar(ScalarMappable(norm, colours), ax=ax, label=label, shrink=0.8)
    return figure


def _draw_cells(ax: "Axes", grid: GridMap) -> None:
    from matplotlib.patches import Rectangle

    for (row, column), symbol in np.ndenumerate(grid.symbols):
        face = "#404040" if symbol == "#" or symbol in grid.closed else "white"
        face = CLOSABLE_COLOURS.get(str(symbol), face) if not grid.closed else face
        face = GOAL_COLOUR if symbol == "G" else face
        ax.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, facecolor=face, edgecolor="0.8"))


def _draw_values(
    ax: "Axes",
    cell: tuple[int, int],
    values: Any,
    colour: Callable[[float], Any],
    actions: tuple[str, ...],
) -> None:
    """Fill a cell with the colour of its value, or one triangle per action with its colour."""
    from matplotlib.patches import Polygon, Rectangle

    row, column = cell
    if np.ndim(values) == 0:
        corner = (column - 0.5, row - 0.5)
        ax.add_patch(Rectangle(corner, 1, 1, facecolor=colour(float(values)), linewidth=0))
        return
    for a, name in enumerate(actions):
        corners = [(column + x, row + y) for x, y in (*TRIANGLES[name], (0.0, 0.0))]
        ax.add_patch(Polygon(corners, facecolor=colour(values[a]), linewidth=0))
