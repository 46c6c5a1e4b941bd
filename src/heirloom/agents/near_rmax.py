"""NearRMax: RMax with bounds from the models of earlier tasks that are near to the current one."""

from typing import Annotated, Any, Literal, Unpack

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from heirloom.agents.algorithm_options import TaskKnowledge
from heirloom.agents.optimistic import OptimisticAgent
from heirloom.agents.paper_algorithms import AgentOptions, MaxQInitOptions, RMaxOptions
from heirloom.agents.protocol import Agent
from heirloom.choices import Scope
from heirloom.errors import InvalidArgument
from heirloom.transfer.bound import MaxQ
from heirloom.transfer.nearness.bound import NearModels
from heirloom.transfer.nearness.knowledge import Nearness


class NearRMax(OptimisticAgent):
    """RMax that uses the models of earlier tasks, given by how much the models of tasks can differ.

    If the nearness is true for the family and known models are exact, every bound is valid, and the
    bound on the sample complexity is at most that of RMax.

    Args:
        nearness: by how much rewards and transition probabilities of two tasks can differ.
        options: the options of `OptimisticAgent`, without `bounds`.

    Examples:
        >>> import heirloom as hl
        >>> near = hl.Nearness(rewards=0.2, transitions=0.1)
        >>> hl.NearRMax(nearness=near, n_states=9, n_actions=4, gamma=0.9, n_known=10)
        NearRMax(n_states=9, n_actions=4, gamma=0.9, n_known=10, bounds: NearModels, tasks seen: 0)
    """

    def __init__(self, *, nearness: Nearness, **options: Unpack[AgentOptions]) -> None:
        super().__init__(bounds=[NearModels(nearness)], **options)


class NearRMaxQInit(OptimisticAgent):
    """NearRMax and MaxQInit combined: the bound is the minimum of their bounds.

    Args:
        nearness: by how much rewards and transition probabilities of two tasks can differ.
        p_min: the smallest probability of a task.
        delta: δ; the bound of MaxQInit is valid with probability 1 - δ.
        scope: see `MaxQInit`.
        options: the options of `OptimisticAgent`, without `bounds`.
    """

    def __init__(
        self,
        *,
        nearness: Nearness,
        p_min: float,
        delta: float = 0.05,
        scope: Scope = "task",
        **options: Unpack[AgentOptions],
    ) -> None:
        max_q = MaxQ(p_min=p_min, delta=delta, scope=scope)
        super().__init__(bounds=[NearModels(nearness), max_q], **options)


class NearnessNumbers(BaseModel):
    """A nearness in a spec: one number for all pairs, or the array that the family computes."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
    rewards: Annotated[float, Field(ge=0)] | Literal["family"]
    transitions: Annotated[float, Field(ge=0, le=1)] | Literal["family"]
    successors: Literal["family"] | None = None


class NearRMaxOptions(RMaxOptions):
    """RMax with bounds from the models of earlier tasks, which differ by at most a nearness."""

    nearness: NearnessNumbers | Literal["family"] = "family"
    """By how much tasks differ: numbers, or "family" for what the family computes."""
    nearness_scale: float = Field(1.0, ge=0, le=1)
    """Factor on its rewards and transitions; below 1 a true nearness becomes a false one."""

    def make(self, known: TaskKnowledge, seed: np.random.Generator) -> Agent:
        """Create an agent with these options, for tasks described by `known`."""
        return NearRMax(nearness=self.knowledge(known), **self.common(known, seed))

    def knowledge(self, known: TaskKnowledge) -> Nearness:
        """Return the nearness; raises `InvalidArgument` if the family does not know it."""
        return nearness_of(self.nearness, self.nearness_scale, known)


class NearRMaxQInitOptions(NearRMaxOptions, MaxQInitOptions):
    """NearRMax and MaxQInit combined: the minimum of their bounds."""

    def make(self, known: TaskKnowledge, seed: np.random.Generator) -> Agent:
        """Create an agent with these options, for tasks described by `known`."""
        options = {**self.confidence(known), **self.common(known, seed)}
        return NearRMaxQInit(nearness=self.knowledge(known), **options)


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
