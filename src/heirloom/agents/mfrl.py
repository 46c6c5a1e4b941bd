"""MFRL: RMax with the values of earlier tasks, and a bound on how far values can differ."""

from typing import Unpack

from heirloom.agents.optimistic import AgentOptions, OptimisticAgent
from heirloom.options import declared
from heirloom.transfer.value_distance import Beta, ValueDistance


@declared
class MFRL(OptimisticAgent):
    """RMax with the bound Q̄ + β of earlier tasks, as in multi-fidelity RL (Cutler et al., 2014).

    If β is true and models are exact, the bound is valid, and the bound on the sample complexity is
    at most that of RMax. The paper has a chain of simulators, and returns to a cheaper one where
    that is useful; here every earlier task is a source, and no task is visited again.
    """

    def __init__(self, *, beta: Beta, **options: Unpack[AgentOptions]) -> None:
        super().__init__(bounds=[ValueDistance(beta=beta)], **options)
