"""The families of tasks of the paper's experiments, each a distribution that tasks are drawn from.

Where the text of the paper and the authors' released settings differ, a family has both variants.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from heirloom.arrays import FloatArray
from heirloom.choices import Variant
from heirloom.envs.family import TaskFamily
from heirloom.envs.grid import GridMap, grid_world
from heirloom.errors import InvalidArgument
from heirloom.mdp.garnet import garnet
from heirloom.mdp.tabular import TabularMDP
from heirloom.metrics.pseudometrics import family_distance
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


@dataclass(frozen=True)
class Tight(TaskFamily):
    """The 11x11 grid of the main experiment; goal rewards and slip are drawn."""

    variant: Variant = "released"
    gamma: float = 0.9
    slips: Interval = (0.0, 0.1)

    @property
    def rewards(self) -> Interval:
        """The interval of goal rewards."""
        return _rewards(self.variant)

    def draw(self, rng: np.random.Generator) -> TabularMDP:
        """Rewards first, then the slip."""
        rewards = rng.uniform(*self.rewards, 3)
        slip = rng.uniform(*_interval("slips", self.slips))
        return tight(rewards, slip, variant=self.variant, gamma=self.gamma)


@dataclass(frozen=True)
class Corridor(TaskFamily):
    """The corridor of 20 cells; its reward is drawn."""

    variant: Variant = "released"
    gamma: float = 0.9

    def draw(self, rng: np.random.Generator) -> TabularMDP:
        """A reward at random."""
        return corridor(rng.uniform(*_rewards(self.variant)), gamma=self.gamma)


@dataclass(frozen=True)
class Maze(TaskFamily):
    """The maze in two layouts, equally likely; as released with a slip that is drawn."""

    variant: Variant = "released"
    gamma: float = 0.9
    p_min: float | None = field(default=0.5, init=False)

    def draw(self, rng: np.random.Generator) -> TabularMDP:
        """A layout, then a slip."""
        layout: Layout = "orange" if rng.random() < 0.5 else "green"
        slip = rng.uniform(0.0, 0.2) if _checked(self.variant) == "released" else 0.0
        return maze(layout, slip=slip, gamma=self.gamma)


@dataclass(frozen=True)
class HeatMap(TaskFamily):
    """The two tasks of the prior-use experiment, equally likely."""

    gamma: float = 0.9
    p_min: float | None = field(default=0.5, init=False)

    @property
    def tasks(self) -> tuple[TabularMDP, TabularMDP]:
        """The first, then the second."""
        return (
            heat_map(gamma=self.gamma),
            heat_map(cells=OTHER_HEAT_MAP, slip=0.05, width=1.5, peak=0.6, gamma=self.gamma),
        )

    @property
    def all_tasks(self) -> list[TabularMDP]:
        """The first, then the second."""
        return list(self.tasks)

    def draw(self, rng: np.random.Generator) -> TabularMDP:
        """One of the two."""
        return self.tasks[int(rng.random() * 2)]


@dataclass(frozen=True)
class TShape(TaskFamily):
    """The source and the target of the example of negative transfer, equally likely."""

    k: int = 5
    gamma: float = 0.9
    p_min: float | None = field(default=0.5, init=False)

    @property
    def tasks(self) -> tuple[TabularMDP, TabularMDP]:
        """The source, then the target."""
        return (
            t_shape(self.k, goal="up", gamma=self.gamma),
            t_shape(self.k, goal="down", gamma=self.gamma),
        )

    @property
    def d_max(self) -> FloatArray:
        """The largest distance of the two, [s, a]: a prior that holds."""
        return family_distance(self.tasks)

    @property
    def all_tasks(self) -> list[TabularMDP]:
        """The source, then the target."""
        return list(self.tasks)

    def draw(self, rng: np.random.Generator) -> TabularMDP:
        """One of the two."""
        return self.tasks[int(rng.random() * 2)]


@dataclass(frozen=True)
class Grid(TaskFamily):
    """Grid worlds on one map, with what goals pay and the slip drawn uniformly.

    The other options are those of `grid_world`.
    """

    cells: tuple[str, ...]
    gamma: float = 0.9
    rewards: Interval = (1.0, 1.0)
    slips: Interval = (0.0, 0.0)
    slip_to: Literal["others", "sides"] = "others"
    reward_on: Literal["acting", "entering"] = "acting"
    terminal: bool = False

    def draw(self, rng: np.random.Generator) -> TabularMDP:
        """Rewards first, one a goal, then the slip."""
        grid = GridMap.read(self.cells)
        n_goals = int((grid.state_symbols == "G").sum())
        return grid_world(
            grid,
            gamma=self.gamma,
            goal_rewards=rng.uniform(*_interval("rewards", self.rewards), n_goals),
            slip=rng.uniform(*_interval("slips", self.slips)),
            slip_to=self.slip_to,
            reward_on=self.reward_on,
            terminal=self.terminal,
        )


@dataclass(frozen=True)
class Garnet(TaskFamily):
    """Random tasks that have nothing in common but their size."""

    n_states: int
    n_actions: int
    branching: int
    gamma: float = 0.9
    terminating: float = 0.0

    def draw(self, rng: np.random.Generator) -> TabularMDP:
        """A random task."""
        return garnet(
            self.n_states,
            self.n_actions,
            branching=self.branching,
            gamma=self.gamma,
            terminating=self.terminating,
            seed=rng,
        )


def tight(
    goal_rewards: ArrayLike, slip: float, *, variant: Variant = "released", gamma: float = 0.9
) -> TabularMDP:
    """The 11x11 grid of the main experiment, with three goals in the upper right corner.

    In the text goals pay for acting in them and slipping takes any other action; as released they
    pay for being entered, and slipping goes to the sides. Goals never terminate.
    """
    text = _checked(variant) == "text"
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


def _checked(variant: Variant) -> Variant:
    if variant not in ("text", "released"):
        raise InvalidArgument(f"variant is {variant!r}: it is 'text' or 'released'")
    return variant


def _interval(name: str, interval: Interval) -> Interval:
    try:
        lo, hi = (probability(name, end) for end in interval)
    except (TypeError, ValueError):
        lo, hi = 1.0, 0.0
    if lo > hi:
        raise InvalidArgument(
            f"{name} is {interval!r}: it is an interval (lo, hi), 0 <= lo <= hi <= 1"
        )
    return lo, hi


def _rewards(variant: Variant) -> Interval:
    return (0.8, 1.0) if _checked(variant) == "text" else (0.9, 1.0)
