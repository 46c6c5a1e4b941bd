"""An experiment as data: agents x repetitions x tasks x episodes.

Users write it as TOML:

    name = "two priors"
    repetitions = 10
    tasks = 15              # how many tasks follow each other
    distinct_tasks = 5      # drawn first, then tasks are drawn among them; without it, each anew
    episodes = 2000
    steps = 10              # an episode is cut after so many
    seed = 0

    [family]
    name = "tight"
    variant = "released"

    [defaults]              # options of all agents
    n_known = 10
    epsilon = 0.01

    [[agents]]
    algorithm = "RMax"

    [[agents]]
    algorithm = "LRMax"
    d_max = [0.1, 0.2]      # a list is a sweep: two agents, LRMax(0.1) and LRMax(0.2)
"""

import itertools
import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from heirloom.agents.algorithms import ALGORITHMS
from heirloom.errors import HeirloomError, InvalidArgument
from heirloom.experiments.observers import OBSERVERS
from heirloom.experiments.registry import OWN, is_own, make_family

OPTIONS = {
    option: [name for name, other in ALGORITHMS.items() if option in other.model_fields]
    for model in ALGORITHMS.values()
    for option in model.model_fields
}
"""By the name of an option: the algorithms that have it."""


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class _Named(BaseModel):
    """A name, and options under any other key."""

    model_config = ConfigDict(frozen=True, extra="allow")

    @property
    def options(self) -> dict[str, Any]:
        """What was given, without defaults."""
        return dict(self.__pydantic_extra__ or {})

    def __hash__(self) -> int:
        return hash(self.model_dump_json())


class FamilySpec(_Named):
    """A family by name, `package.module:Name` for one's own, and its options."""

    name: str

    @model_validator(mode="after")
    def _exists(self) -> Self:
        if not is_own(self.name):  # that is not imported before it is run
            try:
                make_family(self.name, self.options).draw(np.random.default_rng(0))
            except HeirloomError as error:
                message = str(error)
                raise ValueError(
                    message if message.startswith("family") else f"family: {message}"
                ) from None
        return self


class AgentSpec(_Named):
    """An algorithm, `package.module:Name` for one's own, and its options."""

    name: str = Field(min_length=1)
    algorithm: str

    @model_validator(mode="after")
    def _checked(self) -> Self:
        if is_own(self.algorithm):  # that is not imported before it is run
            return self
        model = ALGORITHMS.get(self.algorithm)
        if model is None:
            raise ValueError(
                f"algorithm is {self.algorithm!r}: the algorithms are {', '.join(ALGORITHMS)}, or "
                "package.module:Name"
            )
        for option in self.options:
            if option in OPTIONS and option not in model.model_fields:
                raise ValueError(
                    f"{option} is for {' and '.join(OPTIONS[option])}, not for {self.algorithm}"
                )
        try:
            options = model.model_validate_json(json.dumps(self.options), strict=True)
        except ValidationError as error:
            raise ValueError(_wrong_option(error)) from None
        # As few as make the same agent, so that specs that mean the same are the same.
        assert self.__pydantic_extra__ is not None
        self.__pydantic_extra__.clear()
        self.__pydantic_extra__.update(options.model_dump(exclude_defaults=True))
        return self

    @property
    def all_options(self) -> Any:
        """The options with their defaults, as attributes; only of Heirloom's own algorithms."""
        return ALGORITHMS[self.algorithm].model_validate(self.options)


def _wrong_option(error: ValidationError) -> str:
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


class ExperimentSpec(_Strict):
    """Agents that face the same tasks in a row, several times over."""

    name: str = Field(min_length=1)
    family: FamilySpec
    agents: tuple[AgentSpec, ...] = Field(min_length=1)
    tasks: int = Field(ge=1)
    distinct_tasks: int | None = Field(None, ge=1)
    episodes: int = Field(ge=1)
    steps: int = Field(ge=1, le=10**9)
    repetitions: int = Field(10, ge=1)
    seed: int = Field(0, ge=0)
    in_order: bool = False
    """The tasks of a finite family one after the other, as often as it takes, instead of drawn."""
    measure: str | None = None
    """What is recorded beside returns: how often the Lipschitz bound is at most v_max (ρ_Lip of the
    paper), how often the prior is below D̂, or when the greedy policy becomes optimal for good."""

    @model_validator(mode="after")
    def _can_be_measured(self) -> Self:
        if self.measure is not None and self.measure not in OBSERVERS:
            raise ValueError(
                f"measure is {self.measure!r}: what can be measured is {', '.join(OBSERVERS)}"
            )
        return self

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        names = [agent.name for agent in self.agents]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"two agents are named {name!r}: give each a name of its own")
        return self

    @property
    def priors(self) -> list[float]:
        """The priors that agents are given as numbers, in their order."""
        given = [agent.options.get("d_max") for agent in self.agents]
        return [d_max for d_max in given if isinstance(d_max, float)]

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Self:
        """A spec from TOML's tables: defaults filled in, sweeps spread out, all checked."""
        data = dict(data)
        defaults, agents = data.pop("defaults", {}), data.get("agents")
        _check_defaults(defaults)
        places: list[int] = []  # of each agent that a sweep makes, in the list as it was given
        if isinstance(agents, list | tuple):
            data["agents"] = []
            for i, given in enumerate(agents):
                swept = list(_swept(_with_defaults(given, defaults), f"agents.{i + 1}"))
                data["agents"] += swept
                places += [i] * len(swept)
        try:
            # As JSON, where a list may be a tuple and a table a model, but no string is a number.
            return cls.model_validate_json(json.dumps(data), strict=True)
        except ValidationError as error:
            raise InvalidArgument(_first_reason(error, places)) from None
        except TypeError as error:
            raise InvalidArgument(f"a value is neither number nor text: {error}") from None

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """The spec in a TOML file."""
        try:
            return cls.read(tomllib.loads(Path(path).read_text(encoding="utf-8")))
        except OSError as error:
            raise InvalidArgument(f"{path} cannot be read ({error.strerror})") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise InvalidArgument(f"{path} is not TOML: {error}") from None
        except InvalidArgument as error:
            raise InvalidArgument(f"{path}: {error}") from None

    def to_toml(self) -> str:
        """The spec as TOML, which `load` reads as the same spec."""
        import tomli_w

        short = json.loads(self.model_dump_json(exclude_none=True, exclude_defaults=True))
        numbers = {"repetitions": self.repetitions, "seed": self.seed}
        tables = {"family": self.family.model_dump(), "agents": short.pop("agents")}
        return tomli_w.dumps({**short, **numbers, **tables})

    def as_json(self) -> dict[str, Any]:
        """The spec in plain types, without what is not given."""
        data: dict[str, Any] = json.loads(self.model_dump_json(exclude_none=True))
        return data

    def with_changes(self, **changes: Any) -> Self:
        """The same experiment with other numbers; what is None stays."""
        given = {name: value for name, value in changes.items() if value is not None}
        return self.read({**self.as_json(), **given})

    def difference(self, other: "ExperimentSpec") -> str:
        """The first thing in which two specs differ, in words; empty if they are the same."""
        for name in type(self).model_fields:
            one, two = getattr(self, name), getattr(other, name)
            if one != two:
                if name == "agents":
                    one, two = ([agent.name for agent in agents] for agents in (one, two))
                    if one == two:
                        return "options of agents differ"
                return f"{name} is {one} here, and {two} there"
        return ""


def _with_defaults(agent: Any, defaults: dict[str, Any]) -> Any:
    """An agent's own options before the defaults; those not meant for its algorithm are left."""
    if not isinstance(agent, dict):
        return agent
    algorithm = agent.get("algorithm")
    meant = {key: value for key, value in defaults.items() if algorithm in OPTIONS[key]}
    return {**meant, **agent}


def _check_defaults(defaults: Any) -> None:
    if not isinstance(defaults, dict):
        raise InvalidArgument("defaults is not a table: write [defaults]")
    for key in defaults:
        if key not in OPTIONS:
            raise InvalidArgument(
                f"defaults.{key} is not an option of agents: they are {', '.join(OPTIONS)}"
            )


def _swept(agent: Any, place: str) -> Iterator[Any]:
    """One agent for each combination of options that are given as lists."""
    if not isinstance(agent, dict):
        yield agent
        return
    for key in ("algorithm", "name"):
        if isinstance(agent.get(key), list):
            raise InvalidArgument(f"{place}.{key} is a list: write an agent for each")
    for key, value in agent.items():
        if value == []:
            raise InvalidArgument(f"{place}.{key} is an empty list: a sweep has values")
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


def _first_reason(error: ValidationError, places: list[int]) -> str:
    """The first thing that is wrong, with the key it stands at in what was given."""
    # A key that is not one is told first: another may be missing because of it.
    first = min(error.errors(), key=lambda one: one["type"] != "extra_forbidden")
    keys = {*ExperimentSpec.model_fields, *AgentSpec.model_fields, *FamilySpec.model_fields}
    if first["type"] == "extra_forbidden":
        keys.add(str(first["loc"][-1]))
    place = ".".join(
        str(places[part] + 1) if isinstance(part, int) else part
        for part in first["loc"]
        if isinstance(part, int) or part in keys  # other parts tell the kinds of a value apart
    )
    if first["type"] == "too_short":
        return f"{place} is {first['input']!r}: it must not be empty"
    if first["type"] == "extra_forbidden":
        return f"{place} is not a key of an experiment: heirloom show tight prints one"
    if first["type"] == "missing":
        return f"{place} is missing"
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "value_error":
        if not place or message.startswith("family"):
            return message
        at_option = re.match(r"\w+ is (?!missing|for )", message)
        return f"{place}.{message}" if at_option else f"{place}: {message}"
    return f"{place} is {first['input']!r}: {message[0].lower()}{message[1:]}"
