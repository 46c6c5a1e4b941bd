"""The tasks of the paper's experiments, each from its parameters.

Where the text of the paper and the authors' released settings differ, a family has both variants.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from heirloom.choices import Variant
from heirloom.envs.grid import GridMap, grid_world
from heirloom.errors import InvalidArgument
from heirloom.mdp.tabular import TabularMDP
from heirloom.validation import probability, real_number, whole_number

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
# The orange cell `o` is a wall in one layout, the green one `g` in the other: the way of 11 steps
# through the open one is the mirror image of the other, and the way around the ring takes 15.
MAZE = (
    "...........",
    ".####.####.",
    ".#.......#.",
    ".#.##.##.#.",
    ".#.#...#.o.",
    "...#.S.#.#G",
    ".#.#...#.g.",
    ".#.##.##.#.",
    ".#.......#.",
    ".####.####.",
    "...........",
)
HEAT_MAP = (".#.G", "....", ".###", "S...")
OTHER_HEAT_MAP = (".#G.", "....", ".###", "S...")


def tight(
    goal_rewards: ArrayLike, slip: float, *, variant: Variant = "released", gamma: float = 0.9
) -> TabularMDP:
    """The 11x11 grid of the main experiment, with three goals in the upper right corner.

    In the text goals pay for acting in them and slipping takes any other action; as released they
    pay for being entered, and slipping goes to the sides. Goals never terminate.
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
    """20 cells in a row, left and right; the goal at the right end pays when it is entered."""
    return grid_world(
        CORRIDOR,
        gamma=gamma,
        goal_rewards=reward,
        reward_on="entering",
        terminal=True,
        actions=("left", "right"),
    )


def maze_map(layout: Layout) -> GridMap:
    """The map of a layout: orange cells are walls in one, green cells in the other."""
    if layout not in ("orange", "green"):
        raise InvalidArgument(f"layout is {layout!r}: it is 'orange' or 'green'")
    return GridMap.read(MAZE, closed=layout[0])


def maze(layout: Layout, *, slip: float = 0.0, gamma: float = 0.9) -> TabularMDP:
    """An 11x11 maze in one of two layouts, with the same states; the goal pays 1 and terminates."""
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
    """A 4x4 grid where acting in a cell pays peak * exp(-distance² / (2 width²)) from the goal."""
    grid = cells if isinstance(cells, GridMap) else GridMap.read(cells)
    goals = grid.positions[grid.state_symbols == "G"]
    if len(goals) != 1:
        raise InvalidArgument(f"the map has {len(goals)} goals: a heat map has one")
    goal = goals[0]
    width = real_number("width", width, "the width is a positive number", above=0)
    peak = probability("peak", peak)
    squared = ((grid.positions - goal) ** 2).sum(axis=1)
    rewards = peak * np.exp(-squared / (2 * width**2))
    return grid_world(grid, gamma=gamma, slip=slip, cell_rewards=rewards)


def t_shape_map(k: int, *, goal: End) -> GridMap:
    """I, then k cells, then A, with B above it and C below; B or C is the goal."""
    if goal not in ("up", "down"):
        raise InvalidArgument(f"goal is {goal!r}: it is 'up' or 'down'")
    wall = "#" * (whole_number("k", k, least=0) + 1)
    ends = ("G", ".") if goal == "up" else (".", "G")
    return GridMap.read((wall + ends[0], "S" + "." * (k + 1), wall + ends[1]))


def t_shape(k: int, *, goal: End, gamma: float = 0.9) -> TabularMDP:
    """A T of k + 4 cells: from the far end of its foot to the goal at one end of its bar."""
    return grid_world(t_shape_map(k, goal=goal), gamma=gamma, reward_on="entering", terminal=True)


def checked_variant(variant: Variant) -> Variant:
    """The variant; raises `InvalidArgument` if it is none."""
    if variant not in ("text", "released"):
        raise InvalidArgument(f"variant is {variant!r}: it is 'text' or 'released'")
    return variant


def checked_interval(name: str, interval: Interval) -> Interval:
    """An interval of probabilities; raises `InvalidArgument` if it is none."""
    try:
        lo, hi = (probability(name, end) for end in interval)
    except (TypeError, ValueError):
        lo, hi = 1.0, 0.0
    if lo > hi:
        raise InvalidArgument(
            f"{name} is {interval!r}: it is an interval (lo, hi), 0 <= lo <= hi <= 1"
        )
    return lo, hi


def goal_rewards(variant: Variant) -> Interval:
    """The interval from which the rewards of goals are drawn."""
    return (0.8, 1.0) if checked_variant(variant) == "text" else (0.9, 1.0)
