"""`Observer`: the base of measures that a run can record while an agent learns."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

from heirloom.experiments.variables import Variable
from heirloom.learning import lifetime
from heirloom.mdp.tabular import TabularMDP


class Observer(lifetime.Observer, ABC):
    """Base of observers: each measures quantities per task and appends them to `measured`."""

    variables: ClassVar[dict[str, Variable]]
    """The recorded variables, over agents, repetitions, tasks and possibly one more dimension."""
    own_dimension: ClassVar[dict[str, tuple[str, Callable[[TabularMDP], int]]]] = {}
    """Further dimensions by name: the meaning, and a function from a task to the size."""
    looks_at_updates = False
    looks_at_episodes = False

    def __init__(self) -> None:
        self.measured: dict[str, list[Any]] = {name: [] for name in self.variables}

    def begin_task(self, agent: Any, task: Any) -> None:
        """Start to measure a task that the agent has begun."""
        self._agent, self._task = agent, task
        self.begin()

    def after_update(self) -> None:
        """Measure after the agent has updated its model, bounds and values."""

    def after_episode(self, done: int) -> None:
        """Measure after the first `done` episodes of the task."""

    def end_task(self) -> None:
        """Append the results of the task to `measured`."""
        for name, value in self.result().items():
            self.measured[name].append(value)

    @abstractmethod
    def begin(self) -> None:
        """Reset what is measured, at the beginning of a task."""

    @abstractmethod
    def result(self) -> dict[str, Any]:
        """Return the results of the task that ends, by the name of the variable."""
