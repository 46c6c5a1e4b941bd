"""Lifelong reinforcement learning in finite Markov decision processes."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0.dev0"

# A name is imported from its module when it is first used, because numba and gymnasium are slow to
# import.
_NAMES_BY_MODULE = {
    "agents.paper_algorithms": ("LRMax", "LRMaxQInit", "MaxQInit", "RMax"),
    "agents.bisimulation_transfer": ("BisimulationTransfer",),
    "agents.explanation": ("Explanation",),
    "agents.envelope_rmax": ("EnvelopeRMax",),
    "agents.near_rmax": ("NearRMax", "NearRMaxQInit"),
    "agents.optimistic": ("OptimisticAgent",),
    "agents.protocol": ("Agent",),
    "agents.qlearning": ("QLearning",),
    "errors": (
        "CannotWrite",
        "HeirloomError",
        "IncompatibleTasks",
        "InvalidArgument",
        "InvalidFile",
        "InvalidTask",
        "NotConverged",
        "RefutedKnowledge",
        "RefutedKnowledgeWarning",
        "UnsupportedEnvironment",
        "WorkerLost",
        "WrongOrder",
    ),
    "envs.binned": ("Binned",),
    "envs.box": ("BoxFamily",),
    "envs.family": ("FiniteFamily", "TaskFamily"),
    "envs.grid": ("GridMap", "grid_world"),
    "envs.numbered": ("Numbered",),
    "experiments.spec": ("ExperimentSpec",),
    "plot.audits": ("draw_audit",),
    "plot.curves": ("draw_episodes", "draw_lifelong"),
    "plot.maps": ("draw_map", "draw_on_grid"),
    "plot.style": ("save_figure",),
    "plot.transfer": ("draw_transfer",),
    "learning.learn": ("Record", "learn"),
    "learning.sample_complexity": ("pairs_to_learn",),
    "mdp.garnet": ("garnet",),
    "mdp.learned": ("LearnedModel",),
    "mdp.tabular": ("TabularMDP",),
    "metrics.bisimulation": ("bisimulation_metric",),
    "metrics.pseudometrics": (
        "dissimilarity",
        "family_distance",
        "global_pseudometric",
        "lipschitz_bound",
        "local_pseudometric",
        "model_pseudometric",
        "policy_q_pseudometric",
        "policy_v_pseudometric",
    ),
    "learning.recording": ("Recording",),
    "report.replay": ("replay",),
    "report.page": ("write_report",),
    "runs.compare": ("compare", "comparison_table", "helps_from"),
    "runs.run": ("run",),
    "runs.stored_run": ("results",),
    "planning.solve": ("Solution", "evaluate", "expected_return", "optimal_return", "solve"),
    "theory": (
        "dynamic_programs",
        "n_known_for",
        "tasks_for_distance",
        "tasks_for_max_q",
        "value_iterations",
    ),
    "transfer.bound": ("Bound", "Change", "Constant", "Details", "MaxQ"),
    "transfer.envelope": ("Envelope",),
    "transfer.lipschitz.bound": ("Lipschitz",),
    "transfer.lipschitz.distance": ("ModelDistance", "WeightedL1"),
    "transfer.memory": ("TaskMemory",),
    "transfer.nearness.bound": ("NearModels",),
    "transfer.nearness.exact": ("family_nearness", "near_bound"),
    "transfer.nearness.knowledge": ("Nearness",),
    "transfer.nearness.learned_tasks": ("learned_nearness",),
    "transfer.refutation.audit": ("audit",),
    "transfer.refutation.audit_result": ("Audit",),
    "transfer.setting": ("Setting",),
    "transfer.source": ("Source",),
}
_MODULE_OF = {name: module for module, names in _NAMES_BY_MODULE.items() for name in names}

__all__ = [
    "Agent",
    "Audit",
    "Binned",
    "BisimulationTransfer",
    "Bound",
    "BoxFamily",
    "CannotWrite",
    "Change",
    "Constant",
    "Details",
    "Envelope",
    "EnvelopeRMax",
    "ExperimentSpec",
    "Explanation",
    "FiniteFamily",
    "GridMap",
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
    "NearModels",
    "NearRMax",
    "NearRMaxQInit",
    "Nearness",
    "NotConverged",
    "Numbered",
    "OptimisticAgent",
    "QLearning",
    "RMax",
    "Record",
    "Recording",
    "RefutedKnowledge",
    "RefutedKnowledgeWarning",
    "Setting",
    "Solution",
    "Source",
    "TabularMDP",
    "TaskFamily",
    "TaskMemory",
    "UnsupportedEnvironment",
    "WeightedL1",
    "WorkerLost",
    "WrongOrder",
    "audit",
    "bisimulation_metric",
    "compare",
    "comparison_table",
    "dissimilarity",
    "draw_audit",
    "draw_episodes",
    "draw_lifelong",
    "draw_map",
    "draw_on_grid",
    "draw_transfer",
    "dynamic_programs",
    "evaluate",
    "expected_return",
    "family_distance",
    "family_nearness",
    "garnet",
    "global_pseudometric",
    "grid_world",
    "helps_from",
    "learn",
    "learned_nearness",
    "lipschitz_bound",
    "local_pseudometric",
    "model_pseudometric",
    "n_known_for",
    "near_bound",
    "optimal_return",
    "pairs_to_learn",
    "policy_q_pseudometric",
    "policy_v_pseudometric",
    "replay",
    "results",
    "run",
    "save_figure",
    "solve",
    "tasks_for_distance",
    "tasks_for_max_q",
    "value_iterations",
    "write_report",
]

if TYPE_CHECKING:
    from heirloom.agents.bisimulation_transfer import BisimulationTransfer
    from heirloom.agents.envelope_rmax import EnvelopeRMax
    from heirloom.agents.explanation import Explanation
    from heirloom.agents.near_rmax import NearRMax, NearRMaxQInit
    from heirloom.agents.optimistic import OptimisticAgent
    from heirloom.agents.paper_algorithms import LRMax, LRMaxQInit, MaxQInit, RMax
    from heirloom.agents.protocol import Agent
    from heirloom.agents.qlearning import QLearning
    from heirloom.envs.binned import Binned
    from heirloom.envs.box import BoxFamily
    from heirloom.envs.family import FiniteFamily, TaskFamily
    from heirloom.envs.grid import GridMap, grid_world
    from heirloom.envs.numbered import Numbered
    from heirloom.errors import (
        CannotWrite,
        HeirloomError,
        IncompatibleTasks,
        InvalidArgument,
        InvalidFile,
        InvalidTask,
        NotConverged,
        RefutedKnowledge,
        RefutedKnowledgeWarning,
        UnsupportedEnvironment,
        WorkerLost,
        WrongOrder,
    )
    from heirloom.experiments.spec import ExperimentSpec
    from heirloom.learning.learn import Record, learn
    from heirloom.learning.recording import Recording
    from heirloom.learning.sample_complexity import pairs_to_learn
    from heirloom.mdp.garnet import garnet
    from heirloom.mdp.learned import LearnedModel
    from heirloom.mdp.tabular import TabularMDP
    from heirloom.metrics.bisimulation import bisimulation_metric
    from heirloom.metrics.pseudometrics import (
        dissimilarity,
        family_distance,
        global_pseudometric,
        lipschitz_bound,
        local_pseudometric,
        model_pseudometric,
        policy_q_pseudometric,
        policy_v_pseudometric,
    )
    from heirloom.planning.solve import Solution, evaluate, expected_return, optimal_return, solve
    from heirloom.plot.audits import draw_audit
    from heirloom.plot.curves import draw_episodes, draw_lifelong
    from heirloom.plot.maps import draw_map, draw_on_grid
    from heirloom.plot.style import save_figure
    from heirloom.plot.transfer import draw_transfer
    from heirloom.report.page import write_report
    from heirloom.report.replay import replay
    from heirloom.runs.compare import compare, comparison_table, helps_from
    from heirloom.runs.run import run
    from heirloom.runs.stored_run import results
    from heirloom.theory import (
        dynamic_programs,
        n_known_for,
        tasks_for_distance,
        tasks_for_max_q,
        value_iterations,
    )
    from heirloom.transfer.bound import Bound, Change, Constant, Details, MaxQ
    from heirloom.transfer.envelope import Envelope
    from heirloom.transfer.lipschitz.bound import Lipschitz
    from heirloom.transfer.lipschitz.distance import ModelDistance, WeightedL1
    from heirloom.transfer.memory import TaskMemory
    from heirloom.transfer.nearness.bound import NearModels
    from heirloom.transfer.nearness.exact import family_nearness, near_bound
    from heirloom.transfer.nearness.knowledge import Nearness
    from heirloom.transfer.nearness.learned_tasks import learned_nearness
    from heirloom.transfer.refutation.audit import audit
    from heirloom.transfer.refutation.audit_result import Audit
    from heirloom.transfer.setting import Setting
    from heirloom.transfer.source import Source


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'heirloom' has no attribute {name!r}")
    value = getattr(import_module(f"heirloom.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
