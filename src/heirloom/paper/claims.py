"""The claims of the paper, and the functions that decide claims shared by several experiments.

A claim says that one or several means over repetitions are above a number: the differences of the
returns of two agents above 0, for example. A claim that an agent is *no worse*, or *like* another
one, has a margin of 5 % of the return, because no data can show that two numbers are equal. A claim
that it is *better*, or that something *increases*, has none. The verdict is

- *supported* if the 95 % interval of each mean is above the number. If one of the means is not, its
  own interval would have to be wrong, so that no correction is needed for their number;
- *contradicted* if the interval of at least one mean is below the number, where the intervals
  contain all n means together with probability 95 % (Bonferroni: 1 - 0.05 / n for each);
- *undecided* otherwise, also where there is no interval: fewer than 3 repetitions, or equal ones.

A false claim is supported with probability 2.5 % at most, and a true one contradicted likewise, if
repetitions are independent and differences normal (Student's intervals). With more repetitions,
fewer claims stay undecided.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy import special

from heirloom.choices import Verdict
from heirloom.stats import BoolArray, FloatArray, Interval, student_interval
from heirloom.wording import are, counted

OPPOSITE: dict[Verdict, Verdict] = {
    "supported": "contradicted",
    "contradicted": "supported",
    "undecided": "undecided",
}


class Claim(NamedTuple):
    """A statement, the measurement that decides it, and the verdict."""

    statement: str
    measured: str
    verdict: Verdict
    whose: str = "paper"
    """The source of the statement: the paper, or ours if it corrects the paper."""


OURS = "ours"
MARGIN = 0.05
WITHIN = f"(margin {100 * MARGIN:g} %)"
ERROR = 0.05  # of an interval, on both sides together
MOST_LABELS = 6  # of cases that contradict a claim and are all named
REPORTED_START = 12  # the task from which the paper reports transfer of MaxQInit


def all_above(x: FloatArray, least: float = 0.0, *, chosen_from: int = 1) -> Verdict:
    """Decide the claim that the means of x[repetition] or x[repetition, i] are all above `least`.

    All intervals are corrected for the number of alternatives that the data chose x from.
    """
    x = x.reshape(len(x), -1)
    mean, half_width = student_interval(x, confidence=1 - ERROR / chosen_from)
    if (mean - half_width > least).all():
        return "supported"
    mean, half_width = student_interval(x, confidence=1 - ERROR / (chosen_from * x.shape[1]))
    return "contradicted" if (mean + half_width < least).any() else "undecided"


def all_within_margin(x: FloatArray) -> Verdict:
    """Decide the claim that all means of x[repetition, ...] are between -5 % and 5 %."""
    x = x.reshape(len(x), -1)
    return all_above(np.concatenate([x, -x], axis=1), -MARGIN)


def nearly_always(happened: BoolArray) -> Verdict:
    """Decide the claim that something happens with a probability of at least 95 %.

    For claims about each single repetition; `happened` has one entry for each. The test is the
    exact binomial one (Clopper and Pearson), which assumes independent repetitions only. It needs
    72 repetitions to support the claim, if it happened in all.
    """
    n, n_failures = happened.size, int(np.count_nonzero(~happened))
    if special.bdtr(n_failures, n, MARGIN) <= ERROR / 2:
        return "supported"
    contradicts = n_failures > 0 and special.bdtrc(n_failures - 1, n, MARGIN) <= ERROR / 2
    return "contradicted" if contradicts else "undecided"


class Median(NamedTuple):
    """A median and its 95 % interval; NaN where there is no interval."""

    median: float
    low: float
    high: float


def median_interval(x: FloatArray) -> Median:
    """Return the median of independent repetitions and the exact interval of order statistics.

    It assumes no distribution, and numbers may be infinite. With fewer than 6 there is none.
    """
    ordered, n = np.sort(x), x.size
    median = (ordered[(n - 1) // 2] + ordered[n // 2]) / 2
    # At most k of n numbers are below the median with this probability.
    outside = np.flatnonzero(special.bdtr(np.arange(n), n, 0.5) <= ERROR / 2)
    if not outside.size:
        return Median(median, np.nan, np.nan)
    k = int(outside[-1])
    return Median(median, ordered[k], ordered[n - 1 - k])


def median_above(x: FloatArray, least: float = 0.0) -> Verdict:
    """Decide the claim that the median of x[repetition] is at least `least`, by the sign test.

    It is supported if as many repetitions are above `least` as would be with probability 2.5 % at
    most if the median were below it, and contradicted likewise. Infinite numbers are allowed; one
    that is NaN counts against both.
    """

    def most_are(is_so: BoolArray) -> bool:
        n_others = x.size - int(np.count_nonzero(is_so))
        return bool(special.bdtr(n_others, x.size, 0.5) <= ERROR / 2)

    if most_are(x >= least):
        return "supported"
    return "contradicted" if most_are(x < least) else "undecided"


def all_of(verdicts: Sequence[Verdict]) -> Verdict:
    """Return the verdict on the claim that several claims are true together."""
    if "contradicted" in verdicts:
        return "contradicted"
    return "supported" if set(verdicts) == {"supported"} else "undecided"


def computed(*, fact: bool) -> Verdict:
    """Return the verdict on a claim that was computed, and not measured in repetitions."""
    return "supported" if fact else "contradicted"


def above(
    statement: str, x: FloatArray, least: float = 0.0, *, measured: str, whose: str = "paper"
) -> Claim:
    """Claim that the mean of x[repetition] is above `least`, which `statement` puts into words.

    `measured` is the text of the measurement, with `{}` for the mean and its interval.
    """
    shown = measured.format(format_interval(student_interval(x)))
    return Claim(statement, shown, all_above(x, least), whose)


def transfers_early(name: str, vs_rmax: FloatArray, whose: str = "paper") -> Claim:
    """Claim that an agent outperforms RMax in the second task."""
    statement = f"{name} benefits from transfer as early as task 2"
    measured = "{} times the return of RMax in task 2"
    return above(statement, vs_rmax[:, 1], 1.0, measured=measured, whose=whose)


def max_q_start_claims(vs_rmax: FloatArray, start: int) -> list[Claim]:
    """Claims about the first task in which MaxQInit outperforms RMax.

    Before it, the mean return is that of RMax, with a margin of 5 %. If the paper reports another
    task than `start`, in which MaxQInit may use its bound given its δ, there is a claim for each.
    `vs_rmax` are returns of MaxQInit divided by those of RMax, [repetition, task].
    """
    n_tasks = vs_rmax.shape[1]

    def claim(first: int, whose: str, reason: str) -> Claim:
        statement = f"MaxQInit benefits from transfer only from task {first} on{reason} {WITHIN}"
        if first > n_tasks:
            only = f"there {are(n_tasks)} only {counted(n_tasks, 'task')}"
            return Claim(statement, only, "undecided", whose)
        earlier, at_start = vs_rmax[:, 1 : first - 1].mean(axis=1) - 1, vs_rmax[:, first - 1] - 1
        return Claim(
            statement,
            f"{format_interval(student_interval(1 + earlier))} times the return of RMax in earlier "
            f"tasks, {format_interval(student_interval(1 + at_start))} times in task {first}",
            all_above(np.column_stack([at_start, earlier + MARGIN, MARGIN - earlier])),
            whose,
        )

    claims = [claim(REPORTED_START, "paper", "")]
    if start != REPORTED_START:
        claims.append(claim(start, OURS, ", as its δ requires (erratum 4)"))
    return claims


def combination_claims(vs_rmax: Mapping[str, FloatArray], start: int, prior: str) -> list[Claim]:
    """Claims that LRMaxQInit outperforms all other agents, and is no worse than its two parts.

    Agents are compared over the tasks from `start` on, in which MaxQInit uses its bound.
    """
    last = slice(min(start, vs_rmax["RMax"].shape[1]) - 1, None)
    means = {name: x[:, last].mean(axis=1) for name, x in vs_rmax.items()}
    name = f"LRMaxQInit({prior})"
    gaps = {other: means[name] - mean for other, mean in means.items() if other != name}
    best_other = min(gaps, key=lambda other: float(gaps[other].mean()))
    parts = f"LRMax({prior})", "MaxQInit"
    shown = {other: format_interval(student_interval(gap)) for other, gap in gaps.items()}
    return [
        Claim(
            f"{name} outperforms all other methods",
            f"the difference to {best_other}, the best of the others, is {shown[best_other]} times "
            f"the return of RMax, from task {start} on",
            all_above(np.column_stack(list(gaps.values()))),
        ),
        Claim(
            f"{name} performs at least as well as {parts[0]} and {parts[1]} {WITHIN}",
            f"the differences are {' and '.join(shown[part] for part in parts)} "
            "times the return of RMax",
            all_above(np.column_stack([gaps[part] for part in parts]), -MARGIN),
            OURS,
        ),
    ]


def never_below_rmax(name: str, vs_rmax: FloatArray, whose: str = "paper") -> Claim:
    """Claim that an agent performs worse than RMax in no task."""
    n_tasks, least = vs_rmax.shape[1], 1 - MARGIN
    intervals = student_interval(vs_rmax)
    n_above = int(np.count_nonzero(intervals.mean - intervals.half_width > least))
    worst = int(intervals.mean.argmin())
    lowest = Interval(intervals.mean[worst], intervals.half_width[worst])
    return Claim(
        f"{name} never performs worse than RMax {WITHIN}",
        f"at worst {format_interval(lowest)} times the return of RMax, in task {worst + 1}; "
        f"in {n_above} of {n_tasks} tasks the interval is above {least:g}",
        all_above(vs_rmax, least),
        whose,
    )


def format_interval(interval: Interval, digits: int = 2) -> str:
    """Return a mean and half the width of its interval as text, such as "1.00 ± 0.05".

    Without an interval, the text is the mean.
    """
    mean, half_width = (f"{x:.{digits}f}" for x in interval)
    return f"{mean} ± {half_width}" if np.isfinite(interval.half_width) else mean


def never_below(statement: str, differences: Mapping[str, FloatArray], whose: str = OURS) -> Claim:
    """Claim that no difference is below 0, with a margin of 5 % of the gap."""
    verdict = all_above(_columns(differences), -MARGIN)
    return Claim(f"{statement} {WITHIN}", _lowest(differences, -MARGIN), verdict, whose)


def always_above(statement: str, differences: Mapping[str, FloatArray]) -> Claim:
    """Claim that all differences are above 0."""
    verdict = all_above(_columns(differences))
    return Claim(f"{statement} in every family", _lowest(differences, 0.0), verdict, OURS)


def can_fall_below(statement: str, differences: Mapping[str, FloatArray]) -> Claim:
    """Claim that at least one difference is below 0."""
    verdict = OPPOSITE[all_above(_columns(differences))]
    return Claim(statement, _lowest(differences, 0.0), verdict, OURS)


def can_rise_above(statement: str, differences: Mapping[str, FloatArray]) -> Claim:
    """Claim that at least one difference is above 0."""
    verdict = OPPOSITE[all_above(-_columns(differences))]
    label = max(differences, key=lambda label: float(differences[label].mean()))
    highest = format_interval(student_interval(differences[label]))
    measured = f"the difference is at best {highest} of the gap ({label})"
    return Claim(statement, measured, verdict, OURS)


def _columns(differences: Mapping[str, FloatArray]) -> FloatArray:
    return np.column_stack(list(differences.values()))


def _lowest(differences: Mapping[str, FloatArray], least: float) -> str:
    """Say how low the lowest difference is, and which intervals are above or below `least`."""
    columns, n = _columns(differences), len(differences)
    mean, half_width = student_interval(columns)
    together = student_interval(columns, confidence=1 - ERROR / n).half_width
    below = [
        label
        for label, is_below in zip(differences, mean + together < least, strict=True)
        if is_below
    ]
    if len(below) > MOST_LABELS:
        below = [*below[:MOST_LABELS], f"{len(below) - MOST_LABELS} others"]
    where = f", and below it in {'; '.join(below)}" if below else ""
    label = min(differences, key=lambda label: float(differences[label].mean()))
    n_above = int(np.count_nonzero(mean - half_width > least))
    return (
        f"the difference is at worst {format_interval(student_interval(differences[label]))} of "
        f"the gap ({label}); in {n_above} of {n} cases the interval is above {least:g}"
        f"{where}"
    )
