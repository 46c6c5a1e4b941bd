"""How a task is to be learned: its length and its seed, who is called, and whether it fits."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from heirloom.agents.optimistic import OptimisticAgent
from heirloom.agents.protocol import Agent
from heirloom.errors import IncompatibleTasks, InvalidArgument
from heirloom.mdp.tabular import TabularMDP
from heirloom.validation import whole_number

if TYPE_CHECKING:
    import gymnasium as gym

Callback = Callable[[int, int], object]
"""Called with the number of episodes done and of all episodes."""


@dataclass(frozen=True)
class Plan:
    """How long a task lasts, its seed, and who is called meanwhile."""

    episodes: int
    max_steps: int | None
    seed: int | None
    callback: Callback | None = None
    """Called after every `stride` episodes."""
    stride: int = 1
    on_update: Callable[[], object] | None = None
    """Called after every update of the agent."""

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
        """A plan with valid numbers; raises unless the task is one for the agent."""
        for name in ("n_states", "n_actions", "gamma"):
            if not hasattr(agent, name):
                raise InvalidArgument(
                    f"the agent {agent!r} has no {name!r}: an agent says which tasks it is for"
                )
        episodes = whole_number("episodes", episodes)
        max_steps = None if max_steps is None else whole_number("max_steps", max_steps)
        seed = None if seed is None else whole_number("seed", seed, least=0)
        _check_fit(agent, env, max_steps)
        return cls(episodes, max_steps, seed)


def _check_fit(agent: Agent, env: "TabularMDP | gym.Env[Any, Any]", max_steps: int | None) -> None:
    """Raise unless `env` is a task for this agent."""
    if isinstance(env, TabularMDP):
        sizes = env.n_states, env.n_actions
        if env.gamma != agent.gamma:
            raise IncompatibleTasks(
                f"gamma is {agent.gamma} for the agent and {env.gamma} for the task: make it one"
            )
        if max_steps is None and not env.terminating:
            raise InvalidArgument("max_steps is None and the task never terminates: give max_steps")
        if isinstance(agent, OptimisticAgent):
            if env.terminating and not agent.setting.terminating:
                raise IncompatibleTasks(
                    "the task terminates, and the agent was told that none does: "
                    "make it with terminating=True"
                )
            rewards = env.R if env.transitions.rewards is None else env.transitions.rewards
            (lo, hi), least, most = agent.setting.reward_range, rewards.min(), rewards.max()
            if least < lo or most > hi:
                raise IncompatibleTasks(
                    f"the task pays from {least:g} to {most:g}, outside of the agent's "
                    f"reward_range ({lo:g}, {hi:g}): give the agent the range of all its tasks"
                )
    else:
        from heirloom.mdp.gymnasium import sizes_of

        sizes = sizes_of(env)
    if sizes != (agent.n_states, agent.n_actions):
        raise IncompatibleTasks(
            f"the task has {sizes[0]} states and {sizes[1]} actions, the agent {agent.n_states} "
            f"and {agent.n_actions}: an agent faces tasks of one size"
        )
