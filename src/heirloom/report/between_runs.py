"""Differences between runs: the mean returns of agents that several runs have in common."""

from typing import NamedTuple

import numpy as np
from scipy import special

from heirloom.report.markup import interval, table, text
from heirloom.report.sources import ShownRun, same_tasks
from heirloom.report.tables import over_repetitions
from heirloom.runs.versions import differences as version_differences
from heirloom.stats import MIN_REPETITIONS, FloatArray, Interval, all_equal


class RunDifference(NamedTuple):
    """The mean return of an agent in two runs."""

    agent: str
    run: str
    first: Interval
    other: Interval
    difference: Interval
    """The mean return in the other run minus that in the first."""
    paired: bool
    """Whether both runs have the same tasks, so that repetitions are compared one by one."""
    identical: bool
    """Whether all returns are equal to the bit."""


def differences(runs: list[ShownRun]) -> list[RunDifference]:
    """Compare each run with the first one that has an agent of the same name."""
    found = []
    for j, run in enumerate(runs[1:], start=1):
        for k, name in enumerate(run.agents):
            earlier = next((other for other in runs[:j] if name in other.agents), None)
            if earlier is not None:
                first = earlier.returns[earlier.agents.index(name)]
                found.append(_difference(name, (earlier, first), (run, run.returns[k])))
    return found


def _difference(
    name: str, one: tuple[ShownRun, FloatArray], two: tuple[ShownRun, FloatArray]
) -> RunDifference:
    means = [returns.mean(axis=(1, 2)) for _, returns in (one, two)]
    paired = same_tasks(one[0], two[0])
    n = min(len(means[0]), len(means[1]))
    gap = (
        over_repetitions(means[1][:n] - means[0][:n])
        if paired
        else welch_interval(*reversed(means))
    )
    same = one[1].shape == two[1].shape and np.array_equal(one[1], two[1], equal_nan=True)
    first, other = (over_repetitions(mean) for mean in means)
    return RunDifference(name, two[0].label, first, other, gap, paired=paired, identical=bool(same))


def welch_interval(x: FloatArray, y: FloatArray, *, confidence: float = 0.95) -> Interval:
    """Difference of the means of two independent, normal samples, with Welch's interval."""
    x, y = x[np.isfinite(x)], y[np.isfinite(y)]
    is_known = min(x.size, y.size) >= MIN_REPETITIONS and not (all_equal(x) or all_equal(y))
    if not is_known:
        gap = x.mean() - y.mean() if x.size and y.size else np.nan
        return Interval(np.array(gap), np.array(np.nan))
    a, b = x.var(ddof=1) / x.size, y.var(ddof=1) / y.size
    total = a + b
    freedom = total**2 / (a**2 / (x.size - 1) + b**2 / (y.size - 1))
    quantile = special.stdtrit(freedom, (1 + confidence) / 2)
    return Interval(np.array(x.mean() - y.mean()), np.array(quantile * np.sqrt(total)))


def differences_section(runs: list[ShownRun]) -> str:
    """Return the comparison of several runs as HTML; empty for one run."""
    found = differences(runs)
    if not found:
        return ""
    rows = [
        [
            text(d.agent),
            text(d.run),
            interval(d.first),
            interval(d.other),
            interval(d.difference),
            "identical to the bit" if d.identical else _verdict(d),
        ]
        for d in found
    ]
    header = ["Agent", "Run", "First run", "This run", "Difference", "Verdict"]
    caption = "Mean returns of agents that several runs have, with 95 % intervals"
    return (
        '<section id="differences"><h2>Differences between runs</h2>'
        f"<p>{_explanation(runs, found)}</p>{table(header, rows, caption=caption)}"
        f"{_settings(runs)}</section>"
    )


def _verdict(d: RunDifference) -> str:
    if not np.isfinite(d.difference.half_width):
        return "no interval: fewer than 3 repetitions, or all are equal"
    if abs(d.difference.mean) <= d.difference.half_width:
        return "no significant difference"
    return "higher" if d.difference.mean > 0 else "lower"


def _explanation(runs: list[ShownRun], found: list[RunDifference]) -> str:
    first = f"Each run is compared with <em>{text(runs[0].label)}</em>, or with the first run that "
    first += "has the agent. "
    if all(d.paired for d in found):
        return first + "The runs have the same tasks, so repetitions are compared one by one."
    if any(d.paired for d in found):
        return first + "Runs with the same tasks are compared repetition by repetition."
    return first + "The runs have different tasks, so the intervals are those of independent runs."


def _settings(runs: list[ShownRun]) -> str:
    """List the differences of settings and versions from those of the first run."""
    lines = []
    for run in runs[1:]:
        found = version_differences(runs[0].versions, run.versions) if run.versions else []
        if runs[0].spec is not None and run.spec is not None:
            difference = runs[0].spec.difference(run.spec)
            found = [*([difference] if difference else []), *found]
        what = "; ".join(found) or "the same settings and versions"
        lines.append(f"<li><em>{text(run.label)}</em>: {text(what)}</li>")
    return f"<details><summary>Settings that differ</summary><ul>{''.join(lines)}</ul></details>"
