"""The reference of the Python API: all public names, by subject."""

import inspect

import heirloom

SUBJECTS = {
    "Tasks": ("mdp",),
    "Families of tasks and environments": ("envs",),
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


def names_by_subject() -> str:
    """Return one section per subject, with the documentation of its public names."""
    modules = heirloom._MODULE_OF
    left = set(modules)
    sections = []
    for title, packages in SUBJECTS.items():
        names = [name for name in left if modules[name].split(".")[0] in packages]
        names.sort(key=lambda name: (name not in FIRST, name))
        left -= set(names)
        sections.append((title, names))
    sections.append(("Others", sorted(left)))
    return "\n\n".join(_section(title, names) for title, names in sections if names)


def _section(title: str, names: list[str]) -> str:
    entries = "\n\n".join(_entry(name) for name in names)
    return f"## {title}\n\n```{{eval-rst}}\n{entries}\n```"


def _entry(name: str) -> str:
    value = getattr(heirloom, name)
    if not inspect.isclass(value):
        return f".. autofunction:: heirloom.{name}"
    if issubclass(value, BaseException):
        return f".. autoexception:: heirloom.{name}\n   :show-inheritance:"
    return f".. autoclass:: heirloom.{name}\n   :members:"
