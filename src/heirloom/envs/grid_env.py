"""Grid worlds as Gymnasium environments that can be looked at."""

from typing import Any

import numpy as np

from heirloom.envs.grid import GridMap
from heirloom.errors import InvalidArgument
from heirloom.mdp.gymnasium import TabularEnv
from heirloom.mdp.tabular import TabularMDP

CELL = 24  # pixels
COLOURS = {"#": (60, 60, 60), "S": (230, 230, 230), "G": (0, 158, 115), ".": (255, 255, 255)}
CLOSED, CLOSABLE, LINE, AGENT = (120, 120, 120), (240, 228, 200), (200, 200, 200), (213, 94, 0)


class GridEnv(TabularEnv):
    """An environment over the task of a map, with `render_mode` "ansi" or "rgb_array".

    Args:
        task: the task.
        grid: its map.
        render_mode: "ansi" for the map as text, with `@` for the agent; "rgb_array" for pixels.
    """

    metadata = {"render_modes": ["ansi", "rgb_array"], "render_fps": 4}  # noqa: RUF012

    def __init__(self, task: TabularMDP, grid: GridMap, *, render_mode: str | None = None) -> None:
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise InvalidArgument(
                f"render_mode is {render_mode!r}: it is None, 'ansi' or 'rgb_array'"
            )
        if grid.n_states != task.n_states:
            raise InvalidArgument(
                f"the map has {grid.n_states} states, and the task {task.n_states}: give its own"
            )
        super().__init__(task)
        self.grid = grid
        self.render_mode = render_mode

    def render(self) -> Any:
        """The map with the agent in it."""
        if self.render_mode == "ansi":
            return as_text(self.grid, self.s)
        if self.render_mode == "rgb_array":
            return as_pixels(self.grid, self.s)
        return None


def as_text(grid: GridMap, s: int | None = None) -> str:
    """The map, one line a row; closed cells are walls, `@` is where the agent is."""
    symbols = grid.symbols.copy()
    rows, columns = grid.positions[grid.is_closed].T
    symbols[rows, columns] = "#"
    if s is not None:
        symbols[tuple(grid.positions[s])] = "@"
    return "\n".join("".join(row) for row in symbols)


def as_pixels(grid: GridMap, s: int | None = None) -> np.ndarray:
    """The map, [row, column, red-green-blue]."""
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
        here = pixels[row * CELL : (row + 1) * CELL, column * CELL : (column + 1) * CELL]
        here[disc] = AGENT
    return pixels
