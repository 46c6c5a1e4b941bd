"""Messages for the mistakes in a spec: the key, what was found, pydantic's words, a close name."""

import difflib
from collections.abc import Iterable, Sequence

from pydantic import BaseModel, ValidationError

from heirloom.naming import shortened
from heirloom.validation import shown
from heirloom.wording import did_you_mean

TYPES = ("bool", "dict", "float", "int", "str")  # which pydantic names for alternatives of a key


class Mistakes(ValueError):
    """Several mistakes, one per line: pydantic passes on only one message."""

    def __init__(self, messages: Iterable[str]) -> None:
        super().__init__("\n".join(messages))


def option_mistakes(error: ValidationError, model: type[BaseModel], owner: str) -> list[str]:
    """Return a message for each wrong option that pydantic found with the model of `owner`."""
    names = ", ".join(model.model_fields)
    return _messages(error, model.model_fields, f"an option of {owner}: its options are {names}")


def spec_mistakes(
    error: ValidationError, agent_numbers: Sequence[int], keys: Iterable[str]
) -> list[str]:
    """Return a message for each mistake in a spec, with its key as the user wrote it.

    `agent_numbers` has the index of the table in the spec of each expanded agent.
    """
    what = "a key of a spec: correct or remove it; `heirloom show tight` prints a complete spec"
    return _messages(error, keys, what, agent_numbers)


def _messages(
    error: ValidationError, keys: Iterable[str], what: str, agent_numbers: Sequence[int] = ()
) -> list[str]:
    """Return one message for each wrong key; `what` describes the keys that are allowed."""
    found, keys = error.errors(), list(keys)
    unknown = [str(each["loc"][-1]) for each in found if each["type"] == "extra_forbidden"]
    misspelt = {c for key in unknown for c in difflib.get_close_matches(key[:100], keys, n=1)}
    messages: dict[str, list[str]] = {}
    for details in sorted(found, key=lambda each: each["type"] != "extra_forbidden"):
        kind, loc, given = details["type"], details["loc"], details["input"]
        names = [part for part in loc if isinstance(part, str)]
        parts = [shortened(part) for part in names if part in (*keys, *unknown) or _is_key(part)]
        if agent_numbers and names[:1] == ["agents"] and len(loc) > 1:
            parts.insert(1, str(agent_numbers[int(loc[1])] + 1))
        key = ".".join(parts)
        before = messages.setdefault(key, [])
        if kind == "extra_forbidden":
            allowed = what if len(parts) == 1 else f"a key of {parts[-2]}"
            before.append(f"{key} is not {allowed}{did_you_mean(parts[-1], keys)}")
        elif kind == "missing" and isinstance(loc[-1], str):
            if names[-1] not in misspelt:
                before.append(f"{key} is missing: add it")
        elif kind in ("value_error", "assertion_error"):
            lines = str(details["msg"]).partition(", ")[2].split("\n")
            before += [_with_key(key, line) for line in lines]
        elif kind != "too_short" or sum(each["loc"][: len(loc)] == loc for each in found) == 1:
            # Otherwise agents are wrong, not few.
            reason = str(details["msg"])
            reason = reason[0].lower() + reason[1:]
            if before:  # one message for all alternatives of a type
                before[-1] += f", or {reason}"
            else:
                before.append(f"{key or 'the spec'} is {shown(given)}: {reason}")
    # Agents of one sweep share their mistakes.
    return list(dict.fromkeys(line for lines in messages.values() for line in lines))


def _is_key(part: str) -> bool:
    """Whether a part of pydantic's location is a key, not the name of an alternative type."""
    return part.isidentifier() and part.islower() and part not in TYPES


def _with_key(key: str, message: str) -> str:
    """Return the message of a validator with the key of the table that it belongs to."""
    if not key or message.startswith("family"):
        return message
    first, _, rest = message.partition(" ")
    at_option = first.replace(".", "_").isidentifier() and rest.startswith("is ")
    return f"{key}.{message}" if at_option else f"{key}: {message}"
