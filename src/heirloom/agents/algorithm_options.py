"""Base class of the algorithms in the registry: validated options that create an agent."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict

from heirloom.agents.protocol import Agent
from heirloom.arrays import FloatArray
from heirloom.mdp.tabular import TabularMDP
from heirloom.transfer.nearness.knowledge import Nearness


@dataclass(frozen=True)
class TaskKnowledge:
    """What an experiment knows about its tasks before the first one begins.

    Args:
        options: n_states, n_actions, gamma, reward_range, and the other options that the family
            passes to agents.
        p_min: the smallest probability of a task, if it is known.
        d_max: computes a valid prior on the distances between tasks; returns None if none is known.
        nearness: computes by how much the models of tasks can differ; returns None if unknown.
        tasks: the tasks themselves, in order, for baselines that need exact models.
    """

    options: Mapping[str, Any]
    p_min: float | None
    d_max: Callable[[], FloatArray | None]
    nearness: Callable[[], Nearness | None]
    tasks: Sequence[TabularMDP]


class AlgorithmOptions(BaseModel, ABC):
    """The options of an algorithm in a spec.

    The first line of the docstring of a derived class is shown by `heirloom list`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @abstractmethod
    def make(self, known: TaskKnowledge, seed: np.random.Generator) -> Agent:
        """Create an agent with these options, for tasks described by `known`."""

    @classmethod
    def summary(cls) -> str:
        """Describe the algorithm in one line: the first line of the docstring of the class."""
        return (cls.__doc__ or "").splitlines()[0]
