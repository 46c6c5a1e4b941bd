"""Registration of the paper's tasks as Gymnasium environments, one id per kind of task."""

from collections.abc import Sequence
from typing import Any

import gymnasium as gym

from heirloom.choices import Variant
from heirloom.envs import paper_tasks
from heirloom.envs.grid import GridMap
from heirloom.envs.grid_env import GridEnv

MAX_STEPS = {
    "Tight": 10,
    "Corridor": 11,
    "Maze": 15,
    "HeatMap": 30,
    "TShape": 50,
}


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
