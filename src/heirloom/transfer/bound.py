"""Upper bounds on `Q*` of the current task, each refined as the task is learned.

The pointwise minimum of bounds is a bound, so an agent takes a list of them. `Bound` is the whole
interface that the learner, the explanation, the memory and the saved agent use.
"""

from typing import Any, NamedTuple, Protocol

import numpy as np

from heirloom.arrays import BoolArray, FloatArray, IntArray, frozen
from heirloom.choices import Scope
from heirloom.mdp.learned import LearnedModel
from heirloom.theory import tasks_for_max_q
from heirloom.transfer.memory import Source, TaskMemory
from heirloom.transfer.setting import Setting

NO_PAIRS = frozen(np.empty(0, dtype=np.int64))


class Change(NamedTuple):
    """A pair became known. The arrays are those before the update and must not be written to."""

    pair: int
    """The pair, k = s * A + a."""
    U: FloatArray
    """The agent's bound, which is the minimum of all its bounds, over pairs."""
    V: FloatArray
    """The agent's values, over states."""
    decreased: IntArray
    """The states whose value decreased since the last change."""


class Dropped(NamedTuple):
    """A source that could no longer lower a bound, and the number of known pairs at that time."""

    task: int
    n_known: int


class Details(NamedTuple):
    """Information about a bound for an explanation."""

    sources: tuple[int, ...] = ()
    """Numbers in the memory of the tasks that may determine the bound at some pair."""
    prior_used: dict[int, BoolArray] = {}  # noqa: RUF012 -- never written to
    """For the number of each source in use: the pairs where the prior is the smaller distance."""
    dropped: tuple[Dropped, ...] = ()
    """The sources that were dropped in this task."""
    knowledge_used: dict[str, BoolArray] = {}  # noqa: RUF012 -- never written to
    """For each part of the prior knowledge: the pairs where the bound depends on it."""


class Bound(Protocol):
    """An upper bound on Q* of the current task.

    A bound has state, so each agent needs its own. To define a bound, derive a class from this one
    with a `begin_task` that sets `U`. The other methods have defaults: the bound then fits every
    setting, is not refined, and names no sources.
    """

    U: FloatArray
    """The current bound, over pairs k = s * A + a."""

    def check(self, setting: Setting) -> None:
        """Raise `InvalidArgument` unless the bound fits the setting of an agent."""
        return

    def begin_task(self, setting: Setting, model: LearnedModel, memory: TaskMemory) -> bool:
        """Set `U` for a new task; return whether it may be refined as the task is learned."""
        ...

    def refine(self, change: Change) -> IntArray:
        """Lower `U` after a change, and return the unknown pairs where it was lowered."""
        return NO_PAIRS

    def end_task(self, source: Source, memory: TaskMemory) -> None:
        """Learn from the task that ended, given as `source`, which is not in the memory yet."""
        return

    def sources_used(self) -> IntArray:
        """Return the number in the memory of the task that determines `U` at each pair, or 0."""
        return np.zeros(self.U.size, dtype=np.int64)

    def details(self) -> Details:
        """Return information for an explanation, in addition to `sources_used`."""
        return Details()

    def options(self) -> dict[str, Any] | None:
        """Return the options to save with an agent; `type(self)(**options)` makes the same bound.

        Values are numbers, strings, None or arrays. None means that the bound cannot be saved.
        """
        return None


class Constant(Bound):
    """The constant bound `v_max`, the only bound of RMax."""

    def begin_task(self, setting: Setting, model: LearnedModel, memory: TaskMemory) -> bool:
        """Set `U` to `v_max`; it is never refined."""
        self.U = np.full(setting.n_pairs, setting.v_max)
        return False

    def options(self) -> dict[str, Any] | None:
        """Return no options."""
        return {}


class MaxQ(Constant):
    """The largest Q of all tasks seen, once enough tasks have been seen (Abel et al., 2018).

    If each task is drawn independently with probability `p_min` or more, it is an upper bound with
    probability 1 - δ: for each task on its own, so that a fraction δ of all tasks may have an
    invalid bound, or for all tasks of a lifetime together if `scope` is "lifetime", which takes
    more tasks.
    """

    def __init__(self, *, p_min: float, delta: float = 0.05, scope: Scope = "task") -> None:
        self.n_tasks = tasks_for_max_q(p_min, delta, scope=scope)
        self.p_min, self.delta, self.scope = float(p_min), float(delta), scope

    def begin_task(self, setting: Setting, model: LearnedModel, memory: TaskMemory) -> bool:
        """Set `U` for the task; it is not refined."""
        super().begin_task(setting, model, memory)
        if memory.max_Q is not None and memory.n_tasks >= self.n_tasks:
            self.U = np.minimum(self.U, memory.max_Q)
        return False

    def options(self) -> dict[str, Any] | None:
        """Return `p_min`, `delta` and `scope`."""
        return {"p_min": self.p_min, "delta": self.delta, "scope": self.scope}
