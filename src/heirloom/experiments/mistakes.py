"""Messages for the mistakes in a spec: what was found, what pydantic expects, close names."""

import difflib
from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError

from heirloom.errors import InvalidArgument
from heirloom.naming import shortened
from heirloom.options import did_you_mean
from heirloom.validation import shown

EXAMPLE = "`heirloom show tight` prints a complete spec"
REMEDY = {"n_known": "give the number of visits after which a pair is known"}


class Mistakes(ValueError):
    """Several mistakes, one per line: pydantic passes on only one message."""

    def __init__(self, messages: Iterable[str]) -> None:
        super().__init__("\n".join(messages))


def found_instead(key: str, errors: Sequence[Any]) -> str:
    """Say what was found at a key, and what each alternative of its type expects."""
    whole = min(errors, key=lambda details: len(details["loc"]))  # others report parts of the value
    words = dict.fromkeys(shortened(_words(details), 200) for details in errors)
    return f"{key} is {shown(whole['input'])}: {'; or '.join(words)}"


def option_mistakes(error: ValidationError, model: type[BaseModel], owner: str) -> list[str]:
    """Return a message for each wrong option that pydantic found with the model of `owner`."""
    fields, found = model.model_fields, error.errors()
    explained = _explained(found, fields)
    messages: dict[str, str] = {}
    for details in found:
        kind, is_whole = details["type"], len(details["loc"]) == 1
        option = shortened(str(details["loc"][0])) if details["loc"] else "options"
        if option in messages or (kind == "missing" and option in explained):
            continue
        if kind == "extra_forbidden" and is_whole:
            listed = f"its options are {', '.join(fields)}{did_you_mean(option, fields)}"
            messages[option] = f"{option} is not an option of {owner}: {listed}"
        elif kind == "missing" and is_whole:
            messages[option] = f"{option} is missing: {REMEDY.get(option, 'give a value')}"
        elif kind in ("value_error", "assertion_error"):
            messages[option] = f"{option}: {_words(details)}"
        else:
            of_option = [each for each in found if each["loc"][:1] == details["loc"][:1]]
            messages[option] = found_instead(option, of_option)
    return list(messages.values())


def spec_mistakes(
    error: ValidationError, agent_numbers: Sequence[int], keys: set[str]
) -> list[str]:
    """Return a message for each mistake in a spec, with its key as the user wrote it.

    Args:
        error: what pydantic found in the spec after sweeps were expanded.
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
        messages += _messages(details, key, keys)
    return list(dict.fromkeys(messages))  # agents of one sweep share their mistakes


def _messages(details: Any, key: str, keys: set[str]) -> list[str]:
    kind = details["type"]
    if kind == "extra_forbidden":
        close = did_you_mean(key, keys)
        return [f"{key} is not a key of a spec: correct or remove it{close or '; ' + EXAMPLE}"]
    if kind == "missing":
        return [f"{key} is missing: add it; {EXAMPLE}"]
    if kind in ("value_error", "assertion_error"):
        return [_with_key(key, message) for message in _words(details).split("\n")]
    if kind == "json_invalid" or not key:
        return ["the spec is nested too deeply: expected tables of numbers, strings and lists"]
    return [found_instead(key, [details])]


def _words(details: Any) -> str:
    """Return pydantic's message, without the introduction of that of a validator."""
    return str(details["msg"]).removeprefix("Value error, ").removeprefix("Assertion failed, ")


def _explained(found: Sequence[Any], keys: Iterable[str]) -> set[str]:
    """Return the keys that are missing because they are misspelt: they are not reported twice."""
    keys = list(keys)
    unknown = [str(each["loc"][-1]) for each in found if each["type"] == "extra_forbidden"]
    return {c for key in unknown for c in difflib.get_close_matches(key[:100], keys, n=1)}


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
