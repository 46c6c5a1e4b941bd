"""Conversion of an `OptimisticAgent` to a header and arrays, and back.

The file of an agent contains everything that the file of its memory does; docs/files.md lists it.
"""

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

from heirloom.agents import task_file
from heirloom.agents.optimistic import OptimisticAgent
from heirloom.agents.refutation import Reactions
from heirloom.agents.task_file import SavedTask, divided, joined, read_declared
from heirloom.agents.uniforms import Uniforms
from heirloom.errors import InvalidArgument
from heirloom.storage.archive import Content, check, parsing, take
from heirloom.transfer import memory_file
from heirloom.transfer.borrowed import Groups, PooledVisits, Templates
from heirloom.transfer.bound import Bound, Constant, MaxQ
from heirloom.transfer.certified_sets import CertifiedSets
from heirloom.transfer.declared import as_options, from_options
from heirloom.transfer.envelope import Envelope
from heirloom.transfer.evidence import (
    Bonuses,
    ConfidenceSets,
    GrowingShare,
    NearBonuses,
)
from heirloom.transfer.lipschitz.bound import Lipschitz
from heirloom.transfer.memory import TaskMemory
from heirloom.transfer.nearness.bound import NearModels
from heirloom.transfer.posterior import NearPosterior, Posterior
from heirloom.transfer.value_distance import ValueDistance
from heirloom.validation import shown

BUILT_IN: dict[str, type[Bound]] = {
    kind.__name__: kind
    for kind in (
        *(Constant, Envelope, Lipschitz, MaxQ, NearModels, ValueDistance),
        *(Bonuses, ConfidenceSets, GrowingShare, NearBonuses),
        CertifiedSets,
        *(Groups, PooledVisits, Templates, NearPosterior, Posterior),
    )
}
"""Heirloom's bounds, which `load` rebuilds from their names in the file."""

GENERATORS = ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")
# Numpy does not check positions in buffers: a larger one would make it read beyond the buffer.
LARGEST = {"pos": 624, "buffer_pos": 4, "has_uint32": 1, "uinteger": 2**32 - 1}

A = TypeVar("A", bound=OptimisticAgent)


def packed(agent: OptimisticAgent) -> Content:
    """Return everything that an agent needs to continue."""
    state = generator_state(agent._uniforms)
    memory_header, arrays = memory_file.packed(agent.memory)
    arrays["drawn"] = agent._uniforms.unused
    bounds = []
    for i, bound in enumerate(agent.bounds):
        name, given = type(bound).__name__, _options(bound)
        scalars = None if given is None else divided(given, f"bound/{i}/", arrays)
        bounds.append({"name": name, "options": scalars, "user_defined": _is_user_defined(bound)})
    declared = divided(as_options(agent.declared), "declared/", arrays)
    header = {
        "memory": memory_header,
        "algorithm": type(agent).__name__,
        "options": dict(agent.options),
        "declared": declared,
        "bounds": bounds,
        "generator": state,
        **agent.refutation.reactions._asdict(),
        "rewards_seen": agent._rewards_seen,
        "task": None,
    }
    task = task_file.packed(agent)
    if task is not None:
        header["task"], of_task = task
        arrays |= of_task
    return Content(header, arrays)


def _is_user_defined(bound: Bound) -> bool:
    return type(bound) is not BUILT_IN.get(type(bound).__name__)


def _options(bound: Bound) -> dict[str, Any] | None:
    """Return the options to save with a bound; None if `load` must be given an instance.

    Raises `InvalidArgument` unless a file can contain them, and a user-defined bound can be rebuilt
    from them.
    """
    kind = type(bound)
    # Inherited options() would rebuild the bound without what the derived class adds.
    if _is_user_defined(bound) and "options" not in vars(kind):
        return None
    options = bound.options()
    if options is None:
        return None
    expected = "expected None, or a dictionary of numbers, strings, None or arrays of numbers"
    found = f"options of the bound {kind.__name__} returned"
    if not isinstance(options, dict) or not all(isinstance(key, str) for key in options):
        raise InvalidArgument(f"{found} {shown(options)}: {expected}")
    for key, value in options.items():
        is_numeric = isinstance(value, int | float | np.generic | np.ndarray)
        is_numeric = is_numeric and np.asarray(value).dtype.kind in "biuf"
        if not (is_numeric or value is None or isinstance(value, str)):
            raise InvalidArgument(f"{found} {shown(value)} for {key}: {expected}")
    if _is_user_defined(bound):
        try:
            kind(**options)
        except Exception as error:  # user code may raise anything
            raise InvalidArgument(
                f"the bound {kind.__name__} could not be loaded again ({error}): let options() "
                "return the arguments of its constructor, or None; nothing was written"
            ) from error
    return options


def unpacked(
    cls: type[A], content: Content, where: str, bounds: Sequence[Bound | type[Bound]] | None
) -> A:
    """Rebuild a packed agent; raises `InvalidFile` if the content is not valid."""
    header, arrays = content
    with parsing(where, "agent"):
        saved = [(each["name"], each["options"], each["user_defined"]) for each in header["bounds"]]
        names = [header["algorithm"], *(name for name, _, _ in saved)]
        check(all(isinstance(name, str) for name in names), "a class has no name")
    _check_class(cls, header["algorithm"], where)
    kinds = _with_classes(bounds, saved, where)
    memory = memory_file.unpacked(TaskMemory, content, where)
    with parsing(where, "agent"):
        given = [
            {} if options is None else joined(options, f"bound/{i}/", arrays)
            for i, (_, options, _) in enumerate(saved)
        ]
        declared = joined(header["declared"], "declared/", arrays)

        def make(cls: type[Any], given: list[dict[str, Any]]) -> Any:
            agent = object.__new__(cls)  # the constructors of RMax, ... would create new bounds
            rebuilt = [
                kind(**options) if isinstance(kind, type) else kind
                for kind, options in zip(kinds, given, strict=True)
            ]
            options = {**header["options"], **from_options(declared, memory)}
            OptimisticAgent.__init__(agent, bounds=rebuilt, memory=memory, **options)
            agent.declared = read_declared(agent, declared)
            for bound in agent.bounds:
                if isinstance(bound, CertifiedSets):
                    bound.declared = agent.declared
            return agent

        agent: A = make(cls, given)
        agent._uniforms = rebuilt_uniforms(content)
        agent.refutation.reactions = Reactions.read(header)
        agent._rewards_seen = None
        if header["rewards_seen"] is not None:
            low, high = header["rewards_seen"]
            agent._rewards_seen = float(low), float(high)
        if header["task"] is not None:
            saved_task = SavedTask.read(agent, content, where)

    def restore() -> None:
        with parsing(where, "agent"):
            before = [
                now if then is None else then
                for now, then in zip(given, saved_task.begun.bounds, strict=True)
            ]
            saved_task.restore(agent, make(OptimisticAgent, before), memory)

    if header["task"] is not None:
        agent._last = restore
        if saved_task.in_task:
            _ = agent.task
    return agent


def _check_class(cls: type[OptimisticAgent], saved: str, where: str) -> None:
    """Raise unless `cls.load` can load an agent of the class named `saved`."""
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


def _with_classes(
    given: Sequence[Bound | type[Bound]] | None, saved: list[tuple[Any, Any, Any]], where: str
) -> list[Any]:
    """Return an instance for each saved bound where one was given, or the class to rebuild."""
    names = [name for name, _, _ in saved]
    if given is None:
        found = [None if user_defined else BUILT_IN.get(name) for name, _, user_defined in saved]
    elif isinstance(given, list | tuple):
        found = list(given)
        given_names = [getattr(one, "__name__", type(one).__name__) for one in given]
        if given_names != names:
            raise InvalidArgument(
                f"bounds are {given_names}, but {where} was saved with {names}: give the same "
                "bounds in the same order"
            )
    else:
        raise InvalidArgument(
            f"bounds is {shown(given)}: expected None, or a list of bounds or their classes"
        )
    for bound, (name, options, _) in zip(found, saved, strict=True):
        if bound is None or (isinstance(bound, type) and options is None):
            raise InvalidArgument(
                f"{where} was saved with the user-defined bound {name}: load it with "
                "bounds=[...], which lists all bounds in order, each as a class that has "
                "`options`, or as an instance created as before"
            )
    return found


def generator_state(uniforms: Uniforms) -> Any:
    """Return the state of a generator; raise `InvalidArgument` unless it is one of numpy's."""
    state = uniforms.rng.bit_generator.state
    if state["bit_generator"] not in GENERATORS:
        raise InvalidArgument(
            f"the agent's generator is a {state['bit_generator']}: an agent can be saved only with "
            f"one of numpy's generators, {', '.join(GENERATORS)}"
        )
    return state


def rebuilt_uniforms(content: Content) -> Uniforms:
    """Return the random numbers of a saved agent."""
    drawn = take(content.arrays, "drawn", np.float64, (-1,)).copy()
    check(((drawn >= 0) & (drawn < 1)).all(), "the array 'drawn' has a number outside [0, 1)")
    return Uniforms(_generator(content.header["generator"]), drawn)


def _generator(saved: dict[str, Any]) -> np.random.Generator:
    name = saved["bit_generator"]
    check(name in GENERATORS, f"the generator is {name!r}, not one of {', '.join(GENERATORS)}")
    bits = getattr(np.random, name)(0)
    bits.state = _state(saved, bits.state, "generator")
    return np.random.Generator(bits)


def _state(saved: Any, example: Any, name: str) -> Any:
    """Return a saved state of a generator, with the keys, types and shapes of a valid `example`."""
    problem = f"{name!r} in the state of the generator is {shown(saved)}"
    if isinstance(example, dict):
        check(isinstance(saved, dict) and saved.keys() == example.keys(), problem)
        return {key: _state(saved[key], value, key) for key, value in example.items()}
    if isinstance(example, np.ndarray):
        array = np.array(saved, dtype=example.dtype)
        check(array.shape == example.shape, problem)
        return array
    is_valid = type(saved) is type(example)
    if isinstance(example, int):
        is_valid = is_valid and 0 <= saved <= LARGEST.get(name, 2**128 - 1)
    check(is_valid, problem)
    return saved
