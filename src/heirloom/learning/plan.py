"""How a task is run: its length, seed, callbacks and names, checked against the agent."""

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any

from heirloom.agents.fixed_policy import FixedPolicy
from heirloom.agents.protocol import Agent, memory_of
from heirloom.errors import IncompatibleTasks, InvalidArgument
from heirloom.learning.recorder import Recorder, exact_task_of, names_of
from heirloom.mdp.from_arrays import rewards_of
from heirloom.mdp.tabular import TabularMDP
from heirloom.naming import Names, checked_label
from heirloom.transfer.bins import contains, same_edges
from heirloom.transfer.setting import Setting
from heirloom.validation import LARGEST_SIZE, shown, whole_number
from heirloom.wording import size_of_task

if TYPE_CHECKING:
    import gymnasium as gym

    from heirloom.transfer.bins import Edges, Numbers

Callback = Callable[[int, int], object]
"""Called as `callback(done, episodes)` with the number of episodes done and in total."""


@dataclass(frozen=True)
class Plan:
    """The length of a task, its seed, and its callbacks."""

    episodes: int
    max_steps: int | None
    seed: int | None
    n_states: int
    n_actions: int
    gamma: float
    """The discount factor of the task or else of the agent; NaN if neither has one."""
    callback: Callback | None = None
    """Called after every `stride` episodes, and after the last one."""
    stride: int = 1
    on_update: Callable[[], object] | None = None
    """Called after every update of the agent."""
    masks: bool = False
    """Whether the agent obeys the masks of an environment."""
    recorder: Recorder | None = None
    """Records chosen episodes; None for none."""

    @classmethod
    def checked(
        cls,
        agent: Agent,
        env: "TabularMDP | gym.Env[Any, Any]",
        *,
        episodes: int,
        max_steps: int | None,
        seed: int | None,
        least: int = 1,
    ) -> "Plan":
        """Create a plan; raises if a number is not valid or the task does not fit the agent."""
        check_agent(agent)
        episodes = whole_number("episodes", episodes, least=least, most=LARGEST_SIZE)
        max_steps = None if max_steps is None else whole_number("max_steps", max_steps)
        seed = None if seed is None else whole_number("seed", seed, least=0, most=math.inf)
        return cls(episodes, max_steps, seed, *_check_fit(agent, env, max_steps))


def check_agent(agent: Agent) -> None:
    """Raise `InvalidArgument` unless an object has the methods of an agent."""
    for name in ("begin_task", "act", "observe", "end_task"):
        if not callable(getattr(agent, name, None)):
            raise InvalidArgument(
                f"the agent {shown(agent)} has no method {name!r}: expected an agent, with the "
                "methods begin_task, act, observe and end_task"
            )


def sizes_of_task(env: "TabularMDP | gym.Env[Any, Any]", name: str = "env") -> tuple[int, int]:
    """Return the numbers of states and actions of a task or environment, `name` in messages."""
    if isinstance(env, TabularMDP):
        return env.n_states, env.n_actions
    from heirloom.mdp.gymnasium import sizes_of

    return sizes_of(env, name)


def _check_fit(
    agent: Agent, env: "TabularMDP | gym.Env[Any, Any]", max_steps: int | None
) -> tuple[int, int, float]:
    """Return the numbers of states and actions and the discount factor of a task.

    Raises unless the agent can learn it: the sizes, the discount factor and the rewards must be
    those of the agent, as far as it has these attributes, and episodes must have a time limit.
    """
    sizes, gamma = sizes_of_task(env), getattr(agent, "gamma", math.nan)
    if isinstance(env, TabularMDP):
        gamma = env.gamma
        if getattr(agent, "gamma", gamma) != gamma:
            raise IncompatibleTasks(
                f"gamma is {agent.gamma} for the agent and {env.gamma} for the task: use the same "  # type: ignore[attr-defined]
                "gamma for both"
            )
        setting = getattr(agent, "setting", None)
        if isinstance(setting, Setting):
            if env.terminating and not setting.terminating:
                raise IncompatibleTasks(
                    "the task can terminate, but the agent has terminating=False: create it with "
                    "terminating=True"
                )
            rewards = rewards_of(env.transitions)[0]
            (lo, hi), least, most = setting.reward_range, rewards.min(), rewards.max()
            if least < lo or most > hi:
                raise IncompatibleTasks(
                    f"the rewards of the task are from {least:g} to {most:g}, outside the agent's "
                    f"reward_range ({lo:g}, {hi:g}): create the agent with a range that contains "
                    "the rewards of all its tasks"
                )
    of_agent = tuple(
        getattr(agent, name, size)
        for name, size in zip(("n_states", "n_actions"), sizes, strict=True)
    )
    if of_agent != sizes:
        raise IncompatibleTasks(
            f"the task has {size_of_task(*sizes)}, the agent {of_agent[0]} and {of_agent[1]}: all "
            "tasks of an agent must have the same size"
        )
    check_numbering(agent, env)
    check_names(agent, env)
    if isinstance(agent, FixedPolicy):
        agent.check_fit(*sizes, names_of(env))
    if max_steps is None:
        _check_time_limit(env)
    return *sizes, gamma


def _check_time_limit(env: "TabularMDP | gym.Env[Any, Any]") -> None:
    """Raise `InvalidArgument` if nothing is known to end the episodes of a task.

    What may end them is a transition of an exact task that terminates, or a time limit that an
    environment declares: the wrapper `TimeLimit`, or `max_episode_steps` in its `spec`.
    """
    task = exact_task_of(env)
    if task is not None and task.terminating:
        return
    if isinstance(env, TabularMDP):
        raise InvalidArgument("max_steps is None and the task never terminates: give max_steps")
    from heirloom.mdp.gymnasium import has_time_limit

    if not has_time_limit(env):
        raise InvalidArgument(
            f"max_steps is None and {env} declares no time limit (a wrapper TimeLimit, or "
            "max_episode_steps in its spec), so an episode might never end: give max_steps"
        )


def adopt_names(agent: Agent, env: "TabularMDP | gym.Env[Any, Any]") -> None:
    """Give the memory of an agent the names of states and actions that its task has."""
    memory, names = memory_of(agent), names_of(env)
    if memory is None:
        return
    if not isinstance(env, TabularMDP):
        edges, numbers = _numbering_of(env)
        memory.edges = edges or memory.edges
        memory.numbers = memory.numbers if numbers is None else numbers  # these grow with the env's
    # The names are valid: a task has checked them, or `read_names` has.
    memory.names = Names(names.states or memory.state_names, names.actions or memory.action_names)


def check_names(agent: Agent, env: "TabularMDP | gym.Env[Any, Any]") -> None:
    """Raise `IncompatibleTasks` if a state or action has another number than in earlier tasks.

    Tasks may have other names than earlier ones: only a name that has moved is an error.
    """
    memory = memory_of(agent)
    if memory is None:
        return
    for noun, before, now in zip(("state", "action"), memory.names, names_of(env), strict=True):
        if before is None or now is None or before == now:
            continue
        numbers = {name: i for i, name in enumerate(before)}
        for i, name in enumerate(now):
            if numbers.get(name, i) != i:
                raise IncompatibleTasks(
                    f"the {noun} {name!r} has the number {i} in this task and {numbers[name]} in "
                    f"earlier tasks: all tasks of an agent must number their {noun}s in the same "
                    "order"
                )


def _numbering_of(env: "gym.Env[Any, Any]") -> "tuple[Edges | None, Numbers | None]":
    """Return what numbers the states of an environment: edges of bins, or numbers in a list.

    Of several wrappers that make bins, the outermost one numbers the states.
    """
    import gymnasium as gym

    from heirloom.wrappers import Binned, Numbered

    edges, numbers = None, None
    while isinstance(env, gym.Wrapper):
        if isinstance(env, Binned) and edges is None:
            edges = env.edges
        if isinstance(env, Numbered) and env.as_seen and numbers is None:
            numbers = env.numbers
        env = env.env
    return edges, numbers


def check_numbering(agent: Agent, env: "TabularMDP | gym.Env[Any, Any]") -> None:
    """Raise `IncompatibleTasks` if an environment numbers states differently than earlier ones."""
    memory = memory_of(agent)
    if isinstance(env, TabularMDP) or memory is None:
        return
    edges, numbers = _numbering_of(env)
    if edges is not None and memory.edges is not None and not same_edges(edges, memory.edges):
        raise IncompatibleTasks(
            f"the bins of {env} are not those that the agent has learned with: expected the same "
            "edges; use Binned(env, edges=agent.memory.edges), or another agent"
        )
    if numbers is not None and memory.numbers and not contains(numbers, memory.numbers):
        raise IncompatibleTasks(
            f"{env} does not number observations as the agent's earlier tasks did, so that states "
            "would be mixed up: let all environments share their numbers, with Numbered(env, ..., "
            "numbers=agent.memory.numbers), or use another agent"
        )


def checked_texts(agent: Agent, label: str | None, time: str | date | None) -> dict[str, Any]:
    """Return the arguments of `end_task` that label a task; none if there is no label or time.

    Raises `InvalidArgument` if the agent cannot store them.
    """
    given = {"label": checked_label("label", label), "time": checked_label("time", time)}
    given = {name: text for name, text in given.items() if text}
    if given:
        try:
            inspect.signature(agent.end_task).bind(**given)
        except (AttributeError, TypeError):
            raise InvalidArgument(
                f"{next(iter(given))} was given, but end_task() of {type(agent).__name__} takes "
                "none: leave it out, or use an agent with a memory"
            ) from None
    return given
