"""Experiments as data: what they say, and what is refused."""

import datetime
import textwrap
import tomllib

import pytest

import heirloom as hl
from heirloom.experiments import spec
from heirloom.experiments.job import check_agents, draw_tasks, make_agent
from heirloom.experiments.registry import FAMILIES
from heirloom.experiments.spec import ExperimentSpec
from heirloom.learning.streams import stream
from heirloom.paper import bounds, tight
from heirloom.paper.registry import MODULES, experiment

SMALL = {
    "name": "small",
    "family": {"name": "corridor", "variant": "text"},
    "agents": [{"algorithm": "RMax", "n_known": 1}],
    "tasks": 2,
    "episodes": 3,
    "steps": 11,
}


def test_the_example_of_the_module():
    text = textwrap.dedent(spec.__doc__.split("TOML:")[1])
    read = ExperimentSpec.read(tomllib.loads(text))
    assert [agent.name for agent in read.agents] == ["RMax", "LRMax(0.1)", "LRMax(0.2)"]
    assert read.agents[1].options["n_known"] == 10


@pytest.mark.parametrize("variant", ["text", "released"])
@pytest.mark.parametrize("name", [name for name in MODULES if experiment(name).settings])
def test_a_spec_is_written_and_read_as_the_same(name, variant, tmp_path):
    one = experiment(name).settings(variant)
    (tmp_path / "x.toml").write_text(one.to_toml())
    assert ExperimentSpec.load(tmp_path / "x.toml") == one
    assert ExperimentSpec.read(one.as_json()) == one
    assert hash(one.agents[0]) == hash(one.agents[0].model_copy())


def test_lists_are_sweeps():
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


def test_defaults_are_for_all_agents_that_take_them():
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
        ({"family": {"name": "x"}}, "family.name is 'x': the families are"),
        ({"family": {"name": "tight", "size": 3}}, "family.size is not an option of 'tight'"),
        ({"family": {"name": "tight", "variant": "z"}}, "family.variant is 'z'"),
        ({"family": {"name": "tight", "slips": [1]}}, "family.slips is"),
        ({"family": {"name": "grid"}}, "family.cells is missing"),
        ({"family": {"name": "grid", "cells": ["SX"]}}, "family: the map holds 'X'"),
        ({"family": {"name": "t-shape", "k": -1}}, "family: k is -1"),
        ({"family": {"variant": "text"}}, "family.name is missing"),
        ({"agents": []}, "agents is"),
        ({"agents": [{"algorithm": "RMax"}]}, "agents.1: n_known is missing"),
        ({"agents": [{"algorithm": "SARSA"}]}, "agents.1.algorithm is 'SARSA'"),
        ({"agents": [{"n_known": 3}]}, "agents.1.algorithm is missing"),
        ({"agents": [{"algorithm": "RMax", "n_known": 1, "x": 2}]}, "agents.1.x is not a key"),
        ({"agents": [{"algorithm": "RMax", "n_known": 1}] * 2}, "two agents are named 'RMax'"),
        ({"agents": [{"algorithm": "LRMax", "n_known": 1, "d_max": -1}]}, "d_max is -1"),
        ({"agents": [{"algorithm": "RMax", "n_known": 1, "d_max": 1}]}, "d_max is for LRMax"),
        ({"agents": [{"algorithm": "QLearning", "n_known": 1}]}, "n_known is for RMax and LRMax"),
        ({"agents": [{"algorithm": ["RMax", "LRMax"]}]}, "agents.1.algorithm is a list"),
        ({"agents": [{"algorithm": "RMax", "name": ["a"]}]}, "agents.1.name is a list"),
        ({"agents": [{"algorithm": "LRMax", "d_max": []}]}, "agents.1.d_max is an empty list"),
        (
            {
                "agents": [
                    {"algorithm": "LRMax", "n_known": 1, "d_max": [1, 2]},
                    {"algorithm": "RMax", "n_known": 0},
                ]
            },
            "agents.2.n_known is 0",
        ),
        ({"defaults": {"foo": 1}}, "defaults.foo is not an option of agents"),
        ({"name": datetime.date(2020, 1, 1)}, "neither number nor text"),
        ({"family": {"name": "grid", "cells": ["S.G"], "terminal": "no"}}, "family.terminal is"),
        ({"family": {"name": "t-shape", "k": 1.5}}, "family.k is 1.5"),
        ({"steps": 10**20}, "steps is 1"),
        (
            {"agents": [{"algorithm": "RMax", "n_known": 1, "epsilon": float("nan")}]},
            "agents.1.epsilon is nan",
        ),
        ({"agents": 3}, "agents is 3"),
        ({"defaults": 3}, "defaults is not a table"),
        ({"name": ""}, "name is ''"),
    ],
)
def test_what_is_wrong_is_named(change, message):
    with pytest.raises(hl.InvalidArgument, match=message):
        ExperimentSpec.read({**SMALL, **change})


def test_a_file_that_is_not_there_or_not_toml(tmp_path):
    with pytest.raises(hl.InvalidArgument, match="cannot be read"):
        ExperimentSpec.load(tmp_path / "x.toml")
    path = tmp_path / "y.toml"
    path.write_text("a = [")
    with pytest.raises(hl.InvalidArgument, match=r"y\.toml is not TOML"):
        ExperimentSpec.load(path)
    path.write_text("tasks = 1")
    with pytest.raises(hl.InvalidArgument, match=r"y\.toml: name is missing"):
        ExperimentSpec.load(path)


def test_agents_that_do_not_fit_their_family():
    lacking = {**SMALL, "agents": [{"algorithm": "MaxQInit", "n_known": 1}]}
    with pytest.raises(hl.InvalidArgument, match="agent 'MaxQInit': p_min is missing"):
        check_agents(ExperimentSpec.read(lacking))
    infinite = {**SMALL, "agents": [{"algorithm": "LRMax", "n_known": 1, "d_max": "family"}]}
    with pytest.raises(hl.InvalidArgument, match="the family is not finite"):
        check_agents(ExperimentSpec.read(infinite))


def test_agents_are_told_what_the_family_knows():
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


def test_distinct_tasks_are_drawn_first():
    read = ExperimentSpec.read({**SMALL, "tasks": 30, "distinct_tasks": 4})
    tasks = draw_tasks(read, 0)
    assert len({id(task) for task in tasks}) == 4
    assert len({id(task) for task in draw_tasks(read.with_changes(tasks=4), 0)}) <= 4
    anew = ExperimentSpec.read({**SMALL, "tasks": 6})
    assert len({float(task.R.max()) for task in draw_tasks(anew, 0)}) == 6


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_can_be_named(name):
    options = {
        "grid": {"cells": ["S.", ".G"]},
        "garnet": {"n_states": 3, "n_actions": 2, "branching": 2},
    }.get(name, {})
    read = ExperimentSpec.read({**SMALL, "family": {"name": name, **options}})
    assert draw_tasks(read, 0)[0].n_states > 1


def test_the_papers_settings():
    """The table of the design, in both variants."""
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
        ]
        for agent in main.agents:
            options = agent.all_options
            assert (options.n_known, options.epsilon) == (10, 0.01)
            assert (options.delta, options.capacity) == (delta, capacity)
        of_bounds = bounds.settings(variant)
        assert (of_bounds.tasks, of_bounds.repetitions, of_bounds.episodes) == (2, 100, 2000)
        priors = [agent.options.get("d_max") for agent in of_bounds.agents]
        assert priors == [None, 0.0, 0.2, 0.5, 0.8, 1.0]
    assert all(agent.options["keep"] == "first" for agent in tight.settings("released").agents)


def test_differences_are_told():
    one = ExperimentSpec.read(SMALL)
    assert one.difference(one) == ""
    assert "seed is 0 here, and 1 there" in one.difference(one.with_changes(seed=1))
    other = ExperimentSpec.read({**SMALL, "agents": [{"algorithm": "RMax", "n_known": 2}]})
    assert one.difference(other) == "options of agents differ"
