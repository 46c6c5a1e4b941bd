"""Q-learning (Watkins and Dayan, 1992), to be compared with: it promises nothing."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field

from heirloom.agents.algorithm_options import AlgorithmOptions, TaskKnowledge
from heirloom.agents.protocol import Agent
from heirloom.arrays import BoolArray, FloatArray, IntArray
from heirloom.errors import InvalidArgument, WrongOrder
from heirloom.validation import (
    check_gamma,
    generator,
    numbers,
    positive_probability,
    probability,
    real_number,
    whole_number,
)


class QLearning:
    """Acts ε-greedily on `Q`, and moves it a part of the way to what each step suggests.

        Q(s, a) <- Q(s, a) + α (r + γ max_a' Q(s', a') - Q(s, a))

    Every task begins with the same initial values: nothing is carried over.

    Args:
        n_states: the number of states, S.
        n_actions: the number of actions, A.
        gamma: the discount factor.
        learning_rate: α.
        exploration: ε, the probability of an action at random.
        initial_Q: a number, or an array [s, a].
        seed: of the agent's generator, or the generator.
    """

    def __init__(
        self,
        *,
        n_states: int,
        n_actions: int,
        gamma: float,
        learning_rate: float = 0.1,
        exploration: float = 0.1,
        initial_Q: float | ArrayLike = 0.0,
        seed: int | np.random.Generator | None = None,
    ) -> None:
        self.n_states = whole_number("n_states", n_states)
        self.n_actions = whole_number("n_actions", n_actions)
        self.gamma = check_gamma(gamma)
        self.learning_rate = positive_probability("learning_rate", learning_rate)
        self.exploration = probability("exploration", exploration)
        self.initial_Q = _initial(initial_Q, (self.n_states, self.n_actions))
        self.in_task = False
        self._rng = generator(seed)
        self._Q = self.initial_Q.copy()

    def begin_task(self) -> None:
        """A new task begins, with the initial values."""
        if self.in_task:
            raise WrongOrder(
                "a task is going on: end_task() ends it, learn(..., resume=True) goes on with it"
            )
        self._Q = self.initial_Q.copy()
        self.in_task = True

    def act(self, s: int) -> int:
        """An action at random with probability ε, otherwise one of the greedy ones."""
        if not self.in_task:
            raise WrongOrder("act() outside of a task: begin_task() first")
        self._check("state", s, self.n_states)
        if self._rng.random() < self.exploration:
            return int(self._rng.random() * self.n_actions)
        row = self._Q[s]
        best = np.flatnonzero(row == row.max())
        return int(best[int(self._rng.random() * best.size)] if best.size > 1 else best[0])

    def observe(self, s: int, a: int, r: float, s_next: int, *, terminated: bool) -> bool:
        """Learn from a step. There is no model, so none is updated: returns False."""
        if not self.in_task:
            raise WrongOrder("observe() outside of a task: begin_task() first")
        self._check("state", s, self.n_states)
        self._check("action", a, self.n_actions)
        self._check("next state", s_next, self.n_states)
        r = real_number(f"the reward of state {s} and action {a}", r, "it is a number")
        target = r if terminated else r + self.gamma * self._Q[s_next].max()
        self._Q[s, a] += self.learning_rate * (target - self._Q[s, a])
        return False

    def end_task(self) -> None:
        """The task is over; `Q` can be read until the next one begins."""
        if not self.in_task:
            raise WrongOrder("end_task() outside of a task: begin_task() first")
        self.in_task = False

    @property
    def Q(self) -> FloatArray:
        """What was learned, [s, a]."""
        view = self._Q.view()
        view.flags.writeable = False
        return view

    @property
    def greedy(self) -> BoolArray:
        """The actions of the largest `Q`, [s, a]."""
        return self._Q == self._Q.max(axis=1, keepdims=True)

    @property
    def policy(self) -> IntArray:
        """One greedy action per state, the first of equal ones, [s]."""
        return self._Q.argmax(axis=1)

    def __repr__(self) -> str:
        return (
            f"QLearning(n_states={self.n_states}, n_actions={self.n_actions}, gamma={self.gamma}, "
            f"learning_rate={self.learning_rate}, exploration={self.exploration})"
        )

    def _check(self, name: str, number: int, size: int) -> None:
        if not isinstance(number, int | np.integer) or not 0 <= number < size:
            raise InvalidArgument(f"{name} {number}: there are 0 to {size - 1}")


class QLearningOptions(AlgorithmOptions):
    """Q-learning, without transfer and without promises."""

    learning_rate: float = Field(0.1, gt=0, le=1)
    exploration: float = Field(0.1, ge=0, le=1)
    initial_Q: float = 0.0  # noqa: N815 -- the letter of the paper

    def make(self, known: TaskKnowledge, seed: np.random.Generator) -> Agent:
        """An agent for tasks of which this is known."""
        return QLearning(**self.common(known, seed))

    def common(self, known: TaskKnowledge, seed: np.random.Generator) -> dict[str, Any]:
        """The options of `QLearning`."""
        sizes = {name: known.options[name] for name in ("n_states", "n_actions", "gamma")}
        own = {name: getattr(self, name) for name in QLearningOptions.model_fields}
        return {**sizes, **own, "seed": seed}


def _initial(initial_Q: float | ArrayLike, shape: tuple[int, int]) -> FloatArray:
    given = numbers("initial_Q", initial_Q)
    if given.shape not in ((), shape):
        raise InvalidArgument(
            f"initial_Q has shape {given.shape}: it is a number, or an array of shape {shape}"
        )
    if not np.isfinite(given).all():
        raise InvalidArgument("initial_Q is not finite: values are numbers")
    return np.broadcast_to(given, shape).copy()
