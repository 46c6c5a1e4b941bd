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
import math
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, wraps
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
        spec: the type of the key in a spec; by default the type of the option. None if a spec has
            no such key.
    """

    doc: str
    default: Any = EMPTY
    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    spec: Any = EMPTY


class Declared(NamedTuple):
    """An option of a callable: its type without annotations, its default, and its declaration."""

    type: Any
    default: Any
    option: Option | None

    def checked(self, name: str, value: Any) -> Any:
        """Return a value in its standard type; raise `InvalidArgument` unless it is valid.

        Booleans, whole numbers, numbers and choices are checked, and None where it is allowed; the
        callable itself checks values of other types.
        """
        kinds = get_args(self.type) if _is_union(self.type) else (self.type,)
        if value is None and NoneType in kinds:
            return None
        kinds = tuple(kind for kind in kinds if kind is not NoneType)
        if self.option is None or len(kinds) > 1:
            return value
        (kind,) = kinds
        if kind is bool:
            return truth(name, value)
        if get_origin(kind) is Literal:
            return one_of(name, value, get_args(kind))
        if kind is int and self.option.ge is not None:
            return whole_number(name, value, least=int(self.option.ge))
        if kind is float and (self.option.ge, self.option.gt) != (None, None):
            return self._number(name, value)
        return value

    def _number(self, name: str, value: Any) -> float:
        assert self.option is not None
        least, above, most = self.option.ge, self.option.gt, self.option.le
        upper = "" if most is None else f" and at most {most:g}"
        limits = f" above {above:g}{upper}" if least is None else f", {least:g} or more"
        limits = limits if least is None or most is None else f" from {least:g} to {most:g}"
        return real_number(
            name,
            value,
            f"expected a number{limits}",
            least=-math.inf if least is None else least,
            above=-math.inf if above is None else above,
            most=math.inf if most is None else most,
        )


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

    @wraps(function)
    def complete(*args: Any, **given: Any) -> Any:
        try:
            bound = signature.bind(*args, **given)
        except TypeError as error:
            unknown = [name for name in given if name not in signature.parameters]
            reason = f"got an unexpected keyword argument {unknown[0]!r}" if unknown else error
            raise TypeError(f"{name_of_call}() {reason}") from None
        bound.apply_defaults()
        for name, each in options.items():
            bound.arguments[name] = each.checked(name, bound.arguments[name])
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
