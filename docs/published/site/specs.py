"""The reference of spec files, from the models that validate them."""

import inspect
import re
from collections.abc import Callable, Sequence
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from heirloom.agents.algorithm_options import Algorithm
from heirloom.agents.algorithms import ALGORITHMS
from heirloom.agents.near_rmax import NearnessNumbers
from heirloom.experiments.measures import OBSERVERS
from heirloom.experiments.reading import RecordSpec
from heirloom.experiments.registry import FAMILIES
from heirloom.experiments.spec import AgentSpec, ExperimentSpec, FamilySpec
from published.tables import table

COMMON = {
    "gamma": "the discount factor",
    "variant": "the settings of the paper's text, or those of the authors' scripts",
}
"""What options mean that several families have."""
HEADER = ["key", "type", "default", "meaning"]


def keys() -> str:
    """Return the table of the keys at the top of a spec, and in its tables."""
    rows = _rows(ExperimentSpec)
    rows.insert(
        3,
        [
            "`defaults`",
            "table",
            "",
            "Options for all agents whose built-in algorithm has them. An agent's own options take "
            "precedence.",
        ],
    )
    rows.append(
        [
            "`sweep`",
            "table",
            "",
            "Lists of values under the keys above or `family.OPTION`. Each combination is run as "
            "an experiment of its own, in a subfolder.",
        ]
    )
    record = "### Keys of a table `record`\n\n" + table(HEADER, _rows(RecordSpec))
    return f"{table(HEADER, rows)}\n\n{record}"


def families() -> str:
    """Return the key `name` of the family, and the options of each built-in family."""
    parts = [table(HEADER, _rows(FamilySpec))]
    for name, make in FAMILIES.items():
        rows = [
            [f"`{p.name}`", _type(p.annotation), _default(p.default), meaning]
            for p, meaning in family_options(make)
        ]
        options = table(HEADER, rows) if rows else "It has no options."
        parts.append(f"### `{name}`\n\n{_summary(make)}\n\n{options}")
    return "\n\n".join(parts)


def algorithms() -> str:
    """Return the keys of all agents, the shared options, and those of each algorithm."""
    common = set.intersection(
        *(set(each.options.model_fields) for each in ALGORITHMS.values() if _is_optimistic(each))
    )
    name, algorithm = _rows(AgentSpec)
    name[2] = "`algorithm`"  # filled in when a file is read
    parts = [table(HEADER, [algorithm, name])]
    first = ALGORITHMS["RMax"].options
    parts.append(
        "### Options of all algorithms but the baselines\n\n"
        + table(HEADER, [row for row in _rows(first) if row[0].strip("`") in common])
    )
    for name, each in ALGORITHMS.items():
        shared = common if _is_optimistic(each) else set()
        rows = [row for row in _rows(each.options) if row[0].strip("`") not in shared]
        own = table(HEADER, rows) if rows else "It has no further options."
        parts.append(f"### `{name}`\n\n{each.summary}\n\n{own}")
    parts.append(
        "### Keys of a table `nearness`\n\n"
        "Such as `nearness = {rewards = 0.2, transitions = 0.1}`.\n\n"
        + table(HEADER, _rows(NearnessNumbers))
    )
    return "\n\n".join(parts)


def measures() -> str:
    """Return the values of the key `measure`."""
    rows = [[f"`{name}`", _summary(observer)] for name, observer in OBSERVERS.items()]
    return table(["measure", "what is recorded in each task"], rows)


def family_options(make: Callable[..., Any]) -> list[tuple[inspect.Parameter, str]]:
    """Return the options of a family and their descriptions, from the docstring."""
    texts = dict(re.findall(r"^ {4}(\w+): ((?:.|\n {8})+)", _arguments(make), re.MULTILINE))
    return [
        (p, " ".join((texts.get(p.name) or COMMON.get(p.name, "")).split()).rstrip("."))
        for p in inspect.signature(make).parameters.values()
    ]


def _arguments(make: Callable[..., Any]) -> str:
    return (inspect.getdoc(make) or "").partition("Args:\n")[2]


def _rows(model: type[BaseModel]) -> list[list[str]]:
    return [
        [
            f"`{name}`",
            _type(field.annotation, field),
            _default_of(field),
            _description(field),
        ]
        for name, field in model.model_fields.items()
    ]


def _is_optimistic(algorithm: Algorithm) -> bool:
    return "n_known" in algorithm.options.model_fields


def _description(field: FieldInfo) -> str:
    return " ".join((field.description or "").split())


def _default_of(field: FieldInfo) -> str:
    return "required" if field.is_required() else _default(field.default)


def _default(value: Any) -> str:
    if value is inspect.Parameter.empty:
        return "required"
    if value is None:
        return ""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, str):
        return f'`"{value}"`'
    if isinstance(value, tuple):
        return f"`{list(value)}`"
    return f"`{value}`"


WORDS = {int: "integer", float: "number", str: "string", bool: "boolean"}


def _type(annotation: Any, field: FieldInfo | None = None) -> str:
    """Return a type in the words of TOML, with the limits of the field."""
    return ", ".join([_words(annotation), *(_limits(field.metadata) if field else ())])


def _words(annotation: Any) -> str:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        limits = [limit for each in arguments[1:] for limit in _limits(each.metadata)]
        return ", ".join([_words(arguments[0]), *limits])
    if origin is Literal:
        return " or ".join(f'`"{value}"`' for value in arguments)
    if origin in (Union, UnionType):
        return " or ".join(_words(each) for each in arguments if each is not type(None))
    if origin is tuple:
        return "list of tables" if arguments[0] is AgentSpec else f"list of {_plural(arguments)}"
    return WORDS.get(annotation, "table")


def _plural(arguments: tuple[Any, ...]) -> str:
    count = "" if arguments[-1] is Ellipsis else f"{len(arguments)} "
    return f"{count}{_words(arguments[0])}s"


def _limits(metadata: Sequence[Any]) -> list[str]:
    words = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below"}
    return [
        f"{words[name]} {value:,}"
        for constraint in metadata
        for name in words
        if (value := getattr(constraint, name, None)) is not None
    ]


def _summary(documented: object) -> str:
    return (inspect.getdoc(documented) or "").split("\n\n")[0].replace("\n", " ")
