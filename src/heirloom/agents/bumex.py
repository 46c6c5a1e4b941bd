"""BUMEX: Q-learning between bounds that follow from earlier tasks and a nearness."""

from datetime import date
from typing import Annotated, Any, Self, Unpack

import numpy as np

from heirloom.agents.near_rmax import GivenNearness
from heirloom.agents.steps_file import Steps, logged_steps, read_masks
from heirloom.agents.tables import OptimisticTableOptions, TableAgent
from heirloom.agents.task_learner import TaskLearner
from heirloom.arrays import BoolArray, FloatArray
from heirloom.kernels import rollout
from heirloom.kernels.counting import NEVER
from heirloom.mdp.tabular import reward_scale
from heirloom.naming import checked_label
from heirloom.options import Option, declared, options_of
from heirloom.transfer.memory import TaskMemory
from heirloom.transfer.nearness.bound import NearModels, PooledConfidence
from heirloom.transfer.nearness.knowledge import Nearness
from heirloom.validation import instance

LEAST = 1e-8  # the weight of an action that is not optimal, or whose value is known


@declared
class BUMEX(TableAgent):
    """Q-learning that explores by bounds Q⁻ <= Q* <= Q⁺ (BUMEX, van Hulst et al., CDC 2025).

    With probability ε the action is drawn with the weight 1 if `Q⁻(s, a) >= Q⁺(s, a')` for all
    other a'; `(Q⁺ - V⁻)² / (2 (Q⁺ - Q⁻))`, in multiples of hi - lo, if `Q⁺ > V⁻ = max_a Q⁻`; and
    1e-8 otherwise. Else it is greedy on `Q`, which starts at Q⁺ and stays from Q⁻ to Q⁺.

    In the paper a modeller gives intervals of R and T, data narrow them, and `Q` starts between the
    bounds at random. Here Q⁺ and Q⁻ are the values of the most and least favourable tasks that are
    near to the visits of earlier tasks, as `NearModels` describes, at the beginning of a task; they
    do not change afterwards. If the nearness is true, and with `confidence` or exact sources, they
    are bounds, so `Q` is never outside the possible values. Nothing is proved of how fast it
    learns, and a false nearness is not noticed. Once a mask is observed that was not given at the
    beginning, Q⁻ is `v_min`: actions of other states, on which it rests, may be missing, too.
    """

    shown = ("learning_rate", "exploration")

    def __init__(
        self,
        *,
        nearness: GivenNearness,
        confidence: PooledConfidence = None,
        memory: Annotated[
            TaskMemory | None, Option("the tasks to transfer from; by default empty.", spec=None)
        ] = None,
        **options: Unpack[OptimisticTableOptions],
    ) -> None:
        super().__init__(options)
        self.bound = NearModels(nearness, confidence=confidence)
        self.bound.check(self.setting)
        self.memory = TaskMemory(self.n_states, self.n_actions) if memory is None else memory
        instance("memory", self.memory, TaskMemory, "or None for a new one").bind(self.setting)
        self._texts = {"label": "", "time": ""}

    def _begin(self, available: BoolArray) -> tuple[FloatArray, dict[str, Any]]:
        self.memory.bind(self.setting)  # another agent that shares the memory may have filled it
        mask = None if available.all() else available
        arguments = self.setting, NEVER, None, [self.bound], self.memory, None, mask
        self._task = TaskLearner(*arguments)
        upper, lower = self._task.Q.copy(), self.bound.lower_values(available)
        weights = self._weights(lower, upper)
        return upper.copy(), {"lower": lower, "upper": upper, "weights": weights}

    def _weights(self, lower: FloatArray, upper: FloatArray) -> FloatArray:
        """Return the weights of actions over pairs; 0 if an action is missing."""
        low, high = (Q.reshape(self.n_states, self.n_actions) for Q in (lower, upper))
        exists, V = high > -np.inf, low.max(axis=1, keepdims=True)
        ordered = np.sort(np.hstack([np.full((self.n_states, 1), -np.inf), high]), axis=1)
        is_first = np.arange(self.n_actions) == high.argmax(axis=1)[:, None]
        others = np.where(is_first, ordered[:, -2:-1], ordered[:, -1:])
        width, gain = (
            np.subtract(high, other, out=np.zeros(high.shape), where=exists) for other in (low, V)
        )
        is_open = (width > 0) & (gain > 0)
        unit = 2 * reward_scale(self.setting.reward_range)
        weights = np.where(is_open, gain**2 / np.where(is_open, unit * width, 1.0), LEAST)
        return np.where(exists, np.where(low >= others, 1.0, weights), 0.0).reshape(-1)

    def _observe_mask(self, s: int, flags: BoolArray) -> None:
        is_first = not self._task.model._availability.is_known(s)
        new = self._task.observe_mask(s, flags)
        super()._observe_mask(s, flags)
        Q, lower, upper = self._table.Q, self._table.lower, self._table.upper
        if new.size or (is_first and (lower > self.v_min).any()):
            upper[:] = self._task.Q
            lower[:] = np.where(upper > -np.inf, self.v_min, -np.inf)
            np.minimum(Q, upper, out=Q)
            self._table.weights[:] = self._weights(lower, upper)

    def _count(self, k: int, r: float, outcome: int) -> None:
        self._task.model._count(k, r, outcome)

    def _model(self) -> tuple[Any, ...]:
        return tuple(self._task.model._arrays)

    def _run_until(self, task: rollout.Task, run: rollout.Run, episode: int, limit: int) -> int:
        status = super()._run_until(task, run, episode, limit)
        if status == rollout.NO_ROOM:
            self._task.model._grow()
        return status

    def end_task(self, *, label: str | None = None, time: str | date | None = None) -> None:
        """End the task, and store it in the memory as a source.

        Args:
            label: what the task is called, for texts; None for no label.
            time: when it took place, such as "week 12" or a date; None for no time.
        """
        self._texts = {"label": checked_label("label", label), "time": checked_label("time", time)}
        super().end_task()

    def _end(self) -> None:
        self._task.end(self.memory, **self._texts)

    def drop_task(self) -> None:
        """End the task without storing it; its visits count."""
        if self.in_task:
            self.memory._drop(self._task.model)
        super().drop_task()

    def _counted(self) -> dict[str, np.ndarray]:
        return logged_steps(self._task)

    def _count_again(self, arrays: dict[str, np.ndarray]) -> None:
        steps, at = Steps.read(arrays, self.setting), np.zeros(3, dtype=np.int64)
        for s, flags in read_masks(arrays, self.setting):
            self._task.observe_mask(s, flags)
        steps.install(self._task.model)
        steps.finish(self._task, at)

    def saved_options(self) -> dict[str, Any]:
        """Return the options that a file contains, with the arrays of the nearness."""
        return {**self.options, **(self.bound.options() or {})}

    @classmethod
    def from_options(cls, options: dict[str, Any], memory: TaskMemory | None) -> Self:
        """Create an agent with the options of a file, and with its memory."""
        own = {
            name: options[name] for name in options_of(OptimisticTableOptions) if name in options
        }
        near = NearModels(**{name: v for name, v in options.items() if name not in own})
        nearness = instance("nearness", near.nearness, Nearness, "a nearness")
        return cls(nearness=nearness, confidence=near.confidence, memory=memory, **own)
