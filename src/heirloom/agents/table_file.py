"""Conversion of a `TableAgent` between two tasks to a header and arrays, and back."""

from typing import Any, TypeVar

import numpy as np

from heirloom.agents.agent_file import generator_state, rebuilt_uniforms
from heirloom.agents.tables import TableAgent
from heirloom.errors import InvalidArgument
from heirloom.storage.archive import Content, check, parsing, take
from heirloom.transfer import memory_file
from heirloom.transfer.memory import TaskMemory

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
    with parsing(where, "agent"):
        name, memory = header["algorithm"], None
        check(isinstance(name, str), "the algorithm has no name")
        options: dict[str, Any] = {**header["options"]}
    kind = _class_of(cls, name, where)
    if "memory" in header:
        memory = memory_file.unpacked(TaskMemory, content, where)
    with parsing(where, "agent"):
        given = [n.removeprefix("option/") for n in arrays if n.startswith("option/")]
        options |= {n: arrays[f"option/{n}"] for n in given}
        agent = kind.from_options(options, memory)
        agent._uniforms = rebuilt_uniforms(content)
        for key, array in agent.kept.items():
            # The number of policies is that of earlier tasks.
            shape = (-1, *array.shape[1:]) if array.ndim > 1 else array.shape
            agent.kept[key] = take(arrays, f"kept/{key}", array.dtype.str, shape).copy()
            _check_numbers(key, agent.kept[key], agent.n_actions if array.ndim > 1 else None)
        Q = take(arrays, "table/Q", np.float64, (agent.n_states * agent.n_actions,)).copy()
        check((Q < np.inf).all(), "the array 'Q' has a number that is no value")
        agent._table = agent._new_table(Q)
    return agent


def _check_numbers(name: str, array: np.ndarray, below: int | None) -> None:
    """Raise `InvalidFile` unless numbers are finite, and whole ones from 0 on and `below` this."""
    is_valid = np.isfinite(array).all()
    if array.dtype.kind == "i":
        is_valid &= (array >= 0).all() and (below is None or (array < below).all())
    check(is_valid, f"the array {name!r} has a number that is not possible")


def _class_of(cls: type[A], name: str, where: str) -> type[A]:
    """Return the class of an agent that was saved, `cls` or one that is derived from it."""
    from heirloom.agents.algorithms import ALGORITHMS

    kind = cls if cls.__name__ == name else getattr(ALGORITHMS.get(name), "create", None)
    if not (isinstance(kind, type) and issubclass(kind, cls)):
        raise InvalidArgument(
            f"{where} was saved by {name}, not by {cls.__name__}: load it with the class that "
            "saved it"
        )
    return kind
