"""What `reset` and `step` of an environment return, in standard types."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from heirloom.errors import UnsupportedEnvironment
from heirloom.validation import LARGEST_REWARD, LARGEST_SIZE, float_or_nan, shown

Outcome = tuple[int, float, bool, bool, Mapping[str, Any]]


def read_reset(returned: Any, n_states: int) -> tuple[int, Mapping[str, Any]]:
    """Return the first state and `info`; raise `UnsupportedEnvironment` if they are none."""
    try:
        observation, info = returned
    except (TypeError, ValueError):
        raise UnsupportedEnvironment(
            f"reset returned {shown(returned)}: expected (observation, info)"
        ) from None
    s, *_ = read_step((observation, 0.0, False, False, info), n_states)
    return s, info


def read_step(returned: Any, n_states: int) -> Outcome:
    """Return the next state, the reward, `terminated`, `truncated` and `info` of a step.

    Raises `UnsupportedEnvironment` unless they are a state, a finite number, two truth values and a
    dictionary. Numbers and truth values may have any type, also those of numpy; a text is neither.
    """
    try:
        s, r, terminated, truncated, info = returned
    except (TypeError, ValueError):
        raise UnsupportedEnvironment(
            f"step returned {shown(returned)}: expected (observation, reward, terminated, "
            "truncated, info)"
        ) from None
    # This runs at every step: values of the usual types are not converted.
    if type(s) is not int:
        s = _state(s)
    if type(r) is not float:
        r = float(r) if type(r) is int and abs(r) < LARGEST_SIZE else float_or_nan(r)
    if type(terminated) is not bool:
        terminated = _flag(terminated)
    if type(truncated) is not bool:
        truncated = _flag(truncated)
    if (
        0 <= s < n_states
        and -LARGEST_REWARD <= r <= LARGEST_REWARD
        and terminated is not None
        and truncated is not None
        and (type(info) is dict or isinstance(info, Mapping))
    ):
        return s, r, terminated, truncated, info
    expected = (
        ("observation", 0 <= s < n_states, f"a whole number from 0 to {n_states - 1}"),
        (
            "reward",
            -LARGEST_REWARD <= r <= LARGEST_REWARD,
            f"a finite number, from {-LARGEST_REWARD:g} to {LARGEST_REWARD:g}",
        ),
        ("terminated", terminated is not None, "True or False"),
        ("truncated", truncated is not None, "True or False"),
        ("info", isinstance(info, Mapping), "a dictionary"),
    )
    name, value, what = next(
        (name, value, what)
        for (name, is_valid, what), value in zip(expected, returned, strict=True)
        if not is_valid
    )
    raise UnsupportedEnvironment(
        f"the environment returned {shown(value)} as {name}: expected {what}"
    )


def _state(value: object) -> int:
    """Return a whole number of any type as an int, and -1 for everything else."""
    if isinstance(value, np.integer):
        return int(value)
    number = float_or_nan(value)
    return int(number) if number.is_integer() else -1


def _flag(value: object) -> bool | None:
    """Return a truth value of any type, also 0 and 1, as a bool; None for everything else."""
    if type(value) is np.bool_:
        return bool(value)
    return {0.0: False, 1.0: True}.get(float_or_nan(value))


def failed(error: Exception, where: str) -> UnsupportedEnvironment:
    """Return the error for an environment that failed at a step, or at the reset of an episode."""
    still = (
        "The agent is still in its task: call drop_task() or end_task(), or learn(..., resume=True)"
    )
    if isinstance(error, UnsupportedEnvironment):  # of this module or of a wrapper of Heirloom
        return UnsupportedEnvironment(f"{where}: {error}. {still}")
    return UnsupportedEnvironment(
        f"{where}: the environment raised {type(error).__name__}: {error}. If the action does not "
        "exist there, let the environment give masks, in info['action_mask'], and call learn or "
        f"compare with masks=True. {still}"
    )
