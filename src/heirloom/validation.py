"""Argument checks: each function returns its argument in a standard form, or raises."""

import operator
from typing import Any

import numpy as np

from heirloom.arrays import FloatArray
from heirloom.errors import InvalidArgument

Range = tuple[float, float]


def whole_number(name: str, value: object, *, least: int = 1, most: int | None = None) -> int:
    """Return `value`, of any integer type, as an int from `least` to `most`."""
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = None
    if number is None or number < least or (most is not None and number > most):
        limits = f"{least} or more" if most is None else f"from {least} to {most}"
        raise InvalidArgument(f"{name} is {value!r}: expected a whole number, {limits}")
    return number


def real_number(
    name: str, value: object, expected: str, *, least: float = -np.inf, above: float = -np.inf
) -> float:
    """Return `value` as a finite float, at least `least` and above `above`.

    The message of the error ends with `expected`, such as "expected a positive number".
    """
    try:
        if isinstance(value, str | bytes):
            raise TypeError
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise InvalidArgument(f"{name} is {value!r}: {expected}") from None
    if not (np.isfinite(number) and number >= least and number > above):
        raise InvalidArgument(f"{name} is {value!r}: {expected}")
    return number


def probability(name: str, value: object) -> float:
    """Return `value` as a probability, from 0 to 1."""
    expected = "expected a probability, from 0 to 1"
    number = real_number(name, value, expected, least=0)
    if number > 1:
        raise InvalidArgument(f"{name} is {value!r}: {expected}")
    return number


def positive_probability(name: str, value: object) -> float:
    """Return `value` as a probability above 0."""
    number = probability(name, value)
    if number == 0:
        raise InvalidArgument(f"{name} is {value!r}: expected a probability above 0 and at most 1")
    return number


def check_gamma(gamma: float) -> float:
    """Return `gamma` as a float; raise `InvalidArgument` unless it is in [0, 1)."""
    expected = "expected a discount factor, at least 0 and below 1"
    number = real_number("gamma", gamma, expected, least=0)
    if number >= 1:
        raise InvalidArgument(f"gamma is {gamma!r}: {expected}")
    return number


def check_range(reward_range: Range) -> Range:
    """Return `reward_range` as floats; raise `InvalidArgument` unless it is a finite interval."""
    expected = "expected a pair (lo, hi) of finite numbers, lo <= hi"
    try:
        lo, hi = (real_number("reward_range", limit, expected) for limit in reward_range)
    except (TypeError, ValueError, InvalidArgument):
        raise InvalidArgument(f"reward_range is {reward_range!r}: {expected}") from None
    if lo > hi:
        raise InvalidArgument(f"reward_range is {reward_range!r}: {expected}")
    return lo, hi


def numbers(name: str, value: Any, error: type[Exception] = InvalidArgument) -> FloatArray:
    """Return `value` as a float64 array of real numbers, which need not be finite."""
    try:
        given = np.asarray(value)
        if given.dtype.kind not in "biuf":
            raise TypeError(f"its dtype is {given.dtype}")
        if np.ma.is_masked(value):
            raise TypeError("some of its entries are masked")
        return given.astype(np.float64, copy=False)
    except (TypeError, ValueError, OverflowError) as reason:
        raise error(f"{name} is not an array of real numbers: {reason}") from None


def weights(name: str, value: Any, shape: tuple[int, ...], what: str) -> FloatArray:
    """Return `value` as an array of this shape; raise unless all its numbers are finite and >= 0.

    `what` describes the array in messages, such as "one weight per state".
    """
    array = numbers(name, value)
    if array.shape != shape:
        raise InvalidArgument(f"{name} has shape {array.shape}: expected {what}, of shape {shape}")
    bad = np.flatnonzero(~(np.isfinite(array) & (array >= 0)))
    if bad.size:
        raise InvalidArgument(
            f"{name} contains {array.flat[bad[0]]}: expected {what}, finite and not negative"
        )
    return array


def generator(seed: int | np.random.Generator | None) -> np.random.Generator:
    """Return a generator for a seed, or the given generator."""
    try:
        return np.random.default_rng(seed)
    except (TypeError, ValueError):
        raise InvalidArgument(
            f"seed is {seed!r}: expected a whole number, 0 or more, or a numpy Generator"
        ) from None
