"""Wrong names of options raise Heirloom's own error, which names the options that exist."""

import pytest

import heirloom as hl
from heirloom.agents.envelope_rmax import EnvelopeRMax
from heirloom.agents.near_rmax import NearRMaxQInit
from heirloom.experiments.registry import make_family

REQUIRED = {"n_states": 3, "n_actions": 2, "gamma": 0.9, "n_known": 1}
OPTIMISTIC = (
    *(hl.RMax, hl.LRMax, hl.MaxQInit, hl.LRMaxQInit, hl.NearRMax),
    *(NearRMaxQInit, EnvelopeRMax, hl.OptimisticAgent),
)


@pytest.mark.parametrize("kind", OPTIMISTIC)
def test_misspelt_option_of_an_agent_is_named_with_the_closest_one(kind):
    given = {name: value for name, value in REQUIRED.items() if name != "n_known"}
    with pytest.raises(hl.InvalidArgument) as raised:
        kind(n_knwon=3, **given)
    (message,) = raised.value.args
    assert message.startswith(f"n_knwon is not an argument of {kind.__name__}: its arguments are ")
    assert {"gamma", "explore", "memory"} <= set(message.replace(",", "").replace(";", "").split())
    assert message.endswith("; did you mean n_known?")


def test_misspelt_option_of_q_learning_is_named_with_the_closest_one():
    with pytest.raises(hl.InvalidArgument, match=r"initial_Q, seed; did you mean learning_rate\?$"):
        hl.QLearning(n_states=3, n_actions=2, gamma=0.9, learnin_rate=0.5)


@pytest.mark.parametrize("kind", OPTIMISTIC)
def test_missing_options_of_an_agent_are_listed(kind):
    with pytest.raises(hl.InvalidArgument, match=r"gamma, n_known are missing: .* requires "):
        kind(n_states=3, n_actions=2)


def test_options_without_a_name_are_refused_with_an_example():
    with pytest.raises(
        hl.InvalidArgument, match=r"1 positional argument too many.*Lipschitz\(d_max=\.\.\.\)"
    ):
        hl.Lipschitz(0.1)
    with pytest.raises(
        hl.InvalidArgument, match=r"2 positional arguments too many.*LRMax\(n_states=\.\.\., n_act"
    ):
        hl.LRMax(3, 2, gamma=0.9)


def test_derived_agent_that_passes_options_on_gets_the_same_message():
    class Mine(hl.LRMax):
        def __init__(self, **options):
            super().__init__(d_max=0.1, **options)

    assert Mine(**REQUIRED).n_known == 1
    with pytest.raises(hl.InvalidArgument, match=r"did you mean n_known\?"):
        Mine(n_states=3, n_actions=2, gamma=0.9, n_knwon=1)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda: hl.grid_world("S.G", gamma=0.9, slips=0.1), "slips is not.* did you mean slip"),
        (lambda: hl.grid_world(slip=0.1), "cells, gamma are missing"),
        (lambda: hl.TabularMDP([], []), "gamma is missing: TabularMDP requires R, T, gamma"),
        (lambda: hl.TabularMDP([], [], gamma=0, avaliable=[]), r"did you mean available\?"),
        (lambda: hl.optimal_return(None), "horizon is missing: optimal_return requires m, horizon"),
        (lambda: hl.draw_lifelong(None), "title is missing"),
        (lambda: hl.garnet(5, 2, brancing=2), r"brancing is not.* did you mean branching\?"),
        (lambda: hl.Nearness(rewards=0.1), "transitions is missing: Nearness requires rewards, tr"),
        (lambda: hl.Lipschitz(dmax=0.1), r"dmax is not.* did you mean d_max\?"),
        (lambda: hl.BisimulationTransfer(None, None, sed=1), r"sed is not.* did you mean seed\?"),
        (lambda: hl.MaxQ(pmin=0.1), r"pmin is not.* did you mean p_min\?"),
        (lambda: hl.Envelope(alfa=0.1), r"alfa is not.* did you mean alpha\?"),
        (lambda: hl.learn(None, None, episode=2), r"episode is not.* did you mean episodes\?"),
        (lambda: hl.compare({}, None, tasks=1, episodes=1, steps=2), "did you mean max_steps"),
    ],
)
def test_function_that_is_given_a_wrong_name_says_which_names_exist(call, expected):
    with pytest.raises(hl.InvalidArgument, match=expected):
        call()


@pytest.mark.parametrize(
    ("key", "counterpart"),
    [("slip", "slips"), ("goal_rewards", "rewards")],
)
def test_grid_of_a_spec_names_the_interval_of_an_argument_of_grid_world(key, counterpart):
    with pytest.raises(hl.InvalidArgument, match=rf"did you mean {counterpart}\?"):
        make_family("grid", {"cells": ["S.G"], key: 0.1})


def test_prior_of_the_family_is_refused_outside_a_spec_with_what_is_allowed_there():
    with pytest.raises(hl.InvalidArgument, match=r"expected a number, an array.*family\.d_max"):
        hl.LRMax(d_max="family", **REQUIRED)
