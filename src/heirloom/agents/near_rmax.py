"""NearRMax: RMax with bounds from the models of earlier tasks that are near to the current one."""

from typing import Annotated, Any, Literal, Unpack

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from heirloom.agents.algorithm_options import TaskKnowledge
from heirloom.agents.optimistic import OptimisticAgent
from heirloom.agents.paper_algorithms import AgentOptions, MaxQInitOptions
from heirloom.agents.protocol import Agent
from heirloom.choices import Scope
from heirloom.errors import InvalidArgument
from heirloom.options import named_options
from heirloom.transfer.bound import MaxQ
from heirloom.transfer.nearness.bound import NearModels
from heirloom.transfer.nearness.knowledge import Nearness


class NearRMax(OptimisticAgent):
    """RMax that uses the models of earlier tasks, given by how much the models of tasks can differ.

    If the nearness is true for the family and known models are exact, every bound is valid, and the
    bound on the sample complexity is at most that of RMax. Give `nearness`; or give `p_min`, and
    the agent learns it from the first tasks, in which it takes the same actions as RMax.

    Args:
        nearness: by how much rewards and transition probabilities of two tasks can differ.
        p_min: the smallest probability of a task, to learn the nearness.
        delta: δ; a learned nearness is true with probability 1 - δ.
        scope: whether that is for each "task" on its own, or for all tasks of a "lifetime"
            together, which takes more tasks before the nearness is used.
        options: the options of `OptimisticAgent`, without `bounds`.

    Examples:
        >>> import heirloom as hl
        >>> near = hl.Nearness(rewards=0.2, transitions=0.1)
        >>> hl.NearRMax(nearness=near, n_states=9, n_actions=4, gamma=0.9, n_known=10)
        NearRMax(n_states=9, n_actions=4, gamma=0.9, n_known=10, bounds: NearModels, tasks seen: 0)
    """

    @named_options
    def __init__(
        self,
        *,
        nearness: Nearness | None = None,
        p_min: float | None = None,
        delta: float = 0.05,
        scope: Scope = "task",
        **options: Unpack[AgentOptions],
    ) -> None:
        near = NearModels(nearness, p_min=p_min, delta=delta, scope=scope)
        super().__init__(bounds=[near], **options)


class NearRMaxQInit(OptimisticAgent):
    """NearRMax and MaxQInit combined: the bound is the minimum of their bounds.

    Args:
        p_min: the smallest probability of a task.
        nearness: by how much rewards and transition probabilities of two tasks can differ; by
            default it is learned from the first tasks with `p_min` and `delta`.
        delta: δ; the bound of MaxQInit and a learned nearness are valid with probability 1 - δ. If
            both are learned, they are valid together with this probability, because both follow
            from one event: that the current task is among the first ones.
        scope: see `MaxQInit`.
        options: the options of `OptimisticAgent`, without `bounds`.
    """

    @named_options
    def __init__(
        self,
        *,
        p_min: float,
        nearness: Nearness | None = None,
        delta: float = 0.05,
        scope: Scope = "task",
        **options: Unpack[AgentOptions],
    ) -> None:
        learned = p_min if nearness is None else None
        near = NearModels(nearness, p_min=learned, delta=delta, scope=scope)
        super().__init__(bounds=[near, MaxQ(p_min=p_min, delta=delta, scope=scope)], **options)


class NearnessNumbers(BaseModel):
    """A nearness in a spec: one number for all pairs, or the array that the family computes."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
    rewards: Annotated[float, Field(ge=0)] | Literal["family"]
    """The largest difference of the mean rewards of a pair between two tasks."""
    transitions: Annotated[float, Field(ge=0, le=1)] | Literal["family"]
    """The largest total variation of the transition probabilities of a pair between two tasks."""
    successors: Literal["family"] | None = None
    """Which successors are possible; by default all states."""


class NearRMaxQInitOptions(MaxQInitOptions):
    """NearRMax and MaxQInit combined: the minimum of their bounds."""

    nearness: NearnessNumbers | Literal["family", "learned"] | None = None
    """By how much tasks differ: numbers; "family" (default) for what the family computes; or
    "learned", from the first tasks, with p_min, delta and scope."""
    nearness_scale: float = Field(1.0, ge=0, le=1)
    """Factor on its rewards and transitions; below 1 a true nearness becomes a false one."""

    def make(self, known: TaskKnowledge, seed: np.random.Generator) -> Agent:
        """Create an agent with these options, for tasks described by `known`."""
        options = {**self.confidence(known), **self.common(known, seed)}
        return NearRMaxQInit(nearness=self.knowledge(known), **options)

    def knowledge(self, known: TaskKnowledge) -> Nearness | None:
        """Return the nearness, or None if it is learned.

        Raises `InvalidArgument` if the family does not know it.
        """
        if self.is_learned:
            if self.nearness_scale != 1:
                raise InvalidArgument(
                    f"nearness_scale is {self.nearness_scale:g}, but the nearness is learned: "
                    "leave it out, or give a nearness"
                )
            return None
        given = self.nearness if isinstance(self.nearness, NearnessNumbers) else None
        return nearness_of(given or "family", self.nearness_scale, known)

    @property
    def is_learned(self) -> bool:
        """Whether the nearness is learned from the first tasks."""
        return self.nearness == "learned"


class NearRMaxOptions(NearRMaxQInitOptions):
    """RMax with bounds from earlier models, given how much tasks can differ (a nearness)."""

    def make(self, known: TaskKnowledge, seed: np.random.Generator) -> Agent:
        """Create an agent with these options; it learns a nearness only if none is given."""
        learned = self.confidence(known) if self.is_learned else {}
        return NearRMax(nearness=self.knowledge(known), **learned, **self.common(known, seed))

    @property
    def is_learned(self) -> bool:
        """Whether the nearness is learned: if p_min is given, this is the default."""
        return self.nearness == "learned" or (self.nearness is None and self.p_min is not None)


def nearness_of(
    given: NearnessNumbers | Literal["family"], scale: float, known: TaskKnowledge
) -> Nearness:
    """Return the nearness that a spec describes."""
    numbers = NearnessNumbers(rewards="family", transitions="family", successors="family")
    if given != "family":
        numbers = given
    values = (numbers.rewards, numbers.transitions, numbers.successors)
    family = known.nearness() if "family" in values else None
    if family is None and "family" in values:
        raise InvalidArgument(
            "nearness is 'family', but the family does not know its nearness: give numbers, such "
            "as nearness = {rewards = 0.1, transitions = 0.0}"
        )

    def chosen(name: str) -> Any:
        value = getattr(numbers, name)
        return scale * (getattr(family, name) if value == "family" else value)

    options: dict[str, Any] = {name: chosen(name) for name in ("rewards", "transitions")}
    if family is not None and numbers.successors == "family":
        options |= {"successors": family.successors, "terminates": family.terminates}
    return Nearness(**options)
