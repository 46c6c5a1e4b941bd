"""Argument checks: each function returns its argument in a standard form, or raises.

Checks do not convert silently: a boolean or a float is not a whole number, and a string is not a
truth value.
"""

import math
import operator
from collections.abc import Iterable
from typing import Any, TypeVar

import numpy as np

from heirloom.arrays import FloatArray
from heirloom.errors import InvalidArgument

Range = tuple[float, float]
Kind = TypeVar("Kind")

LARGEST_INTEGER = 2**63 - 1  # of the arrays and kernels, which have 64-bit integers
LARGEST_SIZE = 2**31 - 1  # of arrays that are allocated for an argument; states are 32-bit integers
LARGEST_REWARD = 1e300  # limit on rewards / (1-γ)³, so that values and distances do not overflow
LONGEST_TEXT = 200  # characters of a value in a message


def shown(value: object) -> str:
    """Return `value` as it appears in messages: its repr on one line, shortened."""
    text = " ".join(repr(value).split())
    return text if len(text) <= LONGEST_TEXT else text[: LONGEST_TEXT - 3] + "..."


def whole_number(name: str, value: object, *, least: int = 1, most: float = LARGEST_INTEGER) -> int:
    """Return `value`, of any integer type, as an int from `least` to `most`."""
    number = _integer(value)
    if number is not None and least <= number <= most:
        return number
    names_limit = most < LARGEST_SIZE or (number is not None and number > most)
    limits = f" from {least:,} to {most:,}" if names_limit else f", {least:,} or more"
    raise InvalidArgument(f"{name} is {shown(value)}: expected a whole number{limits}")


def index(name: str, value: object, size: int) -> int:
    """Return `value`, the number of a state, an action or a pair, as an int below `size`."""
    return whole_number(name, value, least=0, most=size - 1)


def _integer(value: object) -> int | None:
    """Return an integer of any type as an int; None for booleans and everything else."""
    if value is True or value is False:
        return None
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        return None


def sizes(n_states: object, n_actions: object) -> tuple[int, int]:
    """Return the numbers of states and actions, whose product is limited."""
    n = whole_number("n_states", n_states, most=LARGEST_SIZE)
    a = whole_number("n_actions", n_actions, most=LARGEST_SIZE)
    if n * a > LARGEST_SIZE:
        raise InvalidArgument(
            f"n_states is {n} and n_actions is {a}: expected at most {LARGEST_SIZE} pairs of a "
            "state and an action"
        )
    return n, a


def real_number(
    name: str,
    value: object,
    expected: str,
    *,
    least: float = -np.inf,
    above: float = -np.inf,
    most: float = np.inf,
    below: float = np.inf,
) -> float:
    """Return `value` as a finite float, from `least` to `most`, above `above` and below `below`.

    The message of the error ends with `expected`, such as "expected a positive number".
    """
    number = math.nan if isinstance(value, bool | np.bool_) else float_or_nan(value)
    if not (math.isfinite(number) and least <= number <= most and above < number < below):
        raise InvalidArgument(f"{name} is {shown(value)}: {expected}")
    return number


def check_refresh(refresh: object) -> float | None:
    """Return the factor `refresh`; raise `InvalidArgument` unless it is above 1, or None."""
    expected = "expected a number above 1, or None to estimate each known pair once"
    return None if refresh is None else real_number("refresh", refresh, expected, above=1)


def reward(s: int, a: int, value: object) -> float:
    """Return the reward of a step as a float; a boolean counts as 0 or 1.

    Its size is limited, so that sums of rewards do not overflow.
    """
    number = float_or_nan(value)
    if not abs(number) <= LARGEST_REWARD:
        raise InvalidArgument(
            f"the reward of state {s} and action {a} is {shown(value)}: expected a finite number, "
            f"from {-LARGEST_REWARD:g} to {LARGEST_REWARD:g}"
        )
    return number


def float_or_nan(value: object) -> float:
    """Return a number of any real type as a float, and NaN for everything else."""
    if isinstance(value, str | bytes | np.complexfloating):  # which float() would convert
        return math.nan
    if isinstance(value, np.ndarray) and (value.ndim > 0 or value.dtype.kind not in "biuf"):
        return math.nan
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return math.nan


def truth(name: str, value: object) -> bool:
    """Return `value`, True or False, as a bool."""
    if not isinstance(value, bool | np.bool_):
        raise InvalidArgument(f"{name} is {shown(value)}: expected True or False")
    return bool(value)


def text(name: str, value: object) -> str:
    """Return `value`, which must be a string."""
    if not isinstance(value, str):
        raise InvalidArgument(f"{name} is {shown(value)}: expected a string")
    return value


def one_of(name: str, value: object, choices: Iterable[str]) -> str:
    """Return `value`, which must be one of the strings `choices`."""
    choices = tuple(choices)
    if not isinstance(value, str) or value not in choices:
        raise InvalidArgument(f"{name} is {shown(value)}: expected one of {', '.join(choices)}")
    return value


def instance(name: str, value: object, kind: type[Kind], remedy: str) -> Kind:
    """Return `value`, which must be an instance of `kind`; the message ends with `remedy`."""
    if not isinstance(value, kind):
        article = "an" if kind.__name__[0] in "AEIOU" else "a"
        raise InvalidArgument(
            f"{name} is {shown(value)}: expected {article} {kind.__name__}, {remedy}"
        )
    return value


def probability(name: str, value: object) -> float:
    """Return `value` as a probability, from 0 to 1."""
    return real_number(name, value, "expected a probability, from 0 to 1", least=0, most=1)


def positive_probability(name: str, value: object) -> float:
    """Return `value` as a probability above 0."""
    expected = "expected a probability above 0 and at most 1"
    return real_number(name, value, expected, above=0, most=1)


def check_gamma(gamma: float) -> float:
    """Return `gamma` as a float; raise `InvalidArgument` unless it is in [0, 1)."""
    expected = "expected a discount factor, at least 0 and below 1"
    return real_number("gamma", gamma, expected, least=0, below=1)


def interval(
    name: str, value: Any, expected: str, *, least: float = -np.inf, most: float = np.inf
) -> Range:
    """Return two finite numbers from `least` to `most`, of which the second is not the lower one.

    The message of the error ends with `expected`.
    """
    try:
        lo, hi = (real_number(name, end, expected, least=least, most=most) for end in value)
    except (TypeError, ValueError):
        lo, hi = 1.0, 0.0
    if lo > hi:
        raise InvalidArgument(f"{name} is {shown(value)}: {expected}")
    return lo, hi


def check_range(reward_range: Range, gamma: float = 0.0) -> Range:
    """Return `reward_range` as floats; raise `InvalidArgument` unless it is a finite interval.

    Its limits must be small enough that values and distances with the discount factor `gamma` do
    not overflow.
    """
    expected = "expected a pair (lo, hi) of finite numbers, lo <= hi"
    lo, hi = interval("reward_range", reward_range, expected)
    if max(-lo, hi) > LARGEST_REWARD * (1 - gamma) ** 3:
        raise InvalidArgument(
            f"reward_range is {shown(reward_range)} with gamma={gamma}: values and distances would "
            "overflow float64; rescale the rewards"
        )
    return lo, hi


def numbers(name: str, value: Any, error: type[Exception] = InvalidArgument) -> FloatArray:
    """Return `value` as a float64 array of real numbers, which need not be finite."""
    try:
        given = np.asarray(value)
        if given.dtype.kind not in "biuf":
            raise TypeError(f"its dtype is {given.dtype}")
        if np.ma.is_masked(value):
            raise TypeError("some of its entries are masked")
        with np.errstate(over="ignore"):  # a number of a wider type may become infinite
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
            f"{name} {'contains' if shape else 'is'} {array.flat[bad[0]]:g}: expected {what}, "
            "finite and not negative"
        )
    return array


def generator(seed: int | np.random.Generator | None) -> np.random.Generator:
    """Return a generator for a seed, or the given generator."""
    try:
        return np.random.default_rng(seed)
    except (TypeError, ValueError):
        raise InvalidArgument(
            f"seed is {shown(seed)}: expected a whole number, 0 or more, or a numpy Generator"
        ) from None


def check_generator(rng: object) -> np.random.Generator:
    """Return `rng`; raise `InvalidArgument` unless it is a numpy `Generator`."""
    remedy = "such as numpy.random.default_rng(0)"
    return instance("rng", rng, np.random.Generator, remedy)
