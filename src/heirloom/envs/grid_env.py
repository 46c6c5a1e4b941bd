"""Grid worlds as Gymnasium environments with rendering, and the ids of the paper's tasks."""

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np

from heirloom.choices import Variant
from heirloom.envs import paper_tasks
from heirloom.envs.grid import GridMap
from heirloom.errors import InvalidArgument
from heirloom.mdp.gymnasium import TabularEnv
from heirloom.mdp.tabular import TabularMDP
from heirloom.wording import counted

CELL = 24  # width and height of a cell in pixels
COLOURS = {"#": (60, 60, 60), "S": (230, 230, 230), "G": (0, 158, 115), ".": (255, 255, 255)}
CLOSED, CLOSABLE, LINE, AGENT = (120, 120, 120), (240, 228, 200), (200, 200, 200), (213, 94, 0)

MAX_STEPS = {
    "Tight": 10,
    "Corridor": 11,
    "Maze": 15,
    "HeatMap": 30,
    "TShape": 50,
}


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


def register() -> None:
    """Register `heirloom/Tight-v0`, `heirloom/Corridor-v0` and so on with Gymnasium."""
    makers = {
        "Tight": make_tight,
        "Corridor": make_corridor,
        "Maze": make_maze,
        "HeatMap": make_heat_map,
        "TShape": make_t_shape,
    }
    for name, make in makers.items():
        gym.register(
            f"heirloom/{name}-v0",
            entry_point=f"{__name__}:{make.__name__}",
            max_episode_steps=MAX_STEPS[name],
        )


def make_tight(
    *,
    goal_rewards: Any = 1.0,
    slip: float = 0.0,
    variant: Variant = "released",
    gamma: float = 0.9,
    render_mode: str | None = None,
) -> GridEnv:
    """Make the 11x11 grid of the main experiment."""
    task = paper_tasks.tight(goal_rewards, slip, variant=variant, gamma=gamma)
    return GridEnv(task, GridMap.read(paper_tasks.TIGHT), render_mode=render_mode)


def make_corridor(
    *, reward: float = 1.0, gamma: float = 0.9, render_mode: str | None = None
) -> GridEnv:
    """Make the corridor of 20 cells."""
    task = paper_tasks.corridor(reward, gamma=gamma)
    return GridEnv(task, GridMap.read(paper_tasks.CORRIDOR), render_mode=render_mode)


def make_maze(
    *,
    layout: paper_tasks.Layout = "orange",
    slip: float = 0.0,
    gamma: float = 0.9,
    render_mode: str | None = None,
) -> GridEnv:
    """Make the maze in one of its two layouts."""
    task = paper_tasks.maze(layout, slip=slip, gamma=gamma)
    return GridEnv(task, paper_tasks.maze_map(layout), render_mode=render_mode)


def make_heat_map(
    *,
    cells: str | Sequence[str] = paper_tasks.HEAT_MAP,
    slip: float = 0.1,
    width: float = 1.0,
    peak: float = 1.0,
    gamma: float = 0.9,
    render_mode: str | None = None,
) -> GridEnv:
    """Make the 4x4 heat map of the prior-use experiment."""
    grid = GridMap.read(cells)
    task = paper_tasks.heat_map(cells=grid, slip=slip, width=width, peak=peak, gamma=gamma)
    return GridEnv(task, grid, render_mode=render_mode)


def make_t_shape(
    *,
    k: int = 5,
    goal: paper_tasks.End = "up",
    gamma: float = 0.9,
    render_mode: str | None = None,
) -> GridEnv:
    """Make the T-shaped task of the negative-transfer example."""
    task = paper_tasks.t_shape(k, goal=goal, gamma=gamma)
    return GridEnv(task, paper_tasks.t_shape_map(k, goal=goal), render_mode=render_mode)
