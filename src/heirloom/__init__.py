"""Lifelong reinforcement learning in finite decision problems, with transfer that does not hurt."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0.dev0"

# A name is imported from its module when it is first used: numba and gymnasium take their time.
_HOMES = {
    "agents.bisimulation": ("BisimulationTransfer",),
    "agents.catalogue": ("LRMax", "LRMaxQInit", "MaxQInit", "RMax"),
    "agents.explanation": ("Explanation",),
    "agents.optimistic": ("OptimisticAgent",),
    "agents.qlearning": ("QLearning",),
    "experiments.loop": ("Record", "learn"),
    "errors": (
        "CannotWrite",
        "HeirloomError",
        "IncompatibleTasks",
        "InvalidArgument",
        "InvalidFile",
        "InvalidTask",
        "NotConverged",
        "UnsupportedEnvironment",
        "WorkerLost",
        "WrongOrder",
    ),
    "mdp.exact": ("TabularMDP",),
    "mdp.garnet": ("garnet",),
    "mdp.learned": ("LearnedModel", "n_known_for"),
    "mdp.solving": ("Solution", "evaluate", "expected_return", "optimal_return", "solve"),
    "transfer.bisimulation": ("bisimulation_metric",),
    "transfer.bounds": ("Bound", "Constant", "Lipschitz", "MaxQ"),
    "transfer.complexity": ("dynamic_programs", "pairs_to_learn", "value_iterations"),
    "transfer.confidence": ("tasks_for_distance", "tasks_for_max_q"),
    "transfer.distance": ("ModelDistance", "WeightedL1"),
    "transfer.memory": ("Source", "TaskMemory"),
    "transfer.setting": ("Setting",),
    "transfer.pseudometrics": (
        "dissimilarity",
        "family_distance",
        "global_pseudometric",
        "lipschitz_bound",
        "local_pseudometric",
        "model_pseudometric",
        "policy_q_pseudometric",
        "policy_v_pseudometric",
    ),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "BisimulationTransfer",
    "Bound",
    "CannotWrite",
    "Constant",
    "Explanation",
    "HeirloomError",
    "IncompatibleTasks",
    "InvalidArgument",
    "InvalidFile",
    "InvalidTask",
    "LRMax",
    "LRMaxQInit",
    "LearnedModel",
    "Lipschitz",
    "MaxQ",
    "MaxQInit",
    "ModelDistance",
    "NotConverged",
    "OptimisticAgent",
    "QLearning",
    "RMax",
    "Record",
    "Setting",
    "Solution",
    "Source",
    "TabularMDP",
    "TaskMemory",
    "UnsupportedEnvironment",
    "WeightedL1",
    "WorkerLost",
    "WrongOrder",
    "bisimulation_metric",
    "dissimilarity",
    "dynamic_programs",
    "evaluate",
    "expected_return",
    "family_distance",
    "garnet",
    "global_pseudometric",
    "learn",
    "lipschitz_bound",
    "local_pseudometric",
    "model_pseudometric",
    "n_known_for",
    "optimal_return",
    "pairs_to_learn",
    "policy_q_pseudometric",
    "policy_v_pseudometric",
    "solve",
    "tasks_for_distance",
    "tasks_for_max_q",
    "value_iterations",
]

if TYPE_CHECKING:
    from heirloom.agents.bisimulation import BisimulationTransfer
    from heirloom.agents.catalogue import LRMax, LRMaxQInit, MaxQInit, RMax
    from heirloom.agents.explanation import Explanation
    from heirloom.agents.optimistic import OptimisticAgent
    from heirloom.agents.qlearning import QLearning
    from heirloom.errors import (
        CannotWrite,
        HeirloomError,
        IncompatibleTasks,
        InvalidArgument,
        InvalidFile,
        InvalidTask,
        NotConverged,
        UnsupportedEnvironment,
        WorkerLost,
        WrongOrder,
    )
    from heirloom.experiments.loop import Record, learn
    from heirloom.mdp.exact import TabularMDP
    from heirloom.mdp.garnet import garnet
    from heirloom.mdp.learned import LearnedModel, n_known_for
    from heirloom.mdp.solving import Solution, evaluate, expected_return, optimal_return, solve
    from heirloom.transfer.bisimulation import bisimulation_metric
    from heirloom.transfer.bounds import Bound, Constant, Lipschitz, MaxQ
    from heirloom.transfer.complexity import dynamic_programs, pairs_to_learn, value_iterations
    from heirloom.transfer.confidence import tasks_for_distance, tasks_for_max_q
    from heirloom.transfer.distance import ModelDistance, WeightedL1
    from heirloom.transfer.memory import Source, TaskMemory
    from heirloom.transfer.pseudometrics import (
        dissimilarity,
        family_distance,
        global_pseudometric,
        lipschitz_bound,
        local_pseudometric,
        model_pseudometric,
        policy_q_pseudometric,
        policy_v_pseudometric,
    )
    from heirloom.transfer.setting import Setting


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'heirloom' has no attribute {name!r}")
    value = getattr(import_module(f"heirloom.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
