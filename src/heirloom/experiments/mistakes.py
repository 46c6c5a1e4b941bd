"""Messages for the mistakes in a spec: what was found, what is allowed, and the closest name.

Pydantic finds the mistakes; what is allowed is described from the JSON schema of each key.
"""

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, get_args

from pydantic import BaseModel, TypeAdapter, ValidationError

from heirloom.errors import InvalidArgument
from heirloom.naming import shortened
from heirloom.validation import shown
from heirloom.wording import did_you_mean

EXAMPLE = "`heirloom show tight` prints a complete spec"
REMEDY = {"n_known": "give the number of visits after which a pair is known"}

QUOTED = re.compile(r"'([^']+)'")
PLURALS = {"a whole number": "whole numbers", "a number": "numbers", "a string": "strings"}


class Mistakes(ValueError):
    """Several mistakes, one per line: pydantic passes on only one message."""

    def __init__(self, messages: Iterable[str]) -> None:
        super().__init__("\n".join(messages))


def described(schema: Mapping[str, Any]) -> str:
    """Describe what a JSON schema allows, such as "a number, 0 or more, or 'family'"."""
    kind = schema.get("type")
    if "anyOf" in schema:
        parts = [described(part) for part in schema["anyOf"] if part.get("type") != "null"]
        return ", or ".join(dict.fromkeys(parts))
    if "const" in schema or "enum" in schema:
        return " or ".join(repr(value) for value in schema.get("enum", [schema.get("const")]))
    if kind in ("integer", "number"):
        return ("a whole number" if kind == "integer" else "a number") + _limits(schema)
    if kind == "array":
        return _list(schema)
    if kind == "string":
        return "a string that is not empty" if schema.get("minLength") else "a string"
    return {"boolean": "true or false", "object": "a table"}.get(str(kind), "a table")


def _limits(schema: Mapping[str, Any]) -> str:
    least, most = schema.get("minimum"), schema.get("maximum")
    above, below = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    upper = f"at most {most:g}" if most is not None else ""
    upper = f"below {below:g}" if below is not None else upper
    if least is not None:
        if most is not None:
            return f" from {least:g} to {most}"
        return f", {least:g} or more" + (f" and {upper}" if upper else "")
    if above is not None:
        return f" above {above:g}" + (f" and {upper}" if upper else "")
    return f", {upper}" if upper else ""


def _list(schema: Mapping[str, Any]) -> str:
    entries = schema.get("prefixItems") or [schema.get("items") or {}]
    of = {PLURALS.get(described(entry), "values") for entry in entries}
    least, most = schema.get("minItems"), schema.get("maxItems")
    number = f"{least} " if least is not None and least == most else ""
    number = "one or more " if not number and least else number
    return f"a list of {number}{of.pop() if len(of) == 1 else 'values'}"


def expected(hint: Any) -> str:
    """Describe the values of a type; less precisely if the type has no JSON schema."""
    try:
        return f"expected {described(TypeAdapter(hint).json_schema())}"
    except Exception:  # a type of the user's own
        return f"expected a value for {shown(hint)}"


def option_mistakes(error: ValidationError, model: type[BaseModel], owner: str) -> list[str]:
    """Return a message for each wrong option that pydantic found with the model of `owner`."""
    fields = model.model_fields
    messages: dict[str, list[str]] = {}
    explained = _explained(error.errors(), fields)
    for details in error.errors():
        option = shortened(str(details["loc"][0])) if details["loc"] else "options"
        if option in messages:  # one message for all alternatives of a type
            continue
        if details["type"] == "missing" and option in explained:
            continue
        if details["type"] == "extra_forbidden" and len(details["loc"]) == 1:
            close = did_you_mean(option, fields)
            text = f"{option} is not an option of {owner}: its options are {', '.join(fields)}"
            messages[option] = [text + close]
        elif details["type"] == "missing" and len(details["loc"]) == 1:
            messages[option] = [f"{option} is missing: {REMEDY.get(option, 'give a value')}"]
        elif details["type"] in ("value_error", "assertion_error"):
            messages[option] = [f"{option}: {own_message(details)}"]
        else:
            given = _at_key(error, option, details)
            messages[option] = _nested_mistakes(model, option, given) or [
                f"{option} is {shown(given)}: expected {_allowed(model, option, given)}"
            ]
    return [message for found in messages.values() for message in found]


def _allowed(model: type[BaseModel], option: str, given: object) -> str:
    """Return what an option allows, with the closest of its names if a text was given."""
    hint = _schema_of(model, option)
    names = QUOTED.findall(hint) if isinstance(given, str) else []
    return hint + did_you_mean(given, names, similarity=0.75)


def _nested_mistakes(model: type[BaseModel], option: str, given: object) -> list[str]:
    """Return the mistakes in a table that an option allows; empty if it is not such a table."""
    field = model.model_fields.get(option)
    kinds = () if field is None or not isinstance(given, dict) else get_args(field.annotation)
    for kind in kinds:
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            try:
                kind.model_validate(given)
            except ValidationError as error:
                return [f"{option}.{text}" for text in option_mistakes(error, kind, option)]
    return []


def _explained(found: Sequence[Any], keys: Iterable[str]) -> set[str]:
    """Return the keys that are missing because they are misspelt: they are not reported twice."""
    keys = list(keys)
    unknown = [str(each["loc"][-1]) for each in found if each["type"] == "extra_forbidden"]
    return {c for key in unknown for c in difflib.get_close_matches(key[:100], keys, n=1)}


def _at_key(error: ValidationError, option: str, details: Any) -> Any:
    """Return the whole value of an option, of which pydantic reports a part."""
    found = error.errors()
    whole = [
        each["input"] for each in found if each["loc"][:1] == (option,) and len(each["loc"]) <= 2
    ]
    return whole[0] if whole else details["input"]


def _schema_of(model: type[BaseModel], option: str) -> str:
    try:
        return described(model.model_json_schema()["properties"][option])
    except Exception:  # a type of the user's own
        return "a value that the option accepts"


def own_message(details: Any) -> str:
    """Return the message of a validator without pydantic's introduction."""
    return str(details["msg"]).removeprefix("Value error, ").removeprefix("Assertion failed, ")


def spec_mistakes(
    error: ValidationError, model: type[BaseModel], agent_numbers: Sequence[int], keys: set[str]
) -> list[str]:
    """Return a message for each mistake in a spec, with its key as the user wrote it.

    Args:
        error: what pydantic found in the spec after sweeps were expanded.
        model: the class of specs.
        agent_numbers: for each expanded agent, the index of its table in the spec.
        keys: all keys of a spec.
    """
    found = error.errors()
    unknown = [str(each["loc"][-1]) for each in found if each["type"] == "extra_forbidden"]
    explained = _explained(found, keys)
    messages = []
    for details in sorted(found, key=lambda each: each["type"] != "extra_forbidden"):
        parts = [p for p in details["loc"] if isinstance(p, int) or p in {*keys, *unknown}]
        key = ".".join(
            str(agent_numbers[p] + 1) if isinstance(p, int) else shortened(p) for p in parts
        )
        if details["type"] == "missing" and str(details["loc"][-1]) in explained:
            continue
        given = details["input"]  # if agents were given, their own mistakes are listed instead
        if details["type"] == "too_short" and isinstance(given, list | tuple) and given:
            continue
        messages += _messages(details, key, model, keys)
    return list(dict.fromkeys(messages))  # agents of one sweep share their mistakes


def _messages(details: Any, key: str, model: type[BaseModel], keys: set[str]) -> list[str]:
    kind = details["type"]
    if kind == "extra_forbidden":
        close = did_you_mean(key, keys)
        return [f"{key} is not a key of a spec: correct or remove it{close or '; ' + EXAMPLE}"]
    if kind == "missing":
        return [f"{key} is missing: add it; {EXAMPLE}"]
    if kind in ("value_error", "assertion_error"):
        return [_with_key(key, message) for message in own_message(details).split("\n")]
    if kind == "too_short":
        return [f"{key} is {shown(details['input'])}: expected one or more entries"]
    if kind == "string_too_long":
        most = f"{details['ctx']['max_length']:,}"
        return [f"{key} is {shown(details['input'])}: expected at most {most} characters"]
    if kind == "json_invalid" or not key:
        return ["the spec is nested too deeply: expected tables of numbers, strings and lists"]
    name = key.rpartition(".")[2]
    allowed = "a string" if name == "algorithm" else "a table"
    if name in model.model_fields:
        allowed = described(model.model_json_schema()["properties"][name])
    elif name == "name":
        allowed = "a string that is not empty"
    return [f"{key} is {shown(details['input'])}: expected {allowed}"]


def _with_key(key: str, message: str) -> str:
    """Return the message of a validator with the key of the table that it belongs to."""
    if not key or message.startswith("family"):
        return message
    first, _, rest = message.partition(" ")
    at_option = first.replace(".", "_").isidentifier() and rest.startswith("is ")
    return f"{key}.{message}" if at_option else f"{key}: {message}"


def check_names(what: str, given: Iterable[str], allowed: Iterable[str], owner: str) -> None:
    """Raise `InvalidArgument` with one message for each name that is not allowed."""
    names = sorted(allowed)
    messages = [
        f"{what}.{shortened(name)} is not an option of {owner}: its options are "
        f"{', '.join(names) or 'none'}{did_you_mean(name, names)}"
        for name in given
        if name not in names
    ]
    if messages:
        raise InvalidArgument(*messages)
