"""Claims on differences of returns in several families, decided by intervals for all of them."""

from collections.abc import Mapping

from heirloom.paper.claims import OURS, Claim, format_interval
from heirloom.stats import FloatArray, Interval, student_interval


def never_below(statement: str, differences: Mapping[str, FloatArray], whose: str = OURS) -> Claim:
    """Claim that no difference is below 0."""
    intervals = _intervals(differences)
    below = [label for label, x in intervals.items() if x.mean + x.half_width < 0]
    label, lowest = min(intervals.items(), key=_mean)
    where = f" ({'; '.join(below)})" if below else ""
    return Claim(
        statement,
        f"the difference is at worst {format_interval(lowest)} of the gap ({label}); in "
        f"{len(below)} of {len(intervals)} cases the interval is below 0{where}",
        not below,
        whose,
    )


def can_fall_below(statement: str, differences: Mapping[str, FloatArray]) -> Claim:
    """Claim that at least one difference is below 0."""
    never = never_below(statement, differences)
    return never._replace(holds=not never.holds)


def can_rise_above(statement: str, differences: Mapping[str, FloatArray]) -> Claim:
    """Claim that at least one difference is above 0."""
    intervals = _intervals(differences)
    above = _above(intervals)
    label, highest = max(intervals.items(), key=_mean)
    where = f" ({'; '.join(above)})" if above else ""
    return Claim(
        statement,
        f"the difference is at best {format_interval(highest)} of the gap ({label}); in "
        f"{len(above)} of {len(intervals)} cases the interval is above 0{where}",
        bool(above),
        OURS,
    )


def always_above(statement: str, differences: Mapping[str, FloatArray]) -> Claim:
    """Claim that all differences are above 0."""
    intervals = _intervals(differences)
    above = _above(intervals)
    label, lowest = min(intervals.items(), key=_mean)
    return Claim(
        f"{statement} in every family",
        f"the difference is at least {format_interval(lowest)} of the gap ({label}); in "
        f"{len(above)} of {len(intervals)} families the interval is above 0",
        len(above) == len(intervals),
        OURS,
    )


def _intervals(differences: Mapping[str, FloatArray]) -> dict[str, Interval]:
    """Return intervals that contain all means at once with probability 95 % (Bonferroni)."""
    confidence = 1 - 0.05 / len(differences)
    return {
        label: student_interval(difference, confidence=confidence)
        for label, difference in differences.items()
    }


def _above(intervals: Mapping[str, Interval]) -> list[str]:
    return [label for label, x in intervals.items() if x.mean - x.half_width > 0]


def _mean(item: tuple[str, Interval]) -> float:
    return float(item[1].mean)
