"""The table of agents: measures of lifelong learning with 95 % intervals, which the page sorts.

The measures are pure functions of arrays with one entry per repetition and task, or per repetition,
task and episode. Repetitions whose job is missing are NaN and are left out. The terms are those of
Taylor and Stone (2009): jumpstart, total reward, time to threshold; forward transfer is that of
Continual World (2021).
"""

from typing import NamedTuple

import numpy as np

from heirloom.arrays import BoolArray, FloatArray
from heirloom.report.markup import interval, table, text
from heirloom.report.sources import ShownRun, same_tasks
from heirloom.runs.compare import is_comparison
from heirloom.stats import Interval, student_interval

NEAR = 0.95
"""The share of the optimal return from which on a policy counts as near-optimal."""
EARLY = 0.01
"""The share of the episodes of a task that count for the jumpstart."""
FEWEST_LEFT = 0.05
"""The share of the episodes that must be left to judge that an agent is near-optimal."""


class Threshold(NamedTuple):
    """Episodes until an agent is near-optimal, [repetition, task]."""

    episodes: FloatArray
    """All episodes of the task where the agent did not become near-optimal."""
    reached: BoolArray


def over_repetitions(values: FloatArray) -> Interval:
    """Mean and 95 % Student interval over the repetitions that are not NaN, if they are normal."""
    finite = values[np.isfinite(values)]
    if not finite.size:
        return Interval(np.array(np.nan), np.array(np.nan))
    return student_interval(finite)


def area_over(returns: FloatArray, baseline: FloatArray) -> FloatArray:
    """Total reward over that of the baseline, per task, [repetition].

    It is the area between the two learning curves [repetition, task, episode].
    """
    return (returns - baseline).sum(axis=2).mean(axis=1)


def jumpstart(returns: FloatArray, baseline: FloatArray) -> FloatArray:
    """Mean return of the first episodes over that of the baseline, from task 2 on, [repetition]."""
    if returns.shape[1] < 2:
        return np.full(returns.shape[0], np.nan)
    n = max(1, round(EARLY * returns.shape[2]))
    return (returns - baseline)[:, 1:, :n].mean(axis=(1, 2))


def forward_transfer(returns: FloatArray, baseline: FloatArray, optimal: FloatArray) -> FloatArray:
    """Share of the baseline's loss that an agent avoids, from task 2 on, [repetition].

    (A - B) / (O - B), with A and B the mean returns of the agent and the baseline over these tasks,
    and O the optimal expected return: 0 for the baseline, 1 for an agent that is optimal from the
    first episode on. NaN if the baseline is optimal.
    """
    if returns.shape[1] < 2:
        return np.full(returns.shape[0], np.nan)
    A, B = (x[:, 1:].mean(axis=(1, 2)) for x in (returns, baseline))
    loss = optimal[:, 1:].mean(axis=1) - B
    return np.divide(A - B, loss, out=np.full_like(A, np.nan), where=loss > 0)


def until_near_optimal(returns: FloatArray, optimal: FloatArray) -> Threshold:
    """Episodes after which the mean return of all remaining ones is near-optimal.

    Near-optimal means at least `NEAR` of the optimal expected return (for a negative optimum, no
    more than 1 - `NEAR` of its size below it). At least `FEWEST_LEFT` of the episodes must remain.
    """
    n = returns.shape[2]
    threshold = optimal - (1 - NEAR) * np.abs(optimal)
    remaining = np.arange(n, 0, -1)
    rest = np.cumsum(returns[:, :, ::-1], axis=2)[:, :, ::-1] / remaining
    good = (rest >= threshold[:, :, np.newaxis]) & (remaining >= max(1, FEWEST_LEFT * n))
    reached = good.any(axis=2)
    episodes = np.where(reached, good.argmax(axis=2), n).astype(np.float64)
    episodes[np.isnan(returns).any(axis=2) | np.isnan(optimal)] = np.nan
    return Threshold(episodes, reached)


class Baseline(NamedTuple):
    """The agent that others are compared with."""

    name: str
    returns: FloatArray
    """Its returns [repetition, task, episode] on the same tasks."""


class Column(NamedTuple):
    """A column of the table, with the numbers of one agent."""

    title: str
    explanation: str
    values: FloatArray
    """One number per repetition."""
    at_least: bool = False
    """Whether the true values are at least these."""


def find_baseline(
    runs: list[ShownRun], run: ShownRun, wanted: str | None = None
) -> tuple[ShownRun, int]:
    """Return the run and the index of the agent that others are compared with.

    It is the wanted one, RMax, or the first; in a comparison made by `compare` the first. If the
    run itself does not have it, another run on the same tasks may.
    """
    compared = run.spec is not None and is_comparison(run.spec)
    for name in (wanted, None if compared else "RMax"):
        for other in (run, *runs):
            fits = other is run or (
                same_tasks(run, other) and other.returns.shape[1:] == run.returns.shape[1:]
            )
            if name is not None and fits and name in other.agents:
                return other, other.agents.index(name)
    return run, 0


def baseline_of(runs: list[ShownRun], run: ShownRun, wanted: str | None = None) -> Baseline:
    """Return the agent that others are compared with, and its returns."""
    other, agent = find_baseline(runs, run, wanted)
    return Baseline(other.agents[agent], other.returns[agent])


def columns(run: ShownRun, agent: int, baseline: Baseline) -> list[Column]:
    """Return the columns of the table of a run, with the numbers of an agent."""
    name, tasks, returns = baseline.name, "averaged over tasks", run.returns[agent]
    updates = run.arrays["updates"][agent].astype(float)
    episodes, reached = until_near_optimal(returns, run.optimal)
    steps = 0 if run.spec is None else run.spec.steps
    found = [
        Column(
            "Mean return",
            "Mean undiscounted return of an episode, over all tasks.",
            returns.mean(axis=(1, 2)),
        ),
        Column(
            "Area over the baseline",
            f"Total reward of a task minus that of {name}: the area between the learning curves, "
            f"{tasks}.",
            area_over(returns, baseline.returns),
        ),
        Column(
            "Jumpstart",
            f"Mean return of the first {EARLY:.0%} of the episodes minus that of {name}, "
            "from task 2 on.",
            jumpstart(returns, baseline.returns),
        ),
        Column(
            "Forward transfer",
            f"(A − B) / (O − B) from task 2 on, with A the mean return of the agent, B that of "
            f"{name} and O the optimal return: 0 for {name}, 1 if every episode is optimal.",
            forward_transfer(returns, baseline.returns, run.optimal),
        ),
        Column(
            "Episodes until near-optimal",
            f"Time to threshold: episodes until the mean return of the rest of the task is at "
            f"least {NEAR:.0%} of the optimal return, {tasks}. ≥: some tasks ended before, and "
            "count with all their episodes.",
            episodes.mean(axis=1),
            at_least=bool((np.isfinite(episodes) & ~reached).any()),
        ),
        Column(
            "Steps until near-optimal, at most",
            f"The same in time steps: episodes times {steps:,}, the largest number of steps of "
            "an episode. Episodes that terminate have fewer steps, so that this is an upper "
            "bound; where the number of episodes is marked ≥, it bounds nothing.",
            episodes.mean(axis=1) * steps,
        ),
        Column(
            "Pairs learned",
            f"State-action pairs that became known in a task, {tasks}.",
            np.where(updates < 0, np.nan, updates).mean(axis=1),
        ),
    ]
    return [column for column in found if steps or not column.title.startswith("Steps")]


def agents_table(run: ShownRun, baseline: Baseline, *, of_run: str = "") -> str:
    """Return the table as HTML; the script of the page sorts it by the values of its cells."""
    by_agent = [columns(run, i, baseline) for i in range(len(run.agents))]
    explained = [("Agent", "The name of the agent."), *(column[:2] for column in by_agent[0])]
    head = [
        f'<button type="button" title="{text(explanation)}">{text(title)}</button>'
        for title, explanation in explained
    ]
    rows = [
        [f'<data value="{text(name)}">{text(name)}</data>', *map(_cell, of_agent)]
        for name, of_agent in zip(run.agents, by_agent, strict=True)
    ]
    caption = (
        f"Agents{of_run}, with 95 % intervals over repetitions; the baseline is {baseline.name}. "
        "Press a heading to sort."
    )
    notes = "".join(f"<dt>{text(title)}</dt><dd>{text(what)}</dd>" for title, what in explained[1:])
    return (
        table(head, rows, caption=caption, classes="sortable")
        + f"<details><summary>What the columns mean</summary><dl>{notes}</dl></details>"
    )


def _cell(column: Column) -> str:
    found = over_repetitions(column.values)
    value = repr(float(found.mean)) if np.isfinite(found.mean) else ""
    sign = "≥ " if column.at_least else ""
    return f'<data value="{value}">{sign}{interval(found)}</data>'
