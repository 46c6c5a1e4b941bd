"""Values that users plausibly get wrong are refused with an error that names the argument.

Each callable is called with valid arguments, and then with each argument replaced by each value of
`WRONG` and `MISFITS`. A call may succeed, or raise a `HeirloomError`, which names the argument if
the value is in `WRONG`. It must not raise another exception, hang, or crash the interpreter.
"""

import inspect
import math
import re
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import pandas as pd
import pytest

import heirloom as hl
from heirloom.agents.algorithms import ALGORITHMS
from heirloom.envs import maintenance, paper_tasks
from heirloom.envs.inventory import inventory

WRONG = {
    "None": None,
    "a string": "x",
    "NaN": math.nan,
    "infinity": math.inf,
    "minus one": -1,
    "a half": 0.5,
    "an empty list": [],
    "an array of another shape": np.zeros((2, 3, 5)),
    "an array with NaN": np.array([np.nan, 0.5]),
    "an array of strings": np.array(["x", "y"]),
    "a ragged list": [[1], [1, 2]],
}
CELLS = ("S.", ".G")
M = hl.grid_world(CELLS, gamma=0.9, slip=0.1)
M_BAR = hl.grid_world(CELLS, gamma=0.9, slip=0.2, goal_rewards=0.5)
R, T = M.R, M.T.toarray().reshape(4, 4, 4)
SIZES = {"n_states": 4, "n_actions": 4}
RANGE = {"reward_range": (0.0, 1.0), "terminating": True}
NAMES = {"state_names": list("abcd"), "action_names": list("urdl")}
POLICY, MASK = np.zeros(4, dtype=int), np.ones((4, 4), dtype=bool)
SETTING = {**SIZES, "gamma": 0.9, **RANGE, "v_max": 10.0, "epsilon": 0.01, "tol": 1e-6}
AGENT = {
    **SETTING,
    "n_known": 1,
    "seed": 0,
    "on_refutation": "warn",
    "exact": False,
    "refutation_delta": 0.05,
    "explore": 0.0,
}
LEARNING = {"delta": 0.1, "scope": "task"}
NEAR = hl.Nearness(rewards=0.1, transitions=0.1)
STEP = {"s": 0, "a": 1, "r": 0.5, "s_next": 1, "terminated": False}
STEPS = {"state": [0], "action": [1], "reward": 0.5, "next_state": 1, "terminated": False}
STEP_NAMES = {"s": "state", "a": "action", "r": "reward", "s_next": "next state"}
TASKS = {"m": "TabularMDP", "m_bar": "TabularMDP"}
SPEC = {
    "name": "small",
    "tasks": 1,
    "episodes": 1,
    "steps": 2,
    "family": {"name": "corridor"},
    "agents": [{"name": "RMax", "algorithm": "RMax", "n_known": 1}],
}
# Objects of another size. Errors about them need not name the argument.
MISFITS = {
    "a task of another size": hl.grid_world("S.G", gamma=0.9),
    "an environment of another size": gym.make("FrozenLake-v1"),
    "an agent of another size": hl.QLearning(n_states=3, n_actions=2, gamma=0.9),
    "a memory of another size": hl.TaskMemory(3, 2),
    "a model of another size": hl.LearnedModel(3, 2, n_known=1),
    "a setting of another size": hl.bounds.Setting(n_states=3, n_actions=2, gamma=0.5),
}


class Call(NamedTuple):
    """A valid call: a function, its arguments, and other names that messages use for them."""

    function: Any
    arguments: dict[str, Any]
    also_named: dict[str, str] = {}  # noqa: RUF012 -- never written to


def setting():
    return hl.bounds.Setting(**SETTING)


def model():
    learned = hl.LearnedModel(4, 4, n_known=1)
    learned.observe(0, 1, 0.5, 1, terminated=False)
    return learned


def source():
    return hl.bounds.Source.of(model(), np.full(16, 5.0))


def memory(n_tasks=1):
    stored = hl.TaskMemory(4, 4)
    stored.bind(setting())
    for _ in range(n_tasks):
        stored.add(source())
    return stored


def agent(kind=hl.RMax, **options):
    made = kind(**AGENT, **options)
    made.begin_task()
    made.observe(0, 1, 0.5, 1, terminated=False)
    return made


def q_learning():
    learner = hl.QLearning(**SIZES, gamma=0.9, seed=0)
    learner.begin_task()
    return learner


def started(env):
    env.reset(seed=0)
    return env


def binned():
    return hl.wrappers.Binned(gym.make("MountainCar-v0"), edges=[[0.0], [0.0]])


def optimistic(kind, **options):
    accepted = inspect.signature(kind).parameters  # some have no `n_known`

    def call():
        given = {**AGENT, "memory": hl.TaskMemory(4, 4), **options}
        return Call(kind, {name: given[name] for name in given if name in accepted})

    return call


def on_table(kind, **options):
    return lambda: Call(kind, {**SIZES, "gamma": 0.9, **RANGE, "v_max": 5.0, "seed": 0, **options})


def bound_calls(name, make):
    """The methods of a bound that an agent calls."""
    arguments = {"setting": setting(), "model": model(), "memory": memory()}
    return {f"{name}.begin_task": lambda: Call(make().begin_task, arguments)}


def agent_calls(name, make):
    """The methods of an agent that are called at every step."""
    mask = {"s": 3, "mask": [1, 1, 0, 1]}
    return {
        f"{name}.act": lambda: Call(make().act, {"s": 1}, STEP_NAMES),
        f"{name}.observe": lambda: Call(make().observe, STEP, STEP_NAMES),
        f"{name}.observe_mask": lambda: Call(make().observe_mask, mask, STEP_NAMES),
    }


def of_two_tasks(name, **options):
    return lambda: Call(
        getattr(hl.metrics, name, None) or getattr(hl, name),
        {"m": M, "m_bar": M_BAR, **options},
        TASKS,
    )


RATES = {"learning_rate": 0.1, "exploration": 0.1}
REWARDS = "(reward|rewards|reward_range|R|goal_rewards)"
ACCURACY = {**SIZES, "epsilon": 0.1, "delta": 0.1, "n_sources": 1, **RANGE}
TASK = {"gamma": 0.9, "start": 0, "reward_range": (0.0, 1.0)}
CALLS = {
    # Tasks
    "TabularMDP": lambda: Call(
        hl.TabularMDP, {"R": R, "T": T, **TASK, "terminates": [3], "available": MASK, **NAMES}
    ),
    "TabularMDP.from_transitions": lambda: Call(
        hl.TabularMDP.from_transitions, {"transitions": M.transitions, "gamma": 0.9, "start": 0}
    ),
    "TabularMDP.from_gymnasium": lambda: Call(
        hl.TabularMDP.from_gymnasium,
        {"env": M.to_gymnasium(), **TASK, "masks": False, **NAMES},
        {"env": "environment"},
    ),
    "TabularMDP.from_callable": lambda: Call(
        hl.TabularMDP.from_callable, {"row": lambda s, a: [(1.0, s, 0.5, False)], **SIZES, **TASK}
    ),
    "TabularMDP.to_gymnasium": lambda: Call(M.to_gymnasium, {"max_episode_steps": 5}),
    "garnet": lambda: Call(hl.garnet, {**SIZES, "branching": 2, "gamma": 0.9, "seed": 0}),
    "grid_world": lambda: Call(
        hl.grid_world,
        {
            **{"cells": CELLS, "gamma": 0.9, "slip": 0.1, "slip_to": "others", "goal_rewards": 1.0},
            **{"cell_rewards": np.zeros(4), "reward_on": "acting", "terminal": False},
            **{"actions": ("up", "right", "down", "left"), "reward_range": (0.0, 1.0)},
        },
        {"cells": "map"},
    ),
    "FiniteFamily": lambda: Call(
        hl.FiniteFamily, {"tasks": {"m": M, "m_bar": M_BAR}, "p": [0.5, 0.5], "v_max": 10.0}
    ),
    "envs.tight": lambda: Call(
        paper_tasks.tight,
        {"goal_rewards": np.ones(3), "slip": 0.1, "variant": "text", "gamma": 0.9},
        {"goal_rewards": REWARDS},
    ),
    "envs.inventory": lambda: Call(
        inventory,
        {
            **{"demand": 3.0, "goods": 1.0, "storing": 0.1, "losing": 3.0, "capacity": 3},
            **{"most_ordered": 2, "gamma": 0.8, "reward_range": (-200.0, 0.0)},
        },
        dict.fromkeys(("goods", "storing", "losing"), REWARDS),
    ),
    "envs.Machines.task": lambda: Call(
        maintenance.Machines().task,
        {"wear": 0.2, "failure": 0.2, "income": 200.0, "parts": 300.0, "replacement": 900.0},
    ),
    "Numbered.step": lambda: Call(
        started(hl.wrappers.Numbered(gym.make("Blackjack-v1"))).step, {"action": 1}
    ),
    "Binned": lambda: Call(
        hl.wrappers.Binned,
        {"env": gym.make("MountainCar-v0"), "edges": [[0.0], [0.0]]},
        {"env": "environment"},
    ),
    "Binned.state_of": lambda: Call(binned().state_of, {"observation": [0.1, 0.1]}),
    "Binned.step": lambda: Call(started(binned()).step, {"action": 1}),
    # Planning, metrics and formulas
    "solve": lambda: Call(hl.solve, {"m": M, "tol": 1e-6}, TASKS),
    "evaluate": lambda: Call(hl.evaluate, {"m": M, "policy": POLICY, "tol": 1e-6}, TASKS),
    "expected_return": lambda: Call(
        hl.expected_return, {"m": M, "policy": POLICY, "horizon": 3, "discounted": True}, TASKS
    ),
    "optimal_return": lambda: Call(
        hl.optimal_return, {"m": M, "horizon": 3, "discounted": True}, TASKS
    ),
    "model_pseudometric": of_two_tasks("model_pseudometric", f=np.ones(4), f_end=0.0),
    "dissimilarity": of_two_tasks("dissimilarity", tol=1e-6),
    "local_pseudometric": of_two_tasks("local_pseudometric", tol=1e-6),
    "global_pseudometric": of_two_tasks("global_pseudometric", tol=1e-6),
    "lipschitz_bound": of_two_tasks("lipschitz_bound", tol=1e-6),
    "policy_v_pseudometric": of_two_tasks("policy_v_pseudometric", policy=POLICY, tol=1e-6),
    "policy_q_pseudometric": of_two_tasks("policy_q_pseudometric", policy=POLICY, tol=1e-6),
    "near_bound": of_two_tasks("near_bound", nearness=NEAR, tol=1e-6),
    "bisimulation_metric": of_two_tasks("bisimulation_metric", ground="recursive", c=0.5, tol=0.01),
    "gbsm": of_two_tasks("gbsm", tol=0.01),
    "gbsm_bound": of_two_tasks("gbsm_bound", tol=0.01),
    "pairs_to_learn": lambda: Call(
        hl.pairs_to_learn, {"U": np.ones((4, 4)), "m": M, "epsilon": 0.1}, TASKS
    ),
    "tasks_for_max_q": lambda: Call(
        hl.theory.tasks_for_max_q, {"p_min": 0.2, "delta": 0.05, "scope": "task"}
    ),
    "n_known_for": lambda: Call(hl.theory.n_known_for, ACCURACY),
    # Models, memories and knowledge
    "LearnedModel": lambda: Call(hl.LearnedModel, {**SIZES, "n_known": 1}),
    "LearnedModel.observe": lambda: Call(model().observe, STEP, STEP_NAMES),
    "LearnedModel.successors": lambda: Call(model().successors, {"s": 0, "a": 1}, STEP_NAMES),
    "LearnedModel.to_mdp": lambda: Call(
        model().to_mdp, {"gamma": 0.9, "unknown": "optimistic", **RANGE, "start": 0, **NAMES}
    ),
    "Source.of": lambda: Call(
        hl.bounds.Source.of, {"model": model(), "Q": np.ones(16), "label": "a", "time": "week 12"}
    ),
    "TaskMemory": lambda: Call(
        hl.TaskMemory,
        {**SIZES, "capacity": 2, "keep": "first", **NAMES},
        dict.fromkeys(("n_states", "n_actions"), "(state|action)_names"),
    ),
    "TaskMemory.add": lambda: Call(memory().add, {"source": source()}),
    "Setting": lambda: Call(hl.bounds.Setting, SETTING),
    "Nearness": lambda: Call(
        hl.Nearness,
        {"rewards": 0.1, "transitions": 0.1, **dict.fromkeys(("successors", "terminates"))},
    ),
    "family_nearness": lambda: Call(hl.family_nearness, {"tasks": [M, M_BAR]}),
    "audit": lambda: Call(
        hl.audit,
        {
            "memory": memory(),
            "knowledge": NEAR,
            "exact": False,
            "delta": 0.05,
            "rewards_alike": np.zeros((4, 4), dtype=int),
            "transitions_alike": np.zeros((4, 4), dtype=int),
        },
    ),
    "plan_learning": lambda: Call(
        hl.plan_learning, {"n_pairs": 10, "steps": 100, "n_outcomes": 3, "delta": 0.05}
    ),
    "FixedPolicy": lambda: Call(hl.FixedPolicy, {"policy": [0, 1, 2, 3]}),
    "policy_table": lambda: Call(hl.policy_table, {"agent": agent(), "delta": 0.05}),
    "TaskMemory.merge": lambda: Call(lambda other: memory().merge(other), {"other": memory()}),
    "estimate_nearness": lambda: Call(
        hl.estimate_nearness,
        {
            "memory": memory(n_tasks=2),
            "confidence": 0.9,
            "parts": ["rewards"],
            "shape": NEAR,
            "pairs": MASK,
            "rewards_alike": np.zeros((4, 4), dtype=int),
            "transitions_alike": np.zeros((4, 4), dtype=int),
            "exact": False,
        },
    ),
    "learn_from_log": lambda: Call(
        hl.learn_from_log,
        {
            "agent": hl.RMax(**AGENT),
            "table": pd.DataFrame({**STEPS, "episode": 0, "task": "week 1"}),
            "state": "state",
            "action": "action",
            "reward": "reward",
            "next_state": "next_state",
            "terminated": "terminated",
            "episode": "episode",
            "task": "task",
            "available": MASK,
        },
    ),
    "audit of d_max": lambda: Call(hl.audit, {"memory": memory(), "d_max": 0.1}),
    # Bounds
    "MaxQ": lambda: Call(hl.MaxQ, {"p_min": 0.5, **LEARNING}),
    "Lipschitz": lambda: Call(hl.Lipschitz, {"d_max": 0.1, "p_min": 0.5, **LEARNING}),
    "NearModels": lambda: Call(
        hl.NearModels, {"p_min": 0.5, **LEARNING}, {"p_min": "nearness|p_min"}
    ),
    "Envelope": lambda: Call(hl.Envelope, {"alpha": 0.5, "first": 1, "calibration": 2}),
    "ValueDistance": lambda: Call(hl.bounds.ValueDistance, {"beta": 0.1}),
    **bound_calls("ValueDistance", lambda: hl.bounds.ValueDistance(beta=0.1)),
    **bound_calls("NearModels", lambda: hl.NearModels(NEAR)),
    **bound_calls("Envelope", lambda: hl.Envelope(alpha=0.5, first=1)),
    **bound_calls("MaxQ", lambda: hl.MaxQ(p_min=0.5)),
    **bound_calls("Lipschitz", lambda: hl.Lipschitz(d_max=0.1, p_min=0.5)),
    # Agents
    "RMax": optimistic(hl.RMax),
    "LRMax": optimistic(hl.LRMax, d_max=0.1, **LEARNING),
    "MaxQInit": optimistic(hl.MaxQInit, p_min=0.5, **LEARNING),
    "LRMaxQInit": optimistic(hl.LRMaxQInit, p_min=0.5, d_max=0.1, **LEARNING),
    "NearRMax": optimistic(hl.NearRMax, nearness=NEAR, **LEARNING),
    "NearRMaxQInit": optimistic(hl.NearRMaxQInit, nearness=NEAR, p_min=0.5, **LEARNING),
    "EnvelopeRMax": optimistic(hl.EnvelopeRMax, alpha=0.5, first=1, calibration=2),
    "MFRL": optimistic(hl.MFRL, beta=0.1),
    "PSRL": optimistic(hl.PSRL, prior=0.5, posterior="beta", sample="visits", terminates=True),
    "NearPSRL": optimistic(hl.NearPSRL, nearness=NEAR),
    "UCBVI": optimistic(hl.UCBVI, bonus="hoeffding", scale=0.1, nearness=NEAR),
    "MBIE": optimistic(hl.MBIE, sets="l1", delta=0.1, scale=0.5),
    "VMax": optimistic(hl.VMax, m=3),
    "CertifiedRMax": optimistic(hl.CertifiedRMax, nearness=NEAR, delta=0.1, start=0, floor=0.5),
    "FMRL": optimistic(hl.FMRL, first=1, gap=0.5, evidence=0.1, separation=1.0, delta=0.1),
    "TempLe": optimistic(hl.TempLe, distance=0.2, n_matched=2, m=3),
    "OptimisticAgent": optimistic(hl.OptimisticAgent, bounds=[hl.MaxQ(p_min=0.5)]),
    **agent_calls("LRMax", lambda: agent(hl.LRMax, d_max=0.1)),
    **agent_calls("QLearning", q_learning),
    "QLearning": lambda: Call(
        hl.QLearning,
        {
            **{**SIZES, "gamma": 0.9, "learning_rate": 0.1, "exploration": 0.1},
            **{"initial_Q": 0.0, "start": "v_max", "seed": 0, **RANGE},
        },
    ),
    "QUCB": on_table(hl.QUCB, bonus=0.5, epsilon1=0.1, delta=0.1),
    "DelayedQ": on_table(hl.DelayedQ, m=5, epsilon1=0.1, delta=0.1),
    "ShapedLifelong": on_table(hl.ShapedLifelong, shaping=0.1, **RATES),
    "PolicyReuse": on_table(hl.PolicyReuse, reuse=1.0, decay=0.9, heat=0.1, **RATES),
    "BUMEX": on_table(hl.BUMEX, nearness=NEAR, confidence=0.9, **RATES),
    "BisimulationTransfer": lambda: Call(
        hl.BisimulationTransfer,
        {
            **{"source": M, "target": M_BAR, "Q": np.ones((4, 4)), "ground": "identity", "c": 0.5},
            **{"learning_rate": 0.1, "exploration": 0.1, "seed": 0},
        },
        {"source": "TabularMDP", "target": "TabularMDP"},
    ),
    # Learning and experiments
    "learn": lambda: Call(
        hl.learn,
        {
            **{"agent": hl.RMax(**AGENT), "env": M, "episodes": 2, "max_steps": 2, "seed": 0},
            **{"every": 1, "resume": False, "masks": False, "label": "Lyon", "time": "week 12"},
        },
        {"env": "environment"},
    ),
    "certify": lambda: Call(
        hl.certify,
        {
            **{"agent": agent(), "env": M, "policy": POLICY, "episodes": 2, "max_steps": 2},
            **{"delta": 0.05, "start": None, "masks": False, "seed": 0},
        },
        {"env": "environment"},
    ),
    "compare": lambda: Call(
        hl.compare,
        {
            "agents": {"RMax": lambda rng: hl.RMax(**{**AGENT, "seed": rng})},
            "draw_task": lambda rng: M,
            **{"tasks": 1, "episodes": 2, "max_steps": 2, "repetitions": 1, "seed": 0},
        },
    ),
    "ExperimentSpec.read": lambda: Call(hl.ExperimentSpec.read, {"data": SPEC}, {"data": "spec"}),
}


def problem_with(call, argument, wrong, *, must_name):
    """Call a function with one wrong argument; return what is wrong with the error, or None."""
    try:
        call.function(**{**call.arguments, argument: wrong})
    except hl.errors.HeirloomError as error:
        words = (argument, call.also_named.get(argument, argument))
        is_named = not must_name or any(re.search(rf"\b{word}\b", str(error)) for word in words)
        return None if is_named else f"the message does not name it: {error}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


@pytest.mark.parametrize("name", CALLS)
def test_wrong_value_is_accepted_or_refused_with_an_error_that_names_the_argument(name):
    call = CALLS[name]()
    call.function(**call.arguments)
    problems = []
    for argument in CALLS[name]().arguments:
        for kind, wrong in (WRONG | MISFITS).items():
            problem = problem_with(CALLS[name](), argument, wrong, must_name=kind in WRONG)
            if problem is not None:
                problems.append(f"{argument} = {kind}: {problem}")
    assert not problems, "\n" + "\n".join(problems)


def test_every_algorithm_is_called():
    assert ALGORITHMS.keys() <= CALLS.keys()
