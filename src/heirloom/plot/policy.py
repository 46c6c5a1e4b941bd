"""A policy as a map: which action each state has, where it was tried, and where it is certain."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from heirloom.errors import InvalidArgument
from heirloom.plot.style import OTHER_COLOURS, legend_below, literal, new_figure
from heirloom.validation import shown, text

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]
    from matplotlib.figure import Figure

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
    return _figure(image, row_labels, column_labels, actions, _dots(table, row, column), title)


def _figure(
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
    if text("title", title):
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
