"""How a task is run: its length, its seed and its callbacks, checked against the agent."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from heirloom.agents.optimistic import OptimisticAgent
from heirloom.agents.protocol import Agent
from heirloom.errors import IncompatibleTasks, InvalidArgument
from heirloom.learning.naming import check_edges, check_names
from heirloom.learning.recorder import Recorder
from heirloom.mdp.from_arrays import rewards_of
from heirloom.mdp.tabular import TabularMDP
from heirloom.validation import LARGEST_SIZE, shown, whole_number
from heirloom.wording import size_of_task

if TYPE_CHECKING:
    import gymnasium as gym

Callback = Callable[[int, int], object]
"""Called as `callback(done, episodes)` with the number of episodes done and in total."""


@dataclass(frozen=True)
class Plan:
    """The length of a task, its seed, and its callbacks."""

    episodes: int
    max_steps: int | None
    seed: int | None
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
    ) -> "Plan":
        """Create a plan; raises if a number is not valid or the task does not fit the agent."""
        for name in ("n_states", "n_actions", "gamma"):
            if not hasattr(agent, name):
                raise InvalidArgument(
                    f"the agent {shown(agent)} has no attribute {name!r}: expected n_states, "
                    "n_actions and gamma of the tasks that it can learn"
                )
        for name in ("begin_task", "act", "observe", "end_task"):
            if not callable(getattr(agent, name, None)):
                raise InvalidArgument(
                    f"the agent {shown(agent)} has no method {name!r}: expected an agent, with the "
                    "methods begin_task, act, observe and end_task"
                )
        episodes = whole_number("episodes", episodes, most=LARGEST_SIZE)
        max_steps = None if max_steps is None else whole_number("max_steps", max_steps)
        seed = None if seed is None else whole_number("seed", seed, least=0, most=math.inf)
        _check_fit(agent, env, max_steps)
        return cls(episodes, max_steps, seed)


def _check_fit(agent: Agent, env: "TabularMDP | gym.Env[Any, Any]", max_steps: int | None) -> None:
    """Raise unless the agent can learn `env`: the same sizes, discount factor and rewards."""
    if isinstance(env, TabularMDP):
        sizes = env.n_states, env.n_actions
        if env.gamma != agent.gamma:
            raise IncompatibleTasks(
                f"gamma is {agent.gamma} for the agent and {env.gamma} for the task: use the same "
                "gamma for both"
            )
        if max_steps is None and not env.terminating:
            raise InvalidArgument("max_steps is None and the task never terminates: give max_steps")
        if isinstance(agent, OptimisticAgent):
            if env.terminating and not agent.setting.terminating:
                raise IncompatibleTasks(
                    "the task can terminate, but the agent has terminating=False: create it with "
                    "terminating=True"
                )
            rewards = rewards_of(env.transitions)[0]
            (lo, hi), least, most = agent.setting.reward_range, rewards.min(), rewards.max()
            if least < lo or most > hi:
                raise IncompatibleTasks(
                    f"the rewards of the task are from {least:g} to {most:g}, outside the agent's "
                    f"reward_range ({lo:g}, {hi:g}): create the agent with a range that contains "
                    "the rewards of all its tasks"
                )
    else:
        from heirloom.mdp.gymnasium import sizes_of

        sizes = sizes_of(env)
    if sizes != (agent.n_states, agent.n_actions):
        raise IncompatibleTasks(
            f"the task has {size_of_task(sizes[0], sizes[1])}, the agent {agent.n_states} and "
            f"{agent.n_actions}: all tasks of an agent must have the same size"
        )
    check_edges(agent, env)
    check_names(agent, env)
