"""`Algorithm`: an entry of the registry, which makes an agent from the options of a spec."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import NoneType
from typing import Annotated, Any, Literal, get_args

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, create_model

from heirloom.agents.protocol import Agent
from heirloom.arrays import FloatArray
from heirloom.errors import InvalidArgument
from heirloom.mdp.tabular import TabularMDP
from heirloom.options import EMPTY, Declared, options_of
from heirloom.transfer.memory import TaskMemory
from heirloom.transfer.nearness.knowledge import Nearness


@dataclass(frozen=True)
class TaskKnowledge:
    """What an experiment knows about its tasks before the first one begins.

    Args:
        options: n_states, n_actions, gamma, reward_range, and the other options that the family
            passes to agents.
        p_min: the smallest probability of a task, if it is known.
        d_max: computes a valid prior on the distances between tasks; returns None if none is known.
        nearness: computes by how much the models of tasks can differ; returns None if unknown.
        tasks: the tasks themselves, in order, for baselines that need exact models.
    """

    options: Mapping[str, Any]
    p_min: float | None
    d_max: Callable[[], FloatArray | None]
    nearness: Callable[[], Nearness | None]
    tasks: Sequence[TabularMDP]


NONE = "none"
"""What a spec has for None, because TOML has no null."""
IN_SPECS = {NONE: None, "inf": math.inf}
"""What texts in a spec stand for."""


class _SpecOptions(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


@dataclass(frozen=True)
class Algorithm:
    """An algorithm that a spec can name.

    Args:
        create: returns an agent; its declared options are the keys of a spec (`heirloom.options`).
        resolve: returns the arguments of `create` for the options of a spec and the knowledge about
            the tasks, where they differ.
        spec_only: a `TypedDict` of options of a spec that `resolve` uses, not `create`.
    """

    create: Callable[..., Agent]
    resolve: Callable[[dict[str, Any], TaskKnowledge], dict[str, Any]] = lambda options, _: options
    spec_only: Any = None

    @cached_property
    def options(self) -> type[BaseModel]:
        """The pydantic model of the options in a spec, with their defaults and descriptions."""
        found = {
            **options_of(self.create),
            **(options_of(self.spec_only) if self.spec_only else {}),
        }
        if "memory" in found:
            found |= options_of(TaskMemory)
        keys = {name: each for name, each in found.items() if _is_key(each)}
        fields: Any = {name: _field(each) for name, each in keys.items()}
        return create_model(self.create.__name__, __base__=_SpecOptions, **fields)

    @property
    def summary(self) -> str:
        """What the algorithm is, in one line: the first one of the docstring of `create`."""
        return (self.create.__doc__ or "").splitlines()[0]

    def make(
        self, options: Mapping[str, Any], known: TaskKnowledge, seed: np.random.Generator
    ) -> Agent:
        """Create an agent with the options of a spec, for tasks described by `known`."""
        accepted = options_of(self.create)
        given = {name: value for name, value in known.options.items() if name in accepted}
        own = {
            name: IN_SPECS.get(value, value) if isinstance(value, str) else value
            for name, value in self.options.model_validate(options)
        }
        given |= self.resolve(_with_successors(own, known), known)
        if "memory" in accepted:
            kept = {name: given.pop(name) for name in ("capacity", "keep")}
            given["memory"] = TaskMemory(given["n_states"], given["n_actions"], **kept)
        return self.create(**given, seed=seed)


def _with_successors(options: dict[str, Any], known: TaskKnowledge) -> dict[str, Any]:
    """Replace "family" as possible successors by those that the family knows."""
    if options.get("successors") != "family":
        return options
    if (nearness := known.nearness()) is None:
        raise InvalidArgument(
            "successors is 'family', but the family does not know them: leave successors out"
        )
    return {**options, "successors": nearness.successors, "terminates": nearness.terminates}


def _is_key(each: Declared) -> bool:
    return each.option is not None and each.option.spec is not None


def _field(each: Declared) -> tuple[Any, Any]:
    """Return the type and the pydantic field of a key of a spec.

    A key whose own type has None may be left out even if the argument is required. `NONE` stands
    for None where that is not the default.
    """
    option = each.option
    assert option is not None
    doc = option.doc[0].upper() + option.doc[1:]
    limits: Any = {name: getattr(option, name) for name in ("ge", "gt", "le", "lt")}
    has_own_type = option.spec is not EMPTY
    kind: Any = option.spec if has_own_type else each.type
    default = each.default
    if default is EMPTY:
        default = None if has_own_type and NoneType in get_args(kind) else ...
    if not has_own_type and default not in (None, ...) and NoneType in get_args(kind):
        (number,) = (one for one in get_args(kind) if one is not NoneType)
        kind, limits = Annotated[number, Field(**limits)] | Literal[NONE], {}
    return kind, Field(default, description=doc, **limits)
