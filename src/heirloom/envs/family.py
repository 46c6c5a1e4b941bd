"""Task families: the interface that agents and experiments use, and finite families."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cached_property
from typing import NotRequired, TypedDict

import numpy as np
from numpy.typing import ArrayLike

from heirloom.arrays import FloatArray, frozen
from heirloom.errors import InvalidArgument
from heirloom.mdp.tabular import TabularMDP, check_task
from heirloom.mdp.transitions import SUM_TOLERANCE
from heirloom.metrics.pseudometrics import check_comparable, family_distance
from heirloom.planning.solve import solve
from heirloom.transfer.nearness.exact import family_nearness
from heirloom.transfer.nearness.knowledge import Nearness
from heirloom.validation import Range, check_generator, real_number, shown, weights


class FamilyOptions(TypedDict):
    """What an agent must know about the tasks that it will face."""

    n_states: int
    n_actions: int
    gamma: float
    reward_range: Range
    terminating: NotRequired[bool]
    v_max: NotRequired[float]


class TaskFamily(ABC):
    """A distribution over tasks with the same states, actions and discount factor.

    A user-defined family has `gamma` and `draw`. It may also provide the order in which tasks come
    (`sequence`), the list of all its tasks if it is finite, the smallest probability of a task, and
    a valid prior on distances.
    """

    gamma: float
    """The discount factor."""
    p_min: float | None = None
    """The smallest probability of a task; None if unknown."""

    @abstractmethod
    def draw(self, rng: np.random.Generator) -> TabularMDP:
        """Draw a task at random."""

    def sequence(self, rng: np.random.Generator, n_tasks: int) -> list[TabularMDP]:
        """Return the tasks that an agent faces one after the other, by default drawn independently.

        A family whose order matters overrides this. The tasks must depend on nothing but the
        arguments, so that all agents face the same ones.
        """
        return [self.draw(rng) for _ in range(n_tasks)]

    @property
    def all_tasks(self) -> list[TabularMDP] | None:
        """All tasks, in a fixed order; None if the family does not list them."""
        return None

    @property
    def d_max(self) -> FloatArray | None:
        """A valid prior: the largest distance between any two tasks, [s, a]; None if unknown."""
        return None

    @property
    def corners(self) -> list[TabularMDP] | None:
        """Tasks whose nearness is that of the family: all of them, or the corners of a box.

        Corners are enough if the parameters of the family lie in a box, and rewards and transition
        probabilities are affine in each parameter separately. None if the family has no such tasks.
        """
        return self.all_tasks

    @property
    def nearness(self) -> Nearness | None:
        """By how much the models of any two tasks can differ; None if that is unknown."""
        corners = self.corners
        return None if corners is None else family_nearness(corners)

    @cached_property
    def options(self) -> FamilyOptions:
        """What an agent must know, as keyword arguments: `hl.RMax(**options)`."""
        m = self.draw(np.random.default_rng(0))
        return {
            "n_states": m.n_states,
            "n_actions": m.n_actions,
            "gamma": m.gamma,
            "reward_range": m.reward_range,
        }


class FiniteFamily(TaskFamily):
    """A finite family: named tasks with the same states, actions and discount factor.

    Args:
        tasks: the tasks by name.
        p: the probability of each task; uniform by default.
        v_max: an upper bound on all values, if one below hi / (1-γ) is known.
    """

    def __init__(
        self,
        tasks: Mapping[str, TabularMDP],
        *,
        p: ArrayLike | None = None,
        v_max: float = np.inf,
    ) -> None:
        if not isinstance(tasks, Mapping) or not tasks:
            raise InvalidArgument(
                f"tasks is {shown(tasks)}: expected a dictionary of one or more tasks by name"
            )
        self.tasks = dict(tasks)
        for name, m in self.tasks.items():
            check_task(m, f"tasks[{name!r}]")
            check_comparable(self.first, m)
        n = len(self.tasks)
        given = (
            np.full(n, 1 / n) if p is None else weights("p", p, (n,), "one probability per task")
        )
        if abs(given.sum() - 1) > SUM_TOLERANCE:
            raise InvalidArgument(f"p sums to {given.sum()}, not 1: divide p by its sum")
        self.p: FloatArray = frozen(given / given.sum())
        self.gamma = self.first.gamma
        self.p_min: float = float(self.p[self.p > 0].min())
        self.v_max = self._checked_v_max(v_max)

    @property
    def first(self) -> TabularMDP:
        """The first task."""
        return next(iter(self.tasks.values()))

    @property
    def all_tasks(self) -> list[TabularMDP]:
        """All tasks, in the order in which they were given."""
        return list(self.tasks.values())

    @property
    def reward_range(self) -> Range:
        """The smallest range that contains the reward ranges of all tasks."""
        ranges = [m.reward_range for m in self.tasks.values()]
        return min(lo for lo, _ in ranges), max(hi for _, hi in ranges)

    @cached_property
    def d_max(self) -> FloatArray:
        """The largest distance between any two of the tasks, [s, a]: a valid prior."""
        return frozen(family_distance(self.all_tasks))

    @property
    def options(self) -> FamilyOptions:
        """What an agent must know, as keyword arguments: `hl.RMax(**options)`."""
        return {
            "n_states": self.first.n_states,
            "n_actions": self.first.n_actions,
            "gamma": self.first.gamma,
            "reward_range": self.reward_range,
            "terminating": any(m.terminating for m in self.tasks.values()),
            "v_max": self.v_max,
        }

    def draw(self, rng: np.random.Generator) -> TabularMDP:
        """Draw a task at random."""
        drawn = int(self.p.cumsum().searchsorted(check_generator(rng).random(), "right"))
        return self.all_tasks[min(drawn, len(self.tasks) - 1)]

    def _checked_v_max(self, v_max: float) -> float:
        """Return `v_max`; raise `InvalidArgument` if a value of a task exceeds it."""
        if isinstance(v_max, float) and v_max == np.inf:
            return float(v_max)
        v_max = real_number("v_max", v_max, "expected a number, an upper bound on all values")
        for name, m in self.tasks.items():
            sol = solve(m)
            if sol.V.max() - sol.error > v_max:
                raise InvalidArgument(
                    f"v_max is {v_max}, but the largest value of task {name!r} is "
                    f"{sol.V.max():g}: give an upper bound on the values of all tasks"
                )
        return v_max

    def __repr__(self) -> str:
        return f"FiniteFamily({', '.join(self.tasks)}: {self.first!r})"
