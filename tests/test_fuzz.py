"""Every public callable refuses arguments that make no sense, with an error of Heirloom's own.

Each callable is called once with valid arguments, and then with each argument replaced by each
value of `JUNK` and `MISFITS`. A call may succeed, or raise a `HeirloomError`, which names the
argument if it is junk. It must not raise another exception, hang, or crash the interpreter.
"""

import atexit
import inspect
import math
import re
import shutil
import signal
import tempfile
from contextlib import contextmanager
from decimal import Decimal
from fractions import Fraction
from functools import cache
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import pytest
from typer.testing import CliRunner

import heirloom as hl
from heirloom.cli import calculators
from heirloom.envs import maintenance, ordered, paper_tasks, perishables, queueing, toy_text
from heirloom.envs.inventory import inventory
from tests.report.examples import results as transfer_results

LONGEST = 60  # seconds per call; longer than compiling a kernel takes


class Hostile:
    """An object that raises an error whatever is done with it."""

    def __getattr__(self, name):
        raise AttributeError(name)

    def __repr__(self):
        raise RuntimeError("repr")

    def __bool__(self):
        raise RuntimeError("bool")


class Anything:
    """A class that can be called with any arguments."""

    def __init__(self, *_, **__):
        pass


JUNK = {
    "None": None,
    "a string": "x",
    "an empty string": "",
    "bytes": b"x",
    "NaN": math.nan,
    "infinity": math.inf,
    "minus infinity": -math.inf,
    "minus one": -1,
    "zero": 0,
    "a half": 0.5,
    "10**30": 10**30,
    "-10**30": -(10**30),
    "an integer without repr": 10**5000,
    "1e308": 1e308,
    "-1e308": -1e308,
    "a tiny number": 5e-324,
    "True": True,
    "an empty list": [],
    "a tuple": (),
    "a dictionary": {},
    "a set": {1},
    "an object": object(),
    "a hostile object": Hostile(),
    "a class": Anything,
    "a function": lambda *_, **__: None,
    "float32": np.float32(0.5),
    "numpy infinity": np.float64(np.inf),
    "a numpy boolean": np.True_,
    "a date": np.datetime64("2020-01-01"),
    "complex": 1j,
    "a fraction": Fraction(1, 3),
    "a decimal NaN": Decimal("NaN"),
    "an empty array": np.array([]),
    "a short array": np.array([0.5]),
    "an array with NaN": np.array([np.nan, 0.5]),
    "an array of another shape": np.zeros((2, 3, 5)),
    "an array of strings": np.array(["x", "y"]),
    "an array of objects": np.array([None, object()]),
    "a ragged list": [[1], [1, 2]],
    "a list of strings": ["x"],
    "a list of None": [None],
    "a masked array": np.ma.masked_array([1.0, 2.0], mask=[True, False]),
}


class Call(NamedTuple):
    """A valid call: a function, its arguments, and other names that messages use for them."""

    function: Any
    arguments: dict[str, Any]
    also_named: dict[str, str] = {}  # noqa: RUF012 -- never written to


CELLS = ("S.", ".G")
GRID = hl.GridMap(CELLS)
M = hl.grid_world(CELLS, gamma=0.9, slip=0.1)
M_BAR = hl.grid_world(CELLS, gamma=0.9, slip=0.2, goal_rewards=0.5)
N_STATES, N_ACTIONS = 4, 4
R, T = M.R, M.T.toarray().reshape(4, 4, 4)
POLICY = np.zeros(4, dtype=int)
SIZES = {"n_states": 4, "n_actions": 4}
AGENT = {
    **SIZES,
    "gamma": 0.9,
    "n_known": 1,
    "seed": 0,
    "epsilon": 0.01,
    "reward_range": (0.0, 1.0),
    "terminating": True,
    "v_max": 10.0,
    "tol": 1e-6,
    "on_refutation": "warn",
    "exact": False,
    "refutation_delta": 0.05,
    "explore": 0.0,
}
SETTING = {
    **SIZES,
    "gamma": 0.9,
    "reward_range": (0.0, 1.0),
    "terminating": True,
    "v_max": 10.0,
    "epsilon": 0.0,
    "tol": 1e-6,
}
# Objects of Heirloom, some of another size. Errors about them need not name the argument.
MISFITS = {
    "the name of a file": "x.foo",
    "a task": M,
    "a task of another size": hl.grid_world("S.G", gamma=0.9),
    "an environment": M.to_gymnasium(),
    "an environment of another size": gym.make("FrozenLake-v1"),
    "an agent": hl.RMax(**AGENT),
    "an agent of another size": hl.QLearning(n_states=3, n_actions=2, gamma=0.9),
    "a memory": hl.TaskMemory(3, 2),
    "a model": hl.LearnedModel(3, 2, n_known=1),
    "a source": hl.Source.of(hl.LearnedModel(3, 2, n_known=1), np.ones(6)),
    "rows": hl.LearnedModel(3, 2, n_known=1).rows,
    "a setting": hl.Setting(n_states=3, n_actions=2, gamma=0.5),
    "a bound": hl.Constant(),
    "a change": hl.Change(10**9, np.ones(6), np.ones(3), np.array([10**9])),
}
TO_MDP = {
    "gamma": 0.9,
    "unknown": "optimistic",
    "reward_range": (0.0, 1.0),
    "terminating": True,
    "start": 0,
    "state_names": list("abcd"),
    "action_names": list("abcd"),
}
STEP = {"s": 0, "a": 1, "r": 0.5, "s_next": 1, "terminated": False}
STEP_NAMES = {"s": "state", "a": "action", "r": "reward", "s_next": "next state"}
SPEC = {
    "name": "small",
    "tasks": 1,
    "episodes": 1,
    "steps": 2,
    "repetitions": 1,
    "seed": 0,
    "family": {"name": "corridor"},
    "agents": [{"algorithm": "RMax", "n_known": 1}],
}


def model():
    learned = hl.LearnedModel(4, 4, n_known=1)
    learned.observe(0, 1, 0.5, 1, terminated=False)
    return learned


def source():
    return hl.Source.of(model(), np.full(16, 5.0))


def memory():
    stored = hl.TaskMemory(4, 4)
    stored.add(source())
    return stored


def bound_memory():
    stored = memory()
    stored.bind(setting())
    return stored


def setting():
    return hl.Setting(**SETTING)


def agent(kind=hl.RMax, **options):
    made = kind(**AGENT, **options)
    made.begin_task()
    made.observe(0, 1, 0.5, 1, terminated=False)
    return made


def begun(bound):
    bound.begin_task(setting(), model(), memory())
    return bound


def change():
    return hl.Change(1, np.full(16, 10.0), np.full(4, 10.0), np.empty(0, dtype=np.int64))


def saved_agent():
    hl.RMax(**AGENT).save("saved.agent")
    return "saved.agent"


def saved_memory():
    memory().save("saved.memory")
    return "saved.memory"


def saved_task():
    M.save("saved.task")
    return "saved.task"


def saved_npz():
    np.savez("saved.npz", R=R, T=T)
    return "saved.npz"


def binned():
    return hl.Binned(gym.make("MountainCar-v0"), edges=[[0.0], [0.0]])


def started(env):
    env.reset(seed=0)
    return env


def saved_edges():
    binned().save_edges("saved.edges")
    return "saved.edges"


def saved_numbers():
    hl.Numbered(gym.make("Blackjack-v1")).save_numbers("saved.numbers")
    return "saved.numbers"


def saved_spec():
    hl.ExperimentSpec.read(SPEC)
    with open("saved.toml", "w") as file:
        file.write(hl.ExperimentSpec.read(SPEC).to_toml())
    return "saved.toml"


def results():
    return hl.compare(
        {"RMax": lambda rng: hl.RMax(**{**AGENT, "seed": rng})},
        lambda rng: M,
        tasks=2,
        episodes=2,
        max_steps=2,
        repetitions=2,
    )


def family():
    return hl.FiniteFamily({"m": M, "m_bar": M_BAR})


def weights():
    return hl.WeightedL1().weigh(np.full(4, 5.0), 4, setting())


def optimistic(kind, **options):
    return lambda: Call(kind, {**AGENT, "memory": hl.TaskMemory(4, 4), **options})


def bound_calls(name, make):
    """The methods that every bound has."""
    return {
        f"{name}.check": lambda: Call(make().check, {"setting": setting()}),
        f"{name}.begin_task": lambda: Call(
            make().begin_task, {"setting": setting(), "model": model(), "memory": memory()}
        ),
        f"{name}.refine": lambda: Call(begun(make()).refine, {"change": change()}),
        f"{name}.exclude": lambda: Call(begun(make()).exclude, {"pairs": np.array([3])}),
        f"{name}.end_task": lambda: Call(
            begun(make()).end_task, {"source": source(), "memory": memory()}
        ),
    }


def agent_calls(name, kind, **options):
    """The constructor and the methods of an optimistic agent."""
    return {
        name: optimistic(kind, **options),
        f"{name}.load": lambda: Call(
            hl.OptimisticAgent.load, {"path": saved_agent(), "bounds": None}
        ),
        f"{name}.save": lambda: Call(kind(**AGENT, **options).save, {"path": "agent"}),
        f"{name}.act": lambda: Call(agent(kind, **options).act, {"s": 1}, STEP_NAMES),
        f"{name}.observe": lambda: Call(agent(kind, **options).observe, STEP, STEP_NAMES),
        f"{name}.begin_task": lambda: Call(
            kind(**AGENT, **options).begin_task, {"available": np.ones((4, 4), dtype=bool)}
        ),
        f"{name}.observe_mask": lambda: Call(
            agent(kind, **options).observe_mask, {"s": 3, "mask": [1, 1, 0, 1]}, STEP_NAMES
        ),
        f"{name}.end_task": lambda: Call(
            agent(kind, **options).end_task, {"label": "Lyon", "time": "week 12"}
        ),
    }


NEAR = hl.Nearness(rewards=0.1, transitions=0.1)
CALLS = {
    # Tasks
    "TabularMDP": lambda: Call(
        hl.TabularMDP,
        {
            "R": R,
            "T": T,
            "gamma": 0.9,
            "start": 0,
            "terminates": [3],
            "reward_range": (0.0, 1.0),
            "available": np.ones((4, 4), dtype=bool),
            "state_names": list("abcd"),
            "action_names": list("urdl"),
        },
    ),
    "TabularMDP.from_transitions": lambda: Call(
        hl.TabularMDP.from_transitions, {"transitions": M.transitions, "gamma": 0.9, "start": 0}
    ),
    "TabularMDP.from_gymnasium": lambda: Call(
        hl.TabularMDP.from_gymnasium,
        {
            "env": M.to_gymnasium(),
            "gamma": 0.9,
            "start": 0,
            "reward_range": (0.0, 1.0),
            "masks": False,
            "state_names": list("abcd"),
            "action_names": list("urdl"),
        },
        {"env": "environment"},
    ),
    "TabularMDP.from_callable": lambda: Call(
        hl.TabularMDP.from_callable,
        {
            "row": lambda s, a: [(1.0, s, 0.5, False)],
            **SIZES,
            "gamma": 0.9,
            "start": 0,
            "reward_range": (0.0, 1.0),
        },
    ),
    "TabularMDP.from_npz": lambda: Call(
        hl.TabularMDP.from_npz, {"path": saved_npz(), "gamma": 0.9, "start": 0}
    ),
    "TabularMDP.save": lambda: Call(M.save, {"path": "task"}),
    "TabularMDP.load": lambda: Call(hl.TabularMDP.load, {"path": saved_task()}),
    "TabularMDP.to_gymnasium": lambda: Call(M.to_gymnasium, {"max_episode_steps": 5}),
    "garnet": lambda: Call(
        hl.garnet,
        {
            **SIZES,
            "branching": 2,
            "gamma": 0.9,
            "seed": 0,
            "terminating": 0.1,
            "reward_range": (0.0, 1.0),
        },
    ),
    "GridMap": lambda: Call(hl.GridMap, {"rows": CELLS, "closed": ""}, {"rows": "map"}),
    "GridMap.read": lambda: Call(hl.GridMap.read, {"cells": CELLS, "closed": ""}, {"cells": "map"}),
    "grid_world": lambda: Call(
        hl.grid_world,
        {
            "cells": CELLS,
            "gamma": 0.9,
            "slip": 0.1,
            "slip_to": "others",
            "goal_rewards": 1.0,
            "cell_rewards": np.zeros(4),
            "reward_on": "acting",
            "terminal": False,
            "actions": ("up", "right", "down", "left"),
            "reward_range": (0.0, 1.0),
        },
        {"cells": "map"},
    ),
    "grid_world without cell_rewards": lambda: Call(
        hl.grid_world,
        {"cells": GRID, "gamma": 0.9, "goal_rewards": 1.0},
        {"cells": "map", "goal_rewards": "(reward|rewards|reward_range|R)"},
    ),
    "FiniteFamily": lambda: Call(
        hl.FiniteFamily, {"tasks": {"m": M, "m_bar": M_BAR}, "p": [0.5, 0.5], "v_max": 10.0}
    ),
    "FiniteFamily.draw": lambda: Call(family().draw, {"rng": np.random.default_rng(0)}),
    "FiniteFamily.draw_name": lambda: Call(family().draw_name, {"rng": np.random.default_rng(0)}),
    "envs.tight": lambda: Call(
        paper_tasks.tight,
        {"goal_rewards": np.ones(3), "slip": 0.1, "variant": "text", "gamma": 0.9},
        {"goal_rewards": "(reward|rewards|reward_range|R)"},
    ),
    "envs.corridor": lambda: Call(
        paper_tasks.corridor, {"reward": 1.0, "gamma": 0.9}, {"reward": "(rewards|goal_rewards|R)"}
    ),
    "envs.maze": lambda: Call(paper_tasks.maze, {"layout": "orange", "slip": 0.1, "gamma": 0.9}),
    "envs.heat_map": lambda: Call(
        paper_tasks.heat_map,
        {"cells": CELLS, "slip": 0.1, "width": 1.0, "peak": 1.0, "gamma": 0.9},
        {"cells": "map"},
    ),
    "envs.t_shape": lambda: Call(paper_tasks.t_shape, {"k": 2, "goal": "up", "gamma": 0.9}),
    "envs.inventory": lambda: Call(
        inventory,
        {
            "demand": 3.0,
            "goods": 1.0,
            "storing": 0.1,
            "losing": 3.0,
            "capacity": 3,
            "most_ordered": 2,
            "gamma": 0.8,
            "reward_range": (-200.0, 0.0),
        },
        dict.fromkeys(("goods", "storing", "losing"), "(reward|reward_range)"),
    ),
    "envs.machine": lambda: Call(
        maintenance.machine,
        {
            "wear": 0.2,
            "failure": 0.1,
            "income": 200.0,
            "parts": 300.0,
            "replacement": 900.0,
            "gamma": 0.9,
            "reward_range": (-5000.0, 500.0),
        },
        dict.fromkeys(("income", "parts", "replacement"), "(reward|reward_range)"),
    ),
    "envs.Machines.draw": lambda: Call(
        maintenance.Machines().draw, {"rng": np.random.default_rng(0)}
    ),
    "envs.Machines.task": lambda: Call(
        maintenance.Machines().task,
        {"wear": 0.2, "failure": 0.2, "income": 200.0, "parts": 300.0, "replacement": 900.0},
    ),
    "envs.queue": lambda: Call(
        queueing.queue,
        {
            "arrival": 0.4,
            "service": 0.3,
            "sent_away": 15.0,
            "gamma": 0.9,
            "reward_range": (-50.0, 0.0),
        },
        {"sent_away": "(reward|reward_range)"},
    ),
    "envs.ferry": lambda: Call(
        ordered.ferry,
        {"slip": 0.1, "reward": 0.9, "sinks": True, "gamma": 0.9, "reward_range": (-1.0, 1.0)},
        {"reward": r"(reward|R\[|reward_range)"},
    ),
    "envs.perishables": lambda: Call(
        perishables.perishables,
        {
            "busy": 0.5,
            "fresh": 0.8,
            "price": 4.0,
            "goods": 2.0,
            "gamma": 0.9,
            "reward_range": (-50.0, 50.0),
        },
        dict.fromkeys(("price", "goods"), "(reward|reward_range)"),
    ),
    "envs.frozen_lake": lambda: Call(
        toy_text.frozen_lake,
        {"cells": ("SF", "HG"), "slip": 0.1, "prize": 1.0, "gamma": 0.9},
        {"cells": "map"},
    ),
    "envs.taxi": lambda: Call(toy_text.taxi, {"rain": 0.0, "fare": 20.0, "blocked": ()}),
    "envs.cliff_walking": lambda: Call(toy_text.cliff_walking, {"wind": 0.1, "fall": 50.0}),
    "Numbered": lambda: Call(
        hl.Numbered,
        {"env": gym.make("Blackjack-v1"), "n_states": 704, "key": lambda seen: seen, "numbers": {}},
        {"env": "environment"},
    ),
    "Numbered.state_of": lambda: Call(
        hl.Numbered(gym.make("Blackjack-v1")).state_of, {"observation": (12, 10, 0)}
    ),
    "Numbered.observation_of": lambda: Call(
        hl.Numbered(gym.make("Blackjack-v1")).observation_of, {"state": 3}
    ),
    "Numbered.action_of": lambda: Call(
        hl.Numbered(gym.make("Blackjack-v1")).action_of, {"action": 1}
    ),
    "Numbered.reset": lambda: Call(hl.Numbered(gym.make("Blackjack-v1")).reset, {}),
    "Numbered.step": lambda: Call(
        started(hl.Numbered(gym.make("Blackjack-v1"))).step, {"action": 1}
    ),
    "Numbered.save_numbers": lambda: Call(
        hl.Numbered(gym.make("Blackjack-v1")).save_numbers, {"path": "numbers"}
    ),
    "Numbered.load_numbers": lambda: Call(hl.Numbered.load_numbers, {"path": saved_numbers()}),
    "LearnedModel.to_mdp": lambda: Call(model().to_mdp, TO_MDP),
    "Source.to_mdp": lambda: Call(source().to_mdp, TO_MDP),
    "learned_nearness": lambda: Call(
        hl.learned_nearness,
        {"models": [model(), source()], "reward_range": (0.0, 1.0), "epsilon": 0.01},
    ),
    "Binned": lambda: Call(
        hl.Binned,
        {"env": gym.make("MountainCar-v0"), "edges": [[0.0], [0.0]]},
        {"env": "environment"},
    ),
    "Binned.state_of": lambda: Call(binned().state_of, {"observation": [0.1, 0.1]}),
    "Binned.bin_of": lambda: Call(binned().bin_of, {"state": 3}),
    "Binned.action_of": lambda: Call(binned().action_of, {"action": 1}),
    "Binned.reset": lambda: Call(binned().reset, {}),
    "Binned.step": lambda: Call(started(binned()).step, {"action": 1}),
    "Binned.save_edges": lambda: Call(binned().save_edges, {"path": "edges"}),
    "Binned.load_edges": lambda: Call(hl.Binned.load_edges, {"path": saved_edges()}),
    # Planning and metrics
    "solve": lambda: Call(hl.solve, {"m": M, "tol": 1e-6}, {"m": "TabularMDP"}),
    "evaluate": lambda: Call(
        hl.evaluate, {"m": M, "policy": POLICY, "tol": 1e-6}, {"m": "TabularMDP"}
    ),
    "expected_return": lambda: Call(
        hl.expected_return,
        {"m": M, "policy": POLICY, "horizon": 3, "discounted": True},
        {"m": "TabularMDP"},
    ),
    "optimal_return": lambda: Call(
        hl.optimal_return, {"m": M, "horizon": 3, "discounted": True}, {"m": "TabularMDP"}
    ),
    "model_pseudometric": lambda: Call(
        hl.model_pseudometric,
        {"m": M, "m_bar": M_BAR, "f": np.ones(4), "f_end": 0.0},
        {"m": "TabularMDP", "m_bar": "TabularMDP"},
    ),
    **{
        name: lambda name=name: Call(
            getattr(hl, name),
            {"m": M, "m_bar": M_BAR, "tol": 1e-6},
            {"m": "TabularMDP", "m_bar": "TabularMDP"},
        )
        for name in (
            "dissimilarity",
            "local_pseudometric",
            "global_pseudometric",
            "lipschitz_bound",
        )
    },
    **{
        name: lambda name=name: Call(
            getattr(hl, name),
            {"m": M, "m_bar": M_BAR, "policy": POLICY, "tol": 1e-6},
            {"m": "TabularMDP", "m_bar": "TabularMDP"},
        )
        for name in ("policy_v_pseudometric", "policy_q_pseudometric")
    },
    "family_distance": lambda: Call(hl.family_distance, {"tasks": [M, M_BAR], "tol": 1e-6}),
    "bisimulation_metric": lambda: Call(
        hl.bisimulation_metric,
        {"m": M, "m_bar": M_BAR, "ground": "recursive", "c": 0.5, "tol": 1e-2},
        {"m": "TabularMDP", "m_bar": "TabularMDP"},
    ),
    "pairs_to_learn": lambda: Call(
        hl.pairs_to_learn, {"U": np.ones((4, 4)), "m": M, "epsilon": 0.1}, {"m": "TabularMDP"}
    ),
    # Formulas
    "dynamic_programs": lambda: Call(hl.dynamic_programs, {**SIZES, "n_sources": 2}),
    "value_iterations": lambda: Call(hl.value_iterations, {"gamma": 0.9, "precision": 0.01}),
    "tasks_for_max_q": lambda: Call(
        hl.tasks_for_max_q, {"p_min": 0.2, "delta": 0.05, "scope": "task"}
    ),
    "tasks_for_distance": lambda: Call(hl.tasks_for_distance, {"p_min": 0.2, "delta": 0.05}),
    "n_known_for": lambda: Call(
        hl.n_known_for,
        {
            **SIZES,
            "epsilon": 0.1,
            "delta": 0.1,
            "n_sources": 1,
            "reward_range": (0.0, 1.0),
            "terminating": True,
        },
    ),
    # Models and memories
    "LearnedModel": lambda: Call(hl.LearnedModel, {**SIZES, "n_known": 1}),
    "LearnedModel.with_accuracy": lambda: Call(
        hl.LearnedModel.with_accuracy,
        {
            **SIZES,
            "epsilon": 0.1,
            "delta": 0.1,
            "n_sources": 1,
            "reward_range": (0.0, 1.0),
            "terminating": True,
        },
    ),
    "LearnedModel.observe": lambda: Call(model().observe, STEP, STEP_NAMES),
    "LearnedModel.successors": lambda: Call(model().successors, {"s": 0, "a": 1}, STEP_NAMES),
    "Source": lambda: Call(
        hl.Source,
        {
            "rows": source().rows,
            "Q": np.ones(16),
            "V": np.ones(4),
            "task": 1,
            "n_known": 1,
            "available": np.ones(16, dtype=bool),
            "label": "a label",
            "time": "week 12",
        },
        {"V": "rows"},
    ),
    "Source.of": lambda: Call(
        hl.Source.of, {"model": model(), "Q": np.ones(16), "label": "a", "time": "week 12"}
    ),
    "TaskMemory": lambda: Call(
        hl.TaskMemory,
        {
            **SIZES,
            "capacity": 2,
            "keep": "first",
            "state_names": list("abcd"),
            "action_names": list("abcd"),
        },
        dict.fromkeys(("n_states", "n_actions"), "(state|action)_names"),
    ),
    "TaskMemory.set_names": lambda: Call(
        memory().set_names, {"state_names": list("abcd"), "action_names": list("abcd")}
    ),
    "TaskMemory.label": lambda: Call(
        memory().label, {"task": 1, "label": "Lyon", "time": "week 12"}
    ),
    "TaskMemory.task_name": lambda: Call(memory().task_name, {"task": 1}),
    "TaskMemory.load": lambda: Call(hl.TaskMemory.load, {"path": saved_memory()}),
    "TaskMemory.save": lambda: Call(memory().save, {"path": "memory"}),
    "TaskMemory.bind": lambda: Call(memory().bind, {"setting": setting()}),
    "TaskMemory.keep_first": lambda: Call(memory().keep_first, {"n_tasks": 2}),
    "TaskMemory.compare_first": lambda: Call(memory().compare_first, {"n_tasks": 2}),
    "TaskMemory.add": lambda: Call(memory().add, {"source": source()}),
    "TaskMemory.use": lambda: Call(memory().use, {"task": 1}),
    "Setting": lambda: Call(hl.Setting, SETTING),
    # Bounds and distances
    "MaxQ": lambda: Call(hl.MaxQ, {"p_min": 0.5, "delta": 0.1, "scope": "task"}),
    "Lipschitz": lambda: Call(
        hl.Lipschitz,
        {
            "d_max": 0.1,
            "p_min": 0.5,
            "delta": 0.1,
            "scope": "task",
            "distance": hl.WeightedL1(),
        },
    ),
    "Nearness": lambda: Call(
        hl.Nearness,
        {
            "rewards": 0.1,
            "transitions": 0.1,
            "successors": None,
            "terminates": None,
            "highest_rewards": None,
        },
    ),
    "audit": lambda: Call(
        hl.audit,
        {
            "memory": bound_memory(),
            "knowledge": NEAR,
            "d_max": None,
            "p_min": None,
            "exact": False,
            "delta": 0.05,
        },
    ),
    "audit of d_max": lambda: Call(hl.audit, {"memory": bound_memory(), "d_max": 0.1}),
    "audit of p_min": lambda: Call(hl.audit, {"memory": bound_memory(), "p_min": 0.5}),
    "draw_audit": lambda: Call(
        hl.draw_audit, {"audit": hl.audit(bound_memory(), 0.1), "title": "x"}
    ),
    "NearModels": lambda: Call(
        hl.NearModels,
        {"nearness": NEAR, "p_min": None, "delta": 0.1, "scope": "task"},
        {"nearness": "nearness|p_min", "p_min": "nearness|p_min"},
    ),
    "family_nearness": lambda: Call(hl.family_nearness, {"tasks": [M, M_BAR]}),
    "near_bound": lambda: Call(
        hl.near_bound,
        {"m": M, "m_bar": M_BAR, "nearness": NEAR, "tol": 1e-6},
        {"m": "TabularMDP", "m_bar": "TabularMDP"},
    ),
    "NearModels, learned": lambda: Call(
        hl.NearModels, {"p_min": 0.5, "delta": 0.1, "scope": "task"}, {"p_min": "nearness|p_min"}
    ),
    "Envelope": lambda: Call(hl.Envelope, {"alpha": 0.5, "first": 1, "calibration": 2}),
    **bound_calls("NearModels", lambda: hl.NearModels(NEAR)),
    **bound_calls("NearModels, learned", lambda: hl.NearModels(p_min=0.9)),
    **bound_calls("Envelope", lambda: hl.Envelope(alpha=0.5, first=1)),
    **bound_calls("Constant", hl.Constant),
    **bound_calls("MaxQ", lambda: hl.MaxQ(p_min=0.5)),
    **bound_calls("Lipschitz", lambda: hl.Lipschitz(d_max=0.1, p_min=0.5)),
    "WeightedL1.weigh": lambda: Call(
        hl.WeightedL1().weigh, {"V_bar": np.full(4, 5.0), "widest": 4, "setting": setting()}
    ),
    "WeightedL1.least": lambda: Call(
        hl.WeightedL1().least, {"largest_V_bar": 5.0, "setting": setting()}
    ),
    "WeightedL1.between": lambda: Call(
        hl.WeightedL1().between,
        {
            "m": model().rows,
            "m_bar": source().rows,
            "weights": weights(),
            "pairs": np.arange(16),
            "setting": setting(),
        },
    ),
    # Agents
    **agent_calls("RMax", hl.RMax),
    **agent_calls("LRMax", hl.LRMax, d_max=0.1, p_min=0.5, delta=0.1, scope="task"),
    **agent_calls("MaxQInit", hl.MaxQInit, p_min=0.5, delta=0.1, scope="task"),
    **agent_calls("LRMaxQInit", hl.LRMaxQInit, p_min=0.5, delta=0.1, scope="task", d_max=0.1),
    **agent_calls("NearRMax", hl.NearRMax, nearness=NEAR, p_min=None, delta=0.1, scope="task"),
    "NearRMax, learned": optimistic(hl.NearRMax, p_min=0.5, delta=0.1, scope="task"),
    **agent_calls("OptimisticAgent", hl.OptimisticAgent, bounds=[hl.Constant()]),
    "agent.task.update": lambda: Call(agent().task.update, {"pair": 1}),
    "agent.task.greedy_actions": lambda: Call(agent().task.greedy_actions, {"s": 1}, STEP_NAMES),
    "agent.task.end": lambda: Call(agent().task.end, {"memory": memory()}),
    "QLearning": lambda: Call(
        hl.QLearning,
        {
            **SIZES,
            "gamma": 0.9,
            "learning_rate": 0.1,
            "exploration": 0.1,
            "initial_Q": 0.0,
            "seed": 0,
        },
    ),
    "QLearning.act": lambda: Call(q_learning().act, {"s": 1}, STEP_NAMES),
    "QLearning.observe": lambda: Call(q_learning().observe, STEP, STEP_NAMES),
    "QLearning.observe_mask": lambda: Call(
        q_learning().observe_mask, {"s": 3, "mask": [1, 1, 0, 1]}, STEP_NAMES
    ),
    "BisimulationTransfer": lambda: Call(
        hl.BisimulationTransfer,
        {
            "source": M,
            "target": M_BAR,
            "Q": np.ones((4, 4)),
            "ground": "identity",
            "c": 0.5,
            "learning_rate": 0.1,
            "exploration": 0.1,
            "seed": 0,
        },
        {"source": "TabularMDP", "target": "TabularMDP"},
    ),
    "Explanation.why": lambda: Call(agent().explain().why, {"s": 0, "a": 1}),
    # Learning, experiments and figures
    "learn": lambda: Call(
        hl.learn,
        {
            "agent": hl.RMax(**AGENT),
            "env": M,
            "episodes": 2,
            "max_steps": 2,
            "seed": 0,
            "callback": lambda done, episodes: None,
            "every": 1,
            "resume": False,
            "masks": False,
            "label": "Lyon",
            "time": "week 12",
            "record": {"first": 1},
        },
        {"env": "environment"},
    ),
    "compare": lambda: Call(
        hl.compare,
        {
            "agents": {"RMax": lambda rng: hl.RMax(**{**AGENT, "seed": rng})},
            "draw_task": lambda rng: M,
            "tasks": 1,
            "episodes": 2,
            "max_steps": 2,
            "repetitions": 1,
            "seed": 0,
            "jobs": None,
            "out": None,
            "masks": False,
            "measure": None,
            "record": None,
        },
    ),
    "comparison_table": lambda: Call(
        hl.comparison_table, {"results": results(), "last": 1, "baseline": "RMax"}
    ),
    "helps_from": lambda: Call(
        hl.helps_from,
        {"results": results(), "agent": "RMax", "baseline": "RMax", "confidence": 0.9},
    ),
    "ExperimentSpec": lambda: Call(hl.ExperimentSpec, SPEC | {"agents": EXPANDED}),
    "ExperimentSpec.read": lambda: Call(hl.ExperimentSpec.read, {"data": SPEC}, {"data": "spec"}),
    "ExperimentSpec.load": lambda: Call(
        hl.ExperimentSpec.load, {"path": saved_spec()}, {"path": "cannot be read"}
    ),
    "ExperimentSpec.with_changes": lambda: Call(
        hl.ExperimentSpec.read(SPEC).with_changes, {"tasks": 2, "agents": SPEC["agents"]}
    ),
    "ExperimentSpec.difference": lambda: Call(
        hl.ExperimentSpec.read(SPEC).difference, {"other": hl.ExperimentSpec.read(SPEC)}
    ),
    "run": lambda: Call(
        hl.run,
        {
            "spec": hl.ExperimentSpec.read(SPEC),
            "location": "run",
            "jobs": 1,
            "backend": "local",
            "address": None,
        },
    ),
    "draw_episodes": lambda: Call(
        hl.draw_episodes,
        {"results": results(), "title": "title", "xlabel": "patient", "ylabel": "survival"},
    ),
    "draw_lifelong": lambda: Call(
        hl.draw_lifelong,
        {
            "results": results(),
            "title": "title",
            "baseline": "RMax",
            "loss": False,
            "xlabel": "week",
            "ylabel": "euros",
        },
    ),
    "draw_transfer": lambda: Call(
        hl.draw_transfer, {"results": transfer_results(), "agent": "Mine", "title": "title"}
    ),
    "report": lambda: Call(
        hl.write_report,
        {"runs": results(), "path": "report.html", "title": "title", "baseline": "RMax"},
        {"runs": "run"},
    ),
    "results": lambda: Call(
        hl.results, {"path": stored_run(), "variables": ["returns"]}, {"path": "run"}
    ),
    "draw_map": lambda: Call(hl.draw_map, {"grid": GRID, "title": "title"}, {"grid": "map"}),
    "draw_on_grid": lambda: Call(
        hl.draw_on_grid,
        {
            "grid": GRID,
            "values": np.ones((4, 4)),
            "label": "label",
            "title": "title",
            "limits": (0.0, 1.0),
            "actions": ("up", "right", "down", "left"),
        },
        {"grid": "map"},
    ),
    "Recording.layer": lambda: Call(recording().layer, {"name": "Q", "snapshot": 0}),
    "replay": lambda: Call(
        hl.replay,
        {
            "source": recording(),
            "path": "replay.html",
            "agents": "RMax",
            "repetition": 1,
            "task": 1,
        },
        {"source": "run"},
    ),
    "save_figure": lambda: Call(
        hl.save_figure, {"figure": hl.draw_map(GRID), "path": "figure.png"}
    ),
}
EXPANDED = ({"name": "RMax", "algorithm": "RMax", "n_known": 1},)


@cache
def stored_run():
    """Return the folder of a small run, which is deleted at the end of the process."""
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder)
    agents = [{"algorithm": "RMax", "n_known": 1}]
    sizes = {"tasks": 1, "episodes": 1, "steps": 1, "repetitions": 1}
    spec = {"name": "small", "family": {"name": "t-shape"}, "agents": agents, **sizes}
    hl.run(hl.ExperimentSpec.read(spec), folder, jobs=1)
    return folder


def recording():
    agent = hl.RMax(**AGENT)
    return hl.learn(agent, M, episodes=2, max_steps=2, seed=0, record=True).recording


def q_learning():
    learner = hl.QLearning(**SIZES, gamma=0.9, seed=0)
    learner.begin_task()
    return learner


@contextmanager
def time_limit(seconds):
    """Raise `TimeoutError` if the block takes longer, unless it is in compiled code."""

    def stop(*_):
        raise TimeoutError(f"no answer after {seconds} s")

    previous = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous)


def problem_with(call, argument, junk, *, must_name):
    """Call a function with junk as one argument; return what is wrong with the error, or None."""
    try:
        with time_limit(LONGEST):
            call.function(**{**call.arguments, argument: junk})
    except hl.HeirloomError as error:
        words = (argument, call.also_named.get(argument, argument))
        is_named = not must_name or any(re.search(rf"\b{word}\b", str(error)) for word in words)
        return None if is_named else f"the message does not name it: {error}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


@pytest.mark.parametrize("name", CALLS)
def test_valid_call_succeeds(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    call = CALLS[name]()
    call.function(**call.arguments)


@pytest.mark.parametrize("name", CALLS)
def test_junk_is_accepted_or_refused_with_an_error_that_names_the_argument(
    name, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    problems = []
    for argument in CALLS[name]().arguments:
        for kind, junk in (JUNK | MISFITS).items():
            problem = problem_with(CALLS[name](), argument, junk, must_name=kind in JUNK)
            if problem is not None:
                problems.append(f"{argument} = {kind}: {problem}")
    assert not problems, "\n" + "\n".join(problems)


NOT_CALLED = {
    "Agent": "a protocol",
    "Bound": "a protocol; its methods are those of Constant",
    "ModelDistance": "a protocol",
    "BoxFamily": "an abstract class; Machines is derived from it",
    "TaskFamily": "an abstract class; FiniteFamily is derived from it",
    "Change": "plain data; bounds check it",
    "Details": "plain data",
    "Audit": "plain data",
    "Explanation": "plain data",
    "Record": "plain data",
    "Recording": "plain data",
    "Solution": "plain data",
    "Constant": "a constructor without arguments",
    "WeightedL1": "a constructor without arguments",
}


def public_callables():
    """Yield the names of all public functions, constructors and methods that take arguments."""
    for name in hl.__all__:
        value = getattr(hl, name)
        if isinstance(value, type) and issubclass(value, Exception):
            continue
        if name not in NOT_CALLED:
            yield name
        if isinstance(value, type) and name not in (
            "Agent",
            "Bound",
            "BoxFamily",
            "ModelDistance",
            "TaskFamily",
        ):
            yield from (f"{name}.{method}" for method in methods_with_arguments(value))


def methods_with_arguments(kind):
    for name in dir(kind):
        method = getattr(kind, name)
        is_ours = (getattr(method, "__module__", None) or "").startswith("heirloom.")
        if name.startswith("_") or not callable(method) or not is_ours:
            continue
        own = isinstance(inspect.getattr_static(kind, name), classmethod | staticmethod)
        if len(inspect.signature(method).parameters) > (0 if own else 1):
            yield name


def test_every_public_callable_is_called():
    missing = [name for name in public_callables() if name not in CALLS]
    assert missing == []


def test_every_argument_is_replaced():
    """A call names all arguments of a function, except for those collected in `options`."""
    for name, make in CALLS.items():
        call = make() if "." not in name else None
        if call is None or name not in hl.__all__ or name == "ExperimentSpec":
            continue
        parameters = inspect.signature(call.function).parameters.values()
        named = {p.name for p in parameters if p.kind is not p.VAR_KEYWORD}
        assert named <= set(call.arguments), name


# The calculators of the command line


CALCULATORS = {
    "n-known": {"states": "4", "actions": "2", "epsilon": "0.1", "delta": "0.1", "sources": "1"},
    "tasks": {"p-min": "0.2", "delta": "0.05"},
    "computations": {
        "states": "4",
        "actions": "2",
        "sources": "1",
        "gamma": "0.9",
        "precision": "0.01",
    },
    "pairs-to-learn": {
        "d-max": "0.1",
        "epsilon": "0.1",
        "n-known": "1",
        "episodes": "1",
        "steps": "1",
        "seed": "0",
    },
}
WORDS = ("", "x", "nan", "inf", "-inf", "-1", "0", "0.5", "1e308", "1e-320", "1" + "0" * 30, "True")


@pytest.mark.parametrize("command", CALCULATORS)
def test_calculator_answers_or_reports_an_error(command):
    """It prints a result, or one line with an error or a usage message, and no traceback."""
    runner, valid = CliRunner(), CALCULATORS[command]

    def run(options):
        arguments = [f"--{name}={value}" for name, value in options.items()]
        return runner.invoke(calculators.app, [command, *arguments])

    assert run(valid).exit_code == 0
    for name in valid:
        for word in WORDS:
            result = run({**valid, name: word})
            where = f"{command} --{name}={word}: {result.output}"
            assert result.exception is None or isinstance(result.exception, SystemExit), where
            assert result.exit_code in (0, 1, 2), where
            assert "Traceback" not in result.output, where
            if result.exit_code:
                assert name.replace("-", "_") in result.output.replace("-", "_"), where
