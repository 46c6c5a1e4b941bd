"""Families whose tasks come in an order: a ferry that is good or sinks, and parameters that drift.

An agent crosses a grid of 6x6 cells from the upper left corner to the lower right one. In the start
cell the action "up" boards a ferry. It goes to the cell before the goal, or it sinks, which ends
the episode. An agent that trusts earlier tasks loses where the ferry sinks for the first time
(`Trap`), and one that fears it walks on where it has become good (`Shortcut`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from heirloom.envs.box import BoxFamily, Interval
from heirloom.envs.grid import ACTIONS, GridMap
from heirloom.mdp.tabular import TabularMDP
from heirloom.validation import Range, instance, probability, whole_number

FERRY = ("S.....", *("......",) * 4, ".....G")
GRID = GridMap.read(FERRY)
START, GOAL = 0, GRID.n_states - 1
BEFORE_GOAL = GOAL - 1
UP = ACTIONS.index("up")
STEP = 0.02  # the cost of a step
SINKING = -1.0  # the reward of a ferry that sinks

Outcome = tuple[float, int, float, bool]  # probability, successor, reward, terminated


@dataclass(frozen=True)
class Ferry(BoxFamily):
    """A grid with a ferry to the goal, which is good or sinks, in a random order.

    A step costs 0.02, except the one that enters the goal, which pays `reward` and ends the
    episode. A ferry that sinks has reward -1. The ferry does not slip, and only the choice of "up"
    boards it: slipping upwards in the start cell does not.

    Args:
        slip: the smallest and the largest probability of slipping to one of the two sides.
        reward: the smallest and the largest reward of the goal.
        gamma: the discount factor.
    """

    slip: Interval = (0.05, 0.15)
    reward: Interval = (0.9, 1.0)
    gamma: float = 0.95

    choices: ClassVar[Mapping[str, tuple[bool, ...]]] = {"sinks": (False, True)}
    cycle: ClassVar[tuple[bool, ...]] = ()
    """Whether the ferry sinks in each task of a sequence, over and over; random if empty."""

    def build(  # type: ignore[override]
        self, *, reward_range: Range | None, slip: float, reward: float, sinks: bool
    ) -> TabularMDP:
        """Build the task with these parameters."""
        probability("slip", slip)

        def outcomes(s: int, a: int) -> list[Outcome]:
            if (s, a) == (START, UP):
                return [(1.0, START, SINKING, True) if sinks else (1.0, BEFORE_GOAL, -STEP, False)]
            rows = []
            for p, move in ((1 - slip, a), (slip / 2, (a + 1) % 4), (slip / 2, (a + 3) % 4)):
                s_next = int(GRID.reached[s, move])
                at_goal = s_next == GOAL
                rows.append((p, s_next, reward if at_goal else -STEP, at_goal))
            return rows

        return TabularMDP.from_callable(
            outcomes,
            GRID.n_states,
            len(ACTIONS),
            gamma=self.gamma,
            start=START,
            reward_range=reward_range,
            action_names=ACTIONS,
            scene=GRID.scene,
        )

    def sequence(self, rng: np.random.Generator, n_tasks: int) -> list[TabularMDP]:
        """Draw the parameters of each task; the ferry sinks in the tasks that `cycle` says."""
        drawn = [self.draw_parameters(rng) for _ in range(n_tasks)]
        for i, parameters in enumerate(drawn):
            if self.cycle:
                parameters["sinks"] = self.cycle[i % len(self.cycle)]
        return [self.task(**parameters) for parameters in drawn]


@dataclass(frozen=True)
class Trap(Ferry):
    """A grid with a ferry to the goal, which is good in nine tasks and sinks in the tenth.

    Args:
        slip: the smallest and the largest probability of slipping.
        reward: the smallest and the largest reward of the goal.
    """

    cycle: ClassVar[tuple[bool, ...]] = (False,) * 9 + (True,)


@dataclass(frozen=True)
class Shortcut(Ferry):
    """A grid with a ferry to the goal, which sinks in five tasks and is good in the next five.

    Args:
        slip: the smallest and the largest probability of slipping.
        reward: the smallest and the largest reward of the goal.
    """

    cycle: ClassVar[tuple[bool, ...]] = (True,) * 5 + (False,) * 5


class Drift(BoxFamily):
    """The tasks of a box family, with parameters that move steadily from one end to the other.

    In the first task of a sequence all parameters are at the lower ends of their intervals, in the
    last one at the upper ends, and in between they move by equal amounts. `choices` are passed
    through in their order. So all sequences of one length are equal. Everything else is that of
    the box family.

    Args:
        family: the box family.
    """

    def __init__(self, family: BoxFamily) -> None:
        remedy = "which has an interval for each parameter"
        self.family = instance("family", family, BoxFamily, remedy)  # type: ignore[type-abstract]
        self.gamma = family.gamma

    @property
    def intervals(self) -> Mapping[str, Interval]:
        """The intervals of the box family."""
        return self.family.intervals

    @property
    def choices(self) -> Mapping[str, tuple[Any, ...]]:
        """The choices of the box family."""
        return self.family.choices

    def build(self, *, reward_range: Range | None, **parameters: Any) -> TabularMDP:
        """Build the task of the box family with these parameters."""
        return self.family.build(reward_range=reward_range, **parameters)

    def sequence(self, rng: np.random.Generator, n_tasks: int) -> list[TabularMDP]:
        """Return tasks from one end of the box to the other; `rng` is not used."""
        n_tasks = whole_number("n_tasks", n_tasks)
        moved: dict[str, list[Any]] = {
            name: np.linspace(*interval, n_tasks).tolist()
            for name, interval in self._intervals.items()
        }
        for name, values in self._choices.items():
            moved[name] = [values[i * len(values) // n_tasks] for i in range(n_tasks)]
        return [
            self.task(**{name: values[i] for name, values in moved.items()}) for i in range(n_tasks)
        ]
