"""The task families of the paper's experiments, and families of grids and random tasks.

Where the text of the paper and the authors' released settings differ, a family has both variants.
"""

import itertools
from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from heirloom.arrays import FloatArray
from heirloom.choices import Variant
from heirloom.envs.family import FiniteFamily, TaskFamily
from heirloom.envs.grid import GridMap, grid_world
from heirloom.envs.paper_tasks import (
    OTHER_HEAT_MAP,
    End,
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
from heirloom.validation import Range

MAX_GOALS = 5  # a grid with n goals has 2^(n + 1) corners, which are computed up to this n


@dataclass(frozen=True)
class Corridor(TaskFamily):
    """The paper's corridor of 20 cells; tasks differ in the reward of the goal."""

    variant: Variant = "released"
    gamma: float = 0.9

    def draw(self, rng: np.random.Generator) -> TabularMDP:
        """Draw the reward of the goal."""
        return corridor(rng.uniform(*goal_rewards(self.variant)), gamma=self.gamma)

    @property
    def corners(self) -> list[TabularMDP]:
        """The tasks with the smallest and the largest reward of the goal."""
        return [corridor(reward, gamma=self.gamma) for reward in goal_rewards(self.variant)]


@dataclass(frozen=True)
class Maze(TaskFamily):
    """The paper's maze; tasks differ in the layout of walls and, in the released variant, in slip.

    The two layouts are equally likely, and `p_min` is the probability of a layout. The slip of the
    released variant is continuous, so the guarantees that depend on `p_min` apply there only to
    experiments that draw their tasks from finitely many distinct ones.
    """

    variant: Variant = "released"
    gamma: float = 0.9
    p_min: float | None = field(default=0.5, init=False)

    def draw(self, rng: np.random.Generator) -> TabularMDP:
        """Draw the layout, then the slip."""
        layout: Layout = "orange" if rng.random() < 0.5 else "green"
        slip = rng.uniform(0.0, 0.2) if checked_variant(self.variant) == "released" else 0.0
        return maze(layout, slip=slip, gamma=self.gamma)

    @property
    def corners(self) -> list[TabularMDP]:
        """Both layouts with the extreme slips."""
        layouts: tuple[Layout, ...] = ("orange", "green")
        slips = (0.0, 0.2) if checked_variant(self.variant) == "released" else (0.0,)
        return [maze(x, slip=slip, gamma=self.gamma) for x in layouts for slip in slips]


class HeatMap(FiniteFamily):
    """The two 4x4 grids of the paper's prior-use experiment, equally likely."""

    def __init__(self, *, gamma: float = 0.9) -> None:
        other = heat_map(cells=OTHER_HEAT_MAP, slip=0.05, width=1.5, peak=0.6, gamma=gamma)
        super().__init__({"first": heat_map(gamma=gamma), "second": other})


class TShape(FiniteFamily):
    """The source and the target task of the paper's negative-transfer example, equally likely.

    Args:
        k: the number of inner states.
        gamma: the discount factor.
    """

    def __init__(self, k: int = 5, *, gamma: float = 0.9) -> None:
        ends: tuple[End, ...] = ("up", "down")
        super().__init__({goal: t_shape(k, goal=goal, gamma=gamma) for goal in ends})


class GoalGrids(TaskFamily):
    """Grids with the same goals, whose rewards and slip are drawn uniformly from intervals."""

    slips: Range
    """The smallest and the largest probability of slipping."""

    @property
    @abstractmethod
    def rewards(self) -> Range:
        """The smallest and the largest reward of a goal."""

    @property
    @abstractmethod
    def n_goals(self) -> int:
        """The number of goals."""

    @abstractmethod
    def task(self, rewards: FloatArray, slip: float) -> TabularMDP:
        """Build the task with a reward for each goal, and this slip."""

    def draw(self, rng: np.random.Generator) -> TabularMDP:
        """Draw one reward per goal, then the slip."""
        rewards = rng.uniform(*checked_interval("rewards", self.rewards), self.n_goals)
        return self.task(rewards, rng.uniform(*checked_interval("slips", self.slips)))

    @property
    def corners(self) -> list[TabularMDP] | None:
        """Tasks with extreme slips and goal rewards, in each of which rewards are affine.

        None if there are too many goals.
        """
        if self.n_goals > MAX_GOALS:
            return None
        ends = checked_interval("rewards", self.rewards)
        return [
            self.task(np.array(rewards), slip)
            for slip in checked_interval("slips", self.slips)
            for rewards in itertools.product(ends, repeat=self.n_goals)
        ]


@dataclass(frozen=True)
class Tight(GoalGrids):
    """The 11x11 grid of the paper's main experiment; tasks differ in goal rewards and slip.

    Args:
        slips: the smallest and the largest probability of slipping.
    """

    variant: Variant = "released"
    gamma: float = 0.9
    slips: Range = (0.0, 0.1)
    n_goals = 3

    @property
    def rewards(self) -> Range:
        """The interval from which goal rewards are drawn."""
        return goal_rewards(self.variant)

    def task(self, rewards: FloatArray, slip: float) -> TabularMDP:
        """Build the task with a reward for each goal, and this slip."""
        return tight(rewards, slip, variant=self.variant, gamma=self.gamma)


@dataclass(frozen=True)
class Grid(GoalGrids):
    """Grid worlds on a given map; goal rewards and slip are drawn uniformly from intervals.

    The other options are those of `grid_world`.

    Args:
        cells: the rows of the map: `.` is a free cell, `#` a wall, `S` the start and `G` a goal.
        rewards: the smallest and the largest reward of a goal (`goal_rewards` of `grid_world`).
        slips: the smallest and the largest probability of slipping (`slip` of `grid_world`).
        slip_to: whether slipping takes one of the three other actions, or goes to one of the two
            sides.
        reward_on: whether a goal pays for acting in it, or for entering it.
        terminal: whether an episode ends at a goal.
    """

    cells: tuple[str, ...]
    gamma: float = 0.9
    rewards: Range = (1.0, 1.0)
    slips: Range = (0.0, 0.0)
    slip_to: Literal["others", "sides"] = "others"
    reward_on: Literal["acting", "entering"] = "acting"
    terminal: bool = False

    @property
    def n_goals(self) -> int:
        """The number of goals on the map."""
        return int((GridMap.read(self.cells).state_symbols == "G").sum())

    def task(self, rewards: FloatArray, slip: float) -> TabularMDP:
        """Build the task with a reward for each goal, and this slip."""
        return grid_world(
            self.cells,
            gamma=self.gamma,
            goal_rewards=rewards,
            slip=slip,
            slip_to=self.slip_to,
            reward_on=self.reward_on,
            terminal=self.terminal,
        )


@dataclass(frozen=True)
class Garnet(TaskFamily):
    """Random (Garnet) tasks that share only their numbers of states, actions and successors.

    Args:
        n_states: the number of states.
        n_actions: the number of actions.
        branching: the number of successors of each pair.
        terminating: the probability that a pair ends the episode.
    """

    n_states: int
    n_actions: int
    branching: int
    gamma: float = 0.9
    terminating: float = 0.0

    def draw(self, rng: np.random.Generator) -> TabularMDP:
        """Draw a random task."""
        return garnet(
            self.n_states,
            self.n_actions,
            branching=self.branching,
            gamma=self.gamma,
            terminating=self.terminating,
            seed=rng,
        )
