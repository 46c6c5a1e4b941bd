"""Numbers for the values of Gymnasium's finite spaces; the last component varies fastest."""

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from heirloom.errors import UnsupportedEnvironment
from heirloom.validation import shown

LARGEST = 2**31 - 1


def size_of_space(space: gym.Space[Any], what: str, env: gym.Env[Any, Any]) -> int:
    """Return the number of values of a space; raise `UnsupportedEnvironment` if not numberable."""
    size = _size_of(space)
    remedy = (
        "number observations in order of appearance, with n_states=..."
        if what == "observation"
        else f"expected a finite space with at most {LARGEST:,} actions"
    )
    if what == "observation" and isinstance(space, spaces.Box) and space.dtype.kind == "f":
        remedy += ", or cut real numbers into bins, with heirloom.wrappers.Binned(env, edges=[...])"
    if size is None:
        raise UnsupportedEnvironment(
            f"the {what} space of {env} is {space}, whose values cannot be counted: {remedy}"
        )
    if size > LARGEST:
        raise UnsupportedEnvironment(f"the {what} space of {env} has {size:,} values: {remedy}")
    return size


def _size_of(space: gym.Space[Any]) -> int | None:
    """Return the number of values of a space, or None if it is not a known finite space."""
    if isinstance(space, spaces.Discrete):
        return int(space.n)
    if isinstance(space, spaces.MultiDiscrete):
        return int(np.prod(space.nvec.astype(object)))
    if isinstance(space, spaces.MultiBinary):
        return int(2 ** int(np.prod(space.shape)))
    if isinstance(space, spaces.Tuple | spaces.Dict):
        size = 1
        for part in _parts(space):
            n = _size_of(part)
            if n is None:
                return None
            size *= n
        return size
    return None


def _parts(space: Any) -> list[gym.Space[Any]]:
    return list(space.spaces.values() if isinstance(space, spaces.Dict) else space.spaces)


def number_of(space: gym.Space[Any], value: Any) -> int:
    """Return the number of a value in its space."""
    if not space.contains(value):
        raise UnsupportedEnvironment(
            f"the observation {shown(value)} is not in {space}: expected a value of the "
            "environment's declared space"
        )
    if isinstance(space, spaces.Discrete):
        return int(value) - int(space.start)
    if isinstance(space, spaces.MultiDiscrete):
        digits = (np.asarray(value) - space.start).ravel().tolist()
        return _from_digits(digits, space.nvec.ravel().tolist())
    if isinstance(space, spaces.MultiBinary):
        digits = np.asarray(value).ravel().tolist()
        return _from_digits(digits, [2] * len(digits))
    values = [value[name] for name in space.spaces] if isinstance(space, spaces.Dict) else value
    parts = _parts(space)
    digits = [number_of(part, entry) for part, entry in zip(parts, values, strict=True)]
    return _from_digits(digits, [_size_of(part) or 1 for part in parts])


def value_of(space: gym.Space[Any], number: int) -> Any:
    """Return the value with this number in its space."""
    if isinstance(space, spaces.Discrete):
        return number + int(space.start)
    if isinstance(space, spaces.MultiDiscrete):
        digits = np.array(_digits(number, space.nvec.ravel().tolist())).reshape(space.nvec.shape)
        return (digits + space.start).astype(space.dtype)
    if isinstance(space, spaces.MultiBinary):
        bits = np.array(_digits(number, [2] * int(np.prod(space.shape))), dtype=space.dtype)
        return bits.reshape(space.shape)
    parts = _parts(space)
    numbers = _digits(number, [_size_of(part) or 1 for part in parts])
    values = [value_of(part, n) for part, n in zip(parts, numbers, strict=True)]
    if isinstance(space, spaces.Dict):
        return dict(zip(space.spaces, values, strict=True))
    return tuple(values)


def _from_digits(digits: list[int], sizes: list[int]) -> int:
    """Return the number with these mixed-radix digits, the last one being the lowest."""
    number = 0
    for digit, size in zip(digits, sizes, strict=True):
        number = number * size + digit
    return number


def _digits(number: int, sizes: list[int]) -> list[int]:
    """Return the mixed-radix digits of a number: the inverse of `_from_digits`."""
    digits = []
    for size in reversed(sizes):
        number, digit = divmod(number, size)
        digits.append(digit)
    return digits[::-1]
