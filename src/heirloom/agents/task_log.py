"""`TaskLog`: what happened to an agent within a task, from which a file can repeat the task.

Everything that a learner computes follows from what it knew at the beginning and from this log, to
the bit. So a file has no bounds, work lists or distances in it, but steps and a few events.
"""

from typing import Any, NamedTuple

import numpy as np

from heirloom.agents.refutation import Reactions
from heirloom.arrays import BoolArray
from heirloom.kernels.counting import N_LOGGED
from heirloom.mdp.learned import LearnedModel
from heirloom.transfer.declared import Declared, as_options
from heirloom.transfer.memory import TaskMemory
from heirloom.transfer.nearness.bound import arrays_of
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
    reactions: Reactions
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
        return (
            (self.delta, self.origin) == (other.delta, other.origin)
            and (self.origin != GIVEN or same_nearness(self.nearness, other.nearness))
            and same_options(as_options(self.declared), as_options(other.declared))
        )


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


def same_options(one: dict[str, Any] | None, other: dict[str, Any] | None) -> bool:
    """Return whether two things with these options, numbers and arrays among them, are equal."""
    if one is None or other is None:
        return one is other
    return one.keys() == other.keys() and all(np.array_equal(x, other[k]) for k, x in one.items())


def same_nearness(one: Nearness | None, other: Nearness | None) -> bool:
    """Return whether two nearnesses claim the same."""
    if one is None or other is None or one is other:
        return one is other
    return same_options(arrays_of(one), arrays_of(other))
