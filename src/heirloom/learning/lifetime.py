"""One job of an experiment: an agent learns the tasks of a repetition one after the other."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from heirloom.agents.protocol import Agent
from heirloom.arrays import FloatArray, IntArray
from heirloom.errors import HeirloomError, InvalidArgument
from heirloom.learning.clock import learning_time
from heirloom.learning.episodes import run_episodes
from heirloom.learning.outcomes import begin
from heirloom.learning.plan import Plan, adopt_names
from heirloom.learning.recorder import Recorder
from heirloom.learning.recording import RecordChoice, Recording, encode
from heirloom.learning.streams import stream
from heirloom.mdp.tabular import TabularMDP
from heirloom.planning.solve import optimal_return
from heirloom.validation import shown

if TYPE_CHECKING:
    import gymnasium as gym

    Task = TabularMDP | gym.Env[Any, Any]


class Observer(ABC):
    """Measures an agent while it learns tasks, without any effect on what the agent does.

    Quantities of each task are appended to `measured`.
    """

    variables: ClassVar[dict[str, Any]]
    """The recorded variables, over agents, repetitions, tasks and possibly one more dimension."""
    own_dimension: ClassVar[dict[str, tuple[str, Callable[[TabularMDP], int]]]] = {}
    """Further dimensions by name: the meaning, and a function from a task to the size."""
    looks_at_updates = False
    """Whether `after_update` is called; without these calls, some agents run faster."""
    looks_at_episodes = False
    """Whether `after_episode` is called."""

    def __init__(self) -> None:
        self.measured: dict[str, list[Any]] = {name: [] for name in self.variables}

    def begin_task(self, agent: Any, task: Any) -> None:
        """Called after the agent has begun a task."""
        self.agent, self.task = agent, task
        self.begin()

    def after_update(self) -> None:  # noqa: B027 -- optional
        """Called after a pair became known and the agent has updated its bounds and values."""

    def after_episode(self, done: int) -> None:  # noqa: B027 -- optional
        """Called after each episode, with the number of episodes done in the task."""

    def end_task(self) -> None:
        """Called after the last episode, before the agent stores the task."""
        found = self.result()
        if not isinstance(found, dict) or found.keys() != self.variables.keys():
            raise InvalidArgument(
                f"result() of {type(self).__name__} returned {shown(found)}: expected a dictionary "
                f"with the keys {', '.join(self.variables)}"
            )
        for name, value in found.items():
            self.measured[name].append(value)

    @abstractmethod
    def begin(self) -> None:
        """Reset what is measured, at the beginning of a task."""

    @abstractmethod
    def result(self) -> dict[str, Any]:
        """Return the results of the task that ends, by the name of the variable."""


# The mean time of the last updates measures when learning was over, as in the paper's speed-up.
N_LATE_UPDATES = 50
N_LOOKS = 100  # at the clock in a task, if a job has a limit


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
    record: Mapping[int, RecordChoice] | None = None,
    masks: bool = False,
    limit: float | None = None,
) -> dict[str, np.ndarray]:
    """Let an agent learn the tasks one after the other.

    The name of the agent and the number of the repetition select the random streams of the tasks.
    `record` says what is recorded of each task, by its index; None if nothing is ever recorded.
    An agent that needs more than `limit` processor seconds is stopped: all its returns are NaN, and
    nothing is recorded. Compiling kernels does not count.

    Returns:
        `returns` and `discounted_returns` [task, episode]; `updates` [task], the number of updates
        of the model; `late_update` [task], the mean time step of the last 50 updates, NaN if there
        were no updates; with `record`, also `recording`, the bytes of a file of recordings.
    """
    n = len(tasks)
    returns, discounted = np.empty((n, episodes)), np.empty((n, episodes))
    updates, late = np.zeros(n, dtype=np.int64), np.full(n, np.nan)
    recordings: list[Recording] = []
    end = np.inf if limit is None else learning_time() + limit
    for k, task in enumerate(tasks):
        task_seed = int(stream(seed, "steps", name, repetition, k).integers(2**63))
        plan = Plan.checked(agent, task, episodes=episodes, max_steps=steps, seed=task_seed)
        plan = replace(plan, masks=masks)
        begin(agent, task, masks=masks)
        adopt_names(agent, task)
        if observer is not None:
            observer.begin_task(agent, task)
            plan = _observed(plan, observer)
        if record is not None and k in record:
            sizes = plan.n_states, plan.n_actions
            plan = replace(plan, recorder=Recorder(record[k], agent, task, sizes, episodes))
        if limit is not None:
            plan = replace(plan, callback=partial(_check_time, end), stride=1 + episodes // N_LOOKS)
        try:
            result = run_episodes(agent, task, plan)
        except _OutOfTime:
            returns[:], discounted[:], updates[:], late[:] = np.nan, np.nan, -1, np.nan
            recordings.clear()
            break
        if observer is not None:
            observer.end_task()
        adopt_names(agent, task)  # again, since the environment may have numbered new states
        agent.end_task()
        returns[k], discounted[k] = result.returns, result.discounted_returns
        updates[k], late[k] = result.update_steps.size, late_update(result.update_steps)
        if result.recording is not None:
            job = replace(result.recording, agent=name, repetition=repetition + 1)
            recordings.append(replace(job, task=k + 1))
    recorded = {} if record is None else {"recording": encode(recordings)}
    return recorded | {
        "returns": returns,
        "discounted_returns": discounted,
        "updates": updates,
        "late_update": late,
    }


class _OutOfTime(Exception):
    """A job has used up its processor seconds."""


def _check_time(end: float, *_: int) -> None:
    if learning_time() > end:
        raise _OutOfTime


@contextmanager
def naming_job(name: str, repetition: int) -> Iterator[None]:
    """Begin the message of an error of Heirloom with the agent and the repetition it is about."""
    try:
        yield
    except HeirloomError as error:
        first, *others = error.args or ("",)
        error.args = (f"agent {name!r}, repetition {repetition + 1}: {first}", *others)
        raise


def _observed(plan: Plan, observer: Observer) -> Plan:
    if observer.looks_at_episodes:
        plan = replace(plan, callback=lambda done, _: observer.after_episode(done), stride=1)
    if observer.looks_at_updates:
        plan = replace(plan, on_update=observer.after_update)
    return plan


def late_update(update_steps: IntArray) -> float:
    """Compute the mean time step of the last 50 updates; NaN if there were no updates."""
    return float(update_steps[-N_LATE_UPDATES:].mean()) if update_steps.size else np.nan


def optimal_returns(tasks: Sequence["Task"], steps: int, *, discounted: bool) -> FloatArray:
    """Compute the optimal expected return of each task in `steps` steps.

    It is NaN for a task that is not a `TabularMDP`. A task that occurs several times is solved
    once.
    """
    solved = {
        key: optimal_return(task, horizon=steps, discounted=discounted)
        if isinstance(task, TabularMDP)
        else np.nan
        for key, task in {id(task): task for task in tasks}.items()
    }
    return np.array([solved[id(task)] for task in tasks])
