"""An `OptimisticAgent` between two tasks as a file, and back.

The header has the memory's header under `memory`, the agent's `options`, its `bounds` as a list of
{"name", "options"}, and the state of its `generator`. Beside the memory's arrays there are `drawn`,
the numbers drawn from the generator and not yet used, and a `prior/i` for each bound with one.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from heirloom.agents.optimistic import OptimisticAgent
from heirloom.agents.uniforms import Uniforms
from heirloom.arrays import FloatArray
from heirloom.errors import InvalidArgument, InvalidFile
from heirloom.storage.archive import Content, parsing, take
from heirloom.transfer import memory_file
from heirloom.transfer.bound import Bound, Constant, MaxQ
from heirloom.transfer.lipschitz.bound import Lipschitz
from heirloom.transfer.memory import TaskMemory

GENERATORS = ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")
OPTIONS = ("gamma", "epsilon", "reward_range", "terminating", "v_max", "tol")

KNOWN: dict[str, type[Bound]] = {
    "Constant": Constant,
    "Lipschitz": Lipschitz,
    "MaxQ": MaxQ,
}
"""The bounds that are made again from a file without being named by whoever loads it."""

A = TypeVar("A", bound=OptimisticAgent)


class Described(NamedTuple):
    """A bound as a file describes it; `own` if it is not one of Heirloom's."""

    name: str
    options: dict[str, Any] | None
    own: bool


def packed(agent: OptimisticAgent) -> Content:
    """All that the agent needs to go on."""
    memory = memory_file.packed(agent.memory)
    arrays = {**memory.arrays, "drawn": agent.uniforms.left}
    bounds = []
    for i, bound in enumerate(agent.bounds):
        kind = type(bound)
        name, own = kind.__name__, kind is not KNOWN.get(kind.__name__)
        # The options of a class that it derives from would make another bound.
        given = None if own and "options" not in vars(kind) else bound.options()
        plain: dict[str, Any] = {}
        for key, value in (given or {}).items():
            if isinstance(value, np.ndarray):
                arrays[_array_name(i, key)] = value
            else:
                plain[key] = value.item() if isinstance(value, np.generic) else value
        options = None if given is None else plain
        bounds.append({"name": name, "options": options, **({"own": True} if own else {})})
    header = {
        "memory": memory.header,
        "algorithm": type(agent).__name__,
        "options": {
            "n_known": agent.n_known,
            **{name: getattr(agent.setting, name) for name in OPTIONS},
        },
        "bounds": bounds,
        "generator": _generator_state(agent.uniforms.rng),
    }
    return Content(header, arrays)


def unpacked(
    cls: type[A], content: Content, where: str, bounds: Sequence[Bound | type[Bound]] | None
) -> A:
    """The agent that was packed; raises `InvalidFile` unless it is a valid one."""
    header, arrays = content
    _check_class(cls, header.get("algorithm", cls.__name__), where)
    with parsing(where, "agent"):
        memory_header, described = header["memory"], _described(header["bounds"])
    memory = memory_file.unpacked(TaskMemory, Content(memory_header, arrays), where)
    made = _rebuilt(bounds, described, arrays, where)
    with parsing(where, "agent"):
        options = {name: header["options"][name] for name in ("n_known", *OPTIONS)}
        options["reward_range"] = tuple(options["reward_range"])
        options |= {"n_states": memory.n_states, "n_actions": memory.n_actions}
        agent = cls.__new__(cls)  # the constructors of RMax and others make bounds of their own
        OptimisticAgent.__init__(agent, bounds=made, memory=memory, seed=0, **options)
        rng = _generator(header["generator"])
        drawn = take(arrays, "drawn", np.float64, (-1,)).copy()
        if not ((drawn >= 0) & (drawn < 1)).all():
            raise InvalidFile("a number that was drawn is not in [0, 1)")
    agent.uniforms = Uniforms(rng, drawn)
    return agent


def _check_class(cls: type[OptimisticAgent], saved: Any, where: str) -> None:
    """Raise unless a class can be made from a file that an agent of the class `saved` wrote."""
    if not isinstance(saved, str):
        raise InvalidFile(f"{where} is not an agent: its algorithm is {saved!r}")
    if cls is not OptimisticAgent and saved != cls.__name__:
        raise InvalidArgument(
            f"{where} was saved by {saved}, not by {cls.__name__}: OptimisticAgent.load loads "
            "agents of all kinds"
        )
    if not cls.__init__.__module__.startswith("heirloom."):
        raise InvalidArgument(
            f"{cls.__name__} has a constructor of its own, which a file cannot call: load the "
            "agent with OptimisticAgent.load, and make yours with its memory"
        )


def _described(bounds: Any) -> list[Described]:
    described = [
        Described(entry["name"], entry["options"], entry.get("own", False)) for entry in bounds
    ]
    for one in described:
        if not isinstance(one.name, str) or not isinstance(one.own, bool):
            raise InvalidFile(f"a bound is described as {one}")
    return described


def _array_name(i: int, option: str) -> str:
    """The name of the array that is an option of the bound i; that of a prior is older."""
    return f"prior/{i}" if option == "d_max" else f"bound/{i}/{option}"


def _rebuilt(
    bounds: Sequence[Bound | type[Bound]] | None,
    described: list["Described"],
    arrays: dict[str, FloatArray],
    where: str,
) -> list[Bound]:
    """The bounds of an agent: those given, or made again from their options."""
    names = [one.name for one in described]
    given: Sequence[Bound | type[Bound] | None] = [None] * len(names) if bounds is None else bounds
    if bounds is not None:
        classes = [one if isinstance(one, type) else type(one) for one in bounds]
        if [one.__name__ for one in classes] != names:
            raise InvalidArgument(
                f"bounds are {[one.__name__ for one in classes]}, and {where} was saved with "
                f"{names}: give the same, in this order"
            )
    made = []
    for i, (one, (name, options, own)) in enumerate(zip(given, described, strict=True)):
        if one is not None and not isinstance(one, type):
            made.append(one)
            continue
        kind = one if one is not None else None if own else KNOWN.get(name)
        if kind is None or options is None:
            raise InvalidArgument(
                f"{where} was saved with a bound of your own, {name}: load it with bounds=[...], "
                "all of them in order, each made as it was, or its class if it has `options`"
            )
        with parsing(where, "agent"):
            made.append(_bound(i, kind, options, arrays))
    return made


def _bound(
    i: int, kind: type[Bound], options: dict[str, Any], arrays: dict[str, FloatArray]
) -> Bound:
    prefix = _array_name(i, "")
    of_bound = {
        name.removeprefix(prefix): a for name, a in arrays.items() if name.startswith(prefix)
    }
    if (prior := _array_name(i, "d_max")) in arrays:
        of_bound["d_max"] = arrays[prior]
    options = {**options, **of_bound}
    made = kind(**options)
    if set(made.options() or ()) != set(options):  # it would be saved with others
        raise InvalidFile(f"a bound has the options {sorted(options)}")
    return made


def _generator_state(rng: np.random.Generator) -> dict[str, Any]:
    state = rng.bit_generator.state
    if state["bit_generator"] not in GENERATORS:
        raise InvalidArgument(
            f"the agent's generator is a {state['bit_generator']}: an agent that is to be saved "
            f"needs one of numpy's own, {', '.join(GENERATORS)}"
        )
    return _plain(state)


def _plain(state: Any) -> Any:
    """The state of a generator in what JSON can say; arrays say their type."""
    if isinstance(state, dict):
        return {key: _plain(value) for key, value in state.items()}
    if isinstance(state, np.ndarray):
        return {"dtype": state.dtype.str, "values": state.tolist()}
    return state


def _generator(state: dict[str, Any]) -> np.random.Generator:
    name = state["bit_generator"]
    if name not in GENERATORS:
        raise InvalidFile(f"the generator is {name!r}")
    bits = getattr(np.random, name)(0)
    given = _with_arrays(state)
    _check_state(given, bits.state)
    bits.state = given
    return np.random.Generator(bits)


# Numpy takes places in buffers as they are, and would read beyond them.
LARGEST = {"pos": 624, "buffer_pos": 4, "has_uint32": 1, "uinteger": 2**32 - 1}


def _check_state(given: Any, example: Any, name: str = "generator") -> None:
    """Raise `InvalidFile` unless a state has the form of another one of its kind."""
    if isinstance(example, dict):
        if not isinstance(given, dict) or given.keys() != example.keys():
            raise InvalidFile(f"the state of the generator has no {name!r} as it should")
        for key, value in example.items():
            _check_state(given[key], value, key)
    elif isinstance(example, np.ndarray):
        if not isinstance(given, np.ndarray) or given.shape != example.shape:
            raise InvalidFile(f"{name!r} of the generator has another shape")
    elif type(given) is not type(example):
        raise InvalidFile(f"{name!r} of the generator is {given!r}")
    elif isinstance(example, int) and not 0 <= given <= LARGEST.get(name, 2**128 - 1):
        raise InvalidFile(f"{name!r} of the generator is {given!r}")


def _with_arrays(state: Any) -> Any:
    if not isinstance(state, dict):
        return state
    if "dtype" in state:
        if state["dtype"] not in ("<u4", "<u8"):
            raise InvalidFile(f"the state of the generator holds {state['dtype']!r}")
        return np.array(state["values"], dtype=state["dtype"])
    return {key: _with_arrays(value) for key, value in state.items()}
