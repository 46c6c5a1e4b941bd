"""Upper bounds on `Q*` of the task at hand, each refined as the task is learned.

The pointwise minimum of bounds is a bound, so an agent takes a list of them. `Bound` is all that
the learner, the explanation, the memory and the saved agent ask of one.
"""

from typing import Any, NamedTuple, Protocol

import numpy as np

from heirloom.arrays import BoolArray, FloatArray, IntArray, frozen
from heirloom.mdp.learned import LearnedModel
from heirloom.theory import tasks_for_max_q
from heirloom.transfer.memory import Source, TaskMemory
from heirloom.transfer.setting import Setting

NOTHING = frozen(np.empty(0, dtype=np.int64))


class Change(NamedTuple):
    """A pair became known; arrays are as of the update before, and not to be written to."""

    pair: int
    """The pair, k = s * A + a."""
    U: FloatArray
    """The agent's own bound, the least of all its bounds, over pairs."""
    V: FloatArray
    """The agent's values, over states."""
    decreased: IntArray
    """The states whose value decreased since the last change."""


class Dropped(NamedTuple):
    """A source that could no longer lower a bound, and how many pairs were known by then."""

    task: int
    n_known: int


class Details(NamedTuple):
    """What a bound tells of itself in an explanation."""

    sources: tuple[int, ...] = ()
    """The tasks, by their number in the memory, that may decide the bound somewhere."""
    prior_used: dict[int, BoolArray] = {}  # noqa: RUF012 -- never written to
    """By the number of each source in use: the pairs where the prior is the smaller distance."""
    dropped: tuple[Dropped, ...] = ()
    """The sources that were dropped in this task."""


class Bound(Protocol):
    """An upper bound on Q* of the task at hand. It has state: one serves one agent.

    A bound of your own is a class derived from this one with a `begin_task` that sets `U`. All
    else has a default: a bound that fits every setting, is not refined, and names no sources.
    """

    U: FloatArray
    """The bound as it is now, over pairs k = s * A + a."""

    def check(self, setting: Setting) -> None:
        """Raise `InvalidArgument` unless the bound fits the setting of an agent."""
        return

    def begin_task(self, setting: Setting, model: LearnedModel, memory: TaskMemory) -> bool:
        """Set `U` for a new task; returns whether it may be refined as the task is learned."""
        ...

    def refine(self, change: Change) -> IntArray:
        """Lower `U` after a change, and return the unknown pairs where it was lowered."""
        return NOTHING

    def end_task(self, source: Source, memory: TaskMemory) -> None:
        """The task ended as `source`, which is not in the memory yet."""
        return

    def sources_used(self) -> IntArray:
        """The task, by its number in the memory, that decides `U` at each pair; 0 for none."""
        return np.zeros(self.U.size, dtype=np.int64)

    def details(self) -> Details:
        """What an explanation tells of the bound, beside the sources used."""
        return Details()

    def options(self) -> dict[str, Any] | None:
        """What makes the same bound again, `type(self)(**options)`, to be saved with an agent.

        Numbers, strings, None and arrays; or None if it cannot be saved.
        """
        return None


class Constant(Bound):
    """No value is above `v_max`: all that RMax knows."""

    def begin_task(self, setting: Setting, model: LearnedModel, memory: TaskMemory) -> bool:
        """The same for every task."""
        self.U = np.full(setting.n_pairs, setting.v_max)
        return False

    def options(self) -> dict[str, Any] | None:
        """There are none."""
        return {}


class MaxQ(Constant):
    """The largest Q of all tasks seen, once enough were (Abel et al., 2018).

    Holds with probability 1 - δ over the draw of tasks, each of probability `p_min` or more.
    """

    def __init__(self, *, p_min: float, delta: float = 0.05) -> None:
        self.n_tasks = tasks_for_max_q(p_min, delta)
        self.p_min, self.delta = float(p_min), float(delta)

    def begin_task(self, setting: Setting, model: LearnedModel, memory: TaskMemory) -> bool:
        """Fixed for the task."""
        super().begin_task(setting, model, memory)
        if memory.max_Q is not None and memory.n_tasks >= self.n_tasks:
            self.U = np.minimum(self.U, memory.max_Q)
        return False

    def options(self) -> dict[str, Any] | None:
        """The probabilities."""
        return {"p_min": self.p_min, "delta": self.delta}
