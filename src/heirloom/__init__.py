"""Lifelong reinforcement learning in finite decision problems, with transfer that does not hurt."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0.dev0"

# A name is imported from its module when it is first used: numba and gymnasium take their time.
_HOMES = {
    "errors": (
        "HeirloomError",
        "IncompatibleTasks",
        "InvalidArgument",
        "InvalidTask",
        "NotConverged",
        "UnsupportedEnvironment",
    ),
    "mdp.exact": ("TabularMDP",),
    "mdp.garnet": ("garnet",),
    "mdp.solving": ("Solution", "evaluate", "expected_return", "optimal_return", "solve"),
    "transfer.pseudometrics": (
        "dissimilarity",
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
    "HeirloomError",
    "IncompatibleTasks",
    "InvalidArgument",
    "InvalidTask",
    "NotConverged",
    "Solution",
    "TabularMDP",
    "UnsupportedEnvironment",
    "dissimilarity",
    "evaluate",
    "expected_return",
    "garnet",
    "global_pseudometric",
    "lipschitz_bound",
    "local_pseudometric",
    "model_pseudometric",
    "optimal_return",
    "policy_q_pseudometric",
    "policy_v_pseudometric",
    "solve",
]

if TYPE_CHECKING:
    from heirloom.errors import (
        HeirloomError,
        IncompatibleTasks,
        InvalidArgument,
        InvalidTask,
        NotConverged,
        UnsupportedEnvironment,
    )
    from heirloom.mdp.exact import TabularMDP
    from heirloom.mdp.garnet import garnet
    from heirloom.mdp.solving import Solution, evaluate, expected_return, optimal_return, solve
    from heirloom.transfer.pseudometrics import (
        dissimilarity,
        global_pseudometric,
        lipschitz_bound,
        local_pseudometric,
        model_pseudometric,
        policy_q_pseudometric,
        policy_v_pseudometric,
    )


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'heirloom' has no attribute {name!r}")
    value = getattr(import_module(f"heirloom.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
