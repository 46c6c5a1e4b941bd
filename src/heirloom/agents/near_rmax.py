"""NearRMax: RMax with bounds from the models of earlier tasks that are near to the current one."""

from typing import Annotated, Any, Literal, TypedDict, Unpack

from pydantic import BaseModel, ConfigDict, Field

from heirloom.agents.algorithm_options import TaskKnowledge
from heirloom.agents.optimistic import AgentOptions, OptimisticAgent
from heirloom.agents.paper_algorithms import LearningOptions, with_p_min
from heirloom.errors import InvalidArgument
from heirloom.options import Option, chosen, declared
from heirloom.transfer.bound import Confidence, MaxQ, PMin
from heirloom.transfer.nearness.bound import NearModels, PooledConfidence
from heirloom.transfer.nearness.knowledge import Nearness


class NearnessNumbers(BaseModel):
    """A nearness in a spec: one number for all pairs, or the array that the family computes."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True
    )
    rewards: Annotated[float, Field(ge=0)] | Literal["family"]
    """The largest difference of the mean rewards of a pair between two tasks."""
    transitions: Annotated[float, Field(ge=0, le=1)] | Literal["family"]
    """The largest total variation of the transition probabilities of a pair between two tasks."""
    successors: Literal["family"] | None = None
    """Which successors are possible; by default all states."""


NearnessOption = Annotated[
    Nearness | None,
    Option(
        "by how much rewards and transition probabilities of two tasks can differ. In a spec, "
        'numbers; "family" (default) for what the family computes; or "learned", from the first '
        "tasks, with p_min, delta and scope.",
        spec=NearnessNumbers | Literal["family", "learned"] | None,
    ),
]

GivenNearness = Annotated[
    Nearness,
    Option(
        "by how much rewards and transition probabilities of two tasks can differ. In a spec, "
        'numbers, or "family" (default) for what the family computes.',
        spec=NearnessNumbers | Literal["family"] | None,
    ),
]
"""The type of a nearness that must be given."""

OptionalNearness = Annotated[
    Nearness | None,
    Option(
        "by how much rewards and transition probabilities of two tasks can differ; None if that is "
        'not known. In a spec, numbers, or "family" for what the family computes.',
        spec=NearnessNumbers | Literal["family"] | None,
    ),
]
"""The type of a nearness that may be given."""


class NearnessScale(TypedDict, total=False):
    """An option of a spec that makes a true nearness a false one."""

    nearness_scale: Annotated[
        float,
        Option(
            "factor on the rewards and transitions of the nearness; below 1 a true nearness "
            "becomes a false one.",
            1.0,
            ge=0,
            le=1,
        ),
    ]


@declared
class NearRMax(OptimisticAgent):
    """RMax that uses the models of earlier tasks, given by how much the models of tasks can differ.

    If the nearness is true for the family and known models are exact, every bound is valid, and the
    bound on the sample complexity is at most that of RMax. By default, models are estimates, and
    those of earlier tasks are pooled: means over all visits of all of them. With `confidence`,
    bounds allow for the errors of these means; `heirloom.NearModels` says what is then guaranteed.
    With `exact=True` or `epsilon`, each earlier task gives a bound, and the smallest one is used.

    Give `nearness`; or give `p_min`, and the agent learns it from the first tasks, in which it
    takes the same actions as RMax.

    Examples:
        >>> import heirloom as hl
        >>> near = hl.Nearness(rewards=0.2, transitions=0.1)
        >>> hl.NearRMax(nearness=near, n_states=9, n_actions=4, gamma=0.9, n_known=10)
        NearRMax(n_states=9, n_actions=4, gamma=0.9, n_known=10, bounds: NearModels, tasks seen: 0)
    """

    def __init__(
        self,
        *,
        nearness: NearnessOption = None,
        p_min: PMin | None = None,
        confidence: PooledConfidence = None,
        **options: Unpack[LearningOptions],
    ) -> None:
        learning = chosen(Confidence, options)
        near = NearModels(nearness, p_min=p_min, confidence=confidence, **learning)
        super().__init__(bounds=[near], **chosen(AgentOptions, options))


@declared
class NearRMaxQInit(OptimisticAgent):
    """NearRMax and MaxQInit combined: the bound is the minimum of their bounds.

    Without `nearness`, it is learned from the first tasks with `p_min` and `delta`. The bound of
    MaxQInit and the learned nearness are then valid together with probability 1 - δ, because both
    follow from one event: that the current task is among the first ones.
    """

    def __init__(
        self,
        *,
        p_min: PMin,
        nearness: NearnessOption = None,
        confidence: PooledConfidence = None,
        **options: Unpack[LearningOptions],
    ) -> None:
        learning = chosen(Confidence, options)
        learned = p_min if nearness is None else None
        near = NearModels(nearness, p_min=learned, confidence=confidence, **learning)
        bounds = [near, MaxQ(p_min=p_min, **learning)]
        super().__init__(bounds=bounds, **chosen(AgentOptions, options))


def nearness_and_p_min(options: dict[str, Any], known: TaskKnowledge) -> dict[str, Any]:
    """Return the options of a spec for an agent with both bounds."""
    is_learned = options["nearness"] == "learned"
    return _with_nearness(with_p_min(options, known), known, is_learned=is_learned)


def nearness_or_p_min(options: dict[str, Any], known: TaskKnowledge) -> dict[str, Any]:
    """Return the options of a spec for NearRMax; if p_min is given, it learns by default."""
    given, p_min = options["nearness"], options["p_min"]
    if given == "learned" or (given is None and p_min is not None):
        return _with_nearness(with_p_min(options, known), known, is_learned=True)
    return {**_with_nearness(options, known, is_learned=False), "p_min": None}


def _with_nearness(
    options: dict[str, Any], known: TaskKnowledge, *, is_learned: bool
) -> dict[str, Any]:
    """Replace the nearness of a spec by a `Nearness`, or by None if it is learned."""
    scale = options.pop("nearness_scale")
    if is_learned and scale != 1:
        raise InvalidArgument(
            f"nearness_scale is {scale:g}, but the nearness is learned: leave it out, or give a "
            "nearness"
        )
    nearness = None if is_learned else nearness_of(options["nearness"], scale, known)
    return {**options, "nearness": nearness}


def with_given_nearness(options: dict[str, Any], known: TaskKnowledge) -> dict[str, Any]:
    """Return the options of a spec for an agent that must be given a nearness."""
    return _with_nearness(options, known, is_learned=False)


def nearness_of(given: Any, scale: float, known: TaskKnowledge) -> Nearness:
    """Return the nearness that a spec describes by numbers, "family" or None for the same."""
    numbers = NearnessNumbers(rewards="family", transitions="family", successors="family")
    if isinstance(given, NearnessNumbers):
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
