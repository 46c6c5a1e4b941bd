"""What an algorithm of the registry is: options that are checked, and that make an agent."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict

from heirloom.agents.protocol import Agent
from heirloom.arrays import FloatArray
from heirloom.mdp.tabular import TabularMDP


@dataclass(frozen=True)
class TaskKnowledge:
    """What an experiment knows of its tasks before the first one begins.

    Args:
        options: n_states, n_actions, gamma, reward_range, and what else the family tells agents.
        p_min: the least probability of a task, if that is known.
        d_max: computes a prior on distances that holds; returns None if none is known.
        tasks: the tasks themselves, in order. Only baselines that are given models look at them.
    """

    options: Mapping[str, Any]
    p_min: float | None
    d_max: Callable[[], FloatArray | None]
    tasks: Sequence[TabularMDP]


class AlgorithmOptions(BaseModel, ABC):
    """The options of an algorithm, as a spec gives them. The docstring is the summary."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @abstractmethod
    def make(self, known: TaskKnowledge, seed: np.random.Generator) -> Agent:
        """A fresh agent for tasks of which this is known."""

    @classmethod
    def summary(cls) -> str:
        """One line on the algorithm."""
        return (cls.__doc__ or "").splitlines()[0]
