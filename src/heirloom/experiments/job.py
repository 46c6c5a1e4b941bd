"""Jobs of an experiment: one agent and one repetition, computed from the spec alone."""

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
from heirloom.learning.choosing import Choice
from heirloom.learning.lifetime import learn_tasks, naming_job
from heirloom.learning.streams import stream
from heirloom.mdp.tabular import TabularMDP, check_task

Job = tuple[int, int]
"""The indices of an agent and of a repetition."""


def run_job(spec: ExperimentSpec, agent: int, repetition: int) -> dict[str, np.ndarray]:
    """Compute the results of an agent in a repetition; they depend only on the arguments."""
    agent_spec = spec.agents[agent]
    tasks = draw_tasks(spec, repetition)
    rng = stream(spec.seed, "agent", agent_spec.name, repetition)
    learner = make_agent(agent_spec, spec, tasks, rng)
    observer = None if spec.measure is None else OBSERVERS[spec.measure]()
    with naming_job(agent_spec.name, repetition):
        results = learn_tasks(
            learner,
            tasks,
            episodes=spec.episodes,
            steps=spec.steps,
            seed=spec.seed,
            name=agent_spec.name,
            repetition=repetition,
            observer=observer,
            record=recorded_tasks(spec, agent, repetition),
        )
    if observer is not None:
        results |= {name: np.array(values) for name, values in observer.measured.items()}
    return results


def recorded_tasks(spec: ExperimentSpec, agent: int, repetition: int) -> dict[int, Choice] | None:
    """Return what is recorded of each task of a job, by its index; None if nothing ever is."""
    if spec.record is None:
        return None
    tasks = spec.record.tasks_of(spec.agents[agent].name, repetition, spec.tasks)
    return dict.fromkeys(tasks, spec.record.choice)


def draw_tasks(spec: ExperimentSpec, repetition: int) -> list[TabularMDP]:
    """Draw the tasks of a repetition, which are the same for all agents."""
    family = make_family(spec.family.name, spec.family.options)
    if spec.in_order:
        return _tasks_in_order(family, spec)
    rng = stream(spec.seed, "tasks", repetition)
    if spec.distinct_tasks is None:
        return [_draw_checked(family, rng) for _ in range(spec.tasks)]
    distinct = [_draw_checked(family, rng) for _ in range(spec.distinct_tasks)]
    return [distinct[i] for i in rng.integers(spec.distinct_tasks, size=spec.tasks)]


def _draw_checked(family: TaskFamily, rng: np.random.Generator) -> TabularMDP:
    task = family.draw(rng)
    check_task(task)
    return task


def make_agent(
    agent: AgentSpec,
    spec: ExperimentSpec,
    tasks: Sequence[TabularMDP],
    rng: np.random.Generator,
) -> Agent:
    """Make a new agent, given what all tasks of the family have in common."""
    family = make_family(spec.family.name, spec.family.options)
    p_min = family.p_min if spec.distinct_tasks is None else 1 / spec.distinct_tasks
    known = TaskKnowledge(
        options=family.options,
        p_min=p_min,
        d_max=lambda: family.d_max,
        nearness=lambda: family.nearness,
        tasks=tasks,
    )
    try:
        return registry.make_agent(agent.algorithm, agent.options, known, rng)
    except InvalidArgument as error:
        raise InvalidArgument(f"agent {agent.name!r}: {error}") from None


def check_agents(spec: ExperimentSpec) -> None:
    """Raise `InvalidArgument` if an agent of the spec cannot be made for its family."""
    tasks = draw_tasks(spec, 0)
    for agent in spec.agents:
        make_agent(agent, spec, tasks, np.random.default_rng(0))


def _tasks_in_order(family: TaskFamily, spec: ExperimentSpec) -> list[TabularMDP]:
    tasks = family.all_tasks
    if not tasks:
        raise InvalidArgument(
            f"in_order is true, but family {spec.family.name!r} does not list its tasks: leave "
            "in_order out, or choose a finite family"
        )
    return [tasks[i % len(tasks)] for i in range(spec.tasks)]
