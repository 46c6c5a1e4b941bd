"""Units of work of an experiment, each an agent and a repetition, from its spec alone."""

from typing import Any

import numpy as np

from heirloom.agents.catalogue import LRMax, LRMaxQInit, MaxQInit, RMax
from heirloom.agents.protocol import Agent
from heirloom.agents.qlearning import QLearning
from heirloom.envs.families import TaskFamily
from heirloom.errors import InvalidArgument
from heirloom.experiments.catalogue import make_family
from heirloom.experiments.life import live
from heirloom.experiments.measures import MeasuredLipschitz
from heirloom.experiments.spec import AgentSpec, ExperimentSpec
from heirloom.experiments.streams import stream
from heirloom.mdp.exact import TabularMDP
from heirloom.transfer.bounds import Lipschitz
from heirloom.transfer.memory import TaskMemory


def run_unit(spec: ExperimentSpec, agent: int, repetition: int) -> dict[str, np.ndarray]:
    """What an agent did in a repetition; depends on the spec and these two numbers only."""
    chosen = spec.agents[agent]
    tasks = draw_tasks(spec, repetition)
    learner = make_agent(
        chosen, spec, tasks[0], stream(spec.seed, "agent", chosen.name, repetition)
    )
    results = live(
        learner,
        tasks,
        episodes=spec.episodes,
        steps=spec.steps,
        seed=spec.seed,
        name=chosen.name,
        repetition=repetition,
    )
    if spec.measure_bounds:
        results["lipschitz_use"] = _lipschitz_use(learner, len(tasks))
    return results


def draw_tasks(spec: ExperimentSpec, repetition: int) -> list[TabularMDP]:
    """The tasks of a repetition, the same for all agents."""
    family = make_family(spec.family.name, spec.family.options)
    rng = stream(spec.seed, "tasks", repetition)
    if spec.distinct_tasks is None:
        return [family.draw(rng) for _ in range(spec.tasks)]
    distinct = [family.draw(rng) for _ in range(spec.distinct_tasks)]
    return [distinct[i] for i in rng.integers(spec.distinct_tasks, size=spec.tasks)]


def make_agent(
    agent: AgentSpec, spec: ExperimentSpec, task: TabularMDP, rng: np.random.Generator
) -> Agent:
    """A fresh agent that is told what all tasks of the family have in common."""
    family = make_family(spec.family.name, spec.family.options)
    told: dict[str, Any] = {
        "n_states": task.n_states,
        "n_actions": task.n_actions,
        "gamma": task.gamma,
        "seed": rng,
    }
    if agent.algorithm == "QLearning":
        return QLearning(
            learning_rate=agent.learning_rate,
            exploration=agent.exploration,
            initial_Q=agent.initial_Q,
            **told,
        )
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
        return LRMaxQInit(p_min=p_min, delta=agent.delta, d_max=d_max, **told)
    made = LRMax(d_max=d_max, p_min=None if d_max is not None else p_min, delta=agent.delta, **told)
    if spec.measure_bounds:
        made.bounds = [MeasuredLipschitz(d_max=d_max)]
    return made


def check_agents(spec: ExperimentSpec) -> None:
    """Raise `InvalidArgument` if an agent cannot be made for the family."""
    task = draw_tasks(spec, 0)[0]
    for agent in spec.agents:
        make_agent(agent, spec, task, np.random.default_rng(0))


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


def _lipschitz_use(agent: Agent, n_tasks: int) -> np.ndarray:
    bounds = [bound for bound in getattr(agent, "bounds", []) if isinstance(bound, Lipschitz)]
    measured = [bound for bound in bounds if isinstance(bound, MeasuredLipschitz)]
    return np.array(measured[0].fractions) if measured else np.full(n_tasks, np.nan)
