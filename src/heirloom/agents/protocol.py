"""What an agent is."""

from typing import Protocol


class Agent(Protocol):
    """Faces tasks one after the other: transfer happens in `begin_task`, storing in `end_task`."""

    n_states: int
    n_actions: int
    gamma: float

    def begin_task(self) -> None:
        """A new task begins."""

    def act(self, s: int) -> int:
        """The action to take in state `s`. Acting never learns."""

    def observe(self, s: int, a: int, r: float, s_next: int, *, terminated: bool) -> bool:
        """Learn from a step; returns whether the model of the task was updated."""

    def end_task(self) -> None:
        """The task is over: keep what may help with the next."""
