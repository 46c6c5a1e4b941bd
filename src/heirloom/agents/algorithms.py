"""The registry of the algorithms that a spec can name.

`heirloom list`, the validation of specs and the contract tests in tests/agents/test_contract.py run
over this registry.
"""

from heirloom.agents import (
    bisimulation_transfer,
    bumex,
    near_rmax,
    optimistic_algorithms,
    paper_algorithms,
    table_algorithms,
)
from heirloom.agents.algorithm_options import Algorithm
from heirloom.agents.qlearning import QLearning

ALGORITHMS: dict[str, Algorithm] = {
    "RMax": Algorithm(paper_algorithms.RMax),
    "LRMax": Algorithm(paper_algorithms.LRMax, paper_algorithms.prior_or_p_min),
    "MaxQInit": Algorithm(paper_algorithms.MaxQInit, paper_algorithms.with_p_min),
    "LRMaxQInit": Algorithm(paper_algorithms.LRMaxQInit, paper_algorithms.prior_and_p_min),
    "NearRMax": Algorithm(near_rmax.NearRMax, near_rmax.nearness_or_p_min, near_rmax.NearnessScale),
    "NearRMaxQInit": Algorithm(
        near_rmax.NearRMaxQInit, near_rmax.nearness_and_p_min, near_rmax.NearnessScale
    ),
    "EnvelopeRMax": Algorithm(optimistic_algorithms.EnvelopeRMax),
    "UCBVI": Algorithm(optimistic_algorithms.UCBVI, optimistic_algorithms.with_nearness),
    "MBIE": Algorithm(optimistic_algorithms.MBIE),
    "VMax": Algorithm(optimistic_algorithms.VMax),
    "CertifiedRMax": Algorithm(
        optimistic_algorithms.CertifiedRMax, optimistic_algorithms.with_nearness
    ),
    "FMRL": Algorithm(optimistic_algorithms.FMRL),
    "TempLe": Algorithm(optimistic_algorithms.TempLe),
    "MFRL": Algorithm(optimistic_algorithms.MFRL),
    "PSRL": Algorithm(optimistic_algorithms.PSRL),
    "NearPSRL": Algorithm(
        optimistic_algorithms.NearPSRL, near_rmax.with_given_nearness, near_rmax.NearnessScale
    ),
    "QLearning": Algorithm(QLearning),
    "QUCB": Algorithm(table_algorithms.QUCB),
    "DelayedQ": Algorithm(table_algorithms.DelayedQ),
    "ShapedLifelong": Algorithm(table_algorithms.ShapedLifelong),
    "PolicyReuse": Algorithm(table_algorithms.PolicyReuse),
    "BUMEX": Algorithm(bumex.BUMEX, near_rmax.with_given_nearness, near_rmax.NearnessScale),
    "BisimulationTransfer": Algorithm(
        bisimulation_transfer.BisimulationLearner, bisimulation_transfer.with_tasks
    ),
}
"""The algorithms by their names in a spec."""
