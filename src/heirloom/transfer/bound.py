"""Upper bounds on `Q*` of the task at hand, each refined as the task is learned.

The pointwise minimum of bounds is a bound, so an agent takes a list of them.
"""

from typing import Protocol

import numpy as np

from heirloom.arrays import FloatArray, IntArray, frozen
from heirloom.mdp.learned import LearnedModel
from heirloom.theory import tasks_for_max_q
from heirloom.transfer.memory import Source, TaskMemory
from heirloom.transfer.setting import Setting

NOTHING = frozen(np.empty(0, dtype=np.int64))


class Bound(Protocol):
    """An upper bound on Q* of the task at hand. It has state: one serves one agent."""

    U: FloatArray
    """The bound as it is now, over pairs k = s * A + a."""

    def begin_task(self, setting: Setting, model: LearnedModel, memory: TaskMemory) -> bool:
        """Set `U` for a new task; returns whether it may be refined as the task is learned."""

    def refine(self, pair: int, U: FloatArray, V: FloatArray) -> IntArray:
        """The pair became known: lower `U`, and return the unknown pairs where it was lowered.

        The agent's own bound is `U`, and its values, as of the last update, are `V`.
        """

    def end_task(self, source: Source, memory: TaskMemory) -> None:
        """The task ended as `source`, which is not in the memory yet."""


class Constant:
    """No value is above `v_max`: all that RMax knows."""

    def begin_task(self, setting: Setting, model: LearnedModel, memory: TaskMemory) -> bool:
        """The same for every task."""
        self.U = np.full(setting.n_pairs, setting.v_max)
        return False

    def refine(self, pair: int, U: FloatArray, V: FloatArray) -> IntArray:
        """Nothing is refined."""
        return NOTHING

    def end_task(self, source: Source, memory: TaskMemory) -> None:
        """Nothing is kept."""


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
