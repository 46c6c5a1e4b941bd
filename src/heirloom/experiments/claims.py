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
    """A statement, what was measured, and whether it holds: None if that cannot be told."""

    statement: str
    measured: str
    holds: bool | None
    whose: str = "paper"
    """Whose statement it is: the paper's, or ours, where it corrects the paper."""


OURS = "ours"
ENOUGH = 5  # repetitions, to say whether something holds


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
        *_starts(ratios["MaxQInit"].vs_rmax, start),
        *_combination(ratios, start),
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


def claims_of_corridor(ratios: Mapping[str, Ratios], *, p_min: float) -> list[Claim]:
    """The claims of the corridor: those of `tight`, with the prior 0.2."""
    start = tasks_for_max_q(p_min, ratios["MaxQInit"].agent.delta) + 1
    return [
        _transfers_early("LRMax(0.2)", ratios["LRMax(0.2)"]),
        *_starts(ratios["MaxQInit"].vs_rmax, start),
        *_combination(ratios, start, "0.2"),
        *(
            _never_below(name, ratios[name].vs_rmax)
            for name in ratios
            if name not in ("RMax", "MaxQInit")
        ),
    ]


def claims_of_maze(
    vs_optimal: Mapping[str, FloatArray], agents: Mapping[str, AgentSpec]
) -> list[Claim]:
    """The claims of the maze, of returns [repetition, task] over the best possible."""
    names = ["LRMax(2.0)", "LRMax(1.0)", "LRMax(0.5)"]
    means = [vs_optimal[name][:, 1:].mean(axis=1) for name in names]
    steps = [student_interval(b - a) for a, b in itertools.pairwise(means)]
    p_min, delta = 0.5, agents["LRMax"].delta
    start = max(tasks_for_distance(p_min, delta), tasks_for_max_q(p_min, delta)) + 1
    learned, max_q, rmax = (
        vs_optimal[name][:, start - 1 :].mean(axis=1) for name in ("LRMax", "MaxQInit", "RMax")
    )
    gap = student_interval(learned - max_q)
    gained = student_interval(max_q - rmax)
    return [
        Claim(
            "returns rise as D_max falls from 2 to 1 to 0.5",
            ", ".join(f"{mean.mean():.3f}" for mean in means)
            + f" of the best possible (RMax {vs_optimal['RMax'][:, 1:].mean():.3f})",
            all(bool(step.mean - step.half_width > 0) for step in steps),
        ),
        Claim(
            "LRMax with a learned D_max is at the level of MaxQInit, once both are in use",
            f"above it by {_text(gap)} of the best possible, from task {start} on",
            _contains(gap, 0.0),
        ),
        Claim(
            "MaxQInit transfers, once it is in use",
            f"above RMax by {_text(gained)} of the best possible, from task {start} on",
            bool(gained.mean - gained.half_width > 0),
        ),
    ]


def claims_of_prior_use(use: Mapping[float, FloatArray]) -> list[Claim]:
    """The claims of the use of a prior, parts [repetition, computation] for each D_max."""
    claims = [
        Claim(
            f"a prior of {d:g} is used {100 * part:.0f} % of the time",
            f"{100 * use[d].min():.1f} to {100 * use[d].max():.1f} %",
            bool((np.abs(use[d] - part) < 1e-12).all()),
        )
        for d, part in ((19.0, 0.0), (0.0, 1.0))
    ]
    for d, parts in use.items():
        if 0 < d < 19:
            mean = parts.mean(axis=0)
            claims.append(
                Claim(
                    f"a prior of {d:g} is used less and less",
                    f"{100 * mean[0]:.0f} % at first, {100 * mean[-1]:.0f} % in the end",
                    bool((np.diff(mean) <= 1e-12).all() and mean[0] > mean[-1]),
                )
            )
    mean = use[10.0].mean(axis=0)
    x = np.arange(mean.size)
    fitted = np.polyval(np.polyfit(x, mean, 1), x)
    off = float(np.abs(fitted - mean).max())
    claims.append(
        Claim(
            "at 10 it falls linearly",
            f"within {100 * off:.1f} % of pairs of a straight line",
            off < 0.05,
        )
    )
    return claims


def claims_of_negative_transfer(
    k: Sequence[int], episodes: Mapping[str, FloatArray]
) -> list[Claim]:
    """Episodes until the policy is optimal for good, [repetition, k], by agent."""
    claims = []
    for name in ("BisimulationTransfer", "BisimulationTransfer, recursive"):
        grown = student_interval(episodes[name][:, -1] - episodes[name][:, 0])
        claims.append(
            Claim(
                f"{name} gets worse with k",
                f"{_means(episodes[name])} episodes for k = {', '.join(map(str, k))}",
                bool(grown.mean - grown.half_width > 0),
            )
        )
    grown = student_interval(episodes["LRMax"][:, -1] - episodes["LRMax"][:, 0])
    claims.append(
        Claim(
            "LRMax does not",
            f"{_means(episodes['LRMax'])} episodes",
            bool(grown.mean - grown.half_width <= 0),
        )
    )
    for name in ("BisimulationTransfer", "BisimulationTransfer, recursive"):
        later = student_interval(episodes[name] - episodes["QLearning"])
        worse = np.flatnonzero(later.mean - later.half_width > 0).tolist()
        where = ", ".join(str(k[i]) for i in worse) or "none"
        claims.append(
            Claim(
                f"{name} is negative transfer: worse than Q-learning from nothing",
                f"Q-learning takes {_means(episodes['QLearning'])}; worse than it for k = {where}",
                len(worse) == len(k),
            )
        )
    return claims


def _means(numbers: FloatArray) -> str:
    return ", ".join(f"{mean:.1f}" for mean in numbers.mean(axis=0))


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


REPORTED_START = 12  # of MaxQInit, in the paper


def _starts(vs_rmax: FloatArray, start: int) -> list[Claim]:
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
            f"{_text(before)} times RMax before, {_text(there)} in task {first}",
            bool(there.mean - there.half_width > 1 and _contains(before, 1.0)),
            whose,
        )

    claims = [claim(REPORTED_START, "paper", "")]
    if start != REPORTED_START:
        claims.append(claim(start, OURS, ", for its δ (erratum 4)"))
    return claims


def _combination(ratios: Mapping[str, Ratios], start: int, prior: str = "0.1") -> list[Claim]:
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
            f"above {nearest}, the next, by {_text(gaps[nearest])} times RMax, from task {start}",
            all(bool(gap.mean - gap.half_width > 0) for gap in gaps.values()),
        ),
        Claim(
            f"{name} is at least as good as {parts[0]} and as {parts[1]}",
            f"above them by {' and by '.join(_text(gaps[part]) for part in parts)} times RMax",
            all(bool(gaps[part].mean + gaps[part].half_width >= 0) for part in parts),
            OURS,
        ),
    ]


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


def _no_prior_no_transfer(vs_rmax: FloatArray, learned: int, n_tasks: int) -> Claim:
    """Erratum 7: the text reports transfer of LRMax without a prior; there can be none."""
    last = min(learned - 1, n_tasks)
    interval = student_interval(vs_rmax[:, 1:last].mean(axis=1))
    return Claim(
        "LRMax without a prior is RMax, until it has learned one (erratum 7)",
        f"{_text(interval)} times RMax in tasks 2 to {last}; it has learned one in task {learned}",
        _contains(interval, 1.0),
        OURS,
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
