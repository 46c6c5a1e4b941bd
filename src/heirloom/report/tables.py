"""The table of agents, which the page sorts, and that of certificates, with 95 % intervals.

The measures are pure functions of arrays with one entry per repetition and task, or per repetition,
task and episode. Repetitions whose job is missing are NaN and are left out. The terms are those of
Taylor and Stone (2009): jumpstart, total reward, time to threshold; forward transfer is that of
Continual World (2021).
"""

from typing import NamedTuple

import numpy as np

from heirloom.arrays import BoolArray, FloatArray
from heirloom.experiments.measures import Certified
from heirloom.report.markup import interval, table, text
from heirloom.report.sources import ShownRun, same_tasks
from heirloom.runs.compare import is_comparison
from heirloom.stats import Interval, student_interval
from heirloom.wording import counted_of

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


MOST_TASKS = 20  # rows of an agent
LATE = 0.1  # the share of episodes, at the end of a task, whose return is shown
WIDTH = 160  # pixels of the picture of a row


def certificates(runs: list[ShownRun]) -> str:
    """Return a table of certificates for each run that has recorded them; empty if none has."""
    needed = {*Certified.variables, "discounted_returns"}
    shown = [run for run in runs if needed <= run.arrays.keys()]
    tables = "".join(_table(run, f" of {run.label}" if len(runs) > 1 else "") for run in shown)
    if not tables:
        return ""
    return (
        '<section id="certificates"><h2>Certificates</h2><p>What each agent could prove at the end '
        "of a task: a policy is worth at least the first bound, and no policy more than the second "
        "one. All bounds of an agent in a repetition hold together with probability 0.95, if what "
        "the agent was created with is true. They are about expected discounted returns of "
        "episodes that go on until they terminate; the returns are those of the episodes that were "
        "run, which may have been cut. All numbers are means over repetitions. In the pictures, "
        f"the line is between the two bounds, and the dot is the return.</p>{tables}</section>"
    )


def _table(run: ShownRun, of_run: str) -> str:
    """Return one row for each agent and task; empty if no agent has a certificate."""
    n_tasks, n_episodes = run.returns.shape[2:]
    tasks = np.unique(np.linspace(0, n_tasks - 1, min(n_tasks, MOST_TASKS)).round().astype(int))
    late = run.arrays["discounted_returns"][..., -max(1, round(LATE * n_episodes)) :].mean(axis=3)
    columns = [late, *(run.arrays[name] for name in Certified.variables)]
    found = [
        (run.agents[i], task, [over_repetitions(column[i, :, task]) for column in columns])
        for i in np.flatnonzero(np.isfinite(columns[1]).any(axis=(1, 2)))
        for task in tasks
    ]
    if not found:
        return ""
    means = np.array([[float(one.mean) for one in intervals] for *_, intervals in found])
    scale = np.nanmin(means), np.nanmax(means)
    rows = [
        [text(agent), str(task + 1), *map(interval, intervals), _picture(of_row, *scale)]
        for (agent, task, intervals), of_row in zip(found, means, strict=True)
    ]
    of_tasks = "" if tasks.size == n_tasks else f" in {counted_of(tasks.size, n_tasks, 'task')}"
    header = [
        *("Agent", "Task", f"Discounted return, last {LATE:.0%} of the episodes"),
        *("Certified policy, at least", "Optimum, at most", "Bounds and return"),
    ]
    caption = f"Certificates{of_run}{of_tasks}, with 95 % intervals over repetitions."
    return table(header, rows, caption=caption)


def _picture(values: FloatArray, low: float, high: float) -> str:
    """Return a picture of a return and the two bounds, from `low` to `high`."""
    if not np.isfinite(values).all():
        return ""
    late, lower, upper = 6 + (WIDTH - 12) * (values - low) / (high - low or 1.0)
    return (
        f'<svg width="{WIDTH}" height="12" viewBox="0 -6 {WIDTH} 12" aria-hidden="true">'
        f'<path d="M{lower:.1f},0H{upper:.1f}M{lower:.1f},-4V4M{upper:.1f},-4V4" '
        'stroke="currentColor" stroke-width="1.5"/>'
        f'<circle cx="{late:.1f}" r="3.5" fill="currentColor"/></svg>'
    )
