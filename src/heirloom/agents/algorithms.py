"""Which bounds each algorithm of the paper combines.

Each is a function that makes an `OptimisticAgent`, whose options it takes: n_states, n_actions,
gamma, n_known, and if they are given seed, epsilon, reward_range, terminating, v_max, tol, memory.
"""

from typing import TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike

from heirloom.agents.optimistic import OptimisticAgent
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
    """The options that all agents share; see `OptimisticAgent`."""

    seed: int | np.random.Generator | None
    epsilon: float
    reward_range: Range
    terminating: bool
    v_max: float
    tol: float | None
    memory: TaskMemory | None


def RMax(**options: Unpack[AgentOptions]) -> OptimisticAgent:
    """Optimism alone: every unknown pair is worth `v_max` (Brafman and Tennenholtz, 2002).

    Options are those of `OptimisticAgent`, without bounds.
    """
    return OptimisticAgent(bounds=[], **options)


def LRMax(
    *,
    d_max: float | ArrayLike | None = None,
    p_min: float | None = None,
    delta: float = 0.05,
    **options: Unpack[AgentOptions],
) -> OptimisticAgent:
    """Lipschitz RMax (Algorithm 1): values of earlier tasks bound those of this one.

    `d_max` is a prior on the distance of models, a number or an array [s, a]. With `p_min`, the
    least probability of a task, it is learned from the first tasks, and holds with probability
    1 - δ. With neither, this is RMax. Other options are those of `OptimisticAgent`.
    """
    return OptimisticAgent(bounds=[Lipschitz(d_max=d_max, p_min=p_min, delta=delta)], **options)


def MaxQInit(
    *, p_min: float, delta: float = 0.05, **options: Unpack[AgentOptions]
) -> OptimisticAgent:
    """The largest Q of all tasks seen, once enough were (Abel et al., 2018).

    Other options are those of `OptimisticAgent`.
    """
    return OptimisticAgent(bounds=[MaxQ(p_min=p_min, delta=delta)], **options)


def LRMaxQInit(
    *,
    p_min: float,
    delta: float = 0.05,
    d_max: float | ArrayLike | None = None,
    **options: Unpack[AgentOptions],
) -> OptimisticAgent:
    """LRMax and MaxQInit at once: the minimum of upper bounds is an upper bound.

    Without `d_max` it is learned, with the same `p_min` and `delta`. Other options are those of
    `OptimisticAgent`.
    """
    lipschitz = Lipschitz(d_max=d_max, p_min=p_min if d_max is None else None, delta=delta)
    return OptimisticAgent(bounds=[lipschitz, MaxQ(p_min=p_min, delta=delta)], **options)
