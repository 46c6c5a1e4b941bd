"""Save an `OptimisticAgent` between two tasks to a file, and load it.

The header has the memory's header under `memory`, the class of the agent under `algorithm`, its
`options`, its `bounds` as a list of {"name", "options"}, and the state of its `generator`. A
user-defined bound is marked with {"own": true}. The arrays are those of the memory; `drawn`, the
numbers that were drawn from the generator and have not been used yet; and each option of a bound
that is an array: `prior/i` for the `d_max` of the bound i, `bound/i/option` for any other.
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
from heirloom.transfer.envelope import Envelope
from heirloom.transfer.lipschitz.bound import Lipschitz
from heirloom.transfer.memory import TaskMemory
from heirloom.transfer.nearness.bound import NearModels
from heirloom.validation import shown

GENERATORS = ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")
OPTIONS = ("gamma", "epsilon", "reward_range", "terminating", "v_max", "tol")
REFUTATION_OPTIONS = ("on_refutation", "exact", "refutation_delta", "explore")  # not in older files

BUILT_IN: dict[str, type[Bound]] = {
    "Constant": Constant,
    "Envelope": Envelope,
    "Lipschitz": Lipschitz,
    "MaxQ": MaxQ,
    "NearModels": NearModels,
}
"""Heirloom's bounds, which `load` rebuilds from their names in the file."""

A = TypeVar("A", bound=OptimisticAgent)


class SavedBound(NamedTuple):
    """The entry of a bound in the header of a file."""

    name: str
    """The name of its class."""
    options: dict[str, Any] | None
    """Its options apart from arrays; None if the bound cannot be rebuilt from options."""
    user_defined: bool


def packed(agent: OptimisticAgent) -> Content:
    """Return everything that an agent needs to continue with its next task."""
    memory = memory_file.packed(agent.memory)
    arrays = {**memory.arrays, "drawn": agent._uniforms.unused}
    bounds = []
    for i, bound in enumerate(agent.bounds):
        kind = type(bound)
        name = kind.__name__
        user_defined = kind is not BUILT_IN.get(name)
        # Inherited options() would rebuild the bound without what the derived class adds.
        given = None if user_defined and "options" not in vars(kind) else bound.options()
        _check_options(name, given)
        in_header: dict[str, Any] = {}
        for key, value in (given or {}).items():
            if isinstance(value, np.ndarray):
                arrays[_array_name(i, key)] = value
            else:
                in_header[key] = value.item() if isinstance(value, np.generic) else value
        options = None if given is None else in_header
        bounds.append({"name": name, "options": options, **({"own": True} if user_defined else {})})
    header = {
        "memory": memory.header,
        "algorithm": type(agent).__name__,
        "options": {
            "n_known": agent.n_known,
            **{name: getattr(agent.setting, name) for name in OPTIONS},
            **_refutation_options(agent),
        },
        "bounds": bounds,
        "generator": _generator_state(agent._uniforms.rng),
    }
    return Content(header, arrays)


def _check_options(name: str, options: object) -> None:
    """Raise `InvalidArgument` unless a file can hold the options of the bound `name`."""
    expected = "expected None, or a dictionary of numbers, strings, None or arrays of numbers"
    if options is None:
        return
    if not isinstance(options, dict) or not all(isinstance(key, str) for key in options):
        raise InvalidArgument(f"options of the bound {name} returned {shown(options)}: {expected}")
    for key, value in options.items():
        is_number = isinstance(
            value, bool | int | float | str | np.bool_ | np.integer | np.floating | None
        )
        is_array = isinstance(value, np.ndarray) and value.dtype.kind in "biuf"
        if not (is_number or is_array):
            raise InvalidArgument(
                f"options of the bound {name} returned {shown(value)} for {key}: {expected}"
            )


def unpacked(
    cls: type[A], content: Content, where: str, bounds: Sequence[Bound | type[Bound]] | None
) -> A:
    """Rebuild a packed agent; raises `InvalidFile` if the content is not valid."""
    header, arrays = content
    if bounds is not None and not isinstance(bounds, list | tuple):
        raise InvalidArgument(
            f"bounds is {shown(bounds)}: expected None, or a list of bounds or their classes"
        )
    _check_class(cls, header.get("algorithm", cls.__name__), where)
    with parsing(where, "agent"):
        memory_header, saved_bounds = header["memory"], _saved_bounds(header["bounds"])
    memory = memory_file.unpacked(TaskMemory, Content(memory_header, arrays), where)
    rebuilt = _rebuilt_bounds(bounds, saved_bounds, arrays, where)
    with parsing(where, "agent"):
        saved = header["options"]
        options = {name: saved[name] for name in ("n_known", *OPTIONS)}
        options |= {name: saved[name] for name in REFUTATION_OPTIONS if name in saved}
        options["reward_range"] = tuple(options["reward_range"])
        options |= {"n_states": memory.n_states, "n_actions": memory.n_actions}
        agent = cls.__new__(cls)  # the constructors of RMax, LRMax, ... would create new bounds
        OptimisticAgent.__init__(agent, bounds=rebuilt, memory=memory, seed=0, **options)
        rng = _generator(header["generator"])
        drawn = take(arrays, "drawn", np.float64, (-1,)).copy()
        if not ((drawn >= 0) & (drawn < 1)).all():
            raise InvalidFile("the array 'drawn' has a number outside [0, 1)")
        agent.refutation.warned = _truth(saved.get("warned", False))
    agent._uniforms = Uniforms(rng, drawn)
    return agent


def check_saved(content: Content, bounds: Sequence[Bound]) -> None:
    """Raise an error unless `load` could rebuild an agent with these bounds from its file.

    Built-in bounds, and user-defined ones that define `options`, are built anew; the others are
    given to `load` as instances.
    """
    classes = {
        i for i, saved in enumerate(content.header["bounds"]) if saved["options"] is not None
    }
    given = [type(bound) if i in classes else bound for i, bound in enumerate(bounds)]
    unpacked(OptimisticAgent, content, "the file", given)


def _refutation_options(agent: OptimisticAgent) -> dict[str, Any]:
    """Return how an agent compares tasks with its knowledge, and whether it has warned."""
    refutation = agent.refutation
    return {
        "on_refutation": refutation.reaction,
        "exact": refutation.accuracy.exact,
        "refutation_delta": refutation.accuracy.delta,
        "explore": agent.explore,
        "warned": refutation.warned,
    }


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise InvalidFile(f"'warned' is {value!r}, not true or false")
    return value


def _check_class(cls: type[OptimisticAgent], saved: Any, where: str) -> None:
    """Raise unless `cls.load` can load an agent of the class named `saved`."""
    if not isinstance(saved, str):
        raise InvalidFile(
            f"{where} does not hold a valid agent: its algorithm is {saved!r}, not a name"
        )
    if cls is not OptimisticAgent and saved != cls.__name__:
        raise InvalidArgument(
            f"{where} was saved by {saved}, not by {cls.__name__}: use OptimisticAgent.load, "
            "which loads agents of every class"
        )
    if not cls.__init__.__module__.startswith("heirloom."):
        raise InvalidArgument(
            f"{cls.__name__} defines its own constructor, whose arguments are not in the file: "
            f"load the agent with OptimisticAgent.load, then create a {cls.__name__} with its "
            "memory"
        )


def _saved_bounds(entries: Any) -> list[SavedBound]:
    saved_bounds = [
        SavedBound(entry["name"], entry["options"], entry.get("own", False)) for entry in entries
    ]
    for saved in saved_bounds:
        if not isinstance(saved.name, str) or not isinstance(saved.user_defined, bool):
            raise InvalidFile(f"{saved} does not describe a bound")
    return saved_bounds


def _array_name(i: int, option: str) -> str:
    """Name of the array that stores an option of the bound i; that of `d_max` is `prior/i`."""
    return f"prior/{i}" if option == "d_max" else f"bound/{i}/{option}"


def _rebuilt_bounds(
    bounds: Sequence[Bound | type[Bound]] | None,
    saved_bounds: list[SavedBound],
    arrays: dict[str, FloatArray],
    where: str,
) -> list[Bound]:
    """The bounds of an agent: the instances given in `bounds`, the others built from options."""
    names = [saved.name for saved in saved_bounds]
    given: Sequence[Bound | type[Bound] | None] = [None] * len(names) if bounds is None else bounds
    if bounds is not None:
        classes = [bound if isinstance(bound, type) else type(bound) for bound in bounds]
        given_names = [kind.__name__ for kind in classes]
        if given_names != names:
            raise InvalidArgument(
                f"bounds are {given_names}, but {where} was saved with {names}: give the same "
                "bounds in the same order"
            )
    rebuilt = []
    for i, (bound, saved) in enumerate(zip(given, saved_bounds, strict=True)):
        if bound is not None and not isinstance(bound, type):
            rebuilt.append(bound)
            continue
        kind = bound
        if kind is None and not saved.user_defined:
            kind = BUILT_IN.get(saved.name)
        if kind is None or saved.options is None:
            raise InvalidArgument(
                f"{where} was saved with the user-defined bound {saved.name}: load it with "
                "bounds=[...], which lists all bounds in order, each as a class that has "
                "`options`, or as an instance created as before"
            )
        with parsing(where, "agent"):
            rebuilt.append(_bound(i, kind, saved.options, arrays))
    return rebuilt


def _bound(
    i: int, kind: type[Bound], options: dict[str, Any], arrays: dict[str, FloatArray]
) -> Bound:
    """Build the bound i from its saved options."""
    prefix = _array_name(i, "")
    array_options = {
        name.removeprefix(prefix): a for name, a in arrays.items() if name.startswith(prefix)
    }
    if (prior := _array_name(i, "d_max")) in arrays:
        array_options["d_max"] = arrays[prior]
    options = {**options, **array_options}
    bound = kind(**options)
    if set(bound.options() or ()) != set(options):
        raise InvalidFile(
            f"bound {i} has the options {sorted(options)}, which {kind.__name__} does not save"
        )
    return bound


def _generator_state(rng: np.random.Generator) -> dict[str, Any]:
    state = rng.bit_generator.state
    if state["bit_generator"] not in GENERATORS:
        raise InvalidArgument(
            f"the agent's generator is a {state['bit_generator']}: an agent can be saved only with "
            f"one of numpy's generators, {', '.join(GENERATORS)}"
        )
    return _to_json(state)


def _to_json(state: Any) -> Any:
    """Convert the state of a generator to JSON types; an array becomes its dtype and values."""
    if isinstance(state, dict):
        return {key: _to_json(value) for key, value in state.items()}
    if isinstance(state, np.ndarray):
        return {"dtype": state.dtype.str, "values": state.tolist()}
    return state


def _generator(saved: dict[str, Any]) -> np.random.Generator:
    name = saved["bit_generator"]
    if name not in GENERATORS:
        raise InvalidFile(f"the generator is {name!r}, not one of {', '.join(GENERATORS)}")
    bits = getattr(np.random, name)(0)
    state = _from_json(saved)
    _check_state(state, bits.state)
    bits.state = state
    return np.random.Generator(bits)


# Numpy does not check positions in buffers: a larger one would make it read beyond the buffer.
LARGEST = {"pos": 624, "buffer_pos": 4, "has_uint32": 1, "uinteger": 2**32 - 1}


def _check_state(state: Any, example: Any, name: str = "generator") -> None:
    """Raise `InvalidFile` unless `state` has the keys, types and shapes of a valid `example`."""
    if isinstance(example, dict):
        if not isinstance(state, dict) or state.keys() != example.keys():
            raise InvalidFile(
                f"{name!r} in the state of the generator does not have the keys {sorted(example)}"
            )
        for key, value in example.items():
            _check_state(state[key], value, key)
    elif isinstance(example, np.ndarray):
        if not isinstance(state, np.ndarray) or state.shape != example.shape:
            raise InvalidFile(
                f"{name!r} in the state of the generator is not an array of shape {example.shape}"
            )
    elif type(state) is not type(example):
        raise InvalidFile(f"{name!r} in the state of the generator is {state!r}")
    elif isinstance(example, int) and not 0 <= state <= LARGEST.get(name, 2**128 - 1):
        raise InvalidFile(f"{name!r} in the state of the generator is {state!r}: out of range")


def _from_json(state: Any) -> Any:
    if not isinstance(state, dict):
        return state
    if "dtype" in state:
        if state["dtype"] not in ("<u4", "<u8"):
            raise InvalidFile(f"the state of the generator has an array of {state['dtype']!r}")
        return np.array(state["values"], dtype=state["dtype"])
    return {key: _from_json(value) for key, value in state.items()}
