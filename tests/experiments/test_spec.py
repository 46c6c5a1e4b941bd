"""Specs: reading, writing, and messages for invalid ones."""

import datetime
import tomllib
from importlib.util import find_spec

import numpy as np
import pytest

import heirloom as hl
from heirloom.envs.paper_families import Corridor
from heirloom.experiments.job import check_agents, draw_tasks, make_agent
from heirloom.experiments.registry import FAMILIES
from heirloom.experiments.spec import ExperimentSpec
from heirloom.learning.streams import stream
from heirloom.paper import bounds, tight
from heirloom.paper.catalogue import MODULES, experiment
from heirloom.runs.layout import Layout
from heirloom.runs.workers.compute import _unpacked, packed

SMALL = {
    "name": "small",
    "family": {"name": "corridor", "variant": "text"},
    "agents": [{"algorithm": "RMax", "n_known": 1}],
    "tasks": 2,
    "episodes": 3,
    "steps": 11,
}


@pytest.mark.parametrize("variant", ["text", "released"])
@pytest.mark.parametrize("name", [name for name in MODULES if experiment(name).settings])
def test_spec_is_unchanged_by_writing_and_reading(name, variant, tmp_path):
    written = experiment(name).settings(variant)
    (tmp_path / "x.toml").write_text(written.to_toml())
    assert ExperimentSpec.load(tmp_path / "x.toml") == written
    assert ExperimentSpec.read(written.as_json()) == written
    assert hash(written.agents[0]) == hash(written.agents[0].model_copy())


def test_spec_may_contain_numbers_of_numpy():
    agent = {"algorithm": "LRMax", "n_known": np.int64(3), "d_max": np.float32(0.5)}
    spec = ExperimentSpec.read({**SMALL, "tasks": np.int64(3), "agents": [agent]})
    assert (spec.tasks, spec.agents[0].options) == (3, {"n_known": 3, "d_max": 0.5})


def test_refresh_none_in_a_spec_freezes_estimates_and_other_specs_have_the_default():
    agents = [{"algorithm": "RMax", "refresh": ["none", 1.5, 3.0]}, {"algorithm": "LRMax"}]
    read = ExperimentSpec.read({**SMALL, "agents": agents})
    rng = np.random.default_rng(0)
    made = [make_agent(agent, read, draw_tasks(read, 1), rng) for agent in read.agents]
    assert [agent.options["refresh"] for agent in made] == [None, 1.5, 3.0, 1.5]
    assert {agent.n_known for agent in made} == {2}
    names = ["RMax(refresh=none)", "RMax(refresh=1.5)", "RMax(refresh=3.0)", "LRMax"]
    assert [agent.name for agent in read.agents] == names
    written = read.to_toml()
    assert written.count("refresh = ") == 2  # the default is not written
    assert 'refresh = "none"' in written
    assert ExperimentSpec.read(tomllib.loads(written)) == read


def test_runs_of_frozen_and_of_refreshed_estimates_have_different_checksums():
    specs = [
        ExperimentSpec.read({**SMALL, "defaults": defaults})
        for defaults in ({}, {"refresh": 1.5}, {"refresh": "none"})
    ]
    default, given, frozen = (Layout(spec, spec.as_json()).digest for spec in specs)
    assert default == given != frozen
    assert specs[0].difference(specs[2]) == "options of agents differ"


@pytest.mark.parametrize("variant", ["text", "released"])
@pytest.mark.parametrize("name", [name for name in MODULES if experiment(name).settings])
def test_experiment_of_the_paper_freezes_estimates(name, variant):
    if name in ("knowledge", "rivals"):
        pytest.skip("it is ours, and compares agents that keep learning")
    for agent in experiment(name).settings(variant).agents:
        if hasattr(agent.all_options, "n_known"):
            assert agent.options["refresh"] == "none"


def test_list_of_values_is_expanded_to_one_agent_per_combination():
    agents = [
        {"algorithm": "LRMax", "d_max": [0.1, 0.2], "n_known": [1, 5]},
        {"algorithm": "RMax", "name": "mine", "n_known": [1, 2]},
        {"algorithm": "LRMaxQInit", "d_max": 0.1, "n_known": 2},
    ]
    read = ExperimentSpec.read({**SMALL, "agents": agents})
    assert [agent.name for agent in read.agents] == [
        "LRMax(0.1, n_known=1)",
        "LRMax(0.1, n_known=5)",
        "LRMax(0.2, n_known=1)",
        "LRMax(0.2, n_known=5)",
        "mine(n_known=1)",
        "mine(n_known=2)",
        "LRMaxQInit(0.1)",
    ]


def test_defaults_apply_to_agents_that_accept_and_do_not_set_them():
    agents = [
        {"algorithm": "RMax"},
        {"algorithm": "QLearning"},
        {"algorithm": "RMax", "n_known": 7, "name": "x"},
    ]
    defaults = {"n_known": 3, "epsilon": 0.1}
    read = ExperimentSpec.read({**SMALL, "agents": agents, "defaults": defaults})
    assert [agent.options.get("n_known") for agent in read.agents] == [3, None, 7]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"epochs": 3}, "epochs is not a key"),
        ({"tasks": 0}, "tasks is 0"),
        ({"episodes": None, "episode": 3}, "episode is not a key"),
        ({"tasks": "many"}, "tasks is 'many'"),
        ({"tasks": "2"}, "tasks is '2'"),
        ({"tasks": 1.5}, "tasks is 1.5"),
        ({"seed": -1}, "seed is -1"),
        ({"family": {"name": "x"}}, "family.name is 'x': expected one of"),
        ({"family": {"name": "tight", "size": 3}}, "family.size is not an option of 'tight'"),
        ({"family": {"name": "tight", "variant": "z"}}, "family.variant is 'z'"),
        (
            {"family": {"name": "tight", "slips": [1]}},
            r"family.slips is \[1\]",
        ),
        ({"family": {"name": "grid"}}, "family.cells is missing"),
        ({"family": {"name": "grid", "cells": ["SX"]}}, "family: the map contains 'X'"),
        ({"family": {"name": "t-shape", "k": -1}}, "family: k is -1"),
        ({"family": {"variant": "text"}}, "family.name is missing"),
        ({"agents": []}, "agents is"),
        ({"agents": [{"algorithm": "LRMax", "n_known": 0}]}, "agents.1.n_known is 0"),
        ({"agents": [{"algorithm": "RMax", "refresh": 1.0}]}, "agents.1.refresh is 1.0"),
        ({"agents": [{"algorithm": "RMax", "refresh": "never"}]}, "agents.1.refresh is 'never'"),
        ({"agents": [{"algorithm": "RMax", "refresh": None}]}, "agents.1.refresh is None"),
        ({"agents": [{"algorithm": "SARSA"}]}, "agents.1.algorithm is 'SARSA'"),
        ({"agents": [{"n_known": 3}]}, "agents.1.algorithm is missing"),
        (
            {"agents": [{"algorithm": "RMax", "n_known": 1, "x": 2}]},
            "agents.1.x is not an option of RMax",
        ),
        ({"agents": [{"algorithm": "RMax", "n_known": 1}] * 2}, "two agents named 'RMax'"),
        ({"agents": [{"algorithm": "LRMax", "n_known": 1, "d_max": -1}]}, "d_max is -1"),
        (
            {"agents": [{"algorithm": "RMax", "n_known": 1, "d_max": 1}]},
            "d_max is not an option of RMax",
        ),
        ({"agents": [{"algorithm": "QLearning", "n_known": 1}]}, "only of RMax, LRMax"),
        ({"agents": [{"algorithm": ["RMax", "LRMax"]}]}, r"agents.1.algorithm is \[.*expected one"),
        ({"agents": [{"algorithm": "RMax", "name": ["a"]}]}, r"agents.1.name is \[.*expected one"),
        ({"agents": [{"algorithm": "LRMax", "d_max": []}]}, r"agents.1.d_max is \[\]"),
        (
            {
                "agents": [
                    {"algorithm": "LRMax", "n_known": 1, "d_max": [1, 2]},
                    {"algorithm": "RMax", "n_known": 0},
                ]
            },
            "agents.2.n_known is 0",
        ),
        ({"defaults": {"foo": 1}}, "defaults.foo is not an option of any algorithm"),
        ({"name": datetime.date(2020, 1, 1)}, "not a number, string"),
        ({"family": {"name": "grid", "cells": ["S.G"], "terminal": "no"}}, "family.terminal is"),
        ({"family": {"name": "t-shape", "k": 1.5}}, "family.k is 1.5"),
        ({"steps": 10**20}, "steps is 1"),
        (
            {"agents": [{"algorithm": "RMax", "n_known": 1, "epsilon": float("nan")}]},
            "agents.1.epsilon is nan",
        ),
        ({"agents": 3}, "agents is 3"),
        ({"defaults": 3}, "defaults is 3: expected a table"),
        ({"name": ""}, "name is ''"),
    ],
)
def test_invalid_key_or_value_is_reported(change, message):
    with pytest.raises(hl.errors.InvalidArgument, match=message):
        ExperimentSpec.read({**SMALL, **change})


def test_missing_or_invalid_file_is_reported_with_its_path(tmp_path):
    with pytest.raises(hl.errors.InvalidArgument, match="cannot be read"):
        ExperimentSpec.load(tmp_path / "x.toml")
    path = tmp_path / "y.toml"
    path.write_text("a = [")
    with pytest.raises(hl.errors.InvalidArgument, match=r"y\.toml is not valid TOML"):
        ExperimentSpec.load(path)
    path.write_text("tasks = 1")
    with pytest.raises(hl.errors.InvalidArgument, match=r"y\.toml: name is missing"):
        ExperimentSpec.load(path)


def test_agent_that_needs_what_the_family_does_not_know_is_reported():
    without_p_min = {**SMALL, "agents": [{"algorithm": "MaxQInit", "n_known": 1}]}
    with pytest.raises(hl.errors.InvalidArgument, match="agent 'MaxQInit': p_min is missing"):
        check_agents(ExperimentSpec.read(without_p_min))
    infinite = {**SMALL, "agents": [{"algorithm": "LRMax", "n_known": 1, "d_max": "family"}]}
    with pytest.raises(hl.errors.InvalidArgument, match="the family has no d_max"):
        check_agents(ExperimentSpec.read(infinite))


def test_agents_receive_the_prior_p_min_and_range_of_the_family():
    agents = [
        {"algorithm": "LRMax", "d_max": "family", "n_known": 1, "capacity": 2, "keep": "first"},
        {"algorithm": "MaxQInit", "n_known": 1},
        {"algorithm": "QLearning", "learning_rate": 0.5, "initial_Q": 1.0},
    ]
    read = ExperimentSpec.read({**SMALL, "family": {"name": "prices"}, "agents": agents})
    tasks = draw_tasks(read, 0)
    lrmax, maxq, q = (make_agent(agent, read, tasks, stream(0)) for agent in read.agents)
    family = FAMILIES["prices"]()
    assert (lrmax.bounds[0].d_max == family.d_max).all()
    assert lrmax.setting.reward_range == family.reward_range
    assert (lrmax.memory.capacity, lrmax.memory.keep) == (2, "first")
    assert maxq.bounds[0].p_min == 0.25
    assert (q.learning_rate, q.initial_Q.max()) == (0.5, 1.0)


def test_tasks_are_drawn_among_the_distinct_tasks_if_these_are_given():
    read = ExperimentSpec.read({**SMALL, "tasks": 30, "distinct_tasks": 4})
    tasks = draw_tasks(read, 0)
    assert len({id(task) for task in tasks}) == 4
    assert len({id(task) for task in draw_tasks(read.with_changes(tasks=4), 0)}) <= 4
    without = ExperimentSpec.read({**SMALL, "tasks": 6})
    assert len({float(task.R.max()) for task in draw_tasks(without, 0)}) == 6


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_can_be_used_in_a_spec(name):
    if name == "hospitals" and find_spec("icu_sepsis") is None:
        pytest.skip("the package icu-sepsis is not installed")
    options = {
        "grid": {"cells": ["S.", ".G"]},
        "garnet": {"n_states": 3, "n_actions": 2, "branching": 2},
        "drift": {"of": "queues"},
    }.get(name, {})
    read = ExperimentSpec.read({**SMALL, "family": {"name": name, **options}})
    assert draw_tasks(read, 0)[0].n_states > 1


def test_settings_are_those_of_the_paper_in_both_variants():
    for variant, delta, capacity in (("text", 0.05, None), ("released", 0.1, 1)):
        main = tight.settings(variant)
        assert (main.tasks, main.distinct_tasks, main.episodes, main.steps) == (15, 5, 2000, 10)
        assert main.repetitions == 10
        assert [agent.name for agent in main.agents] == [
            "RMax",
            "LRMax",
            "LRMax(0.2)",
            "LRMax(0.1)",
            "MaxQInit",
            "LRMaxQInit",
            "LRMaxQInit(0.1)",
            {"text": "NearRMax(0.2, 0.1)", "released": "NearRMax(0.19, 0.1)"}[variant],
            "NearRMax(family)",
        ]
        for agent in main.agents:
            options = agent.all_options
            assert (options.n_known, options.epsilon) == (10, 0.01)
            assert options.capacity == capacity
            if agent.algorithm not in ("RMax", "NearRMax"):
                assert options.delta == delta
        bounds_spec = bounds.settings(variant)
        assert (bounds_spec.tasks, bounds_spec.repetitions, bounds_spec.episodes) == (2, 100, 2000)
        priors = [agent.options.get("d_max") for agent in bounds_spec.agents]
        assert priors == [None, 0.0, 0.2, 0.5, 0.8, 1.0, None, None]
    assert all(agent.options["keep"] == "first" for agent in tight.settings("released").agents)


def test_difference_describes_the_first_key_that_differs():
    small = ExperimentSpec.read(SMALL)
    assert small.difference(small) == ""
    difference = small.difference(small.with_changes(seed=1))
    assert difference == "seed is 0 in this spec and 1 in the other"
    other = ExperimentSpec.read({**SMALL, "agents": [{"algorithm": "RMax", "n_known": 2}]})
    assert small.difference(other) == "options of agents differ"


def test_changed_spec_draws_a_task_only_if_its_family_changes(monkeypatch):
    spec, drawn = ExperimentSpec.read(SMALL), []
    draw = Corridor.draw
    monkeypatch.setattr(Corridor, "draw", lambda self, rng: drawn.append(self) or draw(self, rng))
    spec.with_changes(repetitions=7, tasks=2)
    assert not drawn
    spec.with_changes(family={"name": "corridor"})
    assert len(drawn) == 1


def test_spec_arrives_at_a_worker_as_it_was_sent():
    spec = tight.settings("released").with_changes(record={"tasks": [1, 2], "updates": 3})
    assert _unpacked(packed(spec)) == spec
