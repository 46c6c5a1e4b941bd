"""EnvelopeRMax: RMax with a bound that is calibrated on earlier tasks."""

from typing import Unpack

import numpy as np
from pydantic import Field

from heirloom.agents.algorithm_options import TaskKnowledge
from heirloom.agents.optimistic import OptimisticAgent
from heirloom.agents.paper_algorithms import AgentOptions, RMaxOptions
from heirloom.agents.protocol import Agent
from heirloom.options import named_options
from heirloom.transfer.envelope import Envelope


class EnvelopeRMax(OptimisticAgent):
    """RMax with the bound `Envelope`, which needs no knowledge of the family.

    The bound is valid for each later task with probability 1 - α, if tasks are exchangeable.
    Until it is calibrated, the agent takes the same actions as RMax.

    Args:
        alpha: α, the largest probability that the bound of a task is invalid.
        first: the number of tasks before the calibration begins.
        calibration: the number of calibration tasks; by default the smallest one that α admits.
        options: the options of `OptimisticAgent`, without `bounds`.
    """

    @named_options
    def __init__(
        self,
        *,
        alpha: float = 0.05,
        first: int = 5,
        calibration: int | None = None,
        **options: Unpack[AgentOptions],
    ) -> None:
        envelope = Envelope(alpha=alpha, first=first, calibration=calibration)
        super().__init__(bounds=[envelope], **options)


class EnvelopeRMaxOptions(RMaxOptions):
    """RMax with a bound that is calibrated on earlier tasks, valid with probability 1 - alpha."""

    alpha: float = Field(0.05, gt=0, le=1)
    """The largest probability that the bound of a task is invalid."""
    first: int = Field(5, ge=1)
    """The number of tasks before the calibration begins."""
    calibration: int | None = Field(None, ge=1)
    """The number of calibration tasks; by default the smallest one that alpha admits."""

    def make(self, known: TaskKnowledge, seed: np.random.Generator) -> Agent:
        """Create an agent with these options, for tasks described by `known`."""
        return EnvelopeRMax(
            alpha=self.alpha,
            first=self.first,
            calibration=self.calibration,
            **self.common(known, seed),
        )
