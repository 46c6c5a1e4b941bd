"""Maps: of grids, with values, bounds or the known set as colours, and of policies."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from heirloom.envs.grid import ACTIONS, GridMap
from heirloom.errors import InvalidArgument
from heirloom.plot.style import OTHER_COLOURS, legend_below, literal, new_figure
from heirloom.validation import numbers, shown

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]
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
    return _figure(grid, empty, "", title, (None, None), ACTIONS)


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
    is_list = isinstance(actions, list | tuple)
    if not is_list or not all(isinstance(name, str) and name in ACTIONS for name in actions):
        raise InvalidArgument(
            f"actions is {shown(actions)}: expected names among {', '.join(ACTIONS)}"
        )
    if array.shape not in ((grid.n_states,), (grid.n_states, len(actions))):
        raise InvalidArgument(
            f"values has shape {array.shape}: expected ({grid.n_states},) or "
            f"({grid.n_states}, {len(actions)}), for the states of the map and the actions"
        )
    return _figure(grid, array, label, title, limits, tuple(actions))


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


# Neighbours differ also for colour-blind readers.
PALETTE = ("#E69F00", "#0072B2", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", *OTHER_COLOURS)
PALE = 0.25  # opacity of a choice that was never tried
MOST_ROWS = 200


def draw_policy(
    table: "pd.DataFrame",
    *,
    rows: ArrayLike | None = None,
    columns: ArrayLike | None = None,
    title: str = "",
) -> "Figure":
    """Draw a policy table as a map: a cell per state, in the colour of its action.

    A cell is pale if the action was never tried there, and has a dot if the choice is certain.

    Args:
        table: the table that `policy_table` returns, or one with its columns `state` and `action`.
        rows: the label of the row of each state, [s], such as its price; by default the states
            are the rows.
        columns: the label of the column of each state, [s], such as its charge; by default there
            is one column.
        title: the title of the figure.
    """
    if not {"state", "action"} <= set(getattr(table, "columns", ())) or len(table) == 0:
        raise InvalidArgument(
            f"table is {shown(table)}: expected a table that policy_table returns"
        )
    n = len(table)
    row, row_labels = _places("rows", table["state"] if rows is None else rows, n)
    column, column_labels = _places("columns", [""] * n if columns is None else columns, n)
    if len(row_labels) > MOST_ROWS:
        raise InvalidArgument(
            f"the policy would have {len(row_labels)} rows: expected at most {MOST_ROWS}; give "
            "rows and columns, labels of the states such as their price and their charge"
        )
    shape = len(row_labels), len(column_labels)
    cells = row * shape[1] + column
    if np.unique(cells).size < n:
        values, times = np.unique(cells, return_counts=True)
        both = np.flatnonzero(cells == values[times > 1][0])[:2]
        one, two = (shown(x) for x in table["state"].iloc[both])
        raise InvalidArgument(
            f"states {one} and {two} have the same row and column: give labels that differ"
        )
    actions = list(dict.fromkeys(map(str, sorted(table["action"].unique().tolist()))))
    image = np.ones((*shape, 4))
    visits = table["visits"] if "visits" in table else np.ones(n)
    for i, (action, tried) in enumerate(zip(table["action"], visits, strict=True)):
        image[row[i], column[i]] = _colour(actions.index(str(action)), 1.0 if tried else PALE)
    return _policy_figure(
        image, row_labels, column_labels, actions, _dots(table, row, column), title
    )


def _policy_figure(
    image: np.ndarray,
    rows: list[str],
    columns: list[str],
    actions: list[str],
    dots: tuple[np.ndarray, np.ndarray],
    title: str,
) -> "Figure":
    from matplotlib.patches import Rectangle

    widest, of_column = (max(map(len, labels)) for labels in (rows, columns))
    width = 1.0 + 0.08 * widest + max(0.35, 0.1 * of_column) * len(columns)
    figure, ax = new_figure(max(3.2, width), max(1.8, 1.2 + 0.22 * len(rows)))
    ax.imshow(image, aspect="auto", interpolation="nearest")
    ax.set_yticks(range(len(rows)), [literal(label) for label in rows])
    ax.set_xticks(range(len(columns)), [literal(label) for label in columns])
    ax.set_xticks(np.arange(len(columns) + 1) - 0.5, minor=True)
    ax.set_yticks(np.arange(len(rows) + 1) - 0.5, minor=True)
    ax.grid(which="minor", color="white", linewidth=1)
    ax.tick_params(which="both", length=0)
    for i, action in enumerate(actions):
        ax.add_patch(Rectangle((0, 0), 0, 0, color=_colour(i, 1.0), label=literal(action)))
    if dots[0].size:
        ax.scatter(*dots, s=12, color="black", label="certain")
    legend_below(figure)
    if title:
        ax.set_title(literal(title), fontsize="medium")
    return figure


def _places(name: str, labels: Any, n: int) -> tuple[np.ndarray, list[str]]:
    """Return the place of each state among the different labels, and these in their order."""
    given = [str(label) for label in np.ravel(np.asarray(labels, dtype=object))]
    if len(given) != n:
        raise InvalidArgument(
            f"{name} has {len(given)} labels: expected one for each of the {n} states"
        )
    places = {label: i for i, label in enumerate(dict.fromkeys(given))}
    return np.array([places[label] for label in given]), list(places)


def _dots(table: "pd.DataFrame", row: np.ndarray, column: np.ndarray) -> tuple[Any, Any]:
    certain = np.asarray(table["certain"], dtype=bool) if "certain" in table else row < 0
    return column[certain], row[certain]


def _colour(i: int, opacity: float) -> tuple[float, float, float, float]:
    from matplotlib.colors import to_rgba

    return to_rgba(PALETTE[i % len(PALETTE)], opacity)
