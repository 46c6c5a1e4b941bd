"""The algorithms of the paper: `OptimisticAgent` with different bounds, and their options."""

from typing import Annotated, Any, Literal, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field

from heirloom.agents.algorithm_options import AlgorithmOptions, TaskKnowledge
from heirloom.agents.optimistic import OptimisticAgent
from heirloom.agents.protocol import Agent
from heirloom.choices import Keep, OnRefutation, Scope
from heirloom.errors import InvalidArgument
from heirloom.options import named_options
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
    """The options that all these agents share; `OptimisticAgent` describes them."""

    seed: int | np.random.Generator | None
    epsilon: float
    reward_range: Range
    terminating: bool
    v_max: float
    tol: float | None
    memory: TaskMemory | None
    on_refutation: OnRefutation
    exact: bool
    refutation_delta: float
    explore: float
    refresh: float | None


class RMax(OptimisticAgent):
    """RMax (Brafman and Tennenholtz, 2002): every unknown pair has the value `v_max`.

    It transfers nothing between tasks. The options are those of `OptimisticAgent`, without
    `bounds`.
    """

    @named_options
    def __init__(self, **options: Unpack[AgentOptions]) -> None:
        super().__init__(bounds=[], **options)


class LRMax(OptimisticAgent):
    """Lipschitz RMax (Algorithm 1): the values of earlier tasks bound those of the current task.

    The bounds need a prior: an upper bound on the distance between the models of two tasks. Give it
    as `d_max`; or give `p_min`, and the agent learns it from the first tasks. With neither, LRMax
    takes the same actions as RMax.

    Args:
        d_max: the prior, a number or an array [s, a].
        p_min: the smallest probability of a task.
        delta: δ; the learned prior is valid with probability 1 - δ.
        scope: whether that is for each "task" on its own, or for all tasks of a "lifetime"
            together, which takes more tasks before the prior is used.
        options: the options of `OptimisticAgent`, without `bounds`.
    """

    @named_options
    def __init__(
        self,
        *,
        d_max: float | ArrayLike | None = None,
        p_min: float | None = None,
        delta: float = 0.05,
        scope: Scope = "task",
        **options: Unpack[AgentOptions],
    ) -> None:
        lipschitz = Lipschitz(d_max=d_max, p_min=p_min, delta=delta, scope=scope)
        super().__init__(bounds=[lipschitz], **options)


class MaxQInit(OptimisticAgent):
    """MaxQInit (Abel et al., 2018): the bound is the largest Q of all earlier tasks.

    The bound is used once enough tasks have been seen for it to be an upper bound with probability
    at least 1 - δ; until then, the agent takes the same actions as RMax.

    Args:
        p_min: the smallest probability of a task.
        delta: δ; the bound is valid with probability 1 - δ.
        scope: whether that is for each "task" on its own, or for all tasks of a "lifetime"
            together, which takes more tasks before the bound is used.
        options: the options of `OptimisticAgent`, without `bounds`.
    """

    @named_options
    def __init__(
        self,
        *,
        p_min: float,
        delta: float = 0.05,
        scope: Scope = "task",
        **options: Unpack[AgentOptions],
    ) -> None:
        super().__init__(bounds=[MaxQ(p_min=p_min, delta=delta, scope=scope)], **options)


class LRMaxQInit(OptimisticAgent):
    """LRMax and MaxQInit combined: the bound is the minimum of their bounds.

    Args:
        p_min: the smallest probability of a task.
        delta: δ; see `LRMax` and `MaxQInit`.
        scope: see `LRMax` and `MaxQInit`.
        d_max: the prior of LRMax; by default it is learned from the first tasks with `p_min` and
            `delta`.
        options: the options of `OptimisticAgent`, without `bounds`.
    """

    @named_options
    def __init__(
        self,
        *,
        p_min: float,
        delta: float = 0.05,
        scope: Scope = "task",
        d_max: float | ArrayLike | None = None,
        **options: Unpack[AgentOptions],
    ) -> None:
        learned = p_min if d_max is None else None
        lipschitz = Lipschitz(d_max=d_max, p_min=learned, delta=delta, scope=scope)
        super().__init__(bounds=[lipschitz, MaxQ(p_min=p_min, delta=delta, scope=scope)], **options)


class RMaxOptions(AlgorithmOptions):
    """Unknown pairs have the largest possible value; no transfer between tasks."""

    n_known: int = Field(ge=1)
    """The number of visits after which a pair is known."""
    epsilon: float = Field(0.0, ge=0)
    """The assumed accuracy of the models of known pairs, in reward and in L1 norm; 0 if exact."""
    delta: float = Field(0.05, gt=0, le=1)
    """Upper bound on the probability that what is learned from the first tasks is not valid."""
    capacity: int | None = Field(None, ge=1)
    """The largest number of source tasks to keep; by default all are kept."""
    keep: Keep = "latest"
    """Which sources to keep when the capacity is reached."""
    tol: float | None = Field(None, gt=0)
    """How far Q may be above its fixed point; by default 1e-11 times the reward range's width."""
    on_refutation: OnRefutation = "warn"
    """What to do when a known pair contradicts the nearness or the given d_max."""
    exact: bool = False
    """Whether models are compared with the knowledge as exact, not as estimates."""
    refutation_delta: float = Field(0.05, gt=0, le=1)
    """The probability that estimated models refute true knowledge, in all tasks together."""
    explore: float = Field(0.0, ge=0, le=1)
    """The probability of an exploratory step."""

    def make(self, known: TaskKnowledge, seed: np.random.Generator) -> Agent:
        """Create an agent with these options, for tasks described by `known`."""
        return RMax(**self.common(known, seed))

    def common(self, known: TaskKnowledge, seed: np.random.Generator) -> Any:
        """Return the keyword arguments of `OptimisticAgent`, without `bounds`."""
        n_states, n_actions = known.options["n_states"], known.options["n_actions"]
        memory = TaskMemory(n_states, n_actions, capacity=self.capacity, keep=self.keep)
        names = ("n_known", "epsilon", "tol", "on_refutation", "exact", "refutation_delta")
        own = {name: getattr(self, name) for name in (*names, "explore")}
        return {**known.options, **own, "memory": memory, "seed": seed}


class MaxQInitOptions(RMaxOptions):
    """RMax bounded by the largest Q of all earlier tasks, once enough tasks have been seen."""

    p_min: float | None = Field(None, gt=0, le=1)
    """The smallest probability of a task; by default 1 / distinct_tasks, or that of the family."""
    scope: Scope = "task"
    """Whether 1 - delta is for each task on its own, or for all tasks of a lifetime together."""

    def make(self, known: TaskKnowledge, seed: np.random.Generator) -> Agent:
        """Create an agent with these options, for tasks described by `known`."""
        return MaxQInit(**self.confidence(known), **self.common(known, seed))

    def confidence(self, known: TaskKnowledge) -> Any:
        """Return the options of bounds that are valid with a probability."""
        return {"p_min": self.probability(known), "delta": self.delta, "scope": self.scope}

    def probability(self, known: TaskKnowledge) -> float:
        """Return the smallest probability of a task; raises `InvalidArgument` if it is unknown."""
        p_min = self.p_min if self.p_min is not None else known.p_min
        if p_min is None:
            raise InvalidArgument(
                "p_min is missing: give p_min, the smallest probability of a task, or give "
                "distinct_tasks"
            )
        return p_min


class LRMaxQInitOptions(MaxQInitOptions):
    """LRMax and MaxQInit combined: the minimum of their bounds."""

    d_max: Annotated[float, Field(ge=0)] | Literal["family"] | None = None
    """The prior on the distance between tasks; "family" computes it, for a finite family."""

    def make(self, known: TaskKnowledge, seed: np.random.Generator) -> Agent:
        """Create an agent with these options, for tasks described by `known`."""
        options = {**self.confidence(known), **self.common(known, seed)}
        return LRMaxQInit(d_max=self.prior(known), **options)

    def prior(self, known: TaskKnowledge) -> Any:
        """Return the prior: a number, an array [s, a], or None if none is given."""
        if self.d_max != "family":
            return self.d_max
        if (d_max := known.d_max()) is None:
            raise InvalidArgument("d_max is 'family', but the family has no d_max: give a number")
        return d_max


class LRMaxOptions(LRMaxQInitOptions):
    """Lipschitz RMax: bounds from earlier tasks; d_max is given or learned from the first tasks."""

    def make(self, known: TaskKnowledge, seed: np.random.Generator) -> Agent:
        """Create an agent with these options; it learns a prior only if none is given."""
        d_max, p_min = self.prior(known), self.p_min if self.p_min is not None else known.p_min
        learned = p_min if d_max is None else None
        options = self.common(known, seed)
        return LRMax(d_max=d_max, p_min=learned, delta=self.delta, scope=self.scope, **options)
