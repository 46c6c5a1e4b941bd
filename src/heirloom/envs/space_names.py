"""Names of states and actions that follow from the spaces of an environment."""

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
from gymnasium import spaces

from heirloom.envs.spaces import value_of
from heirloom.mdp.gymnasium import named_actions
from heirloom.naming import all_different, shortened

MOST_NAMED = 20_000  # states; texts of more would take too much time and memory


def names_of_values(space: gym.Space[Any], number: int) -> tuple[str, ...] | None:
    """Return the values of a finite space as texts; None if there are too many."""
    if number > MOST_NAMED:
        return None
    return all_different([shortened(str(value_of(space, i))) for i in range(number)])


def names_of_actions(env: gym.Env[Any, Any], number: int) -> tuple[str, ...] | None:
    """Return the names of the actions of a wrapped environment; None if they are only numbers."""
    space = env.action_space
    if isinstance(space, spaces.Discrete):
        return named_actions(env, number)
    return names_of_values(space, number)


def names_of_seen(seen: dict[Any, int], number: int) -> tuple[str, ...] | None:
    """Return the observations that have a number as texts, and "not seen" for other numbers."""
    if number > MOST_NAMED:
        return None
    names = [f"not seen yet [{i}]" for i in range(number)]
    for observation, i in seen.items():
        if i < number:
            names[i] = shortened(str(observation))
    return all_different(names)


def names_of_bins(bins: Sequence[Sequence[tuple[float, float]]]) -> tuple[str, ...]:
    """Return the bins as texts, such as "0: [-1, 0), 1: from 2"; dimensions count from 0."""

    def one(low: float, high: float) -> str:
        if low == float("-inf"):
            return f"below {high:g}"
        return f"from {low:g}" if high == float("inf") else f"[{low:g}, {high:g})"

    unlimited = (float("-inf"), float("inf"))
    return all_different(
        [
            ", ".join(f"{i}: {one(*ends)}" for i, ends in enumerate(bin_) if ends != unlimited)
            or "all"
            for bin_ in bins
        ]
    )
