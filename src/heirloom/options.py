"""Arguments that are given by name: messages for misspelt, missing and positional ones."""

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping, Set
from functools import wraps
from typing import Any, ParamSpec, TypeVar, get_args, get_type_hints

from heirloom.errors import InvalidArgument
from heirloom.wording import counted

P = ParamSpec("P")
T = TypeVar("T")


def did_you_mean(name: object, names: Iterable[str], *, similarity: float = 0.6) -> str:
    """Return a question that names the most similar of `names`; empty if none is similar."""
    by_lower = {each.lower(): each for each in names}
    close = difflib.get_close_matches(str(name)[:100].lower(), by_lower, 1, similarity)
    return f"; did you mean {by_lower[close[0]]}?" if close else ""


def named_options(call: Callable[P, T]) -> Callable[P, T]:
    """Make a function raise `InvalidArgument`, not `TypeError`, for wrong names of arguments.

    The name of a constructor's class is used in messages. If the function passes on further
    options, they must be annotated as `**options: Unpack[SomeTypedDict]`.
    """
    owner = call.__qualname__.removesuffix(".__init__")
    positional, is_required = _options_of(call)
    required = set(_required(is_required))

    @wraps(call)
    def checked(*args: P.args, **options: P.kwargs) -> T:
        given = {str(name) for name in (*options, *positional[: len(args)])} - {"self"}
        if len(args) > len(positional) or given - is_required.keys() or not required <= given:
            n_left = max(0, len(args) - len(positional))
            raise InvalidArgument(*_mistakes(owner, is_required, n_left, given))
        return call(*args, **options)

    return checked


def _options_of(call: Callable[..., Any]) -> tuple[list[str], dict[str, bool]]:
    """Return the positional arguments, and all arguments with whether each is required."""
    positional: list[str] = []
    options: dict[str, bool] = {}
    for name, parameter in inspect.signature(call).parameters.items():
        if parameter.kind is parameter.POSITIONAL_OR_KEYWORD:
            positional.append(name)
        if parameter.kind is parameter.VAR_KEYWORD:
            (passed_on,) = get_args(get_type_hints(call)[name])
            required = passed_on.__required_keys__
            options |= {key: key in required for key in get_type_hints(passed_on)}
        elif name != "self":
            options[name] = parameter.default is parameter.empty
    return positional, options


def _mistakes(
    owner: str, is_required: Mapping[str, bool], n_positional: int, given: Set[str]
) -> list[str]:
    """Return one message for each mistake."""
    names = list(is_required)
    example = ", ".join(f"{name}=..." for name in _required(is_required) or names[:1])
    messages = []
    if n_positional:
        messages.append(
            f"{owner} was given {counted(n_positional, 'positional argument')} too many: give its "
            f"arguments by name, as in {owner}({example})"
        )
    unknown = sorted(given - is_required.keys())
    messages += [
        f"{name} is not an argument of {owner}: its arguments are {', '.join(names)}"
        f"{did_you_mean(name, [option for option in names if option not in given])}"
        for name in unknown
    ]
    missing = [name for name in _required(is_required) if name not in given]
    if missing and not messages:  # a misspelt option is not also reported as missing
        these = f"{missing[0]} is" if len(missing) == 1 else f"{', '.join(missing)} are"
        messages.append(f"{these} missing: {owner} requires {', '.join(_required(is_required))}")
    return messages


def _required(is_required: Mapping[str, bool]) -> list[str]:
    """Return the required options in the order in which they are declared."""
    return [name for name, required in is_required.items() if required]
