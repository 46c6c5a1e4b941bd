"""The tasks of the paper's experiments, built from their parameters.

Where the text of the paper and the authors' released settings differ, a task has both variants.
"""

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from heirloom import validation
from heirloom.choices import Variant
from heirloom.envs.grid import GridMap, grid_world
from heirloom.errors import InvalidArgument
from heirloom.mdp.tabular import TabularMDP
from heirloom.validation import one_of, probability, real_number, whole_number

Interval = tuple[float, float]
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


def checked_interval(name: str, interval: Interval) -> Interval:
    """Return an interval within [0, 1]; raise `InvalidArgument` if it is not one."""
    what = "expected an interval (lo, hi) with 0 <= lo <= hi <= 1"
    return validation.interval(name, interval, what, least=0, most=1)


def goal_rewards(variant: Variant) -> Interval:
    """Return the interval from which goal rewards are drawn."""
    return (0.8, 1.0) if checked_variant(variant) == "text" else (0.9, 1.0)
