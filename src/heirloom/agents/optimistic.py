"""The one learner: greedy on an upper bound of `Q*` that falls as the task becomes known."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

import numpy as np

from heirloom.agents.task_learner import TaskLearner
from heirloom.agents.uniforms import Uniforms
from heirloom.arrays import BoolArray, FloatArray, IntArray
from heirloom.errors import InvalidArgument, WrongOrder
from heirloom.mdp.learned import LearnedModel
from heirloom.storage import archive
from heirloom.transfer.bound import Bound
from heirloom.transfer.memory import TaskMemory
from heirloom.transfer.setting import Setting
from heirloom.validation import Range, generator, whole_number

if TYPE_CHECKING:
    from heirloom.agents.explanation import Explanation


class OptimisticAgent:
    """Acts greedily on `Q`, the smallest upper bound on `Q*` that bounds and learned model imply.

    Off the known set `Q = U`, the least of `v_max` and of all bounds; on it
    `Q = min(U, R̂ + γ Σ T̂ V)`. `Q` and `U` never rise within a task, and `U` freezes at a pair that
    becomes known. Actions whose values differ by at most `setting.tie`, 1e-8 of the range of
    rewards, count as equal; the agent chooses among them uniformly, with its own generator.

    Args:
        bounds: upper bounds to combine, none for RMax; each serves this agent only.
        n_states: the number of states, S.
        n_actions: the number of actions, A.
        gamma: the discount factor.
        n_known: how many visits make a pair known.
        seed: of the agent's generator, or the generator.
        epsilon: how accurate known pairs are taken to be; 0 if they are exact.
        reward_range: (lo, hi), what every reward lies in.
        terminating: whether tasks may terminate; it is safe to say so.
        v_max: an upper bound on every value; hi / (1-γ) unless a smaller one is known.
        tol: how far `Q` may be above its fixed point; by default 1e-11 times the range of rewards.
            With a larger one results depend on where iterations stop.
        memory: what the agent carries from task to task; empty by default.
    """

    def __init__(
        self,
        *,
        bounds: Sequence[Bound],
        n_states: int,
        n_actions: int,
        gamma: float,
        n_known: int,
        seed: int | np.random.Generator | None = None,
        epsilon: float = 0.0,
        reward_range: Range = (0.0, 1.0),
        terminating: bool = True,
        v_max: float = np.inf,
        tol: float | None = None,
        memory: TaskMemory | None = None,
    ) -> None:
        self.setting = Setting(
            n_states=n_states,
            n_actions=n_actions,
            gamma=gamma,
            reward_range=reward_range,
            terminating=terminating,
            v_max=v_max,
            epsilon=epsilon,
            tol=tol,
        )
        self.n_states, self.n_actions, self.gamma = int(n_states), int(n_actions), float(gamma)
        self.n_known = whole_number("n_known", n_known)
        self.bounds = list(bounds)
        for bound in self.bounds:
            if isinstance(bound, type):
                raise InvalidArgument(f"bounds holds the class {bound.__name__}: give a bound")
            bound.check(self.setting)
        self.uniforms = Uniforms(generator(seed))
        """Random numbers for the choice among equal actions."""
        self.memory = TaskMemory(self.n_states, self.n_actions) if memory is None else memory
        self.memory.bind(self.setting)
        self.in_task = False
        self._task: TaskLearner | None = None

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        bounds: Sequence[Bound | type[Bound]] | None = None,
    ) -> Self:
        """The agent that was saved in a file, which continues as if it had never stopped.

        A file names no code. If the agent has bounds of your own, give all its `bounds` in order:
        the class of each that has `options`, or the bound made as it was.
        """
        from heirloom.agents.agent_file import unpacked

        return unpacked(cls, archive.read(path, "agent"), str(path), bounds)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the agent to one file between two tasks: options, memory and generator."""
        from heirloom.agents.agent_file import packed

        if self.in_task:
            raise WrongOrder("save() within a task: end_task() stores it, drop_task() forgets it")
        archive.write(path, "agent", packed(self))

    def begin_task(self) -> None:
        """A new task begins: nothing of it is known, bounds transfer what was learned before."""
        if self.in_task:
            raise WrongOrder(
                "a task is going on: end_task() stores it, drop_task() forgets it, "
                "learn(..., resume=True) goes on with it"
            )
        self.memory.bind(self.setting)  # another agent may have filled it meanwhile
        self._task = TaskLearner(self.setting, self.n_known, self.bounds, self.memory)
        self.in_task = True

    def act(self, s: int) -> int:
        """A greedy action; one of the equal ones at random."""
        task = self._task
        if task is None or not self.in_task:
            raise WrongOrder("act() outside of a task: begin_task() first")
        best = task.greedy.get(s)
        if best is None:
            if not 0 <= s < self.n_states:
                raise InvalidArgument(f"state {s}: the states are 0 to {self.n_states - 1}")
            best = task.greedy_actions(s)
        if len(best) == 1:
            return best[0]
        return best[int(self.uniforms.next() * len(best))]

    def observe(self, s: int, a: int, r: float, s_next: int, *, terminated: bool) -> bool:
        """Count a step; returns whether the pair (s, a) became known by it."""
        lo, hi = self.setting.reward_range
        if not (
            0 <= s < self.n_states
            and 0 <= a < self.n_actions
            and 0 <= s_next < self.n_states
            and lo <= r <= hi
            and (self.setting.terminating or not terminated)
        ):
            raise self._bad_step(s, a, r, s_next)
        task = self._task
        if task is None or not self.in_task:
            raise WrongOrder("observe() outside of a task: begin_task() first")
        pair = task.model.observe(s, a, r, s_next, terminated=terminated)
        if pair is None:
            return False
        task.update(pair)
        return True

    def end_task(self) -> None:
        """Keep the task as a source."""
        if not self.in_task:
            raise WrongOrder("end_task() outside of a task: begin_task() first")
        self.task.end(self.memory)
        self.drop_task()

    def drop_task(self) -> None:
        """Forget the task at hand: what is in the memory by now is all that stays."""
        self.in_task = False

    @property
    def task(self) -> TaskLearner:
        """What is learned of the task at hand, or of the last one: what a rollout works on."""
        if self._task is None:
            raise WrongOrder(
                "there was no task yet, or none since the agent was loaded: begin_task() first"
            )
        return self._task

    @property
    def model(self) -> LearnedModel:
        """The learned model of the task."""
        return self.task.model

    @property
    def Q(self) -> FloatArray:
        """The upper bound on Q* that the agent acts on, [s, a]."""
        return self._by_pair(self.task.values.Q)

    @property
    def U(self) -> FloatArray:
        """The least of all bounds, [s, a]: what `Q` is where the model is unknown."""
        return self._by_pair(self.task.values.U)

    @property
    def known(self) -> BoolArray:
        """The known set, [s, a]."""
        return self.model.known

    @property
    def greedy(self) -> BoolArray:
        """The actions that the agent may choose, [s, a]: those of the largest `Q`, up to ties."""
        Q = self.Q
        return Q >= Q.max(axis=1, keepdims=True) - self.setting.tie

    @property
    def policy(self) -> IntArray:
        """One greedy action per state, the first of equal ones, [s]."""
        return self.greedy.argmax(axis=1)

    @property
    def decider(self) -> IntArray:
        """Which bound decides `U`, [s, a]: 0 is `v_max`, i the i-th of `bounds`."""
        return self._by_pair(self.task.decider)

    def explain(self) -> "Explanation":
        """Why `Q` is what it is: which bound and which source decides where, and what is left."""
        from heirloom.agents.explanation import explain

        return explain(self)

    def __repr__(self) -> str:
        names = ", ".join(type(bound).__name__ for bound in self.bounds) or "v_max"
        sizes = f"n_states={self.n_states}, n_actions={self.n_actions}, gamma={self.gamma}"
        rest = f"n_known={self.n_known}, bounds: {names}, tasks seen: {self.memory.n_tasks}"
        return f"{type(self).__name__}({sizes}, {rest})"

    def _by_pair(self, array: np.ndarray) -> np.ndarray:
        view = array.reshape(self.n_states, self.n_actions)
        view.flags.writeable = False
        return view

    def _bad_step(self, s: int, a: int, r: float, s_next: int) -> InvalidArgument:
        for name, number, size in (
            ("state", s, self.n_states),
            ("action", a, self.n_actions),
            ("next state", s_next, self.n_states),
        ):
            if not 0 <= number < size:
                return InvalidArgument(f"{name} {number}: there are 0 to {size - 1}")
        lo, hi = self.setting.reward_range
        if lo <= r <= hi:
            return InvalidArgument(
                f"state {s} and action {a} ended the episode, and the agent was told that no task "
                "terminates: make it with terminating=True"
            )
        return InvalidArgument(
            f"the reward {r} of state {s} and action {a} is outside reward_range ({lo:g}, {hi:g}): "
            "give the agent the range of all its tasks"
        )
