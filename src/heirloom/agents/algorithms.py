"""The registry of the algorithms that a spec can name.

Each entry is a class of options whose `make` creates the agent. `heirloom list`, the validation of
specs and the contract tests in tests/agents/test_contract.py run over this registry.
"""

from heirloom.agents.algorithm_options import AlgorithmOptions
from heirloom.agents.bisimulation_transfer import BisimulationTransferOptions
from heirloom.agents.envelope_rmax import EnvelopeRMaxOptions
from heirloom.agents.near_rmax import NearRMaxOptions, NearRMaxQInitOptions
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
    "NearRMax": NearRMaxOptions,
    "NearRMaxQInit": NearRMaxQInitOptions,
    "EnvelopeRMax": EnvelopeRMaxOptions,
    "QLearning": QLearningOptions,
    "BisimulationTransfer": BisimulationTransferOptions,
}
"""The class of options of each algorithm, by the name of the algorithm in a spec."""
