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
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from heirloom.errors import HeirloomError, InvalidArgument
from heirloom.experiments.registry import ALGORITHMS, make_family

Algorithm = Literal["RMax", "LRMax", "MaxQInit", "LRMaxQInit", "QLearning", "BisimulationTransfer"]
Measure = Literal["lipschitz_use", "prior_use", "optimal_after"]
MODEL_FREE = ("QLearning", "BisimulationTransfer")
OPTIMISTIC = ("RMax", "LRMax", "MaxQInit", "LRMaxQInit")
MEANT_FOR = {
    "d_max": ("LRMax", "LRMaxQInit"),
    "p_min": ("LRMax", "MaxQInit", "LRMaxQInit"),
    "ground": ("BisimulationTransfer",),
    **dict.fromkeys(("n_known", "epsilon", "capacity", "keep", "tol", "delta"), OPTIMISTIC),
    **dict.fromkeys(("learning_rate", "exploration", "initial_Q"), MODEL_FREE),
}
"""The algorithms that an option does something for; the memory of RMax is one as well."""


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class FamilySpec(BaseModel):
    """A family by name, and its options."""

    model_config = ConfigDict(frozen=True, extra="allow")
    name: str

    @property
    def options(self) -> dict[str, Any]:
        """All but the name."""
        return dict(self.__pydantic_extra__ or {})

    @model_validator(mode="after")
    def _exists(self) -> Self:
        family = make_family(self.name, self.options)
        try:
            family.draw(np.random.default_rng(0))
        except HeirloomError as error:
            raise ValueError(f"family: {error}") from None
        return self


class AgentSpec(_Strict):
    """An algorithm with its options; what is not given is the default of the algorithm."""

    name: str = Field(min_length=1)
    algorithm: Algorithm
    n_known: int | None = Field(None, ge=1)
    epsilon: float = Field(0.0, ge=0)
    d_max: float | Literal["family"] | None = None
    """A prior on distances; "family" computes the largest one of a finite family."""
    p_min: float | None = Field(None, gt=0, le=1)
    """The least probability of a task; 1 / distinct_tasks, or that of the family, if not given."""
    delta: float = Field(0.05, gt=0, le=1)
    capacity: int | None = Field(None, ge=1)
    """How many sources are kept; all if not given."""
    keep: Literal["first", "latest", "most_used"] = "latest"
    tol: float | None = Field(None, gt=0)
    learning_rate: float = Field(0.1, gt=0, le=1)
    exploration: float = Field(0.1, ge=0, le=1)
    initial_Q: float = 0.0  # noqa: N815 -- the letter of the paper
    ground: Literal["identity", "recursive"] = "identity"
    """The ground metric of bisimulation transfer."""

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.algorithm not in MODEL_FREE and self.n_known is None:
            raise ValueError("n_known is missing: after how many visits is a pair known?")
        if self.d_max is not None and not isinstance(self.d_max, str) and self.d_max < 0:
            raise ValueError(f"d_max is {self.d_max}: a distance is a number from 0 up")
        for option, algorithms in MEANT_FOR.items():
            given = getattr(self, option) != type(self).model_fields[option].default
            if given and self.algorithm not in algorithms:
                raise ValueError(
                    f"{option} is for {' and '.join(algorithms)}, not for {self.algorithm}"
                )
        return self


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
    measure: Measure | None = None
    """What is recorded beside returns: how often the Lipschitz bound is at most v_max (ρ_Lip of the
    paper), how often the prior is below D̂, or when the greedy policy becomes optimal for good."""

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
        return [agent.d_max for agent in self.agents if isinstance(agent.d_max, float)]

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
    meant = {k: v for k, v in defaults.items() if algorithm in MEANT_FOR.get(k, (algorithm,))}
    return {**meant, **agent}


def _check_defaults(defaults: Any) -> None:
    if not isinstance(defaults, dict):
        raise InvalidArgument("defaults is not a table: write [defaults]")
    for key in defaults:
        if key not in MEANT_FOR:
            raise InvalidArgument(
                f"defaults.{key} is not an option of agents: they are {', '.join(MEANT_FOR)}"
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
    if agent.get("algorithm") not in ALGORITHMS:
        yield {"name": "an agent", **agent}  # to be refused for its algorithm
        return
    swept = [key for key, value in agent.items() if isinstance(value, list)]
    for values in itertools.product(*(agent[key] for key in swept)):
        chosen = dict(zip(swept, values, strict=True))
        name = agent.get("name")
        if name is None or swept:
            name = _name(name or agent["algorithm"], {**_prior(agent, name), **chosen})
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
        return f"{place}: {message}" if place and not message.startswith("family") else message
    return f"{place} is {first['input']!r}: {message[0].lower()}{message[1:]}"
