"""The algorithms of the paper: `OptimisticAgent` with different bounds."""

from typing import Any, Unpack

from heirloom.agents.algorithm_options import TaskKnowledge
from heirloom.agents.optimistic import AgentOptions, OptimisticAgent
from heirloom.errors import InvalidArgument
from heirloom.options import chosen, declared
from heirloom.transfer.borrowed import Pool, pooled
from heirloom.transfer.bound import Confidence, MaxQ, PMin
from heirloom.transfer.lipschitz.bound import DMax, Lipschitz


class LearningOptions(Confidence, AgentOptions):
    """The options of optimistic agents that learn knowledge from the first tasks."""


@declared
class RMax(OptimisticAgent):
    """RMax (Brafman and Tennenholtz, 2002): every unknown pair has the value `v_max`.

    It transfers nothing between tasks, unless visits of earlier tasks are pooled with its own. That
    is right if tasks do not differ, and otherwise has no guarantee.
    """

    def __init__(self, *, pool: Pool = 0.0, **options: Unpack[AgentOptions]) -> None:
        super().__init__(bounds=pooled(pool), **options)


@declared
class LRMax(OptimisticAgent):
    """Lipschitz RMax (Algorithm 1): the values of earlier tasks bound those of the current task.

    The bounds need a prior: an upper bound on the distance between the models of two tasks. Give it
    as `d_max`; or give `p_min`, and the agent learns it from the first tasks. With neither, LRMax
    takes the same actions as RMax.
    """

    def __init__(
        self, *, d_max: DMax = None, p_min: PMin | None = None, **options: Unpack[LearningOptions]
    ) -> None:
        lipschitz = Lipschitz(d_max=d_max, p_min=p_min, **chosen(Confidence, options))
        super().__init__(bounds=[lipschitz], **chosen(AgentOptions, options))


@declared
class MaxQInit(OptimisticAgent):
    """MaxQInit (Abel et al., 2018): the bound is the largest Q of all earlier tasks.

    The bound is used once enough tasks have been seen for it to be an upper bound with probability
    at least 1 - δ; until then, the agent takes the same actions as RMax.
    """

    def __init__(self, *, p_min: PMin, **options: Unpack[LearningOptions]) -> None:
        max_q = MaxQ(p_min=p_min, **chosen(Confidence, options))
        super().__init__(bounds=[max_q], **chosen(AgentOptions, options))


@declared
class LRMaxQInit(OptimisticAgent):
    """LRMax and MaxQInit combined: the bound is the minimum of their bounds.

    Without `d_max`, the prior of LRMax is learned from the first tasks with `p_min` and `delta`.
    """

    def __init__(
        self, *, p_min: PMin, d_max: DMax = None, **options: Unpack[LearningOptions]
    ) -> None:
        confidence = chosen(Confidence, options)
        learned = p_min if d_max is None else None
        lipschitz = Lipschitz(d_max=d_max, p_min=learned, **confidence)
        bounds = [lipschitz, MaxQ(p_min=p_min, **confidence)]
        super().__init__(bounds=bounds, **chosen(AgentOptions, options))


def with_p_min(options: dict[str, Any], known: TaskKnowledge) -> dict[str, Any]:
    """Return the options of a spec with the smallest probability of a task; raise if unknown."""
    p_min = known.p_min if options["p_min"] is None else options["p_min"]
    if p_min is None:
        raise InvalidArgument(
            "p_min is missing: give p_min, the smallest probability of a task, or give "
            "distinct_tasks"
        )
    return {**options, "p_min": p_min}


def prior_and_p_min(options: dict[str, Any], known: TaskKnowledge) -> dict[str, Any]:
    """Return the options of a spec for an agent with both bounds."""
    return {**with_p_min(options, known), "d_max": _prior(options, known)}


def prior_or_p_min(options: dict[str, Any], known: TaskKnowledge) -> dict[str, Any]:
    """Return the options of a spec for LRMax, which learns a prior only if none is given."""
    d_max = _prior(options, known)
    p_min = known.p_min if options["p_min"] is None else options["p_min"]
    return {**options, "d_max": d_max, "p_min": p_min if d_max is None else None}


def _prior(options: dict[str, Any], known: TaskKnowledge) -> Any:
    """Return the prior: a number, an array [s, a], or None if none is given."""
    if options["d_max"] != "family":
        return options["d_max"]
    if (d_max := known.d_max()) is None:
        raise InvalidArgument("d_max is 'family', but the family has no d_max: give a number")
    return d_max
