"""Families and algorithms that a spec can name: built-in ones, and user-defined ones."""

import inspect
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from importlib import import_module
from typing import Any, cast, get_type_hints

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from heirloom.agents.algorithm_options import TaskKnowledge
from heirloom.agents.algorithms import ALGORITHMS
from heirloom.agents.protocol import Agent
from heirloom.envs import (
    icu_sepsis,
    inventory,
    maintenance,
    ordered,
    paper_families,
    perishables,
    queueing,
    toy_text,
)
from heirloom.envs.box import BoxFamily
from heirloom.envs.family import TaskFamily
from heirloom.errors import HeirloomError, InvalidArgument
from heirloom.experiments.mistakes import option_mistakes
from heirloom.mdp.tabular import TabularMDP, check_task
from heirloom.validation import one_of, shown
from heirloom.wording import counted, did_you_mean


def drift(*, of: str, options: dict[str, Any] | None = None) -> ordered.Drift:
    """The tasks of another family, with parameters that move from one end to the other.

    Args:
        of: the name of the family, whose parameters lie in intervals.
        options: the options of that family.
    """
    classes = {name: make for name, make in FAMILIES.items() if inspect.isclass(make)}
    boxes = [name for name, make in classes.items() if issubclass(make, BoxFamily)]
    one_of("of", of, boxes)  # the code of users is not imported to read a spec
    return ordered.Drift(cast(BoxFamily, make_family(of, options or {})))


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
    "machines": maintenance.Machines,
    "queues": queueing.Queues,
    "perishables": perishables.Perishables,
    "hospitals": icu_sepsis.Hospitals,
    "ferry": ordered.Ferry,
    "trap": ordered.Trap,
    "shortcut": ordered.Shortcut,
    "drift": drift,
}

MODULE_SEPARATOR = ":"
"""Marks the name of a user-defined algorithm or family, `package.module:Name`."""


def is_user_defined(name: str) -> bool:
    """Whether a name refers to a user-defined algorithm or family."""
    return MODULE_SEPARATOR in name


def import_callable(key: str, name: str) -> Callable[..., Any]:
    """Import `package.module:Name`; raise `InvalidArgument` if that fails.

    This executes user code, so it is called only to compute an experiment, never to read a spec or
    a stored run.
    """
    module, _, attribute = name.partition(MODULE_SEPARATOR)
    try:
        found = getattr(import_module(module), attribute)
    except (Exception, SystemExit) as error:  # user code may raise anything
        raise InvalidArgument(
            f"{key} is {shown(name)}, which cannot be imported ({type(error).__name__}: {error}): "
            "expected package.module:Name, importable wherever jobs are computed"
        ) from error
    if not callable(found):
        raise InvalidArgument(
            f"{key} is {shown(name)}, which is {shown(found)}: expected a class or a function"
        )
    return found


def make_family(name: str, options: Mapping[str, Any]) -> TaskFamily:
    """Make the family with this name; raise `InvalidArgument` for an unknown name or bad option.

    Calls with the same name and options return the same object: families are cached per process.
    """
    return _cached_family(name, json.dumps(options, sort_keys=True))


def family_of_table(table: Mapping[str, Any]) -> TaskFamily:
    """Return the family that the table of a spec describes: its name, and options."""
    return make_family(table["name"], {key: x for key, x in table.items() if key != "name"})


@lru_cache(maxsize=16)
def _cached_family(name: str, options_json: str) -> TaskFamily:
    options = json.loads(options_json)
    if is_user_defined(name):
        family = _call_user_code(import_callable("family.name", name), options, "the family")
        return family if isinstance(family, TaskFamily) else FamilyAdapter(family)
    make = FAMILIES.get(name)
    if make is None:
        raise InvalidArgument(
            f"family.name is {shown(name)}: expected one of {', '.join(sorted(FAMILIES))}, or "
            f"package.module:Name{did_you_mean(name, FAMILIES)}"
        )
    model = _family_model(name)
    try:
        given = model.model_validate_json(json.dumps(options), strict=True)
    except ValidationError as error:
        mistakes = option_mistakes(error, model, repr(name))
        raise InvalidArgument(*(f"family.{message}" for message in mistakes)) from None
    try:
        return make(**{option: getattr(given, option) for option in options})
    except HeirloomError as error:
        raise InvalidArgument(*(f"family: {message}" for message in error.args)) from None


def draw_sequence(family: Any, rng: np.random.Generator, n_tasks: int) -> list[Any]:
    """Return the tasks of a sequence, in the order of the family if it has a `sequence`.

    A family is any object with `draw`, or a function that draws a task.
    """
    if not hasattr(family, "sequence"):
        draw = getattr(family, "draw", family)
        return [draw(rng) for _ in range(n_tasks)]
    tasks = family.sequence(rng, n_tasks)
    is_list = isinstance(tasks, list | tuple)
    if not is_list or len(tasks) != n_tasks:
        raise InvalidArgument(
            f"sequence of {type(family).__name__} returned "
            f"{counted(len(tasks), 'task') if is_list else shown(tasks)}: expected a list of "
            f"{counted(n_tasks, 'task')}"
        )
    return list(tasks)


def _own_or_default(name: str) -> Any:
    """Return a property: an attribute of the adapted object, or else the one of `TaskFamily`."""

    def value(adapter: "FamilyAdapter") -> Any:
        own = getattr(adapter.family, name, None)
        return getattr(super(FamilyAdapter, adapter), name) if own is None else own

    return property(value)


class FamilyAdapter(TaskFamily):
    """Adapter that makes a `TaskFamily` of any object with `gamma` and `draw`.

    The object may also have the optional attributes of a `TaskFamily`.
    """

    def __init__(self, family: Any) -> None:
        for name in ("gamma", "draw"):
            if not hasattr(family, name):
                raise InvalidArgument(
                    f"the family {shown(family)} has no {name!r}: expected an object with gamma "
                    "and with draw(rng), which returns a TabularMDP"
                )
        self.family, self.gamma = family, family.gamma
        self.p_min = getattr(family, "p_min", None)

    def draw(self, rng: np.random.Generator) -> TabularMDP:
        """Draw a task at random."""
        task = self.family.draw(rng)
        check_task(task)
        return task

    def sequence(self, rng: np.random.Generator, n_tasks: int) -> list[TabularMDP]:
        """The object's own `sequence`, or else tasks that are drawn one by one."""
        return draw_sequence(self.family, rng, n_tasks)

    all_tasks, d_max, corners, nearness, options = map(
        _own_or_default, ("all_tasks", "d_max", "corners", "nearness", "options")
    )


def make_agent(
    algorithm: str, options: Mapping[str, Any], known: TaskKnowledge, seed: np.random.Generator
) -> Agent:
    """Make a new agent of a built-in or user-defined algorithm."""
    if not is_user_defined(algorithm):
        return ALGORITHMS[algorithm].make(options, known, seed)
    make = import_callable("algorithm", algorithm)
    given = {**known.options, "seed": seed}
    optional = ("reward_range", "terminating", "v_max")
    given = {key: given[key] for key in given if key not in optional or _accepts(make, key)}
    for option in options:
        if option in known.options or option == "seed":
            raise InvalidArgument(
                f"{option} is set by the experiment and is not an option of an agent: leave it out"
            )
    model = getattr(make, "Options", None)
    if model is not None:
        try:
            options = model.model_validate(dict(options)).model_dump()
        except ValidationError as error:
            raise InvalidArgument(*option_mistakes(error, model, model.__name__)) from None
    return _call_user_code(make, {**given, **options}, algorithm)


@contextmanager
def no_exit(code: str) -> Iterator[None]:
    """Raise `InvalidArgument` if code of the user, described by `code`, calls `sys.exit`."""
    try:
        yield
    except SystemExit as error:
        raise InvalidArgument(
            f"{code} called sys.exit({error.code!r}): let it raise an exception, or return"
        ) from error


def _call_user_code(make: Callable[..., Any], options: Mapping[str, Any], what: str) -> Any:
    """Call a user-defined callable; raise its exceptions as `InvalidArgument`."""
    try:
        return make(**options)
    except HeirloomError:
        raise
    except (Exception, SystemExit) as error:  # user code may raise anything
        raise InvalidArgument(
            f"{what} could not be created ({type(error).__name__}: {error}): correct its "
            "constructor or its options"
        ) from error


def _accepts(make: Callable[..., Any], key: str) -> bool:
    parameters = inspect.signature(make).parameters.values()
    return any(p.name == key or p.kind is p.VAR_KEYWORD for p in parameters)


@lru_cache
def _family_model(name: str) -> type[BaseModel]:
    """Return the pydantic model of the options of a built-in family, from its signature."""
    make = FAMILIES[name]
    hints = get_type_hints(make.__init__ if inspect.isclass(make) else make)
    fields: Any = {
        p.name: (hints[p.name], ... if p.default is p.empty else p.default)
        for p in inspect.signature(make).parameters.values()
    }
    return create_model(name, __config__=ConfigDict(extra="forbid"), **fields)
