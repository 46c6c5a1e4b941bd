"""Specs: an experiment as data, agents x repetitions x tasks x episodes.

Users write them as TOML; docs/experiments.md has examples, and `heirloom show` prints others.
`experiments/sweep.py` describes sweeps over tasks, episodes and families.
"""

import json
import math
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    field_validator,
    model_validator,
)

from heirloom.agents.algorithms import ALGORITHMS
from heirloom.errors import HeirloomError, InvalidArgument
from heirloom.experiments.measures import OBSERVERS
from heirloom.experiments.mistakes import (
    Mistakes,
    option_mistakes,
    spec_mistakes,
)
from heirloom.experiments.reading import (
    MOST_TASKS,
    OPTIONS,
    RecordSpec,
    check_defaults,
    check_number_of_agents,
    collected,
    expand_sweep,
    key_without_json,
    leaves,
    mistakes_in,
    plain,
    read_record,
    read_toml,
    with_defaults,
)
from heirloom.experiments.registry import is_user_defined, make_family
from heirloom.experiments.variables import TASK, Variable
from heirloom.naming import LONGEST_LABEL, shortened
from heirloom.validation import LARGEST_SIZE, shown
from heirloom.wording import did_you_mean

VariableName = Annotated[str, StringConstraints(pattern="^[A-Za-z][A-Za-z0-9_]{0,60}$")]
LONGEST_NAME = 10_000  # characters; a name that is made from swept options may be long


class _Strict(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True
    )


class _Named(BaseModel):
    """A name, with options under all other keys."""

    model_config = ConfigDict(frozen=True, extra="allow", use_attribute_docstrings=True)
    name: str = Field(min_length=1, max_length=LONGEST_NAME)
    """The name; all other keys of the table are options."""

    @property
    def options(self) -> dict[str, Any]:
        """The options that were given, without defaults."""
        return dict(self.__pydantic_extra__ or {})

    @model_validator(mode="after")
    def _can_be_written(self) -> Self:
        """Reject infinity and NaN, which JSON does not have, and None, which TOML does not have."""
        for option, value in self.options.items():
            for leaf in leaves(value):
                if leaf is None or (isinstance(leaf, float) and not math.isfinite(leaf)):
                    raise ValueError(
                        f"{shortened(option)} is {shown(value)}: expected finite numbers, strings, "
                        "booleans, or lists and tables of these"
                    )
        return self

    def __hash__(self) -> int:
        return hash((type(self), self.name, *sorted(self.options)))


class FamilySpec(_Named):
    """The name of a family, `package.module:Name` if it is user-defined, and its options."""

    name: str = Field(min_length=1, max_length=LONGEST_NAME)
    """A family of the list below, or `package.module:Name`; all other keys are its options."""

    @model_validator(mode="after")
    def _exists(self) -> Self:
        if not is_user_defined(self.name):  # user code is not imported to read a spec
            try:
                make_family(self.name, self.options)
            except HeirloomError as error:
                raise Mistakes(_of_family(error)) from None
        return self


class AgentSpec(_Named):
    """An agent: its name, its algorithm (`package.module:Name` if user-defined), and options."""

    name: str = Field(min_length=1, max_length=LONGEST_NAME)
    """The name in results and figures; by default the algorithm, and swept values in brackets."""
    algorithm: str = Field(max_length=LONGEST_NAME)
    """An algorithm of the list below, or `package.module:Name`; all other keys are its options. A
    list of values makes one agent per value."""

    @model_validator(mode="after")
    def _checked(self) -> Self:
        if is_user_defined(self.algorithm):  # user code is not imported to read a spec
            return self
        if self.algorithm not in ALGORITHMS:
            raise ValueError(
                f"algorithm is {shown(self.algorithm)}: expected one of {', '.join(ALGORITHMS)}, "
                f"or package.module:Name{did_you_mean(self.algorithm, ALGORITHMS)}"
            )
        model = ALGORITHMS[self.algorithm].options
        others = [o for o in self.options if o in OPTIONS and o not in model.model_fields]
        mistakes = [
            f"{option} is not an option of {self.algorithm}, only of "
            f"{', '.join(OPTIONS[option])}: leave it out"
            for option in others
        ]
        own = {option: value for option, value in self.options.items() if option not in others}
        try:
            options = model.model_validate_json(json.dumps(own), strict=True)
        except ValidationError as error:
            mistakes += option_mistakes(error, model, self.algorithm)
        if mistakes:
            raise Mistakes(mistakes)
        # Options equal to their defaults are removed, so that equivalent specs compare equal.
        assert self.__pydantic_extra__ is not None
        self.__pydantic_extra__.clear()
        self.__pydantic_extra__.update(options.model_dump(exclude_defaults=True))
        return self

    @property
    def all_options(self) -> Any:
        """The options with their defaults, as attributes; built-in algorithms only."""
        return ALGORITHMS[self.algorithm].options.model_validate(self.options)


class VariableSpec(_Strict):
    """A variable that a user-defined measure records, over agents, repetitions and tasks."""

    dimensions: dict[VariableName, str] = Field(default_factory=dict)
    """Further dimensions, and what they mean."""
    units: str
    meaning: str
    dtype: Literal["f8", "i8"] = "f8"

    @property
    def variable(self) -> Variable:
        """The variable with all its dimensions."""
        return Variable((*TASK, *self.dimensions), self.units, self.meaning, self.dtype)


class ExperimentSpec(_Strict):
    """An experiment: agents that face the same sequence of tasks, in several repetitions."""

    name: str = Field(min_length=1, max_length=LONGEST_LABEL)
    """The title of the experiment, shown in tables and figures."""
    family: FamilySpec
    """The family that tasks are drawn from: its name and its options."""
    agents: tuple[AgentSpec, ...] = Field(min_length=1)
    """The agents to compare; all of them face the same tasks."""
    tasks: int = Field(ge=1, le=MOST_TASKS)
    """The number of tasks that each agent faces in sequence."""
    distinct_tasks: int | None = Field(None, ge=1, le=MOST_TASKS)
    """Draw this many tasks first, and then the tasks of the sequence uniformly among them, so that
    tasks come back. Default: every task of the sequence is drawn anew, in the order of the family
    if it has one."""
    episodes: int = Field(ge=1, le=LARGEST_SIZE)
    """The number of episodes in each task."""
    steps: int = Field(ge=1, le=10**9)
    """The largest number of steps of an episode, `max_steps` of `learn` and `compare`. This time
    limit is not a terminal transition."""
    repetitions: int = Field(10, ge=1, le=LARGEST_SIZE)
    """The number of independent repetitions, each with its own tasks; intervals are over them."""
    seed: int = Field(0, ge=0)
    """The seed of all random numbers. The same seed gives bit-identical results."""
    in_order: bool = False
    """Whether to cycle through the tasks of a finite family in their order instead of drawing."""
    limit: float | None = Field(None, gt=0)
    """The processor seconds that a job may take. One that takes longer is stopped and not repeated,
    and its returns are NaN: it did not finish. Which jobs these are depends on the machine."""
    measure: str | None = None
    """A quantity to record in addition to returns: a measure of the list below, or
    `package.module:Name`."""
    measured: dict[VariableName, VariableSpec] | None = None
    """What the class of a user-defined measure declares; a run writes this key."""
    record: RecordSpec | None = None
    """Episodes that are recorded for `heirloom replay`; None for none."""

    @field_validator("record", mode="before")
    @classmethod
    def _read_record(cls, given: Any) -> Any:
        return read_record(given)

    @model_validator(mode="after")
    def _can_be_recorded(self) -> Self:
        if self.record is not None:
            names = [agent.name for agent in self.agents]
            mistakes = mistakes_in(self.record, names, self.repetitions, self.tasks)
            if mistakes:
                raise ValueError(mistakes)
        return self

    @model_validator(mode="after")
    def _can_be_measured(self) -> Self:
        own = self.measure is not None and is_user_defined(self.measure)
        if self.measure is not None and not own and self.measure not in OBSERVERS:
            raise ValueError(
                f"measure is {shown(self.measure)}: expected one of {', '.join(OBSERVERS)}, or "
                f"package.module:Name{did_you_mean(self.measure, OBSERVERS)}"
            )
        if self.measure is not None and self.limit is not None:
            raise ValueError(
                "limit and measure are given, and a job that is stopped has nothing to measure: "
                "leave one of the two out"
            )
        if self.measured is not None and not own:
            raise ValueError(
                "measured is given without a measure of one's own: leave it out; a run writes it"
            )
        return self

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        for name, count in Counter(agent.name for agent in self.agents).items():
            if count > 1:
                raise ValueError(
                    f"agents contains two agents named {shown(name)}: give each a different name"
                )
        return self

    @property
    def priors(self) -> list[float]:
        """The priors that are given as numbers, in the order of agents."""
        given = [agent.options.get("d_max") for agent in self.agents]
        return [d_max for d_max in given if isinstance(d_max, float)]

    @classmethod
    def read(cls, data: Mapping[str, Any], *, stored: bool = False) -> Self:
        """Build a spec from the tables of a TOML file: apply defaults, expand sweeps, check all.

        No task is drawn if the spec is that of a stored run: one that someone forged may be huge.
        """
        if not isinstance(data, Mapping):
            raise InvalidArgument(f"the spec is {shown(data)}: expected a dictionary, as from TOML")
        try:
            tables: dict[str, Any] = json.loads(json.dumps(dict(data), default=plain))
        except (TypeError, ValueError, RecursionError) as error:
            problem = "too many tables in tables" if isinstance(error, RecursionError) else error
            raise InvalidArgument(
                f"{key_without_json(data)} contains a value that is not a number, string, "
                f"boolean, list or table ({problem}): write it as a string"
            ) from None
        defaults, agents = tables.pop("defaults", {}), tables.get("agents")
        mistakes: list[str] = []
        with collected(mistakes):
            check_defaults(defaults)
        agent_numbers: list[int] = []  # for each expanded agent, the index of its table in `agents`
        if isinstance(agents, list):
            agents = [with_defaults(each, defaults) for each in agents]
            check_number_of_agents(agents)
            tables["agents"] = []
            for i, each in enumerate(agents):
                with collected(mistakes):
                    expanded = list(expand_sweep(each, f"agents.{i + 1}"))
                    tables["agents"] += expanded
                    agent_numbers += [i] * len(expanded)
        try:
            # Strict mode rejects a string where a number is expected. The input is JSON because
            # only then does strict mode accept a list for a tuple and a table for a model.
            spec = cls.model_validate_json(json.dumps(tables), strict=True)
        except ValidationError as error:
            models = ExperimentSpec, AgentSpec, FamilySpec
            keys = {key for model in models for key in model.model_fields}
            found = spec_mistakes(error, agent_numbers, keys)
            if mistakes and agents and not agent_numbers:  # all agents have other mistakes
                found = [message for message in found if not message.startswith("agents is []")]
            raise InvalidArgument(*mistakes, *found) from None
        if mistakes:
            raise InvalidArgument(*mistakes)
        if not stored and not is_user_defined(spec.family.name):
            try:
                make_family(spec.family.name, spec.family.options).draw(np.random.default_rng(0))
            except HeirloomError as error:
                raise InvalidArgument(*_of_family(error)) from None
        return spec

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a spec from a TOML file."""
        data = read_toml(path)
        if "sweep" in data:
            raise InvalidArgument(
                f"{path} has a table [sweep], so it describes several experiments: run it with "
                "`heirloom run`, or read them with heirloom.experiments.sweep.load_sweep"
            )
        try:
            return cls.read(data)
        except InvalidArgument as error:
            raise InvalidArgument(*(f"{path}: {message}" for message in error.args)) from None

    def to_toml(self) -> str:
        """Return the spec as TOML, which `load` reads back as an equal spec."""
        import tomli_w

        short = json.loads(self.model_dump_json(exclude_none=True, exclude_defaults=True))
        numbers = {"repetitions": self.repetitions, "seed": self.seed}
        tables = {"family": self.family.model_dump(), "agents": short.pop("agents")}
        if self.record is not None:
            tables = {"record": short.pop("record"), **tables}
        return tomli_w.dumps({**short, **numbers, **tables})

    def as_json(self) -> dict[str, Any]:
        """Return the spec as plain types, without keys whose value is None."""
        data: dict[str, Any] = json.loads(self.model_dump_json(exclude_none=True))
        return data

    def with_changes(self, **changes: Any) -> Self:
        """Return a copy with some keys changed; a change to None is ignored."""
        given = {name: value for name, value in changes.items() if value is not None}
        return self.read({**self.as_json(), **given}, stored="family" not in given)

    def difference(self, other: "ExperimentSpec") -> str:
        """Describe the first difference from another spec; empty if there is none."""
        for name in type(self).model_fields:
            mine, others = getattr(self, name), getattr(other, name)
            if mine != others:
                if name == "agents":
                    mine, others = ([agent.name for agent in agents] for agents in (mine, others))
                    if mine == others:
                        return "options of agents differ"
                return f"{name} is {mine} in this spec and {others} in the other"
        return ""


def _of_family(error: HeirloomError) -> list[str]:
    """Return the messages of an error of a family, each with the name of its table."""
    messages = map(str, error.args)
    return [text if text.startswith("family") else f"family: {text}" for text in messages]
