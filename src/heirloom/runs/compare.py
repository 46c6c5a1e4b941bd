"""Agents side by side, on the same tasks one after the other."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from heirloom.agents.protocol import Agent
from heirloom.errors import InvalidArgument
from heirloom.learning.lifetime import learn_tasks, optimal_returns
from heirloom.learning.streams import stream
from heirloom.stats import gain, student_interval
from heirloom.validation import whole_number

if TYPE_CHECKING:
    import xarray as xr

    from heirloom.learning.lifetime import Task

MakeAgent = Callable[[np.random.Generator], Agent]
DrawTask = Callable[[np.random.Generator], "Task"]


def compare(
    agents: Mapping[str, MakeAgent],
    draw_task: DrawTask,
    *,
    tasks: int,
    episodes: int,
    max_steps: int,
    repetitions: int = 5,
    seed: int = 0,
) -> "xr.Dataset":
    """Let each agent face the same tasks in a row, several times over.

    Args:
        agents: by name, what makes a fresh agent that chooses with the generator given.
        draw_task: draws a task, a `TabularMDP` or an environment.
        tasks: how many tasks follow each other.
        episodes: how many episodes each of them lasts.
        max_steps: after how many steps an episode is cut.
        repetitions: how often all of it is repeated, with other tasks and other luck.
        seed: of all streams, which are keyed by what they serve.

    Returns:
        `returns` [agent, repetition, task, episode], undiscounted; `updates` [agent, repetition,
        task], how often the model was updated; `optimal` [repetition, task], the best expected
        return, NaN where no exact model is at hand.
    """
    _check_arguments(agents, draw_task)
    episodes, max_steps = whole_number("episodes", episodes), whole_number("max_steps", max_steps)
    tasks, repetitions = whole_number("tasks", tasks), whole_number("repetitions", repetitions)
    returns = np.empty((len(agents), repetitions, tasks, episodes))
    updates = np.empty(returns.shape[:3], dtype=np.int64)
    optimal = np.empty((repetitions, tasks))
    length: Any = {"episodes": episodes, "steps": max_steps, "seed": seed}
    for j in range(repetitions):
        rng = stream(seed, "tasks", j)
        drawn = [draw_task(rng) for _ in range(tasks)]
        optimal[j] = optimal_returns(drawn, max_steps, discounted=False)
        for i, (name, make_agent) in enumerate(agents.items()):
            agent = make_agent(stream(seed, "agent", name, j))
            lived = learn_tasks(agent, drawn, **length, name=name, repetition=j)
            returns[i, j], updates[i, j] = lived["returns"], lived["updates"]
    return _labelled(list(agents), returns, updates, optimal)


def _check_arguments(agents: Mapping[str, MakeAgent], draw_task: DrawTask) -> None:
    if not agents:
        raise InvalidArgument("there are no agents: give one or more by name")
    for name, make in agents.items():
        if not callable(make):
            raise InvalidArgument(
                f"agent {name!r} is {make!r}: give what makes one, as in "
                "lambda rng: hl.RMax(seed=rng, ...), for each repetition needs a fresh one"
            )
    if not callable(draw_task):
        raise InvalidArgument(
            f"draw_task is {draw_task!r}: give what draws a task, as in family.draw"
        )


def _labelled(
    names: list[str], returns: np.ndarray, updates: np.ndarray, optimal: np.ndarray
) -> "xr.Dataset":
    import xarray as xr

    _, repetitions, tasks, episodes = returns.shape
    return xr.Dataset(
        {
            "returns": (("agent", "repetition", "task", "episode"), returns),
            "updates": (("agent", "repetition", "task"), updates),
            "optimal": (("repetition", "task"), optimal),
        },
        coords={
            "agent": names,
            "repetition": np.arange(1, repetitions + 1),
            "task": np.arange(1, tasks + 1),
            "episode": np.arange(1, episodes + 1),
        },
    )


def comparison_table(results: "xr.Dataset", *, last: int, baseline: str = "RMax") -> str:
    """What each agent returned in the first task and in the `last` ones, and what it gained.

    The gain is over the baseline in the same tasks, with its 95 % Student interval over
    repetitions.
    """
    names = [str(name) for name in results.agent.values]
    if baseline not in names:
        raise InvalidArgument(
            f"baseline is {baseline!r}: the agents are {', '.join(names)}; name one of them"
        )
    later = results.isel(task=slice(-last, None))
    width = max(len(name) for name in ("agent", *results.agent.values))
    columns = f"{'task 1':>8}  {f'last {last}':>8}  {'updates':>8}"
    lines = [f"{'agent':<{width}}  {columns}  gain over {baseline}"]
    mean = later.returns.mean(("task", "episode"))
    for name in results.agent.values:
        first = float(results.returns.sel(agent=name, task=1).mean())
        gained = gain(mean.sel(agent=name).values, mean.sel(agent=baseline).values)
        centre, half = student_interval(gained)
        lines.append(
            f"{name:<{width}}  {first:>8.3f}  {float(mean.sel(agent=name).mean()):>8.3f}  "
            f"{float(later.updates.sel(agent=name).mean()):>8.1f}  "
            + ("" if name == baseline else f"{centre:+.1%} ± {half:.1%}")
        )
    if np.isfinite(later.optimal).all():
        first, best = (float(x.mean()) for x in (results.optimal.sel(task=1), later.optimal))
        lines.append(f"{'best':<{width}}  {first:>8.3f}  {best:>8.3f}")
    return "\n".join(lines)
