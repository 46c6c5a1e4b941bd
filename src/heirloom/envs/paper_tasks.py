"""The tasks of the paper's experiments, built from their parameters, and their Gymnasium ids.

Where the text of the paper and the authors' released settings differ, a task has both variants.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal, get_args

import gymnasium as gym
import numpy as np
from numpy.typing import ArrayLike

from heirloom import validation
from heirloom.choices import Variant
from heirloom.envs.grid import GridMap, grid_world
from heirloom.errors import InvalidArgument
from heirloom.mdp.gymnasium import TabularEnv
from heirloom.mdp.scene import CLOSED
from heirloom.mdp.tabular import TabularMDP
from heirloom.validation import Range, one_of, probability, real_number, whole_number

Layout = Literal["orange", "green"]
End = Literal["up", "down"]

TIGHT = (
    "." * 9 + "GG",
    "." * 10 + "G",
    *("." * 11,) * 3,
    "." * 5 + "S" + "." * 5,
    *("." * 11,) * 5,
)
CORRIDOR = ("." * 10 + "S" + "." * 8 + "G",)
# The map of the authors' scripts. Cells `o` are closed in the layout "orange", cells `g` in the
# layout "green". The shortest path takes 13 steps in "orange" and 7 steps in "green".
MAZE = (
    "..#####....",
    "o.#...#.##g",
    "og#.#.#.#G.",
    "....#...o..",
    "g####.#####",
    "...#.S.....",
    "##.#.####.#",
    ".....#.g...",
    ".#o#...###.",
    ".g.###.o.#.",
    ".#.....#...",
)
LARGEST_K = 100_000  # inner cells of a T
HEAT_MAP = (".#.G", "....", ".###", "S...")
OTHER_HEAT_MAP = (".#G.", "....", ".###", "S...")


def tight(
    goal_rewards: ArrayLike, slip: float, *, variant: Variant = "released", gamma: float = 0.9
) -> TabularMDP:
    """Build the 11x11 grid of the main experiment, with three goals in the upper right corner.

    In the variant "text" goals pay for acting in them, and slipping leads to any other action. In
    the variant "released" goals pay for entering them, and slipping leads to the two sides. Goals
    are never terminal.
    """
    text = checked_variant(variant) == "text"
    return grid_world(
        TIGHT,
        gamma=gamma,
        slip=slip,
        slip_to="others" if text else "sides",
        goal_rewards=goal_rewards,
        reward_on="acting" if text else "entering",
    )


def corridor(reward: float, *, gamma: float = 0.9) -> TabularMDP:
    """Build the corridor: 20 cells in a row, two actions, a terminal goal at the right end."""
    return grid_world(
        CORRIDOR,
        gamma=gamma,
        goal_rewards=reward,
        reward_on="entering",
        terminal=True,
        actions=("left", "right"),
    )


def maze_map(layout: Layout) -> GridMap:
    """Return the map of a layout: `o` is closed in "orange", `g` in "green"."""
    one_of("layout", layout, get_args(Layout))
    return GridMap.read(MAZE, closed=layout[0])


def maze(layout: Layout, *, slip: float = 0.0, gamma: float = 0.9) -> TabularMDP:
    """Build the 11x11 maze in one of two layouts with the same states; its terminal goal pays 1."""
    return grid_world(
        maze_map(layout),
        gamma=gamma,
        slip=slip,
        slip_to="sides",
        reward_on="entering",
        terminal=True,
    )


def heat_map(
    *,
    cells: str | Sequence[str] | GridMap = HEAT_MAP,
    slip: float = 0.1,
    width: float = 1.0,
    peak: float = 1.0,
    gamma: float = 0.9,
) -> TabularMDP:
    """Build a grid where acting in a cell pays peak * exp(-distance² / (2 width²)).

    The distance is the Euclidean one from the cell to the goal.
    """
    grid = cells if isinstance(cells, GridMap) else GridMap.read(cells)
    goals = grid.positions[grid.state_symbols == "G"]
    if len(goals) != 1:
        raise InvalidArgument(f"the map has {len(goals)} goals: expected exactly one `G`")
    goal = goals[0]
    width = real_number("width", width, "expected a positive number of cells", above=0)
    peak = probability("peak", peak)
    squared = ((grid.positions - goal) ** 2).sum(axis=1)
    rewards = peak * np.exp(-squared / (2 * width**2))
    return grid_world(grid, gamma=gamma, slip=slip, cell_rewards=rewards)


def t_shape_map(k: int, *, goal: End) -> GridMap:
    """Return the map of a T: start I, k cells, junction A, with B above A and C below it.

    The goal is B if `goal` is "up", and C if it is "down".
    """
    one_of("goal", goal, get_args(End))
    wall = "#" * (whole_number("k", k, least=0, most=LARGEST_K) + 1)
    ends = ("G", ".") if goal == "up" else (".", "G")
    return GridMap.read((wall + ends[0], "S" + "." * (k + 1), wall + ends[1]))


def t_shape(k: int, *, goal: End, gamma: float = 0.9) -> TabularMDP:
    """Build a T of k + 4 cells: the start is the foot of its stem, the goal one end of its bar."""
    return grid_world(t_shape_map(k, goal=goal), gamma=gamma, reward_on="entering", terminal=True)


def checked_variant(variant: Variant) -> Variant:
    """Return the variant; raise `InvalidArgument` if there is no such variant."""
    one_of("variant", variant, get_args(Variant))
    return variant


def checked_interval(name: str, interval: Range) -> Range:
    """Return an interval within [0, 1]; raise `InvalidArgument` if it is not one."""
    what = "expected an interval (lo, hi) with 0 <= lo <= hi <= 1"
    return validation.interval(name, interval, what, least=0, most=1)


def goal_rewards(variant: Variant) -> Range:
    """Return the interval from which goal rewards are drawn."""
    return (0.8, 1.0) if checked_variant(variant) == "text" else (0.9, 1.0)


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
    "Tight": (tight, {"goal_rewards": 1.0, "slip": 0.0}, 10),
    "Corridor": (corridor, {"reward": 1.0}, 11),
    "Maze": (maze, {"layout": "orange"}, 15),
    "HeatMap": (heat_map, {}, 30),
    "TShape": (t_shape, {"k": 5, "goal": "up"}, 50),
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
