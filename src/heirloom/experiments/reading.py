"""Reading a spec: defaults, sweeps, and what is wrong with it, in words."""

import itertools
import re
from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError

from heirloom.agents.algorithms import ALGORITHMS
from heirloom.errors import InvalidArgument
from heirloom.experiments.registry import OWN

OPTIONS = {
    option: [name for name, other in ALGORITHMS.items() if option in other.model_fields]
    for model in ALGORITHMS.values()
    for option in model.model_fields
}
"""By the name of an option: the algorithms that have it."""


def with_defaults(agent: Any, defaults: dict[str, Any]) -> Any:
    """An agent's own options before the defaults; those not meant for its algorithm are left."""
    if not isinstance(agent, dict):
        return agent
    algorithm = agent.get("algorithm")
    meant = {key: value for key, value in defaults.items() if algorithm in OPTIONS[key]}
    return {**meant, **agent}


def check_defaults(defaults: Any) -> None:
    """Raise `InvalidArgument` unless these are options of agents."""
    if not isinstance(defaults, dict):
        raise InvalidArgument("defaults is not a table: write [defaults]")
    for key in defaults:
        if key not in OPTIONS:
            raise InvalidArgument(
                f"defaults.{key} is not an option of agents: they are {', '.join(OPTIONS)}"
            )


def swept(agent: Any, where: str) -> Iterator[Any]:
    """One agent for each combination of options that are given as lists."""
    if not isinstance(agent, dict):
        yield agent
        return
    for key in ("algorithm", "name"):
        if isinstance(agent.get(key), list):
            raise InvalidArgument(f"{where}.{key} is a list: write an agent for each")
    for key, value in agent.items():
        if value == []:
            raise InvalidArgument(f"{where}.{key} is an empty list: a sweep has values")
    if not isinstance(agent.get("algorithm"), str):
        yield {"name": "an agent", **agent}  # to be refused for its algorithm
        return
    swept = [key for key, value in agent.items() if isinstance(value, list)]
    for values in itertools.product(*(agent[key] for key in swept)):
        chosen = dict(zip(swept, values, strict=True))
        name = agent.get("name")
        if name is None or swept:
            base = name or agent["algorithm"].rpartition(OWN)[2]
            name = _name(base, {**_prior(agent, name), **chosen})
        yield {**agent, **chosen, "name": name}


def _prior(agent: dict[str, Any], name: str | None) -> dict[str, Any]:
    """The prior is part of the paper's names, swept or not: LRMax(0.1)."""
    d_max = agent.get("d_max")
    return {"d_max": d_max} if name is None and d_max is not None else {}


def _name(base: str, options: dict[str, Any]) -> str:
    parts = [str(value) if key == "d_max" else f"{key}={value}" for key, value in options.items()]
    return f"{base}({', '.join(parts)})" if parts else base


def first_reason(error: ValidationError, agent_numbers: list[int], keys: set[str]) -> str:
    """The first thing that is wrong, with the key it stands at in what was given."""
    # A key that is not one is told first: another may be missing because of it.
    first = min(error.errors(), key=lambda one: one["type"] != "extra_forbidden")
    if first["type"] == "extra_forbidden":
        keys.add(str(first["loc"][-1]))
    key = ".".join(
        str(agent_numbers[part] + 1) if isinstance(part, int) else part
        for part in first["loc"]
        if isinstance(part, int) or part in keys  # other parts tell the kinds of a value apart
    )
    if first["type"] == "too_short":
        return f"{key} is {first['input']!r}: it must not be empty"
    if first["type"] == "extra_forbidden":
        return f"{key} is not a key of an experiment: heirloom show tight prints one"
    if first["type"] == "missing":
        return f"{key} is missing"
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "value_error":
        if not key or message.startswith("family"):
            return message
        at_option = re.match(r"\w+ is (?!missing|for )", message)
        return f"{key}.{message}" if at_option else f"{key}: {message}"
    return f"{key} is {first['input']!r}: {message[0].lower()}{message[1:]}"


def wrong_option(error: ValidationError) -> str:
    """The first option that is wrong, in words."""
    first = min(error.errors(), key=lambda one: one["type"] != "extra_forbidden")
    option = str(first["loc"][0])
    if first["type"] == "extra_forbidden":
        return f"{option} is not a key of an agent: heirloom show tight prints one"
    if first["type"] == "missing":
        reason = "after how many visits is a pair known?" if option == "n_known" else "give one"
        return f"{option} is missing: {reason}"
    message = first["msg"]
    return f"{option} is {first['input']!r}: {message[0].lower()}{message[1:]}"


def parts(value: Any) -> Iterator[Any]:
    """A value, or all values in lists and tables."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for one in value:
            yield from parts(one)
    else:
        yield value
