"""Baseline: Q-learning (Watkins and Dayan, 1992), without transfer and without guarantees."""

from typing import Annotated, Required, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike

from heirloom.arrays import BoolArray, FloatArray, IntArray
from heirloom.errors import InvalidArgument, WrongOrder
from heirloom.mdp.available import read_mask
from heirloom.options import Option, declared
from heirloom.validation import (
    LARGEST_REWARD,
    check_gamma,
    generator,
    index,
    numbers,
    reward,
    sizes,
    truth,
)


class QLearningRates(TypedDict, total=False):
    """The options of Q-learning that do not depend on the task."""

    learning_rate: Annotated[
        float, Option("α, the weight of a new observation in an update of Q.", 0.1, gt=0, le=1)
    ]
    exploration: Annotated[float, Option("ε, the probability of a random action.", 0.1, ge=0, le=1)]
    seed: Annotated[
        int | np.random.Generator | None,
        Option("the seed of the agent's generator, or the generator.", None, spec=None),
    ]


class QLearningOptions(QLearningRates, total=False):
    """All options of Q-learning."""

    n_states: Required[Annotated[int, Option("the number of states, S.", spec=None)]]
    n_actions: Required[Annotated[int, Option("the number of actions, A.", spec=None)]]
    gamma: Required[Annotated[float, Option("the discount factor.", spec=None)]]
    initial_Q: Annotated[
        float | ArrayLike,
        Option(
            "the values of Q before the first update: a number or an array [s, a].", 0.0, spec=float
        ),
    ]


@declared
class QLearning:
    """Q-learning with ε-greedy actions.

        Q(s, a) <- Q(s, a) + α (r + γ max_a' Q(s', a') - Q(s, a))

    Every task begins with the same initial values: nothing is transferred between tasks.
    """

    def __init__(self, **options: Unpack[QLearningOptions]) -> None:
        self.n_states, self.n_actions = sizes(options["n_states"], options["n_actions"])
        self.gamma = check_gamma(options["gamma"])
        self.learning_rate, self.exploration = options["learning_rate"], options["exploration"]
        self.initial_Q = _initial(options["initial_Q"], (self.n_states, self.n_actions))
        self.in_task = False
        self._rng = generator(options["seed"])
        self._Q = self.initial_Q.copy()

    def begin_task(self) -> None:
        """Begin a new task with the initial values."""
        if self.in_task:
            raise WrongOrder(
                "begin_task() was called within a task: call end_task() first, or resume the task "
                "with learn(..., resume=True)"
            )
        self._Q = self.initial_Q.copy()
        self.in_task = True

    def observe_mask(self, s: int, mask: ArrayLike) -> None:
        """Observe which actions are available in state `s`; the others are never chosen."""
        if not self.in_task:
            raise WrongOrder("observe_mask() was called outside a task: call begin_task() first")
        s = index("state", s, self.n_states)
        self._Q[s, ~read_mask(mask, self.n_actions, f"the mask of state {s}")] = -np.inf

    def act(self, s: int) -> int:
        """Return a random action with probability ε, otherwise a random greedy action."""
        if not self.in_task:
            raise WrongOrder("act() was called outside a task: call begin_task() first")
        s = index("state", s, self.n_states)
        if self._rng.random() < self.exploration:
            available = np.flatnonzero(self._Q[s] > -np.inf)
            return int(available[int(self._rng.random() * available.size)])
        row = self._Q[s]
        greedy = np.flatnonzero(row == row.max())
        return int(greedy[int(self._rng.random() * greedy.size)] if greedy.size > 1 else greedy[0])

    def observe(self, s: int, a: int, r: float, s_next: int, *, terminated: bool) -> bool:
        """Learn from a step; returns False because there is no model to update."""
        if not self.in_task:
            raise WrongOrder("observe() was called outside a task: call begin_task() first")
        s, a = index("state", s, self.n_states), index("action", a, self.n_actions)
        s_next, r = index("next state", s_next, self.n_states), reward(s, a, r)
        target = r if truth("terminated", terminated) else r + self.gamma * self._Q[s_next].max()
        self._Q[s, a] += self.learning_rate * (target - self._Q[s, a])
        return False

    def end_task(self) -> None:
        """End the task; `Q` can be read until the next one begins."""
        if not self.in_task:
            raise WrongOrder("end_task() was called outside a task: call begin_task() first")
        self.in_task = False

    @property
    def Q(self) -> FloatArray:
        """The learned values, [s, a]; -infinity where an action is not available."""
        view = self._Q.view()
        view.flags.writeable = False
        return view

    @property
    def greedy(self) -> BoolArray:
        """Whether each action has the largest `Q` of its state, [s, a]."""
        return self._Q == self._Q.max(axis=1, keepdims=True)

    @property
    def policy(self) -> IntArray:
        """The first greedy action of each state, [s]."""
        return self._Q.argmax(axis=1)

    def __repr__(self) -> str:
        return (
            f"QLearning(n_states={self.n_states}, n_actions={self.n_actions}, gamma={self.gamma}, "
            f"learning_rate={self.learning_rate}, exploration={self.exploration})"
        )


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
