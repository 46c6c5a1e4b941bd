"""The claims of the paper, and the functions that decide claims shared by several experiments."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from heirloom.experiments.spec import AgentSpec
from heirloom.stats import FloatArray, Interval, student_interval
from heirloom.wording import are, counted


class Claim(NamedTuple):
    """A statement, the measurement that decides it, and the verdict."""

    statement: str
    measured: str
    holds: bool | None
    """Whether the statement is true; None if the measurement cannot decide."""
    whose: str = "paper"
    """The source of the statement: the paper, or ours if it corrects the paper."""


OURS = "ours"
MIN_REPETITIONS = 5  # needed to decide a claim
REPORTED_START = 12  # the task from which the paper reports transfer of MaxQInit


def undecided_if_few(claims: list[Claim], repetitions: int) -> list[Claim]:
    """Return the claims, without verdicts if there are too few repetitions.

    Intervals over few repetitions are too wide to decide a claim, and those over one are NaN.
    """
    if repetitions >= MIN_REPETITIONS:
        return claims
    return [
        claim._replace(holds=None, measured=claim.measured.replace(" ± nan", ""))
        for claim in claims
    ]


class Ratios(NamedTuple):
    """An agent, and its mean returns divided by those of RMax, [repetition, task]."""

    agent: AgentSpec
    vs_rmax: FloatArray


def transfers_early(name: str, ratios: Ratios) -> Claim:
    """Claim that an agent outperforms RMax in the second task."""
    interval = student_interval(ratios.vs_rmax[:, 1])
    return Claim(
        f"{name} benefits from transfer as early as task 2",
        f"{format_interval(interval)} times the return of RMax in task 2",
        bool(interval.mean - interval.half_width > 1),
    )


def max_q_start_claims(vs_rmax: FloatArray, start: int) -> list[Claim]:
    """Claims about the first task in which MaxQInit outperforms RMax.

    Args:
        vs_rmax: returns of MaxQInit divided by those of RMax, [repetition, task].
        start: the first task in which MaxQInit may use its bound, given its δ. If the paper reports
            another one, there is one claim for each.
    """
    n_tasks = vs_rmax.shape[1]

    def claim(first: int, whose: str, reason: str) -> Claim:
        statement = f"MaxQInit benefits from transfer only from task {first} on{reason}"
        if first > n_tasks:
            return Claim(
                statement,
                f"there {are(n_tasks)} only {counted(n_tasks, 'task')}",
                holds=False,
                whose=whose,
            )
        earlier = student_interval(vs_rmax[:, 1 : first - 1].mean(axis=1))
        at_start = student_interval(vs_rmax[:, first - 1])
        return Claim(
            statement,
            f"{format_interval(earlier)} times the return of RMax in earlier tasks, "
            f"{format_interval(at_start)} times in task {first}",
            bool(at_start.mean - at_start.half_width > 1 and contains(earlier, 1.0)),
            whose,
        )

    claims = [claim(REPORTED_START, "paper", "")]
    if start != REPORTED_START:
        claims.append(claim(start, OURS, ", as its δ requires (erratum 4)"))
    return claims


def combination_claims(ratios: Mapping[str, Ratios], start: int, prior: str = "0.1") -> list[Claim]:
    """Claims that LRMaxQInit outperforms all other agents, and is no worse than its two parts.

    Agents are compared over the tasks from `start` on, in which MaxQInit uses its bound.
    """
    last = slice(min(start, ratios["RMax"].vs_rmax.shape[1]) - 1, None)
    means = {name: r.vs_rmax[:, last].mean(axis=1) for name, r in ratios.items()}
    name = f"LRMaxQInit({prior})"
    gaps = {
        other: student_interval(means[name] - mean)
        for other, mean in means.items()
        if other != name
    }
    best_other = min(gaps, key=lambda other: float(gaps[other].mean))
    parts = f"LRMax({prior})", "MaxQInit"
    return [
        Claim(
            f"{name} outperforms all other methods",
            f"the difference to {best_other}, the best of the others, is "
            f"{format_interval(gaps[best_other])} times the return of RMax, from task {start} on",
            all(bool(gap.mean - gap.half_width > 0) for gap in gaps.values()),
        ),
        Claim(
            f"{name} performs at least as well as {parts[0]} and {parts[1]}",
            f"the differences are {' and '.join(format_interval(gaps[part]) for part in parts)} "
            "times the return of RMax",
            all(bool(gaps[part].mean + gaps[part].half_width >= 0) for part in parts),
            OURS,
        ),
    ]


def never_below_rmax(name: str, vs_rmax: FloatArray) -> Claim:
    """Claim that an agent performs worse than RMax in no task.

    The intervals contain the means of all tasks at once with probability 95 % (Bonferroni).
    """
    n_tasks = vs_rmax.shape[1]
    intervals = student_interval(vs_rmax, confidence=1 - 0.05 / n_tasks)
    n_below = int(np.count_nonzero(intervals.mean + intervals.half_width < 1))
    worst = int(intervals.mean.argmin())
    lowest = Interval(intervals.mean[worst], intervals.half_width[worst])
    return Claim(
        f"{name} never performs worse than RMax",
        f"at worst {format_interval(lowest)} times the return of RMax, in task {worst + 1}; "
        f"in {n_below} of {n_tasks} tasks the interval is below 1",
        n_below == 0,
    )


def format_interval(interval: Interval) -> str:
    """Return a mean and half the width of its interval as text, such as "1.00 ± 0.05"."""
    return f"{interval.mean:.2f} ± {interval.half_width:.2f}"


def contains(interval: Interval, value: float) -> bool:
    """Return whether an interval contains a value."""
    return bool(abs(interval.mean - value) <= interval.half_width)
