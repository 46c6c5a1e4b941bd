"""What the paper claims of its experiments, and whether it was so."""

import itertools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from heirloom.experiments.spec import AgentSpec
from heirloom.stats import FloatArray, Interval, student_interval
from heirloom.transfer.confidence import tasks_for_distance, tasks_for_max_q

EARLY, LATE = 20, 200  # episodes of the first and of the last stage of learning


class Claim(NamedTuple):
    """A statement of the paper, what was measured, and whether it holds."""

    statement: str
    measured: str
    holds: bool


class Ratios(NamedTuple):
    """Mean returns of an agent over those of RMax, [repetition, task]."""

    agent: AgentSpec
    vs_rmax: FloatArray


def claims_of_tight(
    ratios: Mapping[str, Ratios],
    episodes: Mapping[str, FloatArray],
    *,
    p_min: float,
) -> list[Claim]:
    """The claims of the main experiment.

    Args:
        ratios: by agent, how its returns compare with those of RMax.
        episodes: by agent, the mean discounted return [repetition, episode] over tasks from the
            second on.
        p_min: the probability of a task.
    """
    start = tasks_for_max_q(p_min, ratios["MaxQInit"].agent.delta) + 1
    learned = tasks_for_distance(p_min, ratios["LRMax"].agent.delta) + 1
    n_tasks = ratios["RMax"].vs_rmax.shape[1]
    return [
        *(_transfers_early(name, ratios[name]) for name in ("LRMax(0.2)", "LRMax(0.1)")),
        _smaller_is_better(ratios),
        _starts(ratios["MaxQInit"].vs_rmax, start),
        _combination(ratios, start),
        _three_stages(episodes),
        *(
            _never_below(name, ratios[name].vs_rmax)
            for name in ratios
            if name not in ("RMax", "MaxQInit")
        ),
        _no_prior_no_transfer(ratios["LRMax"].vs_rmax, learned, n_tasks),
    ]


def claims_of_bounds(d_max: Sequence[float], measures: Mapping[str, FloatArray]) -> list[Claim]:
    """ρ_Lip, ρ_Speed-up and ρ_Return [repetition, d_max] rise as D_max falls."""
    return [_rises(name, d_max, values) for name, values in measures.items()]


def _transfers_early(name: str, ratios: Ratios) -> Claim:
    mean, half = student_interval(ratios.vs_rmax[:, 1])
    return Claim(
        f"{name} transfers as early as task 2",
        f"{mean:.2f} ± {half:.2f} times RMax in task 2",
        bool(mean - half > 1),
    )


def _smaller_is_better(ratios: Mapping[str, Ratios]) -> Claim:
    one, other = (ratios[name].vs_rmax[:, 1:].mean(axis=1) for name in ("LRMax(0.1)", "LRMax(0.2)"))
    mean, half = student_interval(one - other)
    return Claim(
        "a smaller prior transfers more: LRMax(0.1) above LRMax(0.2)",
        f"by {mean:.2f} ± {half:.2f} times RMax, over tasks 2 on",
        bool(mean - half > 0),
    )


def _starts(vs_rmax: FloatArray, start: int) -> Claim:
    """MaxQInit before the task that its confidence allows, and from it on."""
    n_tasks = vs_rmax.shape[1]
    if start > n_tasks:
        return Claim(
            f"MaxQInit transfers from task {start} on",
            f"there are {n_tasks} tasks only",
            holds=False,
        )
    before = student_interval(vs_rmax[:, 1 : start - 1].mean(axis=1))
    after = student_interval(vs_rmax[:, start - 1 :].mean(axis=1))
    return Claim(
        f"MaxQInit transfers from task {start} on, not before",
        f"{_text(before)} before, {_text(after)} times RMax from then on",
        bool(after.mean - after.half_width > 1 and _contains(before, 1.0)),
    )


def _combination(ratios: Mapping[str, Ratios], start: int) -> Claim:
    """Once MaxQInit is in use, the combination against each of its parts."""
    last = slice(min(start, ratios["RMax"].vs_rmax.shape[1]) - 1, None)
    means = {name: r.vs_rmax[:, last].mean(axis=1) for name, r in ratios.items()}
    gaps = [
        student_interval(means["LRMaxQInit(0.1)"] - means[part])
        for part in ("LRMax(0.1)", "MaxQInit")
    ]
    return Claim(
        f"LRMaxQInit(0.1) is at least as good as LRMax(0.1) and as MaxQInit, from task {start} on",
        f"above them by {_text(gaps[0])} and by {_text(gaps[1])} times RMax",
        all(bool(gap.mean + gap.half_width >= 0) for gap in gaps),
    )


def _three_stages(episodes: Mapping[str, FloatArray]) -> Claim:
    """LRMax(0.1): high returns at first, lower ones while it explores, then the best."""
    curve, rmax = episodes["LRMax(0.1)"], episodes["RMax"]
    early = student_interval(curve[:, :EARLY].mean(axis=1))
    blocks = curve[:, EARLY:-LATE]
    n_blocks = blocks.shape[1] // LATE
    means = blocks[:, : n_blocks * LATE].reshape(curve.shape[0], n_blocks, LATE).mean(axis=2)
    low = int(means.mean(axis=0).argmin()) if n_blocks else 0
    middle = student_interval(means[:, low] if n_blocks else curve.mean(axis=1))
    late = student_interval(curve[:, -LATE:].mean(axis=1))
    at_first = float(rmax[:, :EARLY].mean())
    return Claim(
        "LRMax(0.1) learns in three stages: exploits what it knows, explores, converges",
        f"return {early.mean:.2f} in {EARLY} first episodes (RMax {at_first:.2f}), "
        f"{middle.mean:.2f} at its lowest, {late.mean:.2f} at the end",
        bool(early.mean > at_first and early.mean > middle.mean and late.mean > middle.mean),
    )


def _never_below(name: str, vs_rmax: FloatArray) -> Claim:
    mean, half = student_interval(vs_rmax)
    below = np.flatnonzero(mean + half < 1)
    worst = int(mean.argmin())
    return Claim(
        f"{name} is never below RMax",
        f"at worst {mean[worst]:.2f} ± {half[worst]:.2f} times RMax, in task {worst + 1}; "
        f"{below.size} of {mean.size} tasks with an interval below 1",
        below.size == 0,
    )


def _no_prior_no_transfer(vs_rmax: FloatArray, learned: int, n_tasks: int) -> Claim:
    """Erratum 7: the text reports transfer of LRMax without a prior; there can be none."""
    last = min(learned - 1, n_tasks)
    interval = student_interval(vs_rmax[:, 1:last].mean(axis=1))
    return Claim(
        f"LRMax without a prior is RMax, until it has learned one (task {learned})",
        f"{_text(interval)} times RMax in tasks 2 to {last}",
        _contains(interval, 1.0),
    )


def _rises(name: str, d_max: Sequence[float], values: FloatArray) -> Claim:
    """From each D_max to the next smaller one, repetition by repetition."""
    order = np.argsort(d_max)[::-1]
    mean = values.mean(axis=0)[order]
    steps = [student_interval(values[:, b] - values[:, a]) for a, b in itertools.pairwise(order)]
    falls = any(bool(step.mean + step.half_width < 0) for step in steps)
    rises = student_interval(values[:, order[-1]] - values[:, order[0]])
    numbers = ", ".join(f"{100 * value:.1f}" for value in mean)
    return Claim(
        f"{name} rises as D_max falls",
        f"{numbers} % for D_max = {', '.join(f'{d_max[i]:g}' for i in order)}",
        bool(not falls and rises.mean - rises.half_width > 0),
    )


def _contains(interval: Interval, value: float) -> bool:
    return bool(abs(interval.mean - value) <= interval.half_width)


def _text(interval: Interval) -> str:
    return f"{interval.mean:.2f} ± {interval.half_width:.2f}"
