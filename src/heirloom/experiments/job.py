"""Units of work of an experiment, each an agent and a repetition, from its spec alone."""

from collections.abc import Sequence

import numpy as np

from heirloom.agents.algorithm_options import TaskKnowledge
from heirloom.agents.protocol import Agent
from heirloom.envs.family import TaskFamily
from heirloom.errors import InvalidArgument
from heirloom.experiments import registry
from heirloom.experiments.observers import OBSERVERS
from heirloom.experiments.registry import make_family
from heirloom.experiments.spec import AgentSpec, ExperimentSpec
from heirloom.learning.lifetime import learn_tasks
from heirloom.learning.streams import stream
from heirloom.mdp.tabular import TabularMDP, check_task

Job = tuple[int, int]
"""An agent and a repetition, by their places."""


def run_job(spec: ExperimentSpec, agent: int, repetition: int) -> dict[str, np.ndarray]:
    """What an agent did in a repetition; depends on the spec and these two numbers only."""
    chosen = spec.agents[agent]
    tasks = draw_tasks(spec, repetition)
    learner = make_agent(chosen, spec, tasks, stream(spec.seed, "agent", chosen.name, repetition))
    observer = None if spec.measure is None else OBSERVERS[spec.measure]()
    results = learn_tasks(
        learner,
        tasks,
        episodes=spec.episodes,
        steps=spec.steps,
        seed=spec.seed,
        name=chosen.name,
        repetition=repetition,
        observer=observer,
    )
    if spec.measure is not None and observer is not None:
        results[spec.measure] = np.array(observer.measured)
    return results


def draw_tasks(spec: ExperimentSpec, repetition: int) -> list[TabularMDP]:
    """The tasks of a repetition, the same for all agents."""
    family = make_family(spec.family.name, spec.family.options)
    if spec.in_order:
        return _in_order(family, spec)
    rng = stream(spec.seed, "tasks", repetition)
    if spec.distinct_tasks is None:
        return [_drawn(family, rng) for _ in range(spec.tasks)]
    distinct = [_drawn(family, rng) for _ in range(spec.distinct_tasks)]
    return [distinct[i] for i in rng.integers(spec.distinct_tasks, size=spec.tasks)]


def _drawn(family: TaskFamily, rng: np.random.Generator) -> TabularMDP:
    task = family.draw(rng)
    check_task(task)
    return task


def make_agent(
    agent: AgentSpec,
    spec: ExperimentSpec,
    tasks: Sequence[TabularMDP],
    rng: np.random.Generator,
) -> Agent:
    """A fresh agent that knows what all tasks of the family have in common."""
    family = make_family(spec.family.name, spec.family.options)
    given = None if spec.distinct_tasks is None else 1 / spec.distinct_tasks
    known = TaskKnowledge(
        options=family.options,
        p_min=family.p_min if given is None else given,
        d_max=lambda: family.d_max,
        tasks=tasks,
    )
    try:
        return registry.make_agent(agent.algorithm, agent.options, known, rng)
    except InvalidArgument as error:
        raise InvalidArgument(f"agent {agent.name!r}: {error}") from None


def check_agents(spec: ExperimentSpec) -> None:
    """Raise `InvalidArgument` if an agent cannot be made for the family."""
    tasks = draw_tasks(spec, 0)
    for agent in spec.agents:
        make_agent(agent, spec, tasks, np.random.default_rng(0))


def _in_order(family: TaskFamily, spec: ExperimentSpec) -> list[TabularMDP]:
    tasks = family.all_tasks
    if not tasks:
        raise InvalidArgument(
            f"in_order is true, and {spec.family.name!r} is not a finite family: leave it out"
        )
    return [tasks[i % len(tasks)] for i in range(spec.tasks)]
