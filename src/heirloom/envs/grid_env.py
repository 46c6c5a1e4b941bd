"""Grid worlds as Gymnasium environments with rendering, and the ids of the paper's tasks."""

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np

from heirloom.envs import paper_tasks
from heirloom.errors import InvalidArgument
from heirloom.mdp.gymnasium import TabularEnv
from heirloom.mdp.scene import CLOSED
from heirloom.mdp.tabular import TabularMDP

CELL = 24  # width and height of a cell in pixels
COLOURS = {
    "#": (60, 60, 60),
    "S": (230, 230, 230),
    "G": (0, 158, 115),
    ".": (255, 255, 255),
    CLOSED: (120, 120, 120),
}
CLOSABLE, LINE, AGENT = (240, 228, 200), (200, 200, 200), (213, 94, 0)

TASKS: dict[str, tuple[Callable[..., TabularMDP], dict[str, Any], int]] = {
    "Tight": (paper_tasks.tight, {"goal_rewards": 1.0, "slip": 0.0}, 10),
    "Corridor": (paper_tasks.corridor, {"reward": 1.0}, 11),
    "Maze": (paper_tasks.maze, {"layout": "orange"}, 15),
    "HeatMap": (paper_tasks.heat_map, {}, 30),
    "TShape": (paper_tasks.t_shape, {"k": 5, "goal": "up"}, 50),
}
"""The function that builds each task, defaults of its options, and the time limit of episodes."""


class GridEnv(TabularEnv):
    """The environment of a grid world, with `render_mode` "ansi" or "rgb_array".

    Args:
        task: the task, built from a map.
        render_mode: "ansi" for the map as text, with `@` for the agent; "rgb_array" for an image.
    """

    metadata = {"render_modes": ["ansi", "rgb_array"], "render_fps": 4}  # noqa: RUF012

    def __init__(self, task: TabularMDP, *, render_mode: str | None = None) -> None:
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise InvalidArgument(
                f"render_mode is {render_mode!r}: expected None, 'ansi' or 'rgb_array'"
            )
        if task.scene is None or task.scene.style != "grid":
            raise InvalidArgument("the task has no map: build it with grid_world")
        super().__init__(task)
        self.symbols = np.array([list(row) for row in task.scene.cells])
        self.render_mode = render_mode

    def render(self) -> Any:
        """Draw the map with the agent; return None without a `render_mode`."""
        if self.render_mode == "ansi":
            return as_text(self.symbols, self.s)
        if self.render_mode == "rgb_array":
            return as_pixels(self.symbols, self.s)
        return None


def as_text(symbols: np.ndarray, s: int | None = None) -> str:
    """Draw a map [row, column] as text: closed cells as walls, the agent in state `s` as `@`."""
    drawn = np.where(symbols == CLOSED, "#", symbols)
    if s is not None:
        drawn[tuple(np.argwhere(symbols != "#")[s])] = "@"
    return "\n".join("".join(row) for row in drawn)


def as_pixels(symbols: np.ndarray, s: int | None = None) -> np.ndarray:
    """Draw a map [row, column] as an image, [row, column, RGB], with the agent in state `s`."""
    n_rows, n_columns = symbols.shape
    pixels = np.empty((n_rows * CELL, n_columns * CELL, 3), dtype=np.uint8)
    for (row, column), symbol in np.ndenumerate(symbols):
        colour = COLOURS.get(str(symbol), CLOSABLE)
        pixels[row * CELL : (row + 1) * CELL, column * CELL : (column + 1) * CELL] = colour
    pixels[::CELL], pixels[:, ::CELL] = LINE, LINE
    if s is not None:
        row, column = np.argwhere(symbols != "#")[s]
        y, x = np.mgrid[:CELL, :CELL] - (CELL - 1) / 2
        disc = x**2 + y**2 <= (CELL / 3) ** 2
        cell = pixels[row * CELL : (row + 1) * CELL, column * CELL : (column + 1) * CELL]
        cell[disc] = AGENT
    return pixels


def register() -> None:
    """Register `heirloom/Tight-v0`, `heirloom/Corridor-v0` and so on with Gymnasium."""
    for name, (_, _, max_steps) in TASKS.items():
        gym.register(
            f"heirloom/{name}-v0",
            entry_point=f"{__name__}:make",
            max_episode_steps=max_steps,
            kwargs={"name": name},
        )


def make(name: str, *, render_mode: str | None = None, **options: Any) -> GridEnv:
    """Make the environment of a task of the paper; options are those of its function."""
    build, defaults, _ = TASKS[name]
    return GridEnv(build(**{**defaults, **options}), render_mode=render_mode)
