"""The curves of a report: numbers per repetition, for the script of the page.

The script computes means, intervals, differences and ratios from the numbers of each repetition, so
that every reference can be chosen. Episodes (and tasks, if there are many) are averaged in blocks.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from heirloom.arrays import FloatArray
from heirloom.report.colours import CurveStyle, curve_styles
from heirloom.report.markup import packed
from heirloom.report.sources import ShownRun

MOST_CURVES = 60
MOST_AT_FIRST = 20  # curves that are shown when the page opens
MOST_POINTS = 200  # of a curve
FEWEST_POINTS = 20
MOST_NUMBERS = 60_000  # of all curves of a chart together, for each kind of return
VIEWS = {"tasks": "task", "episodes": "episode"}
"""The charts, and the labels of their x axes."""
KINDS = {"returns": "optimal", "discounted_returns": "optimal_discounted"}
"""The kinds of returns, and the variable with the optimal value of each."""


@dataclass(frozen=True)
class Curve:
    """The curve of one agent of one run."""

    run: int
    agent: str
    label: str
    style: CurveStyle
    is_on: bool
    """Whether the curve is shown when the page opens."""


def all_curves(runs: list[ShownRun]) -> tuple[list[Curve], int]:
    """Return the curves of all agents of all runs, and the number that is left out."""
    found = [(i, name) for i, run in enumerate(runs) for name in run.agents]
    shown = found[:MOST_CURVES]
    styles = curve_styles([name for _, name in shown])
    curves = [
        Curve(
            i,
            name,
            f"{name} · {runs[i].suffix}" if runs[i].suffix else name,
            style,
            is_on=k < MOST_AT_FIRST and (i == 0 or bool(runs[0].suffix)),
        )
        for k, ((i, name), style) in enumerate(zip(shown, styles, strict=True))
    ]
    return curves, len(found) - len(shown)


def chart_data(runs: list[ShownRun], curves: list[Curve]) -> dict[str, Any]:
    """Return what the script of the page needs to draw the curves."""
    n_curves = len(curves)
    most = max(run.returns.shape[1] for run in runs)
    quantiles = [None, None, *special.stdtrit(np.arange(1, max(most, 2)), 0.975)]
    return {
        "quantiles": quantiles,
        "runs": [_of_run(run, n_curves) for run in runs],
        "curves": [
            {
                "run": curve.run,
                "agent": curve.agent,
                "label": curve.label,
                "on": curve.is_on,
                "light": curve.style.light,
                "dark": curve.style.dark,
                "values": _of_agent(runs[curve.run], curve.agent, n_curves),
            }
            for curve in curves
        ],
    }


def kept_repetitions(run: ShownRun, n_curves: int) -> int:
    """Return the number of repetitions that the charts use: all, unless there are many."""
    return min(run.returns.shape[1], max(10, MOST_NUMBERS // (n_curves * FEWEST_POINTS)))


def blocks(n: int, n_curves: int, repetitions: int) -> np.ndarray:
    """Return the borders of blocks of consecutive episodes, or tasks, that curves average over."""
    room = MOST_NUMBERS // (n_curves * repetitions)
    points = min(n, max(FEWEST_POINTS, min(MOST_POINTS, room)))
    return np.linspace(0, n, points + 1).round().astype(int)


def block_means(values: FloatArray, borders: np.ndarray) -> FloatArray:
    """Average values [..., n] over blocks of the last axis."""
    sums = np.add.reduceat(values, borders[:-1], axis=-1)
    return np.asarray(sums / np.diff(borders))


def _of_run(run: ShownRun, n_curves: int) -> dict[str, Any]:
    """Return the positions of points, and the optimal returns of a run."""
    kept = kept_repetitions(run, n_curves)
    _, _, n_tasks, n_episodes = run.returns.shape
    data: dict[str, Any] = {"label": run.label, "repetitions": kept, "tasks": {}, "episodes": {}}
    for view, n in (("tasks", n_tasks), ("episodes", n_episodes)):
        borders = blocks(n, n_curves, kept)
        data[view] = {"first": (borders[:-1] + 1).tolist(), "last": borders[1:].tolist()}
        for kind, optimal in KINDS.items():
            if kind in run.arrays and optimal in run.arrays:
                best = run.arrays[optimal][:kept]
                means = block_means(best, borders) if view == "tasks" else _constant(best, borders)
                data[view][kind] = packed(means)
    return data


def _constant(optimal: FloatArray, borders: np.ndarray) -> FloatArray:
    return np.repeat(optimal.mean(axis=1)[:, np.newaxis], borders.size - 1, axis=1)


def _of_agent(run: ShownRun, agent: str, n_curves: int) -> dict[str, Any]:
    """Return the mean returns of an agent, per repetition and point, for each chart."""
    i, kept = run.agents.index(agent), kept_repetitions(run, n_curves)
    data: dict[str, Any] = {view: {} for view in VIEWS}
    for kind in KINDS:
        if kind not in run.arrays:
            continue
        returns = run.arrays[kind][i, :kept]
        for view, axis in (("tasks", 2), ("episodes", 1)):
            means = returns.mean(axis=axis)
            data[view][kind] = packed(block_means(means, blocks(means.shape[1], n_curves, kept)))
    return data
