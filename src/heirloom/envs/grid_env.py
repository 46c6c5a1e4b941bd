"""Grid worlds as Gymnasium environments with rendering."""

from typing import Any

import numpy as np

from heirloom.envs.grid import GridMap
from heirloom.errors import InvalidArgument
from heirloom.mdp.gymnasium import TabularEnv
from heirloom.mdp.tabular import TabularMDP
from heirloom.wording import counted

CELL = 24  # width and height of a cell in pixels
COLOURS = {"#": (60, 60, 60), "S": (230, 230, 230), "G": (0, 158, 115), ".": (255, 255, 255)}
CLOSED, CLOSABLE, LINE, AGENT = (120, 120, 120), (240, 228, 200), (200, 200, 200), (213, 94, 0)


class GridEnv(TabularEnv):
    """The environment of a grid world, with `render_mode` "ansi" or "rgb_array".

    Args:
        task: the task.
        grid: the map of the task.
        render_mode: "ansi" for the map as text, with `@` for the agent; "rgb_array" for an image.
    """

    metadata = {"render_modes": ["ansi", "rgb_array"], "render_fps": 4}  # noqa: RUF012

    def __init__(self, task: TabularMDP, grid: GridMap, *, render_mode: str | None = None) -> None:
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise InvalidArgument(
                f"render_mode is {render_mode!r}: expected None, 'ansi' or 'rgb_array'"
            )
        if grid.n_states != task.n_states:
            raise InvalidArgument(
                f"the map has {counted(grid.n_states, 'state')}, but the task has {task.n_states}: "
                "give the map from which the task was built"
            )
        super().__init__(task)
        self.grid = grid
        self.render_mode = render_mode

    def render(self) -> Any:
        """Draw the map with the agent; return None without a `render_mode`."""
        if self.render_mode == "ansi":
            return as_text(self.grid, self.s)
        if self.render_mode == "rgb_array":
            return as_pixels(self.grid, self.s)
        return None


def as_text(grid: GridMap, s: int | None = None) -> str:
    """Draw the map as text: closed cells as walls, the agent in state `s` as `@`."""
    symbols = grid.symbols.copy()
    rows, columns = grid.positions[grid.is_closed].T
    symbols[rows, columns] = "#"
    if s is not None:
        symbols[tuple(grid.positions[s])] = "@"
    return "\n".join("".join(row) for row in symbols)


def as_pixels(grid: GridMap, s: int | None = None) -> np.ndarray:
    """Draw the map as an image, [row, column, RGB], with the agent in state `s`."""
    n_rows, n_columns = grid.symbols.shape
    pixels = np.empty((n_rows * CELL, n_columns * CELL, 3), dtype=np.uint8)
    for (row, column), symbol in np.ndenumerate(grid.symbols):
        colour = CLOSED if symbol in grid.closed else COLOURS.get(str(symbol), CLOSABLE)
        pixels[row * CELL : (row + 1) * CELL, column * CELL : (column + 1) * CELL] = colour
    pixels[::CELL], pixels[:, ::CELL] = LINE, LINE
    if s is not None:
        row, column = grid.positions[s]
        y, x = np.mgrid[:CELL, :CELL] - (CELL - 1) / 2
        disc = x**2 + y**2 <= (CELL / 3) ** 2
        cell = pixels[row * CELL : (row + 1) * CELL, column * CELL : (column + 1) * CELL]
        cell[disc] = AGENT
    return pixels
