"""One unit of work: an agent that faces the tasks of a repetition in a row."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from heirloom.agents.protocol import Agent
from heirloom.arrays import FloatArray, IntArray
from heirloom.learning.learn import follow
from heirloom.learning.plan import Plan
from heirloom.learning.streams import stream
from heirloom.mdp.tabular import TabularMDP
from heirloom.planning.solve import optimal_return

if TYPE_CHECKING:
    import gymnasium as gym

    Task = TabularMDP | gym.Env[Any, Any]


class Observer(Protocol):
    """Looks at an agent while it learns tasks in a row, and changes nothing that it does."""

    looks_at_updates: bool
    """Whether `after_update` is to be called; without that, a task may be learned faster."""
    looks_at_episodes: bool
    """Whether `after_episode` is to be called."""

    def begin_task(self, agent: Agent, task: "Task") -> None:
        """The agent has begun a task."""

    def after_update(self) -> None:
        """A pair became known, and the agent has updated its bounds and values."""

    def after_episode(self, done: int) -> None:
        """So many episodes of the task are done."""

    def end_task(self) -> None:
        """The episodes of the task are over; the agent has not stored it yet."""


LATE = 50  # updates: the mean time of the last ones tells when learning was over


def learn_tasks(
    agent: Agent,
    tasks: Sequence["Task"],
    *,
    episodes: int,
    steps: int,
    seed: int,
    name: str,
    repetition: int,
    observer: Observer | None = None,
) -> dict[str, np.ndarray]:
    """Let an agent learn the tasks one after the other.

    Returns:
        `returns` and `discounted_returns` [task, episode]; `updates` [task], how often the model
        was updated; `late_update` [task], the mean time step of the last 50 updates, NaN if there
        were none.
    """
    n = len(tasks)
    returns, discounted = np.empty((n, episodes)), np.empty((n, episodes))
    updates, late = np.zeros(n, dtype=np.int64), np.full(n, np.nan)
    for k, task in enumerate(tasks):
        task_seed = int(stream(seed, "steps", name, repetition, k).integers(2**63))
        plan = Plan.checked(agent, task, episodes=episodes, max_steps=steps, seed=task_seed)
        agent.begin_task()
        if observer is not None:
            observer.begin_task(agent, task)
            plan = _observed(plan, observer)
        record = follow(agent, task, plan)
        if observer is not None:
            observer.end_task()
        agent.end_task()
        returns[k], discounted[k] = record.returns, record.discounted_returns
        updates[k], late[k] = record.update_steps.size, late_update(record.update_steps)
    return {
        "returns": returns,
        "discounted_returns": discounted,
        "updates": updates,
        "late_update": late,
    }


def _observed(plan: Plan, observer: Observer) -> Plan:
    if observer.looks_at_episodes:
        plan = replace(plan, callback=lambda done, _: observer.after_episode(done), stride=1)
    if observer.looks_at_updates:
        plan = replace(plan, on_update=observer.after_update)
    return plan


def late_update(update_steps: IntArray) -> float:
    """The mean time step of the last 50 updates; NaN if there were none."""
    return float(update_steps[-LATE:].mean()) if update_steps.size else np.nan


def optimal_returns(tasks: Sequence["Task"], steps: int, *, discounted: bool) -> FloatArray:
    """The best expected return of each task over a horizon; NaN where its model is not known.

    A task that comes again is solved once.
    """
    known: dict[int, float] = {}
    for task in tasks:
        if id(task) not in known:
            known[id(task)] = (
                optimal_return(task, horizon=steps, discounted=discounted)
                if isinstance(task, TabularMDP)
                else np.nan
            )
    return np.array([known[id(task)] for task in tasks])
