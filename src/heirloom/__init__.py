"""Lifelong reinforcement learning in finite Markov decision processes."""

import re
from importlib import import_module
from pathlib import Path
from typing import Any

__version__ = "0.1.0.dev0"

# The stub beside this file lists the public names. A name is imported from its module when it is
# first used, because numba and gymnasium are slow to import.
_STUB = Path(__file__).with_suffix(".pyi").read_text("utf-8")
_MODULE_OF = {name: module for module, name in re.findall(r"from (\S+) import (\w+) as", _STUB)}
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
