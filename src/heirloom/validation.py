"""Checking arguments: each function returns its argument in one form, or raises with the remedy."""

import operator
from typing import Any

import numpy as np

from heirloom.arrays import FloatArray
from heirloom.errors import InvalidArgument

Range = tuple[float, float]


def whole_number(name: str, value: object, *, least: int = 1, most: int | None = None) -> int:
    """A whole number of any type that is one."""
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = None
    if number is None or number < least or (most is not None and number > most):
        limits = f"{least} or more" if most is None else f"from {least} to {most}"
        raise InvalidArgument(f"{name} is {value!r}: it is a whole number, {limits}")
    return number


def real_number(
    name: str, value: object, what: str, *, least: float = -np.inf, above: float = -np.inf
) -> float:
    """A finite number, at least `least` and above `above`; `what` it is meant to be."""
    try:
        if isinstance(value, str | bytes):
            raise TypeError
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise InvalidArgument(f"{name} is {value!r}: {what}") from None
    if not (np.isfinite(number) and number >= least and number > above):
        raise InvalidArgument(f"{name} is {value!r}: {what}")
    return number


def probability(name: str, value: object) -> float:
    """A probability."""
    number = real_number(name, value, "a probability is a number from 0 to 1", least=0)
    if number > 1:
        raise InvalidArgument(f"{name} is {value!r}: a probability is a number from 0 to 1")
    return number


def positive_probability(name: str, value: object) -> float:
    """A probability that is not zero."""
    number = probability(name, value)
    if number == 0:
        raise InvalidArgument(f"{name} is {value!r}: a probability above 0, at most 1")
    return number


def check_gamma(gamma: float) -> float:
    """`gamma` as a number; raises `InvalidArgument` unless it is in [0, 1)."""
    what = "a discount factor is a number from 0 up to, not including, 1"
    number = real_number("gamma", gamma, what, least=0)
    if number >= 1:
        raise InvalidArgument(f"gamma is {gamma!r}: {what}")
    return number


def check_range(reward_range: Range) -> Range:
    """`reward_range` as numbers; raises `InvalidArgument` unless it is a finite interval."""
    what = "it is a pair (lo, hi) of numbers, lo <= hi"
    try:
        lo, hi = (real_number("reward_range", end, what) for end in reward_range)
    except (TypeError, ValueError, InvalidArgument):
        raise InvalidArgument(f"reward_range is {reward_range!r}: {what}") from None
    if lo > hi:
        raise InvalidArgument(f"reward_range is {reward_range!r}: {what}")
    return lo, hi


def numbers(name: str, value: Any, error: type[Exception] = InvalidArgument) -> FloatArray:
    """An array of real numbers as doubles; finite or not is for the caller to check."""
    try:
        given = np.asarray(value)
        if given.dtype.kind not in "biuf":
            raise TypeError(f"its type is {given.dtype}")
        if np.ma.is_masked(value):
            raise TypeError("some of it is masked")
        return given.astype(np.float64, copy=False)
    except (TypeError, ValueError, OverflowError) as reason:
        raise error(f"{name} is not an array of real numbers: {reason}") from None


def weights(name: str, value: Any, shape: tuple[int, ...], what: str) -> FloatArray:
    """An array of finite numbers from 0 up, in its shape."""
    array = numbers(name, value)
    if array.shape != shape:
        raise InvalidArgument(f"{name} has shape {array.shape}: it is {what}, of shape {shape}")
    bad = np.flatnonzero(~(np.isfinite(array) & (array >= 0)))
    if bad.size:
        raise InvalidArgument(f"{name} holds {array.flat[bad[0]]}: it is {what}, from 0 up")
    return array


def generator(seed: int | np.random.Generator | None) -> np.random.Generator:
    """The generator, or one for the seed."""
    try:
        return np.random.default_rng(seed)
    except (TypeError, ValueError):
        raise InvalidArgument(
            f"seed is {seed!r}: it is a whole number, 0 or more, or a numpy Generator"
        ) from None
