"""The families of the paper's experiments, each a distribution that tasks are drawn from.

Where the text of the paper and the authors' released settings differ, a family has both variants.
"""

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from heirloom.arrays import FloatArray
from heirloom.choices import Variant
from heirloom.envs.family import TaskFamily
from heirloom.envs.grid import GridMap, grid_world
from heirloom.envs.paper_tasks import (
    OTHER_HEAT_MAP,
    Interval,
    Layout,
    checked_interval,
    checked_variant,
    corridor,
    goal_rewards,
    heat_map,
    maze,
    t_shape,
    tight,
)
from heirloom.mdp.garnet import garnet
from heirloom.mdp.tabular import TabularMDP
from heirloom.metrics.pseudometrics import family_distance


@dataclass(frozen=True)
class Tight(TaskFamily):
    """The 11x11 grid of the main experiment; goal rewards and slip are drawn."""

    variant: Variant = "released"
    gamma: float = 0.9
    slips: Interval = (0.0, 0.1)

    @property
    def rewards(self) -> Interval:
        """The interval of goal rewards."""
        return goal_rewards(self.variant)

    def draw(self, rng: np.random.Generator) -> TabularMDP:
        """Rewards first, then the slip."""
        rewards = rng.uniform(*self.rewards, 3)
        slip = rng.uniform(*checked_interval("slips", self.slips))
        return tight(rewards, slip, variant=self.variant, gamma=self.gamma)


@dataclass(frozen=True)
class Corridor(TaskFamily):
    """The corridor of 20 cells; its reward is drawn."""

    variant: Variant = "released"
    gamma: float = 0.9

    def draw(self, rng: np.random.Generator) -> TabularMDP:
        """A reward at random."""
        return corridor(rng.uniform(*goal_rewards(self.variant)), gamma=self.gamma)


@dataclass(frozen=True)
class Maze(TaskFamily):
    """The maze in two layouts, equally likely; as released with a slip that is drawn."""

    variant: Variant = "released"
    gamma: float = 0.9
    p_min: float | None = field(default=0.5, init=False)

    def draw(self, rng: np.random.Generator) -> TabularMDP:
        """A layout, then a slip."""
        layout: Layout = "orange" if rng.random() < 0.5 else "green"
        slip = rng.uniform(0.0, 0.2) if checked_variant(self.variant) == "released" else 0.0
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
            goal_rewards=rng.uniform(*checked_interval("rewards", self.rewards), n_goals),
            slip=rng.uniform(*checked_interval("slips", self.slips)),
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
