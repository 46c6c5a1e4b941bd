"""Claims on differences of returns in several families: in all of them, or in at least one."""

from collections.abc import Mapping

import numpy as np

from heirloom.paper.claims import (
    ERROR,
    MARGIN,
    OPPOSITE,
    OURS,
    WITHIN,
    Claim,
    all_above,
    format_interval,
)
from heirloom.stats import FloatArray, student_interval


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
    where = f", and below it in {'; '.join(below)}" if below else ""
    label = min(differences, key=lambda label: float(differences[label].mean()))
    n_above = int(np.count_nonzero(mean - half_width > least))
    return (
        f"the difference is at worst {format_interval(student_interval(differences[label]))} of "
        f"the gap ({label}); in {n_above} of {n} cases the interval is above {least:g}"
        f"{where}"
    )
