"""The measurements of a benchmark as rows of a table. Nothing is timed here."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Row:
    """One ratio and its target.

    Args:
        what: the ratio in words, `slow thing / fast thing`.
        ratio: the measured ratio, or None if it could not be measured.
        at_most: the target of a cost, or None.
        at_least: the target of an advantage, or None.
        stopped: whether the numerator was stopped early, so that the true ratio is larger.
        note: why there is no ratio, or a remark.
    """

    what: str
    ratio: float | None
    at_most: float | None = None
    at_least: float | None = None
    stopped: bool = False
    note: str = ""

    @property
    def target(self) -> str:
        """The target in words."""
        if self.at_most is not None:
            return f"at most {self.at_most:,g}"
        return "" if self.at_least is None else f"at least {self.at_least:,g}"

    @property
    def reached(self) -> bool | None:
        """Whether the target is reached; None if there is no target, or if it is not known.

        If the numerator was stopped early, the measured ratio is a lower bound. It can show that
        `at_least` is reached or that `at_most` is not, and nothing else.
        """
        if self.ratio is None or not self.target:
            return None
        if self.at_most is not None:
            reached = self.ratio <= self.at_most
            return None if self.stopped and reached else reached
        reached = self.ratio >= self.at_least
        return None if self.stopped and not reached else reached

    def cells(self) -> tuple[str, str, str, str, str]:
        """Return the cells of the table: what, ratio, target, reached and note."""
        ratio = "not measured" if self.ratio is None else significant(self.ratio)
        reached = {True: "yes", False: "no", None: "?" if self.target else ""}[self.reached]
        return (
            self.what,
            f"more than {ratio}" if self.stopped else ratio,
            self.target,
            reached,
            self.note,
        )

    def as_json(self) -> dict[str, Any]:
        """Return all fields and cells, for a JSON file."""
        return {
            "what": self.what,
            "ratio": self.ratio,
            "target": self.target,
            "reached": self.reached,
            "stopped": self.stopped,
            "note": self.note,
            "cells": list(self.cells()),
        }


@dataclass(frozen=True)
class Measured:
    """The rows of a part of the benchmark, and the seconds, versions and errors behind them."""

    rows: list[Row]
    seconds: dict[str, float] = field(default_factory=dict)
    versions: dict[str, str | None] = field(default_factory=dict)
    errors: dict[str, float] = field(default_factory=dict)


def significant(x: float) -> str:
    """Format with three significant digits, and at most two decimals."""
    return f"{x:.2f}" if x < 10 else f"{x:.1f}" if x < 100 else f"{float(f'{x:.3g}'):,.0f}"


def as_text(rows: Sequence[Row]) -> str:
    """Format the rows as a table for a terminal."""
    lines = [
        ("comparison", "ratio", "target", "target met", "note"),
        *(row.cells() for row in rows),
    ]
    widths = [max(len(line[i]) for line in lines) for i in range(4)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if i == 1 else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(line, [*widths, 0], strict=True))
        ).rstrip()
        for line in lines
    )
