"""Limits on the size of an experiment, which are checked before sweeps are expanded."""

import math
from collections.abc import Iterable
from typing import Any

from heirloom.errors import InvalidArgument

MOST_AGENTS = 10_000
MOST_TASKS = 100_000
MOST_JOBS = 10**6
"""Jobs of a run: agents times repetitions."""


def check_number_of_agents(agents: Iterable[Any]) -> None:
    """Raise `InvalidArgument` if the sweeps of these tables give more than `MOST_AGENTS` agents."""
    total = sum(combinations(agent) for agent in agents)
    if total > MOST_AGENTS:
        raise InvalidArgument(
            f"agents describes {total:,} agents: expected at most {MOST_AGENTS:,}; sweep over "
            "fewer values"
        )


def combinations(table: Any) -> int:
    """Return the number of combinations of the options of a table that are given as lists."""
    if not isinstance(table, dict):
        return 1
    return math.prod(len(value) for value in table.values() if isinstance(value, list))
