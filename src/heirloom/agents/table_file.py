"""Conversion of a `TableAgent` to a header and arrays, and back."""

from typing import Any, TypeVar

import numpy as np

from heirloom.agents.agent_file import generator_state, rebuilt_uniforms
from heirloom.agents.tables import TableAgent
from heirloom.agents.task_file import divided, joined
from heirloom.errors import InvalidArgument
from heirloom.kernels.tables import POLICY
from heirloom.storage.archive import Content, check, parsing, take
from heirloom.transfer import memory_file
from heirloom.transfer.memory import TaskMemory
from heirloom.validation import shown, truth

CHANGING = (
    *("Q", "sums", "visits", "last", "learns", "clock", "lower", "upper", "weights"),
    *("gains", "uses", "episode", "path", "best_path"),
)
"""The arrays of a table that change within a task."""

A = TypeVar("A", bound=TableAgent)


def packed(agent: TableAgent) -> Content:
    """Return everything that an agent needs to continue."""
    kind, options = type(agent), agent.saved_options()
    try:
        kind.from_options(options, None)
    except TypeError as error:
        raise InvalidArgument(
            f"{kind.__name__} cannot be saved, because its options are not only numbers and arrays "
            f"({error}): create it anew instead; nothing was written"
        ) from error
    arrays = {"table/Q": agent._table.Q, "drawn": agent._uniforms.unused}
    header: dict[str, Any] = {"algorithm": kind.__name__, "in_task": agent.in_task}
    header["options"] = divided(options, "option/", arrays)
    header["generator"] = generator_state(agent._uniforms)
    arrays |= {f"kept/{name}": array for name, array in agent.kept.items()}
    if agent.in_task:
        for name in CHANGING:
            arrays[f"table/{name}"] = getattr(agent._table, name)
        arrays |= {"task/starts": agent.starts, "task/available": agent._begun_with}
        arrays |= {f"task/{name}": array for name, array in agent._counted().items()}
    memory = getattr(agent, "memory", None)
    if memory is not None:
        header["memory"], of_memory = memory_file.packed(memory)
        arrays |= of_memory
    return Content(header, arrays)


def unpacked(cls: type[A], content: Content, where: str) -> A:
    """Rebuild a packed agent; raises `InvalidFile` if the content is not valid."""
    header, arrays = content
    saved = header.get("algorithm")
    if saved != cls.__name__:
        raise InvalidArgument(
            f"{where} was saved by {shown(saved)}, not by {cls.__name__}: load it with the class "
            "that saved it"
        )
    memory = memory_file.unpacked(TaskMemory, content, where) if "memory" in header else None
    with parsing(where, "agent"):
        agent = cls.from_options(joined(header["options"], "option/", arrays), memory)
        agent._uniforms = rebuilt_uniforms(content)
        for name, array in agent.kept.items():
            is_policy = array.ndim > 1  # one row per earlier task
            shape = (-1, *array.shape[1:]) if is_policy else array.shape
            numbers = take(arrays, f"kept/{name}", array.dtype.str, shape).copy()
            is_valid = np.isfinite(numbers).all() and (not is_policy or numbers.min(initial=0) >= 0)
            is_valid = is_valid and (not is_policy or numbers.max(initial=0) < agent.n_actions)
            check(is_valid, f"the array {name!r} has a number that is not possible")
            agent.kept[name] = numbers
        Q = take(arrays, "table/Q", np.float64, (agent.n_states * agent.n_actions,)).copy()
        check((Q < np.inf).all(), "the array 'table/Q' has a number that is no value")
        agent._table = agent._new_table(Q)
        if truth("in_task", header["in_task"]):
            _restore_task(agent, arrays, Q)
    return agent


def _restore_task(agent: TableAgent, arrays: dict[str, np.ndarray], Q: np.ndarray) -> None:
    """Begin a task again, and restore what was learned in it; raise unless all of it is valid."""
    uniforms, shape = agent._uniforms, (agent.n_states, agent.n_actions)
    available = take(arrays, "task/available", np.bool_, Q.shape).reshape(shape)
    check((Q.reshape(shape) > -np.inf).any(axis=1).all(), "a state has no action")
    TableAgent.begin_task(agent, available=available)
    agent._count_again(joined({}, "task/", arrays))
    starts = take(arrays, "task/starts", np.int64, (agent.n_states,))
    check((starts >= 0).all(), "a number of episodes is negative")
    agent.starts = starts.copy()
    found = {}
    for name in CHANGING:
        begun = getattr(agent._table, name)
        array = take(arrays, f"table/{name}", begun.dtype.str, begun.shape)
        is_valid = not np.isnan(array).any() and (array < np.inf).all()
        is_count = begun.dtype.kind == "i" or name in ("weights", "uses")
        check(is_valid and not (is_count and (array < 0).any()), f"{name} has an invalid number")
        found[name] = array.copy()
    if found["episode"].size:  # compiled code uses it as an index
        policy = found["episode"][POLICY]
        check(policy in range(len(agent._table.policies) + 1), "an episode follows no policy")
    agent._table, agent._uniforms = agent._table._replace(**found), uniforms
