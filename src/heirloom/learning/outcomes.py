"""What environments return, in standard types, and the masks of available actions."""

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from heirloom.agents.optimistic import OptimisticAgent
from heirloom.agents.protocol import Agent
from heirloom.arrays import BoolArray
from heirloom.errors import InvalidArgument, UnsupportedEnvironment
from heirloom.mdp.tabular import TabularMDP
from heirloom.transfer.nearness.successors import as_array
from heirloom.validation import LARGEST_REWARD, LARGEST_SIZE, float_or_nan, shown

if TYPE_CHECKING:
    import gymnasium as gym

    Task = TabularMDP | gym.Env[Any, Any]

Outcome = tuple[int, float, bool, bool, Mapping[str, Any]]

# Wrappers that change neither states nor actions.
PLAIN_WRAPPERS = ("TimeLimit", "OrderEnforcing", "PassiveEnvChecker", "RecordEpisodeStatistics")


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
    if not 0 <= s < n_states:
        raise _unexpected("observation", returned[0], f"a whole number from 0 to {n_states - 1}")
    if not -LARGEST_REWARD <= r <= LARGEST_REWARD:
        limits = f"from {-LARGEST_REWARD:g} to {LARGEST_REWARD:g}"
        raise _unexpected("reward", returned[1], f"a finite number, {limits}")
    if terminated is None:
        raise _unexpected("terminated", returned[2], "True or False")
    if truncated is None:
        raise _unexpected("truncated", returned[3], "True or False")
    if type(info) is not dict and not isinstance(info, Mapping):
        raise _unexpected("info", info, "a dictionary")
    return s, r, terminated, truncated, info


def _unexpected(name: str, value: object, what: str) -> UnsupportedEnvironment:
    return UnsupportedEnvironment(
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


def read_existing(available: ArrayLike, n_states: int, n_actions: int) -> BoolArray:
    """Return the actions that exist, [s, a]; raise `InvalidArgument` unless each state has one."""
    mask, shape = as_array("available", available), (n_states, n_actions)
    if mask.dtype != np.bool_ or mask.shape != shape or not mask.any(axis=1).all():
        raise InvalidArgument(
            f"available is {shown(available)}: expected booleans [s, a] of shape {shape}, with an "
            "action in each state"
        )
    return mask


def available_in(task: "Task", *, masks: bool) -> BoolArray | None:
    """Return the actions that exist in a task, [s, a], if they are known before it is learned.

    They are, if it is a `TabularMDP`, or with `masks` an environment that simulates one. None if
    all exist, or if this is not known.
    """
    if not isinstance(task, TabularMDP) and masks:
        inner: Any = task
        while type(inner).__name__ in PLAIN_WRAPPERS and hasattr(inner, "env"):
            inner = inner.env
        task = getattr(inner, "task", task)
    if not isinstance(task, TabularMDP) or task.transitions.available is None:
        return None
    return task.available


def begin(
    agent: Agent, task: "Task", *, masks: bool = False, available: BoolArray | None = None
) -> None:
    """Begin a task of an agent, with its available actions if they are known.

    Raises `InvalidArgument` if the agent cannot handle missing actions.
    """
    if available is None:
        available = available_in(task, masks=masks)
    if (masks and not isinstance(task, TabularMDP)) or available is not None:
        if not callable(getattr(agent, "observe_mask", None)):
            raise InvalidArgument(
                f"the task lacks actions in some states, and the agent {shown(agent)} has no "
                "method 'observe_mask': expected observe_mask(s, mask), which is called with a "
                "state and the mask of its available actions before the agent acts there"
            )
    if available is None:
        agent.begin_task()
        if masks and isinstance(agent, OptimisticAgent):
            agent.task.expect_masks()
    elif takes(agent.begin_task, "available"):
        agent.begin_task(available=available)  # type: ignore[call-arg]
    else:
        agent.begin_task()
        for s, mask in enumerate(available):
            agent.observe_mask(s, mask)  # type: ignore[attr-defined]


def takes(method: Callable[..., Any], name: str) -> bool:
    """Whether a method of an agent has a parameter with this name."""
    return name in inspect.signature(method).parameters


def observe_mask(agent: Agent, env: "gym.Env[Any, Any]", s: int, info: Mapping[str, Any]) -> None:
    """Let the agent observe the mask of the state `s`, which was reached with `info`.

    Raises `UnsupportedEnvironment` if the environment does not give one.
    """
    mask = info.get("action_mask")
    if mask is None and callable(getattr(env.unwrapped, "action_masks", None)):
        mask = env.unwrapped.action_masks()  # type: ignore[attr-defined]
    if mask is None:
        raise UnsupportedEnvironment(
            f"masks=True, but {env} gives no mask of available actions in state {s}: expected "
            "info['action_mask'] from reset and step, or the method action_masks()"
        )
    agent.observe_mask(s, mask)  # type: ignore[attr-defined]
