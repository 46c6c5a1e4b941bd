"""Conversion of a `TableAgent` between two tasks to a header and arrays, and back."""

from typing import TypeVar

import numpy as np

from heirloom.agents.agent_file import generator_state, rebuilt_uniforms
from heirloom.agents.tables import TableAgent
from heirloom.errors import InvalidArgument
from heirloom.storage.archive import Content, check, parsing, take
from heirloom.transfer import memory_file
from heirloom.transfer.memory import TaskMemory
from heirloom.validation import shown

A = TypeVar("A", bound=TableAgent)


def packed(agent: TableAgent) -> Content:
    """Return everything that an agent needs to continue with its next task."""
    kind, options = type(agent), agent.saved_options()
    try:
        kind.from_options(options, None)
    except TypeError as error:
        raise InvalidArgument(
            f"{kind.__name__} cannot be saved, because its options are not only numbers and arrays "
            f"({error}): create it anew instead; nothing was written"
        ) from error
    arrays = {f"option/{n}": v for n, v in options.items() if isinstance(v, np.ndarray)}
    scalars = {n: v for n, v in options.items() if not isinstance(v, np.ndarray)}
    header = {"algorithm": kind.__name__, "options": scalars}
    header["generator"] = generator_state(agent._uniforms)
    arrays |= {f"kept/{name}": array for name, array in agent.kept.items()}
    arrays |= {"table/Q": agent._table.Q, "drawn": agent._uniforms.unused}
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
        prefix = "option/"
        given = {n.removeprefix(prefix): arrays[n] for n in arrays if n.startswith(prefix)}
        agent = cls.from_options({**header["options"], **given}, memory)
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
    return agent
