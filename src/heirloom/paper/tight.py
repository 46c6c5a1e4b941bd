"""The main experiment: an 11x11 grid with three goals, figures 3a to 3c."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from heirloom.choices import Variant
from heirloom.envs.grid import GridMap
from heirloom.envs.paper_tasks import TIGHT
from heirloom.experiments.spec import ExperimentSpec
from heirloom.paper.catalogue import SEED
from heirloom.paper.claims import (
    OURS,
    WITHIN,
    Claim,
    above,
    all_above,
    all_within_margin,
    format_interval,
    transfers_early,
)
from heirloom.paper.experiment import Experiment, Options, Report, defaults, nan_to_none, ratio
from heirloom.paper.returns import (
    FAMILY,
    Y_EPISODE,
    Y_TASK,
    late_rmax,
    near_names,
    near_return_claims,
    near_with_numbers,
    of_the_paper,
    paper_claims,
    per_episode_figure,
    per_task_figure,
    ratios_to_rmax,
    smoothed,
    summary,
    used_from,
    vs_rmax,
    with_near,
)
from heirloom.plot.curves import draw_relative_returns
from heirloom.plot.maps import draw_map
from heirloom.plot.style import colour_of
from heirloom.stats import FloatArray, student_interval

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

NEARNESS: dict[Variant, tuple[float, float]] = {"text": (0.2, 0.1), "released": (0.19, 0.1)}
"""The largest differences of mean rewards and of transitions between two tasks of the family."""
LEAST_RATIOS: dict[Variant, tuple[float, float]] = {"text": (2.8, 3.2), "released": (2.2, 2.4)}
"""The claimed returns of NearRMax relative to RMax, with two numbers and with those per pair."""
RECORD = {
    "agents": ["RMax", "LRMax(0.1)", "NearRMax(family)"],
    "tasks": [1, 2, 15],
    "first": 3,
    "last": 1,
    "every": 100,
}
"""What is recorded for `heirloom replay`, in the first repetition."""
N_EARLY, N_LATE = 20, 200  # episodes in the first and in the last stage of learning


def settings(variant: Variant = "released", *, all_sources: bool = False) -> ExperimentSpec:
    """Return the spec of the main experiment: the agents of the paper, then NearRMax.

    With `all_sources`, agents keep every source in both variants, and the spec has only the agents
    for which this makes a difference.
    """
    agents: list[dict[str, Any]] = [
        {"algorithm": "RMax"},
        {"algorithm": "LRMax"},
        {"algorithm": "LRMax", "d_max": 0.2},
        {"algorithm": "LRMax", "d_max": 0.1},
        {"algorithm": "MaxQInit"},
        {"algorithm": "LRMaxQInit"},
        {"algorithm": "LRMaxQInit", "d_max": 0.1},
    ]
    agents += [near_with_numbers(*NEARNESS[variant]), FAMILY]
    if all_sources:
        agents = [agent for agent in agents if "d_max" in agent or "nearness" in agent]
    return ExperimentSpec.read(
        {
            "name": f"tight ({variant}{', every source kept' if all_sources else ''})",
            "family": {"name": "tight", "variant": variant},
            "defaults": defaults(variant, all_sources=all_sources),
            "agents": agents,
            "tasks": 15,
            "distinct_tasks": 5,
            "episodes": 2000,
            "steps": 10,
            "repetitions": 10,
            "seed": SEED,
            "measure": "transfer",
        }
    )


def runs(options: Options) -> dict[str, ExperimentSpec]:
    """Return the spec of the run, and that of a run in which every source is kept.

    The released settings keep only the first source: the second run shows what more would add.
    """
    specs = {"run": options.apply(settings(options.variant), record=RECORD)}
    if options.variant == "released" and not options.quick:
        every = options.apply(settings(options.variant, all_sources=True))
        specs["run-every-source"] = every
    return specs


def reproduce(options: Options) -> Report:
    """Run the experiment, and the second run if there is one; report on both."""
    specs = runs(options)
    results = options.run(specs["run"])
    main_report = report(specs["run"], results)
    if "run-every-source" in specs:
        every = options.run(specs["run-every-source"], "run-every-source")
        title = f"Only the first source kept, or every source, {specs['run'].name}"
        _add_every_source(main_report, every, results, title)
    return main_report


def report(spec: ExperimentSpec, results: "xr.Dataset") -> Report:
    """Report the claims, figures 3a to 3c and the numbers of the main experiment."""
    everyone, start = ratios_to_rmax(spec, results), used_from(spec, "MaxQInit")
    from_second = results.discounted_returns.isel(task=slice(1, None)).mean("task")
    episodes = {name: from_second.sel(agent=name).values for name in of_the_paper(everyone)}
    least = LEAST_RATIOS[spec.family.options["variant"]]
    return Report(
        specs=[spec],
        summary=summary(spec, everyone, results),
        claims=[
            *claims(of_the_paper(everyone), episodes, start),
            *near_return_claims(everyone, least),
        ],
        figures={
            "environment": draw_map(GridMap.read(TIGHT), title="tight"),
            **with_near("3a", everyone, lambda shown: per_task_figure(spec, shown)),
            **with_near("3b", everyone, lambda shown: per_episode_figure(spec, results, shown)),
            **with_near(
                "3c",
                everyone,
                lambda shown: _single_tasks_figure(spec, results, start, near_names(shown)),
            ),
        },
    )


def claims(
    vs_rmax: Mapping[str, FloatArray], episodes: Mapping[str, FloatArray], start: int
) -> list[Claim]:
    """Decide the claims about the agents of the paper in the main experiment.

    `vs_rmax` are returns divided by those of RMax, [repetition, task]; `episodes` are discounted
    returns, averaged over the tasks from the second on, [repetition, episode]. From task `start`
    on, MaxQInit uses its bound, and LRMax a learned prior.
    """
    smaller, larger = (vs_rmax[name][:, 1:].mean(axis=1) for name in ("LRMax(0.1)", "LRMax(0.2)"))
    return [
        *(transfers_early(name, vs_rmax[name]) for name in ("LRMax(0.2)", "LRMax(0.1)")),
        above(
            "a smaller prior increases transfer: LRMax(0.1) outperforms LRMax(0.2)",
            smaller - larger,
            measured="the difference is {} times the return of RMax, from task 2 on",
        ),
        *paper_claims(vs_rmax, start, "0.1", _three_stages(episodes)),
        _no_prior_no_transfer(vs_rmax["LRMax"], start),
    ]


def _three_stages(episodes: Mapping[str, FloatArray]) -> Claim:
    """Claim that the returns of LRMax(0.1) are high at first, then lower, then high again.

    The second stage is the block of `N_LATE` episodes with the lowest mean return. The data choose
    it, so the verdict is corrected for the number of blocks.
    """
    curve, rmax = episodes["LRMax(0.1)"], episodes["RMax"]
    early, early_rmax = (x[:, :N_EARLY].mean(axis=1) for x in (curve, rmax))
    between = curve[:, N_EARLY:-N_LATE]
    n_blocks = between.shape[1] // N_LATE
    blocks = between[:, : n_blocks * N_LATE].reshape(curve.shape[0], n_blocks, N_LATE)
    means = blocks.mean(axis=2) if n_blocks else curve.mean(axis=1, keepdims=True)
    middle = means[:, means.mean(axis=0).argmin()]
    late = curve[:, -N_LATE:].mean(axis=1)
    gaps = np.column_stack([early - early_rmax, early - middle, late - middle])
    return Claim(
        "LRMax(0.1) learns in three stages: it exploits transferred knowledge, explores, converges",
        f"return {early.mean():.2f} in the first {N_EARLY} episodes "
        f"(RMax: {early_rmax.mean():.2f}), {middle.mean():.2f} at its lowest, "
        f"{late.mean():.2f} at the end",
        all_above(gaps, chosen_from=means.shape[1]),
    )


def _no_prior_no_transfer(vs_rmax: FloatArray, start: int) -> Claim:
    """Claim that LRMax without a prior performs like RMax before it has a learned prior.

    The paper reports that LRMax transfers without a prior, which is impossible (erratum 7).
    """
    last = min(start - 1, vs_rmax.shape[1])
    mean = vs_rmax[:, 1:last].mean(axis=1)
    return Claim(
        f"LRMax without a prior performs like RMax until it has learned one (erratum 7) {WITHIN}",
        f"{format_interval(student_interval(mean))} times the return of RMax in tasks 2 to {last}; "
        f"a learned prior is available from task {start} on",
        all_within_margin(mean - 1),
        OURS,
    )


def _single_tasks_figure(
    spec: ExperimentSpec, results: "xr.Dataset", start: int, near: Sequence[str]
) -> "Figure":
    """Figure 3c: returns in single tasks before and after transfer begins.

    MaxQInit uses its bound from task `start` on. Of `near`, the second task is shown too.
    """
    start = min(start, spec.tasks)
    chosen = [
        ("RMax", 2, "-"),
        ("LRMax(0.1)", 1, "--"),
        ("LRMax(0.1)", 2, "-"),
        ("MaxQInit", start - 1, "--"),
        ("MaxQInit", start, "-"),
        *((name, 2, "-") for name in near),
    ]
    curves, styles = {}, {}
    for name, task, linestyle in chosen:
        returns = results.discounted_returns.sel(agent=name, task=task)
        relative = ratio(returns, late_rmax(results).sel(task=task))
        label = f"{name}, task {task}"
        curves[label] = smoothed(relative)
        styles[label] = {"color": colour_of(name, list(near)), "linestyle": linestyle}
    title = f"Discounted return in single tasks, {spec.name}"
    return draw_relative_returns(
        curves, per="episode", ylabel=Y_EPISODE, title=title, styles=styles
    )


def _add_every_source(
    main_report: Report, every: "xr.Dataset", results: "xr.Dataset", title: str
) -> None:
    """Add to the report how agents that keep `every` source compare with those of `results`.

    The latter keep only the first source; RMax is among them.
    """
    numbers, curves, styles = {}, {}, {}
    names = every.agent.values.tolist()
    for name in names:
        all_sources, first_only = (vs_rmax(r, name, results) for r in (every, results))
        # In task 2 both have one source.
        gain = student_interval((all_sources - first_only)[:, 2:].mean(axis=1))
        label = f"{name}, every source"
        curves[name], curves[label] = map(student_interval, (first_only, all_sources))
        styles[name] = {"color": colour_of(name, names), "linestyle": "-"}
        styles[label] = {**styles[name], "linestyle": "--"}
        numbers[name] = {
            "return_vs_rmax": nan_to_none(curves[label].mean),
            "ci95": nan_to_none(curves[label].half_width),
        }
        sign = "+" if gain.mean >= 0 else ""
        main_report.notes.append(
            f"{name} with every source instead of only the first, from task 3 on: "
            f"{sign}{format_interval(gain, 3)} times the return of RMax"
        )
    main_report.summary["every_source_kept"] = numbers
    main_report.figures |= with_near(
        "3a-every-source",
        curves,
        lambda shown: draw_relative_returns(
            shown,
            per="task",
            ylabel=Y_TASK,
            title=title,
            styles={label: styles[label] for label in shown},
        ),
    )


EXPERIMENT = Experiment(
    "The main experiment, figures 3a to 3c: transfer on an 11x11 grid with three goals.",
    reproduce,
    settings,
    runs,
)
