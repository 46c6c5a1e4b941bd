"""Numbers and names for the values of Gymnasium's finite spaces, and the base of `wrappers`.

The last component of a value varies fastest.
"""

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.utils import RecordConstructorArgs

from heirloom.errors import UnsupportedEnvironment
from heirloom.mdp.gymnasium import named_actions
from heirloom.naming import all_different, shortened
from heirloom.validation import LARGEST_SIZE, index, shown

MOST_NAMED = 20_000  # states; texts of more would take too much time and memory


class NumberingWrapper(gym.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """A wrapper whose observations and actions are whole numbers from 0 up.

    Args:
        env: the environment.
        n_states: the number of observations.
        arguments: those of the derived class, from which Gymnasium makes it again.
    """

    def __init__(self, env: gym.Env[Any, Any], n_states: int, /, **arguments: Any) -> None:
        RecordConstructorArgs.__init__(self, **arguments)
        gym.Wrapper.__init__(self, env)
        self.n_states, self.n_actions = n_states, size_of_space(env.action_space, "action", env)
        self.observation_space = spaces.Discrete(self.n_states)
        self.action_space = spaces.Discrete(self.n_actions)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[int, dict[str, Any]]:
        """Begin an episode and return the number of the first observation."""
        observation, info = self.env.reset(seed=seed, options=options)
        return self.state_of(observation), info

    def step(self, action: int) -> tuple[int, Any, bool, bool, dict[str, Any]]:
        """Take the action with this number and return the number of the next observation."""
        observation, reward, terminated, truncated, info = self.env.step(self.action_of(action))
        return self.state_of(observation), reward, terminated, truncated, info

    @abstractmethod
    def state_of(self, observation: Any) -> int:
        """Return the number of an observation."""

    def action_of(self, action: int) -> Any:
        """Return the environment's action with this number."""
        return value_of(self.env.action_space, index("action", action, self.n_actions))

    @property
    def action_names(self) -> tuple[str, ...] | None:
        """Names of the actions, in the order of their numbers; None if they are only numbers."""
        if isinstance(self.env.action_space, spaces.Discrete):
            return named_actions(self.env, self.n_actions)
        return names_of_values(self.env.action_space, self.n_actions)


def size_of_space(space: gym.Space[Any], what: str, env: gym.Env[Any, Any]) -> int:
    """Return the number of values of a space; raise `UnsupportedEnvironment` if not numberable."""
    size = _size_of(space)
    remedy = (
        "number observations in order of appearance, with n_states=..."
        if what == "observation"
        else f"expected a finite space with at most {LARGEST_SIZE:,} actions"
    )
    if what == "observation" and isinstance(space, spaces.Box) and space.dtype.kind == "f":
        remedy += ", or cut real numbers into bins, with heirloom.wrappers.Binned(env, edges=[...])"
    if what == "observation" and isinstance(space, spaces.Dict) and size is None:
        parts = (
            f"seen[{key!r}]" if _size_of(part) is not None else f"np.round(seen[{key!r}], 1)"
            for key, part in space.items()
        )
        remedy += (
            f" and a key that rounds what is real, such as key=lambda seen: ({', '.join(parts)})"
        )
    if size is None:
        raise UnsupportedEnvironment(
            f"the {what} space of {env} is {space}, whose values cannot be counted: {remedy}"
        )
    if size > LARGEST_SIZE:
        raise UnsupportedEnvironment(f"the {what} space of {env} has {size:,} values: {remedy}")
    return size


def _size_of(space: gym.Space[Any]) -> int | None:
    """Return the number of values of a space, or None if it is not a known finite space."""
    sizes = _sizes(space)
    return None if None in sizes else math.prod(sizes)  # type: ignore[arg-type]


def _sizes(space: gym.Space[Any]) -> list[int | None]:
    """Return the number of values of each component of a space; None if it is not known."""
    if isinstance(space, spaces.Discrete):
        return [int(space.n)]
    if isinstance(space, spaces.MultiDiscrete):
        return space.nvec.ravel().tolist()
    if isinstance(space, spaces.MultiBinary):
        return [2] * int(np.prod(space.shape))
    is_composite = isinstance(space, spaces.Tuple | spaces.Dict)
    return [_size_of(part) for part in _parts(space)] if is_composite else [None]


def _parts(space: Any) -> list[gym.Space[Any]]:
    return list(space.spaces.values() if isinstance(space, spaces.Dict) else space.spaces)


def number_of(space: gym.Space[Any], value: Any) -> int:
    """Return the number of a value in its space."""
    if not space.contains(value):
        raise UnsupportedEnvironment(
            f"the observation {shown(value)} is not in {space}: expected a value of the "
            "environment's declared space"
        )
    digits: Any
    if isinstance(space, spaces.Tuple | spaces.Dict):
        values = [value[name] for name in space.spaces] if isinstance(space, spaces.Dict) else value
        parts = zip(_parts(space), values, strict=True)
        digits = [number_of(part, entry) for part, entry in parts]
    else:
        digits = (np.asarray(value) - getattr(space, "start", 0)).ravel()
    return int(np.ravel_multi_index(tuple(digits), tuple(_sizes(space))))  # type: ignore[arg-type]


def value_of(space: gym.Space[Any], number: int) -> Any:
    """Return the value with this number in its space."""
    if isinstance(space, spaces.Discrete):
        return number + int(space.start)
    digits = np.unravel_index(number, tuple(_sizes(space)))  # type: ignore[arg-type]
    if isinstance(space, spaces.Tuple | spaces.Dict):
        numbers = zip(_parts(space), digits, strict=True)
        values = [value_of(part, int(n)) for part, n in numbers]
        is_dict = isinstance(space, spaces.Dict)
        return dict(zip(space.spaces, values, strict=True)) if is_dict else tuple(values)
    array = np.array(digits).reshape(space.shape) + getattr(space, "start", 0)
    return array.astype(space.dtype)


def names_of_values(space: gym.Space[Any], number: int) -> tuple[str, ...] | None:
    """Return the values of a finite space as texts; None if there are too many."""
    if number > MOST_NAMED:
        return None
    return all_different([shortened(_as_name(value_of(space, i))) for i in range(number)])


def _as_name(value: Any) -> str:
    """Return a value of a space as a name; that of a dictionary is such as "charge 2, block 4"."""
    if isinstance(value, dict):
        return ", ".join(f"{key} {_as_name(part)}" for key, part in value.items())
    return f"({', '.join(map(_as_name, value))})" if isinstance(value, tuple) else str(value)


def names_of_seen(seen: dict[Any, int], number: int) -> tuple[str, ...] | None:
    """Return the observations that have a number as texts, and "not seen" for other numbers."""
    if number > MOST_NAMED:
        return None
    names = [f"not seen yet [{i}]" for i in range(number)]
    for observation, i in seen.items():
        if i < number:
            names[i] = shortened(_name_of_seen(observation))
    return all_different(names)


def _name_of_seen(seen: Any) -> str:
    """Return the hashable form of an observation as a name; that of an array are its numbers."""
    match seen:
        case (tuple() as shape, "b" | "i" | "u" | "f" as kind, bytes() as data) if math.prod(shape):
            numbers = np.frombuffer(data, f"{kind}{len(data) // math.prod(shape)}").reshape(shape)
            return str(numbers.item() if numbers.size == 1 else numbers.tolist())
        case tuple() if seen and all(isinstance(x, tuple) and len(x) == 2 for x in seen):
            return ", ".join(f"{key} {_name_of_seen(part)}" for key, part in seen)
        case tuple():
            return f"({', '.join(_name_of_seen(part) for part in seen)})"
    return str(seen)


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
