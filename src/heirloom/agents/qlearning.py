"""Q-learning (Watkins and Dayan, 1992), and naive ways to begin a task with what was learned."""

from typing import Annotated, Any, Literal, Unpack

import numpy as np
from numpy.typing import ArrayLike

from heirloom.agents.tables import Rates, TableAgent, TableOptions
from heirloom.arrays import BoolArray, FloatArray
from heirloom.errors import InvalidArgument
from heirloom.options import Option, declared
from heirloom.validation import LARGEST_REWARD, numbers


class QLearningOptions(Rates, TableOptions, total=False):
    """All options of Q-learning."""

    start: Annotated[
        Literal["v_max", "last", "mean", "max"] | None,
        Option(
            'what each task begins with: "v_max"; or `Q` of the "last" task that had the action, '
            'or the "mean" or the "max" over all of them, and `initial_Q` where there was none. By '
            "default `initial_Q`. Only with v_max are rewards compared with reward_range.",
            None,
        ),
    ]
    initial_Q: Annotated[  # noqa: N815 -- the paper's letter
        float | ArrayLike,
        Option(
            "the values of Q before the first update: a number or an array [s, a].", 0.0, spec=float
        ),
    ]


@declared
class QLearning(TableAgent):
    """Q-learning with ε-greedy actions; no guarantee for finitely many steps.

        Q(s, a) <- Q(s, a) + α (r + γ max_a' Q(s', a') - Q(s, a))

    By default every task begins with the same values: nothing is transferred between tasks. With
    `start` "last", "mean" or "max" it begins with those of earlier tasks, the naive transfer that
    other algorithms have to beat; nothing is proved of it. `start="v_max"` explores because
    untried actions look best.
    """

    shown = ("learning_rate", "exploration")

    def __init__(self, **options: Unpack[QLearningOptions]) -> None:
        super().__init__(options)
        self.start, self.exploration = options["start"], options["exploration"]
        self.learning_rate = options["learning_rate"]
        self.initial_Q = _initial(options["initial_Q"], (self.n_states, self.n_actions))
        self.options["initial_Q"] = self.initial_Q
        if self.start != "v_max":  # nothing depends on the range of rewards
            del self.setting
            self._limits = self.n_states, self.n_actions, -LARGEST_REWARD, LARGEST_REWARD, True
        if self.start in ("last", "mean", "max"):
            n_pairs = self.initial_Q.size
            self.kept = {"Q": np.zeros(n_pairs), "tasks": np.zeros(n_pairs, dtype=np.int64)}
        self._table = self._new_table(self._first_Q())

    def _first_Q(self) -> FloatArray:
        """Return the values with which the next task begins."""
        if self.start == "v_max":
            return np.full(self.initial_Q.size, self.v_max)
        Q = self.initial_Q.reshape(-1).copy()
        if self.kept:
            known = self.kept["tasks"] > 0
            n = self.kept["tasks"][known] if self.start == "mean" else 1
            Q[known] = self.kept["Q"][known] / n
        return Q

    def _begin(self, available: BoolArray) -> tuple[FloatArray, dict[str, Any]]:
        return self._first_Q(), {}

    def _end(self) -> None:
        if not self.kept:
            return
        Q, kept, tasks = self._table.Q, self.kept["Q"], self.kept["tasks"]
        has = Q > -np.inf
        if self.start == "mean":
            kept[has] += Q[has]
        elif self.start == "max":
            kept[has] = np.where(tasks[has] > 0, np.maximum(kept[has], Q[has]), Q[has])
        else:
            kept[has] = Q[has]
        tasks[has] += 1


def _initial(initial_Q: float | ArrayLike, shape: tuple[int, int]) -> FloatArray:
    given = numbers("initial_Q", initial_Q)
    if given.shape not in ((), shape):
        raise InvalidArgument(
            f"initial_Q has shape {given.shape}: expected a number, or an array of shape {shape}"
        )
    if not (np.abs(given) <= LARGEST_REWARD).all():
        raise InvalidArgument(
            f"initial_Q has values that are not finite, or larger than {LARGEST_REWARD:g}: "
            "expected finite numbers"
        )
    return np.broadcast_to(given, shape).copy()
