"""EnvelopeRMax: RMax with a bound that is calibrated on earlier tasks."""

from typing import Unpack

from heirloom.agents.optimistic import AgentOptions, OptimisticAgent
from heirloom.options import chosen, declared
from heirloom.transfer.envelope import Envelope, EnvelopeOptions


class EnvelopeRMaxOptions(EnvelopeOptions, AgentOptions):
    """The options of `EnvelopeRMax`."""


@declared
class EnvelopeRMax(OptimisticAgent):
    """RMax with the bound `Envelope`, which needs no knowledge of the family.

    The bound is valid for each later task with probability 1 - α, if tasks are exchangeable.
    Until it is calibrated, the agent takes the same actions as RMax.
    """

    def __init__(self, **options: Unpack[EnvelopeRMaxOptions]) -> None:
        envelope = Envelope(**chosen(EnvelopeOptions, options))
        super().__init__(bounds=[envelope], **chosen(AgentOptions, options))
