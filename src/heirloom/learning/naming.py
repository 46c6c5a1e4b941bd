"""What people call states, actions and tasks, passed from tasks to the memory of an agent."""

import inspect
from datetime import date
from typing import TYPE_CHECKING, Any

from heirloom.agents.optimistic import OptimisticAgent
from heirloom.agents.protocol import Agent
from heirloom.errors import IncompatibleTasks, InvalidArgument
from heirloom.mdp.tabular import TabularMDP
from heirloom.naming import Names, checked_label
from heirloom.transfer.bins import Edges, same_edges

if TYPE_CHECKING:
    import gymnasium as gym


def adopt_names(agent: Agent, env: "TabularMDP | gym.Env[Any, Any]") -> None:
    """Give the memory of an agent the names of states and actions that its task has."""
    if not isinstance(agent, OptimisticAgent):
        return
    memory, names = agent.memory, _names_of(env)
    if not isinstance(env, TabularMDP):
        memory.edges = edges_of(env) or memory.edges
    # The names are valid: a task has checked them, or `read_names` has.
    memory.names = Names(names.states or memory.state_names, names.actions or memory.action_names)


def _names_of(env: "TabularMDP | gym.Env[Any, Any]") -> Names:
    if isinstance(env, TabularMDP):
        return Names(env.state_names, env.action_names)
    from heirloom.mdp.gymnasium import read_names

    return read_names(env)


def check_names(agent: Agent, env: "TabularMDP | gym.Env[Any, Any]") -> None:
    """Raise `IncompatibleTasks` if a state or action has another number than in earlier tasks.

    Tasks may have other names than earlier ones: only a name that has moved is an error.
    """
    if not isinstance(agent, OptimisticAgent):
        return
    for noun, before, now in zip(
        ("state", "action"), agent.memory.names, _names_of(env), strict=True
    ):
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


def edges_of(env: "gym.Env[Any, Any]") -> Edges | None:
    """Return the edges of the bins that are the states of an environment; None if there are none.

    Of several wrappers that make bins, the outermost one numbers the states.
    """
    import gymnasium as gym

    from heirloom.envs.binned import Binned

    while isinstance(env, gym.Wrapper) and not isinstance(env, Binned):
        env = env.env
    return env.edges if isinstance(env, Binned) else None


def check_edges(agent: Agent, env: "TabularMDP | gym.Env[Any, Any]") -> None:
    """Raise `IncompatibleTasks` if the states of an environment are other bins than the agent's."""
    if isinstance(env, TabularMDP) or not isinstance(agent, OptimisticAgent):
        return
    edges, known = edges_of(env), agent.memory.edges
    if edges is None or known is None or same_edges(edges, known):
        return
    raise IncompatibleTasks(
        f"the bins of {env} are not those that the agent has learned with: expected the same "
        "edges; use Binned(env, edges=agent.memory.edges), or another agent"
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
