"""Lifelong reinforcement learning in finite Markov decision processes."""

from importlib import import_module
from typing import Any

__version__ = "0.1.0.dev0"

# The stub beside this file lists the public names. A name is imported from its module when it is
# first used, because numba and gymnasium are slow to import.
with open(f"{__file__}i", encoding="utf-8") as stub:  # lines "from module import name as name"
    _MODULE_OF = {words[3]: words[1] for words in map(str.split, stub) if words[:1] == ["from"]}
__all__ = sorted(_MODULE_OF)


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'heirloom' has no attribute {name!r}")
    module = _MODULE_OF[name]
    if module == __name__:
        return import_module(f"heirloom.{name}")
    value = getattr(import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
