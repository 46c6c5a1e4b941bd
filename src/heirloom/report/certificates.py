"""The section of certificates: bounds at the end of each task, next to the return."""

import numpy as np

from heirloom.arrays import FloatArray
from heirloom.experiments.measures import Certified
from heirloom.report.agents_table import over_repetitions
from heirloom.report.markup import interval, table, text
from heirloom.report.sources import ShownRun
from heirloom.wording import counted_of

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
