"""Jobs of an experiment: one agent and one repetition, computed from the spec alone."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from heirloom.agents.algorithm_options import TaskKnowledge
from heirloom.agents.protocol import Agent
from heirloom.envs.family import TaskFamily
from heirloom.errors import InvalidArgument, is_installed, missing
from heirloom.experiments import registry
from heirloom.experiments.measures import declaration, measure_class
from heirloom.experiments.registry import (
    draw_sequence,
    is_user_defined,
    make_family,
)
from heirloom.experiments.spec import AgentSpec, ExperimentSpec
from heirloom.experiments.variables import JOB
from heirloom.learning.lifetime import learn_tasks, naming_job, optimal_returns
from heirloom.learning.plan import Plan, sizes_of_task
from heirloom.learning.recording import RecordChoice
from heirloom.learning.streams import stream
from heirloom.mdp.tabular import TabularMDP, check_task

if TYPE_CHECKING:
    from heirloom.learning.lifetime import Task

Job = tuple[int, int]
"""The indices of an agent and of a repetition."""


@dataclass(frozen=True)
class Functions:
    """Functions that draw tasks and make agents, in place of those that a spec names."""

    draw_task: Any
    """A function, or a family."""
    agents: Mapping[str, Callable[..., Any]]
    """By the names of agents."""
    masks: bool = False
    """Whether agents obey the masks of environments."""
    _drawn: dict[int, list[Any]] = field(default_factory=dict)
    """The exact tasks of the last repetition, which all agents of a process share."""
    _made: dict[str, Any] = field(default_factory=dict)
    """The last agent that each function has made."""

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_drawn": {}, "_made": {}}

    def draw(self, spec: ExperimentSpec, repetition: int) -> list["Task"]:
        """Draw the tasks of a repetition; environments, which have a state, are made anew."""
        if repetition in self._drawn:
            return self._drawn[repetition]
        tasks = draw_sequence(self.draw_task, stream(spec.seed, "tasks", repetition), spec.tasks)
        for task in tasks:
            sizes_of_task(task, "the task that draw_task returned")
        self._drawn.clear()
        if all(isinstance(task, TabularMDP) for task in tasks):
            self._drawn[repetition] = tasks
        return tasks

    def make(self, name: str, rng: np.random.Generator) -> Agent:
        """Make a new agent; raise `InvalidArgument` if it is the one that was made last."""
        agent = self.agents[name](rng)
        if agent is self._made.get(name):
            raise InvalidArgument(
                "its function returned the same agent in two calls: expected one that makes a new "
                "agent in each call, with its own memory"
            )
        self._made[name] = agent
        return agent


def names_own_code(spec: ExperimentSpec) -> bool:
    """Whether the family, the measure or an agent of a spec is user-defined."""
    names = [spec.family.name, spec.measure or "", *(a.algorithm for a in spec.agents)]
    return any(map(is_user_defined, names))


def with_declaration(spec: ExperimentSpec) -> ExperimentSpec:
    """Return a spec with what its user-defined measure declares; others are returned as they are.

    Stored runs can then be read without importing the measure.
    """
    if spec.measure is None or not is_user_defined(spec.measure):
        return spec
    return spec.with_changes(measured=declaration(spec.measure))


def run_job(
    spec: ExperimentSpec, agent: int, repetition: int, functions: Functions | None = None
) -> dict[str, np.ndarray]:
    """Compute the results of an agent in a repetition; they depend only on the arguments.

    Those of the first agent include the variables that all agents share.
    """
    tasks = draw_tasks(spec, repetition, functions)
    results = learn_job(spec, agent, repetition, tasks, functions)
    return results if agent else results | shared_results(tasks, spec.steps)


def learn_job(
    spec: ExperimentSpec,
    agent: int,
    repetition: int,
    tasks: "list[Task]",
    functions: Functions | None = None,
) -> dict[str, np.ndarray]:
    """Let an agent learn the tasks of a repetition; return what is recorded."""
    agent_spec = spec.agents[agent]
    rng = stream(spec.seed, "agent", agent_spec.name, repetition)
    learner = make_agent(agent_spec, spec, tasks, rng, functions)
    observer = None if spec.measure is None else measure_class(spec.measure)()
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
            limit=spec.limit,
            masks=functions is not None and functions.masks,
        )
    if observer is not None:
        for name, values in observer.measured.items():
            results[name] = np.array(values)
            if results[name].ndim != len(observer.variables[name].dimensions) - len(JOB):
                raise InvalidArgument(
                    f"measure {spec.measure!r}: {name} has the shape {results[name].shape[1:]} in "
                    "each task: expected one axis for each of its own dimensions"
                )
    return results


def shared_results(tasks: "list[Task]", steps: int) -> dict[str, np.ndarray]:
    """Compute the variables of a repetition that all agents share: optimal expected returns."""
    return {
        "optimal": optimal_returns(tasks, steps, discounted=False),
        "optimal_discounted": optimal_returns(tasks, steps, discounted=True),
    }


def recorded_tasks(
    spec: ExperimentSpec, agent: int, repetition: int
) -> dict[int, RecordChoice] | None:
    """Return what is recorded of each task of a job, by its index; None if nothing ever is."""
    if spec.record is None:
        return None
    tasks = spec.record.tasks_of(spec.agents[agent].name, repetition, spec.tasks)
    return dict.fromkeys(tasks, spec.record.choice)


def draw_tasks(
    spec: ExperimentSpec, repetition: int, functions: Functions | None = None
) -> list[Any]:
    """Draw the tasks of a repetition, which are the same for all agents."""
    if functions is not None:
        return functions.draw(spec, repetition)
    family = make_family(spec.family.name, spec.family.options)
    if spec.in_order:
        return _tasks_in_order(family, spec)
    rng = stream(spec.seed, "tasks", repetition)
    if spec.distinct_tasks is None:
        tasks = draw_sequence(family, rng, spec.tasks)
    else:
        distinct = [family.draw(rng) for _ in range(spec.distinct_tasks)]
        tasks = [distinct[i] for i in rng.integers(spec.distinct_tasks, size=spec.tasks)]
    for task in tasks:
        check_task(task)
    return tasks


def example_task(spec: ExperimentSpec, functions: Functions | None = None) -> Any:
    """Draw a task, which tells the sizes of all tasks."""
    if functions is not None:
        return functions.draw(spec, 0)[0]
    return make_family(spec.family.name, spec.family.options).draw(np.random.default_rng(0))


def make_agent(
    agent: AgentSpec,
    spec: ExperimentSpec,
    tasks: Sequence[Any],
    rng: np.random.Generator,
    functions: Functions | None = None,
) -> Agent:
    """Make a new agent, given what all tasks of the family have in common."""
    try:
        if functions is not None:
            return functions.make(agent.name, rng)
        family = make_family(spec.family.name, spec.family.options)
        known = TaskKnowledge(
            options=family.options,
            p_min=family.p_min if spec.distinct_tasks is None else 1 / spec.distinct_tasks,
            d_max=lambda: family.d_max,
            nearness=lambda: family.nearness,
            tasks=tasks,
        )
        return registry.make_agent(agent.algorithm, agent.options, known, rng)
    except InvalidArgument as error:
        raise InvalidArgument(f"agent {agent.name!r}: {error}") from None


def check_extras(spec: ExperimentSpec) -> None:
    """Raise `InvalidArgument` if an agent needs a library that is not installed."""
    for agent in spec.agents:
        is_recursive = agent.options.get("ground") == "recursive"
        if is_recursive and not is_user_defined(agent.algorithm) and not is_installed("ot"):
            raise missing(f"agent {agent.name!r}: ground is 'recursive'", "wasserstein")


def check_agents(spec: ExperimentSpec, functions: Functions | None = None) -> None:
    """Raise an error if an agent of the spec cannot be made, or does not fit the first task."""
    check_extras(spec)
    tasks, numbers = draw_tasks(spec, 0, functions), {"episodes": spec.episodes, "seed": 0}
    for agent in spec.agents:
        learner = make_agent(agent, spec, tasks, np.random.default_rng(0), functions)
        with naming_job(agent.name, 0):
            Plan.checked(learner, tasks[0], max_steps=spec.steps, **numbers)


def _tasks_in_order(family: TaskFamily, spec: ExperimentSpec) -> list[TabularMDP]:
    tasks = family.all_tasks
    if not tasks:
        raise InvalidArgument(
            f"in_order is true, but family {spec.family.name!r} does not list its tasks: leave "
            "in_order out, or choose a finite family"
        )
    return [tasks[i % len(tasks)] for i in range(spec.tasks)]
