"""Options that are declared once: signature, documentation, defaults, checks and keys of a spec."""

import copy
import inspect
from typing import Annotated, Literal, Required, TypedDict, Unpack

import numpy as np
import pytest

import heirloom as hl
from heirloom.agents.algorithm_options import Algorithm
from heirloom.agents.algorithms import ALGORITHMS
from heirloom.agents.optimistic import AgentOptions, OptimisticAgent
from heirloom.experiments.registry import make_family
from heirloom.options import Option, chosen, declared, options_of

SIZES = {"n_states": 3, "n_actions": 2, "gamma": 0.9}


class Shared(TypedDict, total=False):
    n: Required[Annotated[int, Option("how many.", ge=1)]]
    rate: Annotated[float | None, Option("how fast.", 0.5, gt=0, le=1)]


@declared
def dish(first, *, kind: Annotated[Literal["hot", "cold"], Option("which.")] = "hot",
         **shared: Unpack[Shared]):  # fmt: skip
    """Cook."""
    return first, kind, shared


def test_function_is_called_with_all_options_checked_and_complete():
    assert dish(7, n=np.int64(2)) == (7, "hot", {"n": 2, "rate": 0.5})
    assert dish(7, n=1, rate=None, kind="cold") == (7, "cold", {"n": 1, "rate": None})
    assert chosen(Shared, {"rate": 0.1, "kind": "hot"}) == {"rate": 0.1}


def test_signature_and_docstring_list_all_options():
    assert str(inspect.signature(dish)) == "(first, *, kind='hot', n, rate=0.5)"
    assert "    rate: how fast." in dish.__doc__.splitlines()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"n": 0}, "n is 0: expected a whole number, 1 or more"),
        ({"n": 1.0}, "n is 1.0: expected a whole number, 1 or more"),
        ({"n": None}, "n is None: expected a whole number, 1 or more"),
        ({"n": 1, "rate": 0}, "rate is 0: expected a number above 0 and at most 1"),
        ({"n": 1, "rate": float("nan")}, "rate is nan: expected a number above 0 and at most 1"),
        ({"n": 1, "rate": "1"}, "rate is '1': expected a number above 0 and at most 1"),
        ({"n": 1, "kind": "warm"}, "kind is 'warm': expected one of hot, cold"),
    ],
)
def test_value_that_is_not_allowed_is_named_with_what_is(wrong, message):
    with pytest.raises(hl.errors.InvalidArgument) as caught:
        dish(0, **wrong)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, r"dish\(\) missing a required (keyword-only )?argument: 'n'"),
        ({"n": 1, "rat": 1}, r"dish\(\) got an unexpected keyword argument 'rat'"),
        ({"rat": 1}, r"dish\(\) got an unexpected keyword argument 'rat'"),
    ],
)
def test_wrong_name_is_a_type_error(arguments, message):
    with pytest.raises(TypeError, match=message):
        dish(0, **arguments)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_help_of_an_algorithm_documents_every_option(name):
    make = getattr(hl, name)
    for option, each in options_of(make).items():
        assert each.option is not None, option
        assert f"    {option}: {each.option.doc[:20]}" in make.__doc__
        assert option in inspect.signature(make).parameters


def test_option_that_is_added_to_the_declaration_reaches_constructor_help_spec_and_file(
    monkeypatch, tmp_path
):
    """One line in `AgentOptions` adds an option to every optimistic agent."""
    refresh = Annotated[float | None, Option("when to look again.", 1.5, gt=1)]
    monkeypatch.setitem(AgentOptions.__annotations__, "refresh", refresh)
    options_of.cache_clear()
    monkeypatch.setattr(hl.OptimisticAgent, "__init__", inspect.unwrap(OptimisticAgent.__init__))
    monkeypatch.setattr(hl.OptimisticAgent, "__doc__", "Optimistic.")

    @declared
    class New(declared(hl.OptimisticAgent)):
        """New."""

        def __init__(self, **options: Unpack[AgentOptions]):
            super().__init__(bounds=[], **options)

    agent = New(**SIZES, n_known=1, refresh=2)
    assert agent.options["refresh"] == 2.0
    assert "refresh: when to look again." in New.__doc__
    assert Algorithm(New).options.model_validate({"n_known": 1}).refresh == 1.5
    with pytest.raises(hl.errors.InvalidArgument, match="refresh is 1: expected a number above 1"):
        New(**SIZES, n_known=1, refresh=1)
    agent.save(tmp_path / "agent")
    assert hl.OptimisticAgent.load(tmp_path / "agent").options["refresh"] == 2.0
    options_of.cache_clear()


def test_derived_agent_that_passes_options_on_gets_the_same_error():
    class Mine(hl.LRMax):
        def __init__(self, **options):
            super().__init__(d_max=0.1, **options)

    assert Mine(**SIZES, n_known=1).n_known == 1
    with pytest.raises(TypeError, match="unexpected keyword argument 'n_knwon'"):
        Mine(**SIZES, n_knwon=1)


@pytest.mark.parametrize(("key", "counterpart"), [("slip", "slips"), ("goal_rewards", "rewards")])
def test_grid_of_a_spec_names_the_interval_of_an_argument_of_grid_world(key, counterpart):
    with pytest.raises(hl.errors.InvalidArgument, match=rf"did you mean {counterpart}\?"):
        make_family("grid", {"cells": ["S.G"], key: 0.1})


def test_prior_of_the_family_is_refused_outside_a_spec_with_what_is_allowed_there():
    with pytest.raises(
        hl.errors.InvalidArgument, match=r"expected a number, an array.*family\.d_max"
    ):
        hl.LRMax(d_max="family", **SIZES, n_known=1)


def test_agent_can_be_copied():
    agent = hl.RMax(**SIZES, n_known=1, explore=0.5)
    assert copy.deepcopy(agent).options == agent.options
