"""Masks of available actions: how an agent gets them from a task or an environment."""

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from heirloom.agents.protocol import Agent
from heirloom.arrays import BoolArray
from heirloom.errors import InvalidArgument, UnsupportedEnvironment
from heirloom.mdp.tabular import TabularMDP
from heirloom.validation import shown

if TYPE_CHECKING:
    import gymnasium as gym

    Task = TabularMDP | gym.Env[Any, Any]

# Wrappers that change neither states nor actions.
PLAIN_WRAPPERS = ("TimeLimit", "OrderEnforcing", "PassiveEnvChecker", "RecordEpisodeStatistics")


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


def begin(agent: Agent, task: "Task", *, masks: bool = False) -> None:
    """Begin a task of an agent, with its available actions if they are known.

    Raises `InvalidArgument` if the agent cannot handle missing actions.
    """
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
