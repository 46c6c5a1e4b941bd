"""Units of work of an experiment, each an agent and a repetition, from its spec alone."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from heirloom.agents.algorithms import LRMax, LRMaxQInit, MaxQInit, RMax
from heirloom.agents.bisimulation_transfer import BisimulationLearner
from heirloom.agents.protocol import Agent
from heirloom.agents.qlearning import QLearning
from heirloom.envs.paper_tasks import TaskFamily
from heirloom.errors import InvalidArgument
from heirloom.experiments.observers import MEASURED, MeasuredUse, OptimalAfter
from heirloom.experiments.registry import make_family
from heirloom.experiments.spec import MODEL_FREE, AgentSpec, ExperimentSpec
from heirloom.learning.lifetime import live
from heirloom.learning.streams import stream
from heirloom.mdp.tabular import TabularMDP
from heirloom.transfer.lipschitz.bound import Lipschitz
from heirloom.transfer.memory import TaskMemory

Unit = tuple[int, int]
"""An agent and a repetition, by their places."""


def run_unit(spec: ExperimentSpec, agent: int, repetition: int) -> dict[str, np.ndarray]:
    """What an agent did in a repetition; depends on the spec and these two numbers only."""
    chosen = spec.agents[agent]
    tasks = draw_tasks(spec, repetition)
    learner = make_agent(chosen, spec, tasks, stream(spec.seed, "agent", chosen.name, repetition))
    watch = OptimalAfter() if spec.measure == "optimal_after" else None
    results = live(
        learner,
        tasks,
        episodes=spec.episodes,
        steps=spec.steps,
        seed=spec.seed,
        name=chosen.name,
        repetition=repetition,
        watch=watch,
    )
    if watch is not None:
        results["optimal_after"] = np.array(watch.after)
    elif spec.measure is not None:
        results[spec.measure] = _measured(spec.measure, learner, tasks)
    return results


def draw_tasks(spec: ExperimentSpec, repetition: int) -> list[TabularMDP]:
    """The tasks of a repetition, the same for all agents."""
    family = make_family(spec.family.name, spec.family.options)
    if spec.in_order:
        return _in_order(family, spec)
    rng = stream(spec.seed, "tasks", repetition)
    if spec.distinct_tasks is None:
        return [family.draw(rng) for _ in range(spec.tasks)]
    distinct = [family.draw(rng) for _ in range(spec.distinct_tasks)]
    return [distinct[i] for i in rng.integers(spec.distinct_tasks, size=spec.tasks)]


def make_agent(
    agent: AgentSpec,
    spec: ExperimentSpec,
    tasks: Sequence[TabularMDP],
    rng: np.random.Generator,
) -> Agent:
    """A fresh agent that is told what all tasks of the family have in common.

    Bisimulation transfer is told the tasks themselves.
    """
    family, task = make_family(spec.family.name, spec.family.options), tasks[0]
    told: dict[str, Any] = {
        "n_states": task.n_states,
        "n_actions": task.n_actions,
        "gamma": task.gamma,
        "seed": rng,
    }
    if agent.algorithm in MODEL_FREE:
        told |= {
            name: getattr(agent, name) for name in ("learning_rate", "exploration", "initial_Q")
        }
        if agent.algorithm == "QLearning":
            return QLearning(**told)
        return BisimulationLearner(tasks, ground=agent.ground, **told)
    told |= getattr(family, "options", {"reward_range": task.reward_range})
    told |= {"n_known": agent.n_known, "epsilon": agent.epsilon, "tol": agent.tol}
    told["memory"] = TaskMemory(
        task.n_states, task.n_actions, capacity=agent.capacity, keep=agent.keep
    )
    if agent.algorithm == "RMax":
        return RMax(**told)
    p_min = _p_min(agent, spec, family)
    if agent.algorithm == "MaxQInit":
        return MaxQInit(p_min=_needed(p_min, agent), delta=agent.delta, **told)
    d_max = _d_max(agent, family)
    if agent.algorithm == "LRMaxQInit":
        p_min = _needed(p_min, agent)
        made = LRMaxQInit(p_min=p_min, delta=agent.delta, d_max=d_max, **told)
    else:
        p_min = None if d_max is not None else p_min
        made = LRMax(d_max=d_max, p_min=p_min, delta=agent.delta, **told)
    measured = MEASURED.get(spec.measure)
    if measured is not None:
        made.bounds = [
            measured(d_max=bound.d_max, p_min=bound.p_min, delta=bound.delta)
            if isinstance(bound, Lipschitz)
            else bound
            for bound in made.bounds
        ]
    return made


def check_agents(spec: ExperimentSpec) -> None:
    """Raise `InvalidArgument` if an agent cannot be made for the family."""
    tasks = draw_tasks(spec, 0)
    for agent in spec.agents:
        make_agent(agent, spec, tasks, np.random.default_rng(0))


def _p_min(agent: AgentSpec, spec: ExperimentSpec, family: TaskFamily) -> float | None:
    if agent.p_min is not None:
        return agent.p_min
    if spec.distinct_tasks is not None:
        return 1 / spec.distinct_tasks
    return getattr(family, "p_min", None)


def _needed(p_min: float | None, agent: AgentSpec) -> float:
    if p_min is None:
        raise InvalidArgument(
            f"p_min of agent {agent.name!r} is missing: give the least probability of a task, or "
            "distinct_tasks"
        )
    return p_min


def _d_max(agent: AgentSpec, family: TaskFamily) -> Any:
    if agent.d_max != "family":
        return agent.d_max
    if not hasattr(family, "d_max"):
        raise InvalidArgument(
            f"d_max of agent {agent.name!r} is 'family', and the family is not a finite one: "
            "give a number"
        )
    return family.d_max


def _in_order(family: TaskFamily, spec: ExperimentSpec) -> list[TabularMDP]:
    tasks = getattr(family, "tasks", None)
    if tasks is None:
        raise InvalidArgument(
            f"in_order is true, and {spec.family.name!r} is not a finite family: leave it out"
        )
    tasks = list(tasks.values()) if isinstance(tasks, dict) else list(tasks)
    return [tasks[i % len(tasks)] for i in range(spec.tasks)]


def _measured(measure: str, agent: Agent, tasks: list[TabularMDP]) -> np.ndarray:
    """What a bound of the agent has measured, task by task; NaN for agents without it."""
    for bound in getattr(agent, "bounds", []):
        if isinstance(bound, MeasuredUse):
            return np.array(bound.measured)
    n_tasks, m = len(tasks), tasks[0]
    shape = (n_tasks, m.n_states * m.n_actions + 1) if measure == "prior_use" else (n_tasks,)
    return np.full(shape, np.nan)
