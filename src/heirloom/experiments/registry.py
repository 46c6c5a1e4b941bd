"""What an experiment can name: families and algorithms, Heirloom's and one's own."""

import inspect
import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib import import_module
from typing import Any, get_type_hints

import numpy as np
from pydantic import TypeAdapter, ValidationError

from heirloom.agents.algorithm_options import TaskKnowledge
from heirloom.agents.algorithms import ALGORITHMS
from heirloom.agents.protocol import Agent
from heirloom.arrays import FloatArray
from heirloom.envs import inventory, paper_families, toy_text
from heirloom.envs.family import FamilyOptions, TaskFamily
from heirloom.errors import HeirloomError, InvalidArgument
from heirloom.mdp.tabular import TabularMDP, check_task

FAMILIES: dict[str, Callable[..., TaskFamily]] = {
    "tight": paper_families.Tight,
    "corridor": paper_families.Corridor,
    "maze": paper_families.Maze,
    "heat-map": paper_families.HeatMap,
    "t-shape": paper_families.TShape,
    "grid": paper_families.Grid,
    "garnet": paper_families.Garnet,
    "frozen-lakes": toy_text.frozen_lakes,
    "taxis": toy_text.taxis,
    "cliffs": toy_text.cliffs,
    "prices": inventory.prices,
    "seasons": inventory.seasons,
}

OWN = ":"
"""In the name of an algorithm or a family of one's own, `package.module:Name`."""


def is_user_defined(name: str) -> bool:
    """Whether a name stands for code that is not Heirloom's."""
    return OWN in name


def imported(kind: str, name: str) -> Callable[..., Any]:
    """What `package.module:Name` stands for; raises `InvalidArgument` if it is not there.

    This runs code that is not Heirloom's. Only what computes an experiment calls it.
    """
    module, _, attribute = name.partition(OWN)
    try:
        found = getattr(import_module(module), attribute)
    except Exception as error:  # whatever that code raises
        raise InvalidArgument(
            f"{kind} is {name!r}, which cannot be imported ({type(error).__name__}: {error}): it "
            "is package.module:Name, importable wherever jobs are computed"
        ) from error
    if not callable(found):
        raise InvalidArgument(f"{kind} is {name!r}, which is {found!r}: it must be callable")
    return found


def make_family(name: str, options: Mapping[str, Any]) -> TaskFamily:
    """The family of this name; raises `InvalidArgument` that names a bad option.

    A family is made once in a process for the same options, and again for others.
    """
    return _made(name, json.dumps(options, sort_keys=True))


@lru_cache(maxsize=16)
def _made(name: str, options: str) -> TaskFamily:
    given = json.loads(options)
    if is_user_defined(name):
        return _own_family(imported("family.name", name), given)
    return _family(name, given)


def _own_family(make: Callable[..., Any], options: dict[str, Any]) -> TaskFamily:
    check_arguments(make, options, "family")
    family = _called(make, options, "the family")
    return family if isinstance(family, TaskFamily) else OtherFamily(family)


class OtherFamily(TaskFamily):
    """An object with `gamma` and `draw` as a family; it may know as much as a `TaskFamily`."""

    def __init__(self, family: Any) -> None:
        for name in ("gamma", "draw"):
            if not hasattr(family, name):
                raise InvalidArgument(
                    f"the family {family!r} has no {name!r}: it has gamma, and draw(rng) that "
                    "returns a TabularMDP"
                )
        self.family, self.gamma = family, family.gamma
        self.p_min = getattr(family, "p_min", None)

    def draw(self, rng: np.random.Generator) -> TabularMDP:
        """A task at random."""
        task = self.family.draw(rng)
        check_task(task)
        return task

    @property
    def all_tasks(self) -> list[TabularMDP] | None:
        """All tasks, if the object lists them."""
        return getattr(self.family, "all_tasks", None)

    @property
    def d_max(self) -> FloatArray | None:
        """A prior that holds, if the object knows one."""
        return getattr(self.family, "d_max", None)

    @property
    def options(self) -> FamilyOptions:
        """What the object tells agents, or what one of its tasks does."""
        return getattr(self.family, "options", None) or super().options


def make_agent(
    algorithm: str, options: Mapping[str, Any], known: TaskKnowledge, seed: np.random.Generator
) -> Agent:
    """A fresh agent of an algorithm, Heirloom's or one's own."""
    if not is_user_defined(algorithm):
        return ALGORITHMS[algorithm].model_validate(options).make(known, seed)
    make = imported("algorithm", algorithm)
    told = {**known.options, "seed": seed}
    optional = ("reward_range", "terminating", "v_max")
    told = {key: told[key] for key in told if key not in optional or _takes(make, key)}
    for option in options:
        if option in known.options or option == "seed":
            raise InvalidArgument(f"{option} is given by the experiment: leave it out")
    model = getattr(make, "Options", None)
    if model is not None:
        options = _checked(model, options).model_dump()
    check_arguments(make, {**told, **options}, algorithm)
    return _called(make, {**told, **options}, algorithm)


def _called(make: Callable[..., Any], options: Mapping[str, Any], what: str) -> Any:
    """What code of one's own returns; what it raises becomes an `InvalidArgument`."""
    try:
        return make(**options)
    except HeirloomError:
        raise
    except Exception as error:  # whatever that code raises
        raise InvalidArgument(
            f"{what} could not be made ({type(error).__name__}: {error}): see to its constructor"
        ) from error


def _checked(model: Any, options: Mapping[str, Any]) -> Any:
    """Options of one's own algorithm, checked by its own pydantic model."""
    try:
        return model.model_validate(dict(options))
    except ValidationError as error:
        wrong = error.errors()[0]
        key = ".".join(map(str, wrong["loc"])) or "options"
        raise InvalidArgument(f"{key} is {wrong['input']!r}: {wrong['msg']}") from None


def _takes(make: Callable[..., Any], key: str) -> bool:
    return any(p.name == key or p.kind is p.VAR_KEYWORD for p in _parameters(make))


def _parameters(make: Callable[..., Any]) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(make).parameters.values())
    except (TypeError, ValueError):  # a builtin that does not tell
        return [inspect.Parameter("options", inspect.Parameter.VAR_KEYWORD)]


def check_arguments(make: Callable[..., Any], options: Mapping[str, Any], what: str) -> None:
    """Raise `InvalidArgument` unless a callable takes these keyword arguments, and no more."""
    parameters, name = _parameters(make), getattr(make, "__name__", repr(make))
    allowed = sorted(p.name for p in parameters if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL))
    for option in options:
        if not _takes(make, option):
            raise InvalidArgument(
                f"{what}.{option} is not an option of {name!r}: it has "
                f"{', '.join(allowed) or 'none'}"
            )
    for p in parameters:
        named = p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)
        if named and p.default is p.empty and p.name not in options:
            raise InvalidArgument(f"{what}.{p.name} is missing: {name!r} needs it")


def _family(name: str, options: dict[str, Any]) -> TaskFamily:
    make = FAMILIES.get(name)
    if make is None:
        raise InvalidArgument(
            f"family.name is {name!r}: the families are {', '.join(sorted(FAMILIES))}"
        )
    allowed = inspect.signature(make).parameters
    for option in options:
        if option not in allowed:
            raise InvalidArgument(
                f"family.{option} is not an option of {name!r}: it has "
                f"{', '.join(sorted(allowed)) or 'none'}"
            )
    missing = [p.name for p in allowed.values() if p.default is p.empty and p.name not in options]
    if missing:
        raise InvalidArgument(f"family.{missing[0]} is missing: {name!r} needs it")
    hints = get_type_hints(make.__init__ if inspect.isclass(make) else make)
    checked = {
        option: _checked_option(option, value, hints[option]) for option, value in options.items()
    }
    try:
        return make(**checked)
    except HeirloomError as error:
        raise InvalidArgument(f"family: {error}") from None


def _checked_option(option: str, value: Any, hint: Any) -> Any:
    """An option of the type that its hint says; raises `InvalidArgument` if it is not."""
    try:
        return TypeAdapter(hint).validate_python(_frozen(value), strict=True)
    except ValidationError as error:
        message = error.errors()[0]["msg"]
        raise InvalidArgument(
            f"family.{option} is {value!r}: {message[0].lower()}{message[1:]}"
        ) from None


def _frozen(value: Any) -> Any:
    return tuple(_frozen(one) for one in value) if isinstance(value, list) else value
