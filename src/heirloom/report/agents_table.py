"""The table of agents: measures of lifelong learning with 95 % intervals, which the page sorts."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from heirloom.arrays import FloatArray
from heirloom.report import measures
from heirloom.report.markup import interval, text
from heirloom.report.sources import ShownRun, same_tasks
from heirloom.stats import Interval


class Column(NamedTuple):
    """A column of the table."""

    title: str
    explanation: str
    value: Callable[["Row"], tuple[FloatArray, bool]]
    """Returns one number per repetition, and whether they are lower bounds."""


class Baseline(NamedTuple):
    """The agent that others are compared with."""

    name: str
    returns: FloatArray
    """Its returns [repetition, task, episode] on the same tasks."""


class Row(NamedTuple):
    """An agent, and the agent that it is compared with."""

    run: ShownRun
    agent: int
    baseline: Baseline

    @property
    def returns(self) -> FloatArray:
        """Returns of the agent [repetition, task, episode]."""
        return self.run.returns[self.agent]

    @property
    def updates(self) -> FloatArray:
        """Pairs that became known [repetition, task]; NaN where a job is missing."""
        updates = self.run.arrays["updates"][self.agent].astype(float)
        return np.where(updates < 0, np.nan, updates)


class Cell(NamedTuple):
    """A number of the table with its interval."""

    found: Interval
    at_least: bool
    """Whether the true value is at least this number."""


def baseline_of(runs: list[ShownRun], run: ShownRun, wanted: str | None = None) -> Baseline:
    """Return the agent that others are compared with: the wanted one, RMax, or the first.

    If the run itself does not have it, another run on the same tasks may.
    """
    for name in (wanted, "RMax"):
        for other in (run, *runs):
            fits = other is run or (
                same_tasks(run, other) and other.returns.shape[1:] == run.returns.shape[1:]
            )
            if name is not None and fits and name in other.agents:
                return Baseline(name, other.returns[other.agents.index(name)])
    return Baseline(run.agents[0], run.returns[0])


def columns(run: ShownRun, baseline: Baseline) -> list[Column]:
    """Return the columns of the table of a run."""
    name, tasks = baseline.name, "averaged over tasks"
    near = f"{measures.NEAR:.0%}"
    steps = 0 if run.spec is None else run.spec.steps
    found = [
        Column(
            "Mean return",
            "Mean undiscounted return of an episode, over all tasks.",
            lambda row: (row.returns.mean(axis=(1, 2)), False),
        ),
        Column(
            "Area over the baseline",
            f"Total reward of a task minus that of {name}: the area between the learning curves, "
            f"{tasks}.",
            lambda row: (measures.area_over(row.returns, row.baseline.returns), False),
        ),
        Column(
            "Jumpstart",
            f"Mean return of the first {measures.EARLY:.0%} of the episodes minus that of {name}, "
            "from task 2 on.",
            lambda row: (measures.jumpstart(row.returns, row.baseline.returns), False),
        ),
        Column(
            "Forward transfer",
            f"(A − B) / (O − B) from task 2 on, with A the mean return of the agent, B that of "
            f"{name} and O the optimal return: 0 for {name}, 1 if every episode is optimal.",
            lambda row: (
                measures.forward_transfer(row.returns, row.baseline.returns, row.run.optimal),
                False,
            ),
        ),
        Column(
            "Episodes until near-optimal",
            f"Time to threshold: episodes until the mean return of the rest of the task is at "
            f"least {near} of the optimal return, {tasks}. ≥: some tasks ended before, and count "
            "with all their episodes.",
            _episodes_until,
        ),
    ]
    if steps:
        found.append(
            Column(
                "Steps until near-optimal, at most",
                f"The same in time steps: episodes times {steps:,}, the largest number of steps of "
                "an episode. Episodes that terminate have fewer steps, so that this is an upper "
                "bound; where the number of episodes is marked ≥, it bounds nothing.",
                lambda row: (_episodes_until(row)[0] * steps, False),
            )
        )
    found.append(
        Column(
            "Pairs learned",
            f"State-action pairs that became known in a task, {tasks}.",
            lambda row: (row.updates.mean(axis=1), False),
        )
    )
    return found


def cells(run: ShownRun, baseline: Baseline) -> list[list[Cell]]:
    """Return the numbers of the table, one row per agent."""
    rows = []
    for i in range(len(run.agents)):
        row = []
        for column in columns(run, baseline):
            values, at_least = column.value(Row(run, i, baseline))
            row.append(Cell(measures.over_repetitions(values), at_least))
        rows.append(row)
    return rows


def agents_table(run: ShownRun, baseline: Baseline, *, of_run: str = "") -> str:
    """Return the table as HTML; the script of the page sorts it by `data-value`.

    Args:
        run: the run.
        baseline: the agent that others are compared with.
        of_run: names the run in the caption, if the page shows several.
    """
    shown = columns(run, baseline)
    head = "".join(
        f'<th scope="col"><button type="button" title="{text(column.explanation)}">'
        f"{text(column.title)}</button></th>"
        for column in (Column("Agent", "The name of the agent.", _episodes_until), *shown)
    )
    body = ""
    for name, row in zip(run.agents, cells(run, baseline), strict=True):
        body += f'<tr><th scope="row" data-value="{text(name)}">{text(name)}</th>'
        for cell in row:
            sign = "≥ " if cell.at_least else ""
            mean = float(cell.found.mean)
            value = repr(mean) if np.isfinite(mean) else ""
            body += f'<td data-value="{value}">{sign}{interval(cell.found)}</td>'
        body += "</tr>"
    caption = (
        f"Agents{of_run}, with 95 % intervals over repetitions; the baseline is {baseline.name}"
    )
    notes = "".join(
        f"<dt>{text(column.title)}</dt><dd>{text(column.explanation)}</dd>" for column in shown
    )
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{text(caption)}">'
        f'<table class="sortable"><caption>{text(caption)}. Press a heading to sort.</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
        f"<details><summary>What the columns mean</summary><dl>{notes}</dl></details>"
    )


def _episodes_until(row: Row) -> tuple[FloatArray, bool]:
    episodes, reached = measures.until_near_optimal(row.returns, row.run.optimal)
    known = np.isfinite(episodes)
    return episodes.mean(axis=1), bool((known & ~reached).any())
