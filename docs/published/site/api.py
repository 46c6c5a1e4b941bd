"""The reference of the Python API: all public names, by subject."""

import inspect
from functools import cache
from importlib import import_module
from typing import Any

import heirloom

SUBJECTS = {
    "Tasks": ("mdp",),
    "Families of tasks and environments": ("envs", "wrappers"),
    "Planning": ("planning",),
    "Distances between tasks": ("metrics",),
    "Agents": ("agents",),
    "Bounds and memory": ("transfer",),
    "Learning": ("learning",),
    "Experiments and runs": ("experiments", "runs"),
    "Figures and reports": ("plot", "report"),
    "Sample sizes of the theory": ("theory",),
    "Errors": ("errors",),
}
FIRST = ("TabularMDP", "NearRMax", "Nearness", "TaskMemory", "HeirloomError")
"""The names that come first in their section."""


RETURNED = (
    *("planning.solve.Solution", "learning.episodes.Record", "learning.recording.Recording"),
    *("agents.explanation.Explanation", "transfer.refutation.audit_result.Audit"),
    *("agents.certificate.Certificate", "learning.log.LogReport"),
    *("transfer.refutation.contradiction.Part", "transfer.refutation.power.Power"),
    *("transfer.nearness.estimate.NearnessEstimate", "transfer.nearness.limits.Limits"),
    "runs.worth.Worth",
    "learning.budget.LearningPlan",
)
"""Classes of what public functions return, which no program needs to import."""


@cache
def public_paths() -> dict[str, str]:
    """Return where each public name is imported from: `heirloom`, or else a public module."""
    values = {name: getattr(heirloom, name) for name in heirloom.__all__}
    paths = {name: f"heirloom.{name}" for name, v in values.items() if not inspect.ismodule(v)}
    for module in filter(inspect.ismodule, values.values()):
        found = inspect.getmembers(module, lambda v: inspect.isclass(v) or inspect.isfunction(v))
        own = [name for name, value in found if value.__module__ == module.__name__]
        for name in own or [name for name, _ in found]:
            paths.setdefault(name, f"{module.__name__}.{name}")
    return paths | {path.rpartition(".")[2]: f"heirloom.{path}" for path in RETURNED}


def names_by_subject() -> str:
    """Return one section per subject, with the documentation of its public names."""
    package = {name: _value(path).__module__.split(".")[1] for name, path in public_paths().items()}
    sections = []
    for title, packages in SUBJECTS.items():
        names = [name for name in package if package[name] in packages]
        sections.append((title, sorted(names, key=lambda name: (name not in FIRST, name))))
    return "\n\n".join(_section(title, names) for title, names in sections if names)


def _section(title: str, names: list[str]) -> str:
    entries = "\n\n".join(_entry(public_paths()[name]) for name in names)
    return f"## {title}\n\n```{{eval-rst}}\n{entries}\n```"


def _value(path: str) -> Any:
    module, _, name = path.rpartition(".")
    return getattr(import_module(module), name)


def _entry(path: str) -> str:
    value = _value(path)
    if not inspect.isclass(value):
        return f".. autofunction:: {path}"
    if issubclass(value, BaseException):
        return f".. autoexception:: {path}\n   :show-inheritance:"
    return f".. autoclass:: {path}\n   :members:"
