"""Grid worlds from maps written as strings.

    ...G
    .#..      `.` free, `#` wall, `S` start, `G` goal
    S...

The states are the cells that are no walls, in reading order. The actions are up, right, down and
left; whoever would leave the map or enter a wall stays.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from heirloom.arguments import numbers, probability
from heirloom.arrays import FloatArray, IntArray
from heirloom.errors import InvalidArgument
from heirloom.mdp.exact import Range, TabularMDP
from heirloom.mdp.transitions import Outcomes, collect

ACTIONS = ("up", "right", "down", "left")
MOVES = np.array([(-1, 0), (0, 1), (1, 0), (0, -1)])


def grid_world(
    cells: str | Sequence[str],
    *,
    gamma: float,
    slip: float = 0.0,
    slip_to: Literal["others", "sides"] = "others",
    goal_rewards: ArrayLike = 1.0,
    reward_on: Literal["acting", "entering"] = "acting",
    terminal: bool = False,
    reward_range: Range = (0.0, 1.0),
) -> TabularMDP:
    """The task of a map.

    Args:
        cells: the map, one string a row, or all of it with line breaks.
        gamma: the discount factor.
        slip: the probability of another action than the one chosen.
        slip_to: whether that is one of the three others, or one of the two to the sides.
        goal_rewards: what goals pay, one number, or one a goal in reading order.
        reward_on: whether a goal pays for acting in it or for entering it.
        terminal: whether a transition that is paid by a goal terminates.
        reward_range: as of `TabularMDP`.
    """
    if reward_on not in ("acting", "entering"):
        raise InvalidArgument(f"reward_on is {reward_on!r}: it is 'acting' or 'entering'")
    symbols = _symbols(cells)
    number = np.where(
        symbols == "#", -1, np.cumsum(symbols.ravel() != "#").reshape(symbols.shape) - 1
    )
    reached = _reached(symbols, number)
    paid, is_goal = _goals(symbols[symbols != "#"], goal_rewards)
    n_states = reached.shape[0]
    actions, moves, p = _executed(slip, slip_to)
    state = np.repeat(np.arange(n_states), actions.size)
    successor = reached[:, moves].reshape(-1)
    payer = state if reward_on == "acting" else successor
    outcomes = Outcomes(
        pairs=state * 4 + np.tile(actions, n_states),
        successors=successor,
        p=np.tile(p, n_states),
        rewards=paid[payer],
        ends=is_goal[payer] if terminal else np.zeros(state.size, dtype=bool),
    )
    starts = symbols[symbols != "#"] == "S"
    return TabularMDP.from_transitions(
        collect(outcomes, n_states, 4),
        gamma=gamma,
        start=starts / starts.sum() if starts.any() else None,
        reward_range=reward_range,
        action_names=ACTIONS,
    )


def _symbols(cells: str | Sequence[str]) -> np.ndarray:
    rows = cells.split() if isinstance(cells, str) else cells
    if not isinstance(rows, list | tuple) or not all(isinstance(row, str) for row in rows):
        raise InvalidArgument(f"the map is {cells!r}: it is a list of strings, one a row")
    if not rows or not all(rows) or len({len(row) for row in rows}) > 1:
        raise InvalidArgument(
            f"the map has rows {list(rows)!r}: all have the same length, 1 or more"
        )
    symbols = np.array([list(row) for row in rows])
    unknown = symbols[~np.isin(symbols, list(".#SG"))]
    if unknown.size:
        raise InvalidArgument(
            f"the map holds {str(unknown[0])!r}: `.` is free, `#` wall, `S` start, `G` goal"
        )
    if (symbols == "#").all():
        raise InvalidArgument("the map is all walls: a task has at least one state")
    return symbols


def _reached(symbols: np.ndarray, number: IntArray) -> IntArray:
    """The state that each move leads to, [s, move]."""
    here = np.argwhere(symbols != "#")
    there = here[:, None, :] + MOVES
    inside = (there >= 0).all(axis=2) & (there < symbols.shape).all(axis=2)
    there = np.where(inside[:, :, None], there, here[:, None, :])
    to = number[there[..., 0], there[..., 1]]
    return np.where(to < 0, np.arange(len(here))[:, None], to)


def _goals(symbols: np.ndarray, goal_rewards: ArrayLike) -> tuple[FloatArray, np.ndarray]:
    """What each state pays, and which states are goals."""
    goals = np.flatnonzero(symbols == "G")
    rewards = numbers("goal_rewards", goal_rewards)
    if rewards.shape not in ((), goals.shape):
        raise InvalidArgument(
            f"goal_rewards has shape {rewards.shape}: it is one number, or one for each of the "
            f"{goals.size} goals of the map"
        )
    paid = np.zeros(symbols.size)
    paid[goals] = rewards
    return paid, symbols == "G"


def _executed(slip: float, slip_to: str) -> tuple[IntArray, IntArray, FloatArray]:
    """(chosen action, executed action, probability), one entry each."""
    slip = probability("slip", slip)
    turns = {"others": (1, 2, 3), "sides": (1, 3)}.get(slip_to)
    if turns is None:
        raise InvalidArgument(f"slip_to is {slip_to!r}: it is 'others' or 'sides'")
    chosen, turn = np.meshgrid(np.arange(4), (0, *turns), indexing="ij")
    p = np.where(turn == 0, 1 - slip, slip / len(turns))
    return chosen.ravel(), (chosen + turn).ravel() % 4, p.ravel()
