"""The algorithms of the paper: the one learner with different bounds, and their options."""

from typing import Annotated, Any, Literal, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field

from heirloom.agents.algorithm_options import AlgorithmOptions, TaskKnowledge
from heirloom.agents.optimistic import OptimisticAgent
from heirloom.agents.protocol import Agent
from heirloom.choices import Keep
from heirloom.errors import InvalidArgument
from heirloom.transfer.bound import MaxQ
from heirloom.transfer.lipschitz.bound import Lipschitz
from heirloom.transfer.memory import TaskMemory
from heirloom.validation import Range


class _Required(TypedDict):
    n_states: int
    n_actions: int
    gamma: float
    n_known: int


class AgentOptions(_Required, total=False):
    """The options that all these agents share; see `OptimisticAgent`."""

    seed: int | np.random.Generator | None
    epsilon: float
    reward_range: Range
    terminating: bool
    v_max: float
    tol: float | None
    memory: TaskMemory | None


class RMax(OptimisticAgent):
    """Optimism alone: every unknown pair is worth `v_max` (Brafman and Tennenholtz, 2002).

    Options are those of `OptimisticAgent`, without bounds.
    """

    def __init__(self, **options: Unpack[AgentOptions]) -> None:
        super().__init__(bounds=[], **options)


class LRMax(OptimisticAgent):
    """Lipschitz RMax (Algorithm 1): values of earlier tasks bound those of this one.

    `d_max` is a prior on the distance of models, a number or an array [s, a]. With `p_min`, the
    least probability of a task, it is learned from the first tasks, and holds with probability
    1 - δ. With neither, this is RMax. Other options are those of `OptimisticAgent`.
    """

    def __init__(
        self,
        *,
        d_max: float | ArrayLike | None = None,
        p_min: float | None = None,
        delta: float = 0.05,
        **options: Unpack[AgentOptions],
    ) -> None:
        super().__init__(bounds=[Lipschitz(d_max=d_max, p_min=p_min, delta=delta)], **options)


class MaxQInit(OptimisticAgent):
    """The largest Q of all tasks seen, once enough were (Abel et al., 2018).

    Other options are those of `OptimisticAgent`.
    """

    def __init__(
        self, *, p_min: float, delta: float = 0.05, **options: Unpack[AgentOptions]
    ) -> None:
        super().__init__(bounds=[MaxQ(p_min=p_min, delta=delta)], **options)


class LRMaxQInit(OptimisticAgent):
    """LRMax and MaxQInit at once: the minimum of upper bounds is an upper bound.

    Without `d_max` it is learned, with the same `p_min` and `delta`. Other options are those of
    `OptimisticAgent`.
    """

    def __init__(
        self,
        *,
        p_min: float,
        delta: float = 0.05,
        d_max: float | ArrayLike | None = None,
        **options: Unpack[AgentOptions],
    ) -> None:
        lipschitz = Lipschitz(d_max=d_max, p_min=p_min if d_max is None else None, delta=delta)
        super().__init__(bounds=[lipschitz, MaxQ(p_min=p_min, delta=delta)], **options)


class RMaxOptions(AlgorithmOptions):
    """Optimism alone."""

    n_known: int = Field(ge=1)
    """After how many visits a pair is known."""
    epsilon: float = Field(0.0, ge=0)
    delta: float = Field(0.05, gt=0, le=1)
    """The probability of failure of what is learned from the first tasks."""
    capacity: int | None = Field(None, ge=1)
    """How many sources are kept; all if not given."""
    keep: Keep = "latest"
    tol: float | None = Field(None, gt=0)

    def make(self, known: TaskKnowledge, seed: np.random.Generator) -> Agent:
        """An agent for tasks of which this is known."""
        return RMax(**self.common(known, seed))

    def common(self, known: TaskKnowledge, seed: np.random.Generator) -> Any:
        """The options of `OptimisticAgent`."""
        n_states, n_actions = known.options["n_states"], known.options["n_actions"]
        memory = TaskMemory(n_states, n_actions, capacity=self.capacity, keep=self.keep)
        own = {"n_known": self.n_known, "epsilon": self.epsilon, "tol": self.tol}
        return {**known.options, **own, "memory": memory, "seed": seed}


class MaxQInitOptions(RMaxOptions):
    """The largest Q of all tasks, once enough were seen."""

    p_min: float | None = Field(None, gt=0, le=1)
    """The least probability of a task; by default 1 / distinct_tasks, or that of the family."""

    def make(self, known: TaskKnowledge, seed: np.random.Generator) -> Agent:
        """An agent for tasks of which this is known."""
        return MaxQInit(p_min=self.probability(known), delta=self.delta, **self.common(known, seed))

    def probability(self, known: TaskKnowledge) -> float:
        """The least probability of a task; raises `InvalidArgument` if nobody says."""
        p_min = self.p_min if self.p_min is not None else known.p_min
        if p_min is None:
            raise InvalidArgument(
                "p_min is missing: give the least probability of a task, or distinct_tasks"
            )
        return p_min


class LRMaxQInitOptions(MaxQInitOptions):
    """LRMax and MaxQInit at once."""

    d_max: Annotated[float, Field(ge=0)] | Literal["family"] | None = None
    """A prior on distances; "family" computes the largest one of a finite family."""

    def make(self, known: TaskKnowledge, seed: np.random.Generator) -> Agent:
        """An agent for tasks of which this is known."""
        p_min = self.probability(known)
        options = self.common(known, seed)
        return LRMaxQInit(p_min=p_min, delta=self.delta, d_max=self.prior(known), **options)

    def prior(self, known: TaskKnowledge) -> Any:
        """The prior as a number or as an array."""
        if self.d_max != "family":
            return self.d_max
        if (d_max := known.d_max()) is None:
            raise InvalidArgument(
                "d_max is 'family', and the family is not a finite one: give a number"
            )
        return d_max


class LRMaxOptions(LRMaxQInitOptions):
    """Lipschitz RMax: with a prior d_max, or learning it from the first tasks."""

    def make(self, known: TaskKnowledge, seed: np.random.Generator) -> Agent:
        """An agent for tasks of which this is known; with a prior it learns none."""
        d_max, p_min = self.prior(known), self.p_min if self.p_min is not None else known.p_min
        learned = p_min if d_max is None else None
        options = self.common(known, seed)
        return LRMax(d_max=d_max, p_min=learned, delta=self.delta, **options)
