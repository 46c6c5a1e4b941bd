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

    [defaults]              # options of all agents, but not of algorithms of one's own
    n_known = 10
    epsilon = 0.01

    [[agents]]
    algorithm = "RMax"

    [[agents]]
    algorithm = "LRMax"
    d_max = [0.1, 0.2]      # a list is a sweep: two agents, LRMax(0.1) and LRMax(0.2)
"""

import json
import math
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from heirloom.agents.algorithms import ALGORITHMS
from heirloom.errors import HeirloomError, InvalidArgument
from heirloom.experiments.observers import OBSERVERS
from heirloom.experiments.reading import (
    OPTIONS,
    check_defaults,
    first_reason,
    parts,
    swept,
    with_defaults,
    wrong_option,
)
from heirloom.experiments.registry import is_user_defined, make_family


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class _Named(BaseModel):
    """A name, and options under any other key."""

    model_config = ConfigDict(frozen=True, extra="allow")
    name: str = Field(min_length=1)

    @property
    def options(self) -> dict[str, Any]:
        """What was given, without defaults."""
        return dict(self.__pydantic_extra__ or {})

    @model_validator(mode="after")
    def _can_be_written(self) -> Self:
        """A spec is written as JSON and TOML, which have no infinity and no empty value."""
        for option, value in self.options.items():
            for one in parts(value):
                if one is None or (isinstance(one, float) and not math.isfinite(one)):
                    raise ValueError(f"{option} is {value!r}: numbers are finite")
        return self

    def __hash__(self) -> int:
        return hash((type(self), self.name, *sorted(self.options)))


class FamilySpec(_Named):
    """A family by name, `package.module:Name` for one's own, and its options."""

    @model_validator(mode="after")
    def _exists(self) -> Self:
        if not is_user_defined(self.name):  # that is not imported before it is run
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

    algorithm: str

    @model_validator(mode="after")
    def _checked(self) -> Self:
        if is_user_defined(self.algorithm):  # that is not imported before it is run
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
            raise ValueError(wrong_option(error)) from None
        # As few as make the same agent, so that specs that mean the same are the same.
        assert self.__pydantic_extra__ is not None
        self.__pydantic_extra__.clear()
        self.__pydantic_extra__.update(options.model_dump(exclude_defaults=True))
        return self

    @property
    def all_options(self) -> Any:
        """The options with their defaults, as attributes; only of Heirloom's own algorithms."""
        return ALGORITHMS[self.algorithm].model_validate(self.options)


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
        check_defaults(defaults)
        agent_numbers: list[int] = []  # for each agent of a sweep, its index in the list as given
        if isinstance(agents, list | tuple):
            data["agents"] = []
            for i, given in enumerate(agents):
                spread = list(swept(with_defaults(given, defaults), f"agents.{i + 1}"))
                data["agents"] += spread
                agent_numbers += [i] * len(spread)
        try:
            # As JSON, where a list may be a tuple and a table a model, but no string is a number.
            return cls.model_validate_json(json.dumps(data), strict=True)
        except ValidationError as error:
            raise InvalidArgument(first_reason(error, agent_numbers, _keys())) from None
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


def _keys() -> set[str]:
    """All keys of a spec, without the options of agents and families."""
    return {*ExperimentSpec.model_fields, *AgentSpec.model_fields, *FamilySpec.model_fields}
