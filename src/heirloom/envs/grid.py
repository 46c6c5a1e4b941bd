"""Grid worlds from maps written as strings.

    ...G
    .#..      `.` free, `#` wall, `S` start, `G` goal; a small letter is free unless it is closed
    S...

The states are the cells that are no walls, in reading order. The actions are up, right, down and
left, or some of them; whoever would leave the map or enter a wall or a closed cell stays.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from heirloom.arrays import BoolArray, FloatArray, IntArray
from heirloom.errors import InvalidArgument
from heirloom.mdp.tabular import TabularMDP
from heirloom.mdp.transitions import Outcomes, collect
from heirloom.validation import Range, numbers, probability

ACTIONS = ("up", "right", "down", "left")
MOVES = np.array([(-1, 0), (0, 1), (1, 0), (0, -1)])
TURNS = {"others": (1, 2, 3), "sides": (1, 3)}


@dataclass(frozen=True)
class GridMap:
    """A map, and where its states are.

    Args:
        rows: the map, one string a row.
        closed: small letters of cells that cannot be entered. They are states all the same, so that
            maps with other cells closed have the same states.
    """

    rows: tuple[str, ...]
    closed: str = ""

    @classmethod
    def read(cls, cells: str | Sequence[str], *, closed: str = "") -> "GridMap":
        """The map of some strings, checked."""
        rows = cells.split() if isinstance(cells, str) else cells
        if not isinstance(rows, list | tuple) or not all(isinstance(row, str) for row in rows):
            raise InvalidArgument(f"the map is {cells!r}: it is a list of strings, one a row")
        if not rows or not all(rows) or len({len(row) for row in rows}) > 1:
            raise InvalidArgument(
                f"the map has rows {list(rows)!r}: all have the same length, 1 or more"
            )
        for symbol in sorted(set("".join(rows))):
            if symbol not in ".#SG" and not (symbol.isascii() and symbol.islower()):
                raise InvalidArgument(
                    f"the map holds {symbol!r}: `.` is free, `#` wall, `S` start, `G` goal, and a "
                    "small letter a cell that can be closed"
                )
        unknown = sorted(set(closed) - set("".join(rows)))
        if unknown or not all(letter.islower() for letter in closed):
            raise InvalidArgument(f"closed is {closed!r}: it names small letters of the map")
        grid = cls(tuple(rows), closed)
        if grid.n_states == 0:
            raise InvalidArgument("the map is all walls: a task has at least one state")
        return grid

    @cached_property
    def symbols(self) -> np.ndarray:
        """The map, one character a cell."""
        return np.array([list(row) for row in self.rows])

    @cached_property
    def positions(self) -> IntArray:
        """The row and the column of each state."""
        return np.argwhere(self.symbols != "#")

    @property
    def n_states(self) -> int:
        """The number of states."""
        return len(self.positions)

    @property
    def state_symbols(self) -> np.ndarray:
        """What the map shows at each state."""
        return self.symbols[tuple(self.positions.T)]

    @property
    def is_closed(self) -> BoolArray:
        """Which states cannot be entered."""
        return np.isin(self.state_symbols, list(self.closed))

    @cached_property
    def reached(self) -> IntArray:
        """The state that each of the four moves leads to, [s, move]."""
        number = np.full(self.symbols.shape, -1)
        number[tuple(self.positions.T)] = np.where(self.is_closed, -1, np.arange(self.n_states))
        there = self.positions[:, None, :] + MOVES
        inside = (there >= 0).all(axis=2) & (there < self.symbols.shape).all(axis=2)
        there = np.where(inside[:, :, None], there, self.positions[:, None, :])
        to = number[there[..., 0], there[..., 1]]
        return np.where(to < 0, np.arange(self.n_states)[:, None], to)


def grid_world(
    cells: str | Sequence[str] | GridMap,
    *,
    gamma: float,
    slip: float = 0.0,
    slip_to: Literal["others", "sides"] = "others",
    goal_rewards: ArrayLike = 1.0,
    cell_rewards: ArrayLike | None = None,
    reward_on: Literal["acting", "entering"] = "acting",
    terminal: bool = False,
    actions: Sequence[str] = ACTIONS,
    reward_range: Range = (0.0, 1.0),
) -> TabularMDP:
    """The task of a map.

    Args:
        cells: the map, one string a row, or all of it with line breaks; or a `GridMap`.
        gamma: the discount factor.
        slip: the probability of another action than the one chosen.
        slip_to: whether that is one of the others, or one of the two to the sides.
        goal_rewards: what goals pay, one number, or one a goal in reading order.
        cell_rewards: what each state pays, instead of goals.
        reward_on: whether a cell pays for acting in it or for entering it.
        terminal: whether a transition that a goal pays for terminates.
        actions: which of up, right, down and left there are; slipping goes to these only.
        reward_range: as of `TabularMDP`.
    """
    if reward_on not in ("acting", "entering"):
        raise InvalidArgument(f"reward_on is {reward_on!r}: it is 'acting' or 'entering'")
    grid = cells if isinstance(cells, GridMap) else GridMap.read(cells)
    n_states, names = grid.n_states, _checked_actions(actions)
    is_goal = grid.state_symbols == "G"
    paid = _paid(is_goal, goal_rewards, cell_rewards)
    chosen, moves, p = _executed(slip, slip_to, names)
    state = np.repeat(np.arange(n_states), chosen.size)
    successor = grid.reached[:, moves].reshape(-1)
    payer = state if reward_on == "acting" else successor
    outcomes = Outcomes(
        pairs=state * len(names) + np.tile(chosen, n_states),
        successors=successor,
        p=np.tile(p, n_states),
        rewards=paid[payer],
        ends=is_goal[payer] if terminal else np.zeros(state.size, dtype=bool),
    )
    starts = grid.state_symbols == "S"
    return TabularMDP.from_transitions(
        collect(outcomes, n_states, len(names)),
        gamma=gamma,
        start=starts / starts.sum() if starts.any() else None,
        reward_range=reward_range,
        action_names=names,
    )


def _checked_actions(actions: Sequence[str]) -> tuple[str, ...]:
    names = tuple(actions) if isinstance(actions, list | tuple) else ()
    if not names or len(set(names)) < len(names) or not set(names) <= set(ACTIONS):
        raise InvalidArgument(f"actions is {actions!r}: some of {', '.join(ACTIONS)}, each once")
    return names


def _paid(
    is_goal: BoolArray, goal_rewards: ArrayLike, cell_rewards: ArrayLike | None
) -> FloatArray:
    """What each state pays."""
    if cell_rewards is not None:
        paid = numbers("cell_rewards", cell_rewards)
        if paid.shape != is_goal.shape:
            raise InvalidArgument(
                f"cell_rewards has shape {paid.shape}: it has one number for each of the "
                f"{is_goal.size} states of the map"
            )
        return paid
    goals = np.flatnonzero(is_goal)
    rewards = numbers("goal_rewards", goal_rewards)
    if rewards.shape not in ((), goals.shape):
        raise InvalidArgument(
            f"goal_rewards has shape {rewards.shape}: it is one number, or one for each of the "
            f"{goals.size} goals of the map"
        )
    paid = np.zeros(is_goal.size)
    paid[goals] = rewards
    return paid


def _executed(
    slip: float, slip_to: str, names: tuple[str, ...]
) -> tuple[IntArray, IntArray, FloatArray]:
    """(chosen action, executed move, probability), one entry each."""
    slip = probability("slip", slip)
    turns = TURNS.get(slip_to)
    if turns is None:
        raise InvalidArgument(f"slip_to is {slip_to!r}: it is 'others' or 'sides'")
    rows = []
    for chosen, name in enumerate(names):
        move = ACTIONS.index(name)
        slipped = [(move + turn) % 4 for turn in turns if ACTIONS[(move + turn) % 4] in names]
        if slip > 0 and not slipped:
            raise InvalidArgument(f"slip is {slip}: there is no other action to slip to")
        rows += [(chosen, move, 1 - slip), *((chosen, to, slip / len(slipped)) for to in slipped)]
    chosen_, moves, p = (np.array(column) for column in zip(*rows, strict=True))
    return chosen_, moves, p
