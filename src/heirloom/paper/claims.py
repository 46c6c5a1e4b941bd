"""What the paper claims and whether it was so, and the claims that several experiments share."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from heirloom.experiments.spec import AgentSpec
from heirloom.stats import FloatArray, Interval, student_interval


class Claim(NamedTuple):
    """A statement, what was measured, and whether it holds: None if that cannot be told."""

    statement: str
    measured: str
    holds: bool | None
    whose: str = "paper"
    """Whose statement it is: the paper's, or ours, where it corrects the paper."""


OURS = "ours"
ENOUGH = 5  # repetitions, to say whether something holds
REPORTED_START = 12  # of MaxQInit, in the paper


def judged(claims: list[Claim], repetitions: int) -> list[Claim]:
    """With few repetitions intervals are too wide to tell anything; with one there are none."""
    if repetitions >= ENOUGH:
        return claims
    return [
        claim._replace(holds=None, measured=claim.measured.replace(" ± nan", ""))
        for claim in claims
    ]


class Ratios(NamedTuple):
    """Mean returns of an agent over those of RMax, [repetition, task]."""

    agent: AgentSpec
    vs_rmax: FloatArray


def transfers_early(name: str, ratios: Ratios) -> Claim:
    """An agent returns more than RMax in the second task already."""
    mean, half = student_interval(ratios.vs_rmax[:, 1])
    return Claim(
        f"{name} transfers as early as task 2",
        f"{mean:.2f} ± {half:.2f} times RMax in task 2",
        bool(mean - half > 1),
    )


def starts(vs_rmax: FloatArray, start: int) -> list[Claim]:
    """MaxQInit before and from the task that the paper reports, and that its confidence allows."""
    n_tasks = vs_rmax.shape[1]

    def claim(first: int, whose: str, why: str) -> Claim:
        statement = f"MaxQInit transfers from task {first} on, not before{why}"
        if first > n_tasks:
            return Claim(statement, f"there are {n_tasks} tasks only", holds=False, whose=whose)
        before = student_interval(vs_rmax[:, 1 : first - 1].mean(axis=1))
        there = student_interval(vs_rmax[:, first - 1])
        return Claim(
            statement,
            f"{text(before)} times RMax before, {text(there)} in task {first}",
            bool(there.mean - there.half_width > 1 and contains(before, 1.0)),
            whose,
        )

    claims = [claim(REPORTED_START, "paper", "")]
    if start != REPORTED_START:
        claims.append(claim(start, OURS, ", for its δ (erratum 4)"))
    return claims


def combination(ratios: Mapping[str, Ratios], start: int, prior: str = "0.1") -> list[Claim]:
    """Once MaxQInit is in use, the combination against all others, and against its parts."""
    last = slice(min(start, ratios["RMax"].vs_rmax.shape[1]) - 1, None)
    means = {name: r.vs_rmax[:, last].mean(axis=1) for name, r in ratios.items()}
    name = f"LRMaxQInit({prior})"
    gaps = {
        other: student_interval(means[name] - mean)
        for other, mean in means.items()
        if other != name
    }
    nearest = min(gaps, key=lambda other: float(gaps[other].mean))
    parts = f"LRMax({prior})", "MaxQInit"
    return [
        Claim(
            f"{name} outperforms all other methods",
            f"above {nearest}, the next, by {text(gaps[nearest])} times RMax, from task {start}",
            all(bool(gap.mean - gap.half_width > 0) for gap in gaps.values()),
        ),
        Claim(
            f"{name} is at least as good as {parts[0]} and as {parts[1]}",
            f"above them by {' and by '.join(text(gaps[part]) for part in parts)} times RMax",
            all(bool(gaps[part].mean + gaps[part].half_width >= 0) for part in parts),
            OURS,
        ),
    ]


def never_below(name: str, vs_rmax: FloatArray) -> Claim:
    """In no task; with intervals that hold for all tasks at once (Bonferroni)."""
    n_tasks = vs_rmax.shape[1]
    mean, half = student_interval(vs_rmax, confidence=1 - 0.05 / n_tasks)
    below = np.flatnonzero(mean + half < 1)
    worst = int(mean.argmin())
    return Claim(
        f"{name} is never below RMax",
        f"at worst {mean[worst]:.2f} ± {half[worst]:.2f} times RMax, in task {worst + 1}; "
        f"{below.size} of {n_tasks} tasks with an interval below 1",
        below.size == 0,
    )


def text(interval: Interval) -> str:
    """A mean and half of the width of its interval."""
    return f"{interval.mean:.2f} ± {interval.half_width:.2f}"


def contains(interval: Interval, value: float) -> bool:
    """Whether a value lies in an interval."""
    return bool(abs(interval.mean - value) <= interval.half_width)
