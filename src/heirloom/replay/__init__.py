"""Replays of recorded learning: pages in which one sees how an agent learned a task."""

import inspect
import sys
from types import ModuleType
from typing import Any

from heirloom.replay.page import replay
from heirloom.replay.section import replay_section
from heirloom.replay.stored import recordings_of

__all__ = ["recordings_of", "replay", "replay_section"]


class _Package(ModuleType):
    """This package. It can be called like the function `heirloom.replay`, which has its name.

    Importing a package sets the attribute of its parent, so `heirloom.replay` is this package once
    it was imported.
    """

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return replay(*arguments, **options)


__signature__ = inspect.signature(replay)
sys.modules[__name__].__class__ = _Package
