"""The paper's experiments, run and reported: figures, claims, `summary.json`."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from heirloom.archive import write_atomically
from heirloom.envs.families import TIGHT, Variant
from heirloom.envs.grid import GridMap
from heirloom.experiments import paper
from heirloom.experiments.claims import Claim, Ratios, claims_of_bounds, claims_of_tight
from heirloom.experiments.runner import run
from heirloom.experiments.spec import ExperimentSpec
from heirloom.figures.grids import draw_map
from heirloom.figures.lifelong import over_episodes, over_tasks, ratios
from heirloom.figures.style import colour_of, save
from heirloom.stats import Interval, moving_average, student_interval
from heirloom.transfer.confidence import tasks_for_max_q

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

LATE = 200  # episodes at the end of a task, by which RMax has converged if it has
WINDOW = 100  # episodes of a moving average


@dataclass
class Report:
    """What came out of an experiment."""

    summary: dict[str, Any]
    claims: list[Claim]
    figures: "dict[str, Figure]"
    notes: list[str] = field(default_factory=list)

    def write(self, folder: Path) -> None:
        """Write `summary.json`, and each figure as PNG and PDF."""
        for name, figure in self.figures.items():
            for ending in ("png", "pdf"):
                save(figure, folder / "figures" / f"{name}.{ending}")
        text = json.dumps(self.summary, indent=2, allow_nan=False) + "\n"
        write_atomically(folder / "summary.json", text.encode())


def reproduce_tight(
    variant: Variant, folder: Path, *, repetitions: int | None, seed: int | None, jobs: int | None
) -> Report:
    """The main experiment; as released also with every source kept."""
    changes = {"repetitions": repetitions, "seed": seed}
    spec = paper.tight(variant).with_changes(**changes)
    results = run(spec, folder / "run", jobs=jobs)
    report = report_tight(spec, results)
    if variant == "released":
        everything = paper.tight(variant, all_sources=True).with_changes(**changes)
        kept = run(everything, folder / "run-every-source", jobs=jobs)
        report.summary["every_source_kept"] = _add_every_source(report, kept, results)
    report.summary = {"experiment": "tight", "variant": variant, **report.summary}
    return report


def report_tight(spec: ExperimentSpec, results: "xr.Dataset") -> Report:
    """Claims, figures 3a to 3c, and numbers of the main experiment."""
    names = [agent.name for agent in spec.agents]
    compared = {
        agent.name: Ratios(agent, _vs_rmax(results, agent.name, results)) for agent in spec.agents
    }
    per_task = {name: student_interval(compared[name].vs_rmax) for name in names}
    p_min = 1 / (spec.distinct_tasks or spec.tasks)
    start = tasks_for_max_q(p_min, compared["MaxQInit"].agent.delta) + 1
    later = results.discounted_returns.isel(task=slice(1, None)).mean("task")
    return Report(
        summary={
            "repetitions": spec.repetitions,
            "agents": {
                name: {
                    "return_vs_rmax": _or_none(interval.mean),
                    "return_vs_optimal": _or_none(_vs_optimal(results, name).mean(axis=0)),
                    "ci95": _or_none(interval.half_width),
                }
                for name, interval in per_task.items()
            },
        },
        claims=claims_of_tight(
            compared, {name: later.sel(agent=name).values for name in names}, p_min=p_min
        ),
        figures={
            "environment": draw_map(GridMap.read(TIGHT), title="tight"),
            "3a": over_tasks(
                per_task,
                ylabel="discounted return / that of RMax",
                title=f"Mean discounted return of each task, {spec.name}",
            ),
            "3b": over_episodes(
                {name: _per_episode(results, name) for name in names},
                ylabel="discounted return / late RMax",
                title=f"Each episode, over all tasks, {spec.name}",
            ),
            "3c": _instances(spec, results, start),
        },
    )


def reproduce_bounds(
    variant: Variant, folder: Path, *, repetitions: int | None, seed: int | None, jobs: int | None
) -> Report:
    """What a prior is worth."""
    spec = paper.bounds(variant).with_changes(repetitions=repetitions, seed=seed)
    results = run(spec, folder / "run", jobs=jobs)
    report = report_bounds(spec, results)
    report.summary = {"experiment": "bounds", "variant": variant, **report.summary}
    return report


def report_bounds(spec: ExperimentSpec, results: "xr.Dataset") -> Report:
    """The three ratios of figure 3d, for LRMax after one source task."""
    agents = [agent for agent in spec.agents if agent.algorithm == "LRMax"]
    d_max = [float(agent.d_max or 0.0) for agent in agents]
    second = results.isel(task=1)
    rmax = second.sel(agent="RMax")
    lrmax = second.sel(agent=[agent.name for agent in agents]).transpose("repetition", "agent", ...)
    total, baseline = lrmax.returns.sum("episode"), rmax.returns.sum("episode")
    measures = {
        "ρ_Lip": lrmax.lipschitz_use.values,
        "ρ_Speed-up": _over(rmax.late_update - lrmax.late_update, rmax.late_update)
        .transpose("repetition", "agent")
        .values,
        "ρ_Return": _over(total - baseline, baseline).transpose("repetition", "agent").values,
    }
    intervals = {name: student_interval(values) for name, values in measures.items()}
    keys = dict(zip(("rho_lip", "rho_speedup", "rho_return"), intervals.values(), strict=True))
    return Report(
        summary={
            "repetitions": spec.repetitions,
            "d_max": d_max,
            **{key: _or_none(interval.mean) for key, interval in keys.items()},
            "ci95": {key: _or_none(interval.half_width) for key, interval in keys.items()},
        },
        claims=claims_of_bounds(d_max, measures),
        figures={
            "environment": draw_map(GridMap.read(TIGHT), title="tight"),
            "3d": ratios(
                np.array(d_max),
                intervals,
                xlabel="D_max",
                title=f"What a prior is worth, {spec.name}",
            ),
        },
    )


REPRODUCTIONS: dict[str, Callable[..., Report]] = {
    "tight": reproduce_tight,
    "bounds": reproduce_bounds,
}


def _vs_rmax(results: "xr.Dataset", name: str, rmax: "xr.Dataset") -> np.ndarray:
    """Mean discounted returns over those of RMax in the same task, [repetition, task]."""
    one = results.discounted_returns.sel(agent=name).mean("episode")
    return _over(one, rmax.discounted_returns.sel(agent="RMax").mean("episode")).values


def _vs_optimal(results: "xr.Dataset", name: str) -> np.ndarray:
    one = results.discounted_returns.sel(agent=name).mean("episode")
    return _over(one, results.optimal_discounted).values


def _over(one: "xr.DataArray", baseline: "xr.DataArray") -> "xr.DataArray":
    """A ratio; NaN where there is nothing to compare with."""
    return one / baseline.where(baseline != 0)


def _late_rmax(results: "xr.Dataset") -> "xr.DataArray":
    """RMax's mean discounted return in the late episodes, (repetition, task)."""
    rmax = results.discounted_returns.sel(agent="RMax")
    return rmax.isel(episode=slice(-LATE, None)).mean("episode")


def _per_episode(results: "xr.Dataset", name: str) -> Interval:
    relative = _over(results.discounted_returns.sel(agent=name), _late_rmax(results))
    curve = relative.mean("task").transpose("repetition", "episode").values
    return student_interval(moving_average(curve, WINDOW))


def _instances(spec: ExperimentSpec, results: "xr.Dataset", start: int) -> "Figure":
    """Figure 3c: single tasks before and after transfer begins."""
    start = min(start, spec.tasks)
    chosen = [
        ("RMax", 2, "-"),
        ("LRMax(0.1)", 1, "--"),
        ("LRMax(0.1)", 2, "-"),
        ("MaxQInit", start - 1, "--"),
        ("MaxQInit", start, "-"),
    ]
    curves, styles = {}, {}
    for name, task, style in chosen:
        one = results.discounted_returns.sel(agent=name, task=task)
        relative = _over(one, _late_rmax(results).sel(task=task))
        curve = relative.transpose("repetition", "episode").values
        label = f"{name}, task {task}"
        curves[label] = student_interval(moving_average(curve, WINDOW))
        styles[label] = {"color": colour_of(name, [name]), "linestyle": style}
    return over_episodes(
        curves,
        ylabel="discounted return / late RMax",
        title=f"Single tasks, {spec.name}",
        styles=styles,
    )


def _add_every_source(
    report: Report, kept: "xr.Dataset", results: "xr.Dataset"
) -> dict[str, dict[str, Any]]:
    """What a full memory adds to the first source: another figure, notes, and numbers."""
    added, lines = {}, {}
    for name in kept.agent.values.tolist():
        every, first = (_vs_rmax(one, name, results) for one in (kept, results))
        gained = student_interval((every - first)[:, 2:].mean(axis=1))
        lines[name] = student_interval(first)
        lines[f"{name}, every source"] = student_interval(every)
        added[name] = {
            "return_vs_rmax": _or_none(lines[f"{name}, every source"].mean),
            "ci95": _or_none(lines[f"{name}, every source"].half_width),
        }
        report.notes.append(
            f"{name} with every source kept, tasks 3 on: {gained.mean:+.3f} ± "
            f"{gained.half_width:.3f} times RMax against keeping the first only"
        )
    report.figures["3a-every-source"] = over_tasks(
        lines,
        ylabel="discounted return / that of RMax",
        title="The first source only, and every source kept (released)",
    )
    return added


def _or_none(numbers: np.ndarray) -> list[float | None]:
    """JSON has no NaN: with one repetition, say, there is no interval."""
    return [float(x) if np.isfinite(x) else None for x in np.atleast_1d(numbers)]
