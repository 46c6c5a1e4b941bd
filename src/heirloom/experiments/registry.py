"""Which families and which algorithms an experiment can name."""

import inspect
from collections.abc import Callable
from typing import Any, get_type_hints

from pydantic import TypeAdapter, ValidationError

from heirloom.envs import inventory, paper_tasks, toy_text
from heirloom.envs.paper_tasks import TaskFamily
from heirloom.errors import HeirloomError, InvalidArgument

FAMILIES: dict[str, Callable[..., TaskFamily]] = {
    "tight": paper_tasks.Tight,
    "corridor": paper_tasks.Corridor,
    "maze": paper_tasks.Maze,
    "heat-map": paper_tasks.HeatMap,
    "t-shape": paper_tasks.TShape,
    "grid": paper_tasks.Grid,
    "garnet": paper_tasks.Garnet,
    "frozen-lakes": toy_text.frozen_lakes,
    "taxis": toy_text.taxis,
    "cliffs": toy_text.cliffs,
    "prices": inventory.prices,
    "seasons": inventory.seasons,
}

ALGORITHMS = {
    "RMax": "optimism alone",
    "LRMax": "Lipschitz RMax: with a prior d_max, or learning it from the first tasks",
    "MaxQInit": "the largest Q of all tasks, once enough were seen",
    "LRMaxQInit": "LRMax and MaxQInit at once",
    "QLearning": "Q-learning, without transfer and without promises",
    "BisimulationTransfer": "Q-learning from the values of states that behave alike",
}


def make_family(name: str, options: dict[str, Any]) -> TaskFamily:
    """The family of this name; raises `InvalidArgument` that names a bad option."""
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
    try:
        checked = {
            option: TypeAdapter(hints[option]).validate_python(_frozen(value), strict=True)
            for option, value in options.items()
        }
        return make(**checked)
    except ValidationError as error:
        wrong = error.errors()[0]
        option = next(name for name, value in options.items() if _is_of(wrong, value))
        message = wrong["msg"]
        raise InvalidArgument(
            f"family.{option} is {options[option]!r}: {message[0].lower()}{message[1:]}"
        ) from None
    except HeirloomError as error:
        raise InvalidArgument(f"family: {error}") from None


def _is_of(wrong: Any, value: Any) -> bool:
    """Whether it is this value that is wrong, or a part of it."""
    given = _frozen(value)
    return wrong["input"] == given or (isinstance(given, tuple) and wrong["input"] in given)


def _frozen(value: Any) -> Any:
    return tuple(_frozen(one) for one in value) if isinstance(value, list) else value
