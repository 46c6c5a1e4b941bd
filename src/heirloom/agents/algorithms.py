"""The registry of all algorithms that an experiment can name.

An entry is a model of an algorithm's options, which makes the agent: `heirloom list`, the checks of
a spec and the contract tests of all agents come from it.
"""

from heirloom.agents.algorithm_options import AlgorithmOptions
from heirloom.agents.bisimulation_transfer import BisimulationTransferOptions
from heirloom.agents.paper_algorithms import (
    LRMaxOptions,
    LRMaxQInitOptions,
    MaxQInitOptions,
    RMaxOptions,
)
from heirloom.agents.qlearning import QLearningOptions

ALGORITHMS: dict[str, type[AlgorithmOptions]] = {
    "RMax": RMaxOptions,
    "LRMax": LRMaxOptions,
    "MaxQInit": MaxQInitOptions,
    "LRMaxQInit": LRMaxQInitOptions,
    "QLearning": QLearningOptions,
    "BisimulationTransfer": BisimulationTransferOptions,
}
"""Every algorithm that an experiment can name, with the model of its options."""
