"""Grid worlds from maps written as strings.

    ...G
    .#..      `.` free, `#` wall, `S` start, `G` goal; a lower-case letter is free unless closed
    S...

The states are the cells that are not walls, in reading order. The actions are up, right, down and
left, or some of them. An action that would leave the map, or enter a wall or a closed cell, leaves
the agent where it is.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from heirloom.arrays import BoolArray, FloatArray, IntArray
from heirloom.errors import InvalidArgument
from heirloom.mdp.scene import CLOSED, Scene
from heirloom.mdp.tabular import TabularMDP
from heirloom.mdp.transitions import Entries, collect
from heirloom.validation import (
    Range,
    numbers,
    one_of,
    probability,
    shown,
    text,
    truth,
)
from heirloom.wording import counted

ACTIONS = ("up", "right", "down", "left")
MOVES = np.array([(-1, 0), (0, 1), (1, 0), (0, -1)])
# Clockwise quarter turns from the chosen move to the moves that slipping can lead to.
TURNS = {"others": (1, 2, 3), "sides": (1, 3)}


@dataclass(frozen=True)
class GridMap:
    """A map of a grid world, and the cells that are its states.

    Args:
        rows: the map, one string per row.
        closed: lower-case letters whose cells cannot be entered. These cells are still states, so
            that maps that differ only in `closed` have the same states.
    """

    rows: tuple[str, ...]
    closed: str = ""

    @classmethod
    def read(cls, cells: str | Sequence[str], *, closed: str = "") -> "GridMap":
        """Build a map from strings; raise `InvalidArgument` if they are not a valid map."""
        return cls(tuple(cells.split()) if isinstance(cells, str) else cells, closed)  # type: ignore[arg-type]

    def __post_init__(self) -> None:
        rows, closed = self.rows, text("closed", self.closed)
        if not isinstance(rows, list | tuple) or not all(isinstance(row, str) for row in rows):
            raise InvalidArgument(
                f"the map is {shown(rows)}: expected a list of strings, one per row"
            )
        if not rows or not all(rows) or len({len(row) for row in rows}) > 1:
            raise InvalidArgument(
                f"the map has rows {shown(list(rows))}: expected rows of the same length, 1 or more"
            )
        for symbol in sorted(set("".join(rows))):
            if symbol not in ".#SG" and not (symbol.isascii() and symbol.islower()):
                raise InvalidArgument(
                    f"the map contains {symbol!r}: expected `.` (free), `#` (wall), `S` (start), "
                    "`G` (goal), or a lower-case letter (a cell that can be closed)"
                )
        unknown = sorted(set(closed) - set("".join(rows)))
        if unknown or not all(letter.islower() for letter in closed):
            raise InvalidArgument(
                f"closed is {shown(closed)}: expected lower-case letters of the map"
            )
        self.__dict__["rows"] = tuple(rows)
        if self.n_states == 0:
            raise InvalidArgument("the map contains only walls: expected at least one free cell")

    @cached_property
    def symbols(self) -> np.ndarray:
        """The character of each cell, [row, column]."""
        return np.array([list(row) for row in self.rows])

    @cached_property
    def positions(self) -> IntArray:
        """The row and the column of each state, [s, 2]."""
        return np.argwhere(self.symbols != "#")

    @property
    def n_states(self) -> int:
        """The number of states."""
        return len(self.positions)

    @property
    def state_symbols(self) -> np.ndarray:
        """The character of the map at each state."""
        return self.symbols[tuple(self.positions.T)]

    @property
    def is_closed(self) -> BoolArray:
        """Whether each state is closed, that is, cannot be entered."""
        return np.isin(self.state_symbols, list(self.closed))

    @property
    def scene(self) -> Scene:
        """The map for pictures, in which closed cells are marked."""
        marked = str.maketrans(dict.fromkeys(self.closed, CLOSED))
        return Scene("grid", tuple(row.translate(marked) for row in self.rows))

    @cached_property
    def reached(self) -> IntArray:
        """The state that each of the four moves leads to, [s, move]."""
        state_at = np.full(self.symbols.shape, -1)  # -1: cannot be entered
        state_at[tuple(self.positions.T)] = np.where(self.is_closed, -1, np.arange(self.n_states))
        cells = self.positions[:, None, :] + MOVES
        inside = (cells >= 0).all(axis=2) & (cells < self.symbols.shape).all(axis=2)
        cells = np.where(inside[:, :, None], cells, self.positions[:, None, :])
        successors = state_at[cells[..., 0], cells[..., 1]]
        return np.where(successors < 0, np.arange(self.n_states)[:, None], successors)


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
    """Build the task of a map.

    Args:
        cells: the map, as one string per row or as one string with line breaks; or a `GridMap`.
        gamma: the discount factor.
        slip: the probability that an action other than the chosen one is executed.
        slip_to: which actions are executed then, with equal probabilities: all others, or the two
            to the sides of the chosen one.
        goal_rewards: the rewards of goals: one number, or one per goal in reading order.
        cell_rewards: the reward of each state; if given, `goal_rewards` is ignored.
        reward_on: whether the reward of a cell is paid for acting in it or for entering it.
        terminal: whether transitions that are paid by a goal are terminal.
        actions: the available ones of up, right, down and left; slipping leads to these only.
        reward_range: as in `TabularMDP`.
    """
    one_of("reward_on", reward_on, ("acting", "entering"))
    terminal = truth("terminal", terminal)
    grid = cells if isinstance(cells, GridMap) else GridMap.read(cells)
    n_states, names = grid.n_states, _checked_actions(actions)
    is_goal = grid.state_symbols == "G"
    state_rewards = _state_rewards(is_goal, goal_rewards, cell_rewards)
    chosen, moves, p = _executed_moves(slip, slip_to, names)
    state = np.repeat(np.arange(n_states), chosen.size)
    successor = grid.reached[:, moves].reshape(-1)
    paying_state = state if reward_on == "acting" else successor
    outcomes = Entries(
        pairs=state * len(names) + np.tile(chosen, n_states),
        successors=successor,
        p=np.tile(p, n_states),
        rewards=state_rewards[paying_state],
        ends=is_goal[paying_state] if terminal else np.zeros(state.size, dtype=bool),
    )
    starts = grid.state_symbols == "S"
    return TabularMDP.from_transitions(
        collect(outcomes, n_states, len(names)),
        gamma=gamma,
        start=starts / starts.sum() if starts.any() else None,
        reward_range=reward_range,
        action_names=names,
        scene=grid.scene,
    )


def _checked_actions(actions: Sequence[str]) -> tuple[str, ...]:
    names = tuple(actions) if isinstance(actions, list | tuple) else ()
    is_valid = all(isinstance(name, str) and name in ACTIONS for name in names)
    if not names or not is_valid or len(set(names)) < len(names):
        raise InvalidArgument(
            f"actions is {shown(actions)}: expected one or more of {', '.join(ACTIONS)}, without "
            "repeats"
        )
    return names


def _state_rewards(
    is_goal: BoolArray, goal_rewards: ArrayLike, cell_rewards: ArrayLike | None
) -> FloatArray:
    """Return the reward that each state pays."""
    if cell_rewards is not None:
        state_rewards = _rewards("cell_rewards", cell_rewards)
        if state_rewards.shape != is_goal.shape:
            raise InvalidArgument(
                f"cell_rewards has shape {state_rewards.shape}: expected one number for each state "
                f"of the map, which has {counted(is_goal.size, 'state')}"
            )
        return state_rewards
    goals = np.flatnonzero(is_goal)
    rewards = _rewards("goal_rewards", goal_rewards)
    if rewards.shape not in ((), goals.shape):
        raise InvalidArgument(
            f"goal_rewards has shape {rewards.shape}: expected one number, or one for each goal of "
            f"the map, which has {counted(goals.size, 'goal')}"
        )
    state_rewards = np.zeros(is_goal.size)
    state_rewards[goals] = rewards
    return state_rewards


def _rewards(name: str, value: ArrayLike) -> FloatArray:
    rewards = numbers(name, value)
    if not np.isfinite(rewards).all():
        raise InvalidArgument(f"{name} has a number that is not finite: expected finite numbers")
    return rewards


def _executed_moves(
    slip: float, slip_to: str, names: tuple[str, ...]
) -> tuple[IntArray, IntArray, FloatArray]:
    """Return arrays of chosen actions, executed moves and their probabilities."""
    slip = probability("slip", slip)
    turns = TURNS[one_of("slip_to", slip_to, TURNS)]
    rows = []
    for chosen, name in enumerate(names):
        move = ACTIONS.index(name)
        slipped = [(move + turn) % 4 for turn in turns if ACTIONS[(move + turn) % 4] in names]
        if slip > 0 and not slipped:
            raise InvalidArgument(
                f"slip is {slip}, but {name!r} has no action to slip to with slip_to={slip_to!r}: "
                "use slip=0 or more actions"
            )
        rows += [(chosen, move, 1 - slip), *((chosen, to, slip / len(slipped)) for to in slipped)]
    chosen_, moves, p = (np.array(column) for column in zip(*rows, strict=True))
    return chosen_, moves, p
