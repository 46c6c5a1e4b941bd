"""`TaskLog`: what happened to an agent within a task, from which a file can repeat the task.

Everything that a learner computes follows from what it knew at the beginning and from this log, to
the bit. So a file has no bounds, work lists or distances in it, but steps and a few events.
"""

from typing import NamedTuple

import numpy as np

from heirloom.arrays import BoolArray
from heirloom.kernels.counting import N_LOGGED
from heirloom.mdp.learned import LearnedModel
from heirloom.transfer.declared import Declared
from heirloom.transfer.memory import TaskMemory
from heirloom.transfer.nearness.knowledge import Nearness

(
    MASK,
    EXPECTED,
    EPISODE,
    RESUMED,
    CERTIFICATE,
    APART,
    RETURN,
    ENDED,
    FURTHER,
    DROPPED,
) = range(10)
OWN, NONE, GIVEN = "own", "none", "given"


class Begun(NamedTuple):
    """What an agent was when it began a task, as far as it may differ now."""

    memory: TaskMemory
    """A copy of its memory."""
    bounds: list[dict[str, object] | None]
    """The options of its bounds; None for those of the user, which do not change."""
    warned: bool
    refuted: bool
    n_widened: int
    drawn: float
    """The random number from which the generator of plans was made; 0 if there are no plans."""
    available: BoolArray | None
    """The mask that was given, over pairs."""


class Request(NamedTuple):
    """A certificate that is asked for."""

    delta: float
    declared: Declared
    nearness: Nearness | None
    origin: str
    """Whether it is the agent's `OWN` nearness, `NONE`, or one that was `GIVEN`."""

    def equals(self, other: "Request") -> bool:
        """Return whether another request asks for the same."""
        if (self.delta, self.origin) != (other.delta, other.origin):
            return False
        if self.origin == GIVEN and self.nearness is not other.nearness:
            return False
        starts = self.declared.start, other.declared.start
        return same(self.declared, other.declared) and same_arrays(*starts)


class TaskLog:
    """Events of a task, each with the number of steps and beginnings of episodes before it."""

    def __init__(self, model: LearnedModel) -> None:
        self._model = model
        self.events: list[tuple[int, int, int]] = []
        """The position, the kind and the argument of each event."""
        self.masks: list[tuple[int, BoolArray]] = []
        """The states whose masks were observed, and these."""
        self.requests: list[Request] = []
        """The certificates that were asked for, without repetitions."""
        self.texts = "", ""
        """The label and the time with which the task ended."""

    @property
    def is_complete(self) -> bool:
        """Whether all steps are logged: there were at most `learned.MOST_LOGGED`."""
        return bool(self._model._arrays.sizes[N_LOGGED] >= 0)

    def add(self, kind: int, argument: int = 0) -> None:
        """Add an event."""
        if self.is_complete:
            self.events.append((int(self._model._arrays.sizes[N_LOGGED]), kind, argument))

    def add_mask(self, s: int, flags: BoolArray) -> None:
        """Add that the mask of a state was observed."""
        self.add(MASK, len(self.masks))
        self.masks.append((s, flags))

    def add_request(self, kind: int, request: Request) -> None:
        """Add that a certificate was asked for."""
        for i, earlier in enumerate(self.requests):
            if earlier.equals(request):
                self.add(kind, i)
                return
        self.add(kind, len(self.requests))
        self.requests.append(request)


def same(one: Declared, other: Declared) -> bool:
    """Return whether two declarations of models are equal; bounds do not depend on the start."""
    for name in ("successors", "terminates", "rewards"):
        a, b = getattr(one, name), getattr(other, name)
        if type(a) is not type(b):
            return False
        pairs = zip(a, b, strict=True) if isinstance(a, tuple) else [(a, b)]
        if not all(np.array_equal(x, y) for x, y in pairs):
            return False
    return True


def same_arrays(one: np.ndarray | None, other: np.ndarray | None) -> bool:
    """Return whether two arrays are equal, or both None."""
    if one is None or other is None:
        return one is other
    return np.array_equal(one, other)
