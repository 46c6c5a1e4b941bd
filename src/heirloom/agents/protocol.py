"""The protocol of an agent."""

from typing import Protocol

from heirloom.transfer.memory import TaskMemory


class Agent(Protocol):
    """A learner that faces tasks one after the other.

    It transfers from earlier tasks in `begin_task`, and stores a task in `end_task`. All its tasks
    have the same numbers of states and actions, and the same discount factor; if the agent has the
    attributes `n_states`, `n_actions` and `gamma`, they are compared with those of each task.

    An agent may also have a method `begin_episode()`, which is called before the first action of
    each episode, and `observe` may have a parameter `truncated`, which is then given too.
    """

    def begin_task(self) -> None:
        """Begin a new task."""

    def act(self, s: int) -> int:
        """Return the action to take in state `s`. Acting never learns."""

    def observe(self, s: int, a: int, r: float, s_next: int, *, terminated: bool) -> bool | None:
        """Learn from a step; returns whether the model of the task was updated."""

    def end_task(self) -> None:
        """End the task, and store what may help with later ones."""


def memory_of(agent: Agent) -> TaskMemory | None:
    """Return the memory of tasks that an agent has; None for an agent without one."""
    memory = getattr(agent, "memory", None)
    return memory if isinstance(memory, TaskMemory) else None
