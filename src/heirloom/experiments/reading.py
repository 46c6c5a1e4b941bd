"""Reading a spec: defaults, sweeps, and messages for what is wrong with it."""

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Any

from pydantic import ValidationError

from heirloom.agents.algorithms import ALGORITHMS
from heirloom.errors import InvalidArgument
from heirloom.experiments.registry import MODULE_SEPARATOR, expectation
from heirloom.validation import shown

OPTIONS = {
    option: [name for name, model in ALGORITHMS.items() if option in model.model_fields]
    for any_model in ALGORITHMS.values()
    for option in any_model.model_fields
}
"""The algorithms that have an option, by the name of the option."""

KNOWLEDGE = ("d_max", "nearness")  # in generated names, these options appear without their key
EXAMPLE = "`heirloom show tight` prints a complete spec"


def with_defaults(agent: Any, defaults: dict[str, Any]) -> Any:
    """Add to an agent the defaults that its algorithm accepts and that it does not set itself."""
    if not isinstance(agent, dict):
        return agent
    algorithm = agent.get("algorithm")
    accepted = {key: value for key, value in defaults.items() if algorithm in OPTIONS[key]}
    return {**accepted, **agent}


def check_defaults(defaults: Any) -> None:
    """Raise `InvalidArgument` unless `defaults` is a table of options of algorithms."""
    if not isinstance(defaults, dict):
        raise InvalidArgument(
            f"defaults is {shown(defaults)}: expected a table [defaults] of options of agents"
        )
    for key in defaults:
        if key not in OPTIONS:
            raise InvalidArgument(
                f"defaults.{key} is not an option of any algorithm: the options are "
                f"{', '.join(OPTIONS)}"
            )


def expand_sweep(agent: Any, where: str) -> Iterator[Any]:
    """Yield one agent for each combination of the options that are given as lists."""
    if not isinstance(agent, dict):
        yield agent
        return
    for key in ("algorithm", "name"):
        if isinstance(agent.get(key), list):
            raise InvalidArgument(
                f"{where}.{key} is {shown(agent[key])}: expected one {key}; only options can be "
                f"swept, so write one [[agents]] table for each {key}"
            )
    for key, value in agent.items():
        if value == []:
            raise InvalidArgument(
                f"{where}.{key} is []: expected one or more values to sweep over; give some, or "
                "leave the key out"
            )
    if not isinstance(agent.get("algorithm"), str):
        yield {"name": "an agent", **agent}  # validation will report the algorithm, not the name
        return
    swept_keys = [key for key, value in agent.items() if isinstance(value, list)]
    for values in itertools.product(*(agent[key] for key in swept_keys)):
        chosen = dict(zip(swept_keys, values, strict=True))
        name = agent.get("name")
        if name is None or swept_keys:
            base = name or agent["algorithm"].rpartition(MODULE_SEPARATOR)[2]
            name = _agent_name(base, {**_prior_in_name(agent, name), **chosen})
        yield {**agent, **chosen, "name": name}


def _prior_in_name(agent: dict[str, Any], name: str | None) -> dict[str, Any]:
    """Return what a generated name contains even if it is not swept: LRMax(0.1)."""
    given = {key: agent[key] for key in KNOWLEDGE if agent.get(key) is not None}
    return given if name is None else {}


def _agent_name(base: str, options: dict[str, Any]) -> str:
    parts = []
    for key, value in options.items():
        text = ", ".join(map(str, leaves(value)))
        parts.append(text if key in KNOWLEDGE else f"{key}={text}")
    return f"{base}({', '.join(parts)})" if parts else base


def first_error(error: ValidationError, agent_numbers: Sequence[int], keys: set[str]) -> str:
    """Return a message for the first error of a spec, with its key as the user wrote it.

    Args:
        error: what pydantic found in the spec after sweeps were expanded.
        agent_numbers: for each expanded agent, the index of its table in the spec.
        keys: the keys of a spec; an unknown key is added to it.
    """
    # An unknown key comes first: it may be a misspelling, and the reason why another is missing.
    first = min(error.errors(), key=lambda details: details["type"] != "extra_forbidden")
    if first["type"] == "extra_forbidden":
        keys.add(str(first["loc"][-1]))
    key = ".".join(
        str(agent_numbers[part] + 1) if isinstance(part, int) else part
        for part in first["loc"]
        if isinstance(part, int) or part in keys  # other parts are names of types
    )
    if first["type"] == "too_short":
        return f"{key} is {shown(first['input'])}: expected one or more entries"
    if first["type"] == "extra_forbidden":
        return f"{key} is not a key of a spec: correct or remove it; {EXAMPLE}"
    if first["type"] == "missing":
        return f"{key} is missing: add it; {EXAMPLE}"
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "value_error":
        if not key or message.startswith("family"):
            return message
        at_option = re.match(r"\w+ is ", message)
        return f"{key}.{message}" if at_option else f"{key}: {message}"
    return f"{key} is {shown(first['input'])}: {expectation(message)}"


def option_error(error: ValidationError, algorithm: str) -> str:
    """Return a message for the first error in the options of an agent."""
    first = min(error.errors(), key=lambda details: details["type"] != "extra_forbidden")
    option = str(first["loc"][0])
    if first["type"] == "extra_forbidden":
        options = ", ".join(ALGORITHMS[algorithm].model_fields)
        return f"{option} is not an option of {algorithm}: its options are {options}"
    if first["type"] == "missing":
        visits = "the number of visits after which a pair is known"
        return f"{option} is missing: give {visits if option == 'n_known' else 'a value'}"
    return f"{option} is {shown(first['input'])}: {expectation(first['msg'])}"


def leaves(value: Any) -> Iterator[Any]:
    """Yield all values in nested lists and tables, or the value itself if it is neither."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for item in value:
            yield from leaves(item)
    else:
        yield value
