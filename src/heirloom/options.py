"""Options of algorithms, bounds and memories: each is declared once.

An option is a keyword argument whose type is `Annotated[type, Option(...)]`, in a signature or in a
`TypedDict` that a signature unpacks:

    class AgentOptions(TypedDict, total=False):
        n_known: Required[Annotated[int, Option("the visits that make a pair known.", ge=1)]]
        explore: Annotated[float, Option("the probability of ...", 0.0, ge=0, le=1)]

    @declared
    class RMax(OptimisticAgent):
        def __init__(self, **options: Unpack[AgentOptions]) -> None: ...

Everything else follows from the declaration: the signature and the documentation that `help` shows,
the defaults, the checks, the keys of a spec and their reference, and what the file of an agent
contains.
"""

import inspect
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial, wraps
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    NotRequired,
    Required,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from heirloom.validation import one_of, real_number, truth, whole_number

T = TypeVar("T")
EMPTY: Any = inspect.Parameter.empty


@dataclass(frozen=True)
class Option:
    """What is declared about an option, beside its name and its type.

    Args:
        doc: what it is, as it stands in "Args:" of a docstring.
        default: its default in a `TypedDict`; in a signature, the default of the parameter.
        ge: the smallest value of a number.
        gt: a number that the value must exceed.
        le: the largest value of a number.
        lt: a number that the value must not reach.
        spec: the type of the key in a spec; by default the type of the option. None if a spec has
            no such key.
    """

    doc: str
    default: Any = EMPTY
    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    lt: float | None = None
    spec: Any = EMPTY


class Declared(NamedTuple):
    """An option of a callable: its type without annotations, its default, and its declaration."""

    type: Any
    default: Any
    option: Option | None


def _check_of(each: Declared) -> Callable[[str, Any], Any] | None:
    """Return what checks a value and returns it in its standard type; raises `InvalidArgument`.

    Booleans, whole numbers, numbers and choices are checked, and None where it is allowed. Returns
    None for other types, whose values the callable itself checks.
    """
    kinds = get_args(each.type) if _is_union(each.type) else (each.type,)
    kind, *others = (kind for kind in kinds if kind is not NoneType)
    if each.option is None or others:
        return None
    option = each.option
    check: Any
    if kind is bool:
        check = truth
    elif get_origin(kind) is Literal:
        check = partial(one_of, choices=get_args(kind))
    elif kind is int and option.ge is not None:
        check = partial(whole_number, least=int(option.ge))
    elif kind is float and (option.ge, option.gt) != (None, None):
        words = {"least": "at least", "above": "above", "most": "at most", "below": "below"}
        given = zip(words, (option.ge, option.gt, option.le, option.lt), strict=True)
        limits: dict[str, Any] = {name: limit for name, limit in given if limit is not None}
        text = " and ".join(f"{words[name]} {limit:g}" for name, limit in limits.items())
        check = partial(real_number, expected=f"expected a number {text}", **limits)
    else:
        return None
    if NoneType not in kinds:
        return check
    return lambda name, value: None if value is None else check(name, value)


def checked(name: str, declared: Any, value: Any) -> Any:
    """Return the value of an option of the type `declared`; raise `InvalidArgument` if invalid."""
    check = _check_of(_declared(declared, EMPTY))
    return value if check is None else check(name, value)


@lru_cache
def options_of(declaring: Any) -> Mapping[str, Declared]:
    """Return the options of a function, a class or a `TypedDict` by name, in their order."""
    if hasattr(declaring, "__required_keys__"):
        hints = get_type_hints(declaring, include_extras=True)
        return {name: _declared(hint, EMPTY) for name, hint in hints.items()}
    function = inspect.unwrap(_constructor(declaring))
    hints = get_type_hints(function, include_extras=True)
    found: dict[str, Declared] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            for group in get_args(hints.get(name)):
                found |= options_of(group)
        elif name != "self":
            found[name] = _declared(hints.get(name, Any), parameter.default)
    return found


def declared(call: T) -> T:
    """Give a function, or the constructor of a class, what follows from its declared options.

    It is called with all its options, checked and with their defaults. The signature and the
    docstring list them.
    """
    function, options = _constructor(call), options_of(call)
    own = inspect.signature(function).parameters.values()
    positional = [p for p in own if p.kind is p.POSITIONAL_OR_KEYWORD]
    by_name = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=each.default)
        for name, each in options.items()
        if name not in {p.name for p in positional}
    ]
    signature = inspect.Signature([*positional, *by_name])

    name_of_call = getattr(call, "__name__", "call")
    checks = {name: check for name, each in options.items() if (check := _check_of(each))}

    @wraps(function)
    def complete(*args: Any, **given: Any) -> Any:
        try:
            bound = signature.bind(*args, **given)
        except TypeError as error:
            unknown = [name for name in given if name not in signature.parameters]
            reason = f"got an unexpected keyword argument {unknown[0]!r}" if unknown else error
            raise TypeError(f"{name_of_call}() {reason}") from None
        for name, check in checks.items():
            if name in bound.arguments:
                bound.arguments[name] = check(name, bound.arguments[name])
        bound.apply_defaults()
        return function(*bound.args, **bound.kwargs)

    complete.__signature__ = signature  # type: ignore[attr-defined]
    documented: Any = call if isinstance(call, type) else complete
    documented.__doc__ = f"{inspect.cleandoc(call.__doc__ or '')}\n\n{_arguments(options)}"
    if isinstance(call, type):
        call.__init__ = complete  # type: ignore[misc]
        return call
    return complete  # type: ignore[return-value]


def chosen(group: type[T], options: Mapping[str, Any]) -> T:
    """Return those of `options` that the `TypedDict` `group` declares."""
    names: Any = options_of(group)  # type: ignore[arg-type]
    return {name: options[name] for name in names if name in options}  # type: ignore[return-value]


def _constructor(call: Any) -> Callable[..., Any]:
    return call.__init__ if isinstance(call, type) else call  # type: ignore[misc]


def _declared(hint: Any, default: Any) -> Declared:
    kind, option = _parts(hint)
    given = default is not EMPTY or option is None
    return Declared(kind, default if given else option.default, option)  # type: ignore[union-attr]


def _parts(hint: Any) -> tuple[Any, Option | None]:
    """Return a type without annotations, and the declaration that it was annotated with."""
    if get_origin(hint) in (Required, NotRequired):
        return _parts(get_args(hint)[0])
    if get_origin(hint) is Annotated:
        kind, *rest = get_args(hint)
        return kind, next((each for each in rest if isinstance(each, Option)), None)
    if _is_union(hint):
        parts = [_parts(each) for each in get_args(hint)]
        kind = Union[tuple(kind for kind, _ in parts)]  # noqa: UP007 -- of a computed tuple
        return kind, next((option for _, option in parts if option is not None), None)
    return hint, None


def _is_union(hint: Any) -> bool:
    return get_origin(hint) in (Union, UnionType)


def _arguments(options: Mapping[str, Declared]) -> str:
    """Return the documentation of options as the section "Args:" of a docstring."""
    lines = ["Args:"]
    for name, each in options.items():
        text = f"{name}: {each.option.doc if each.option else ''}"
        lines += textwrap.wrap(text, 92, initial_indent=" " * 4, subsequent_indent=" " * 8)
    return "\n".join(lines)
