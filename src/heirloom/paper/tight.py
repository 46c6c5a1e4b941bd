"""The main experiment: an 11x11 grid with three goals, figures 3a to 3c."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from heirloom.choices import Variant
from heirloom.envs.grid import GridMap
from heirloom.envs.paper_tasks import TIGHT
from heirloom.experiments.spec import ExperimentSpec
from heirloom.paper.claims import (
    OURS,
    WITHIN,
    Claim,
    Ratios,
    all_above,
    all_within_margin,
    combination_claims,
    format_interval,
    max_q_start_claims,
    never_below_rmax,
    transfers_early,
)
from heirloom.paper.experiment import Experiment, Options, Report, nan_to_none, ratio
from heirloom.paper.near import (
    FAMILY,
    near_names,
    near_with_numbers,
    of_the_paper,
    return_claims,
)
from heirloom.paper.returns import (
    WINDOW,
    Y_EPISODE,
    Y_TASK,
    late_rmax,
    per_episode_figure,
    per_task_figure,
    ratios_to_rmax,
    summary,
    vs_rmax,
)
from heirloom.paper.settings import SEED, defaults
from heirloom.plot.curves import draw_relative_returns
from heirloom.plot.maps import draw_map
from heirloom.plot.style import colour_of
from heirloom.stats import FloatArray, moving_average, student_interval
from heirloom.theory import tasks_for_max_q

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


def reproduce(options: Options) -> Report:
    """The main experiment, figures 3a to 3c: transfer on an 11x11 grid with three goals."""
    spec = options.apply(settings(options.variant))
    results = options.run(spec, record=RECORD)
    main_report = report(spec, results)
    # The released settings keep only the first source: show what more sources would add.
    if options.variant == "released" and not options.quick:
        all_spec = options.apply(settings(options.variant, all_sources=True))
        all_results = options.run(all_spec, "run-every-source")
        title = f"Only the first source kept, or every source, {spec.name}"
        main_report.summary["every_source_kept"] = _add_every_source(
            main_report, all_results, results, title
        )
    return main_report


def report(spec: ExperimentSpec, results: "xr.Dataset") -> Report:
    """Report the claims, figures 3a to 3c and the numbers of the main experiment.

    The figures 3a and 3b are drawn twice: with the agents of the paper, and with NearRMax too.
    """
    everyone = ratios_to_rmax(spec, results)
    compared = of_the_paper(everyone)
    p_min = 1 / (spec.distinct_tasks or spec.tasks)
    start = tasks_for_max_q(p_min, compared["MaxQInit"].agent.all_options.delta) + 1
    from_second = results.discounted_returns.isel(task=slice(1, None)).mean("task")
    episodes = {name: from_second.sel(agent=name).values for name in compared}
    return Report(
        spec=spec,
        summary=summary(spec, everyone, results),
        claims=[*claims(compared, episodes, p_min=p_min), *near_claims(spec, everyone)],
        figures={
            "environment": draw_map(GridMap.read(TIGHT), title="tight"),
            "3a": per_task_figure(spec, compared),
            "3a-with-near": per_task_figure(spec, everyone),
            "3b": per_episode_figure(spec, results, compared),
            "3b-with-near": per_episode_figure(spec, results, everyone),
            "3c": _single_tasks_figure(spec, results, start),
            "3c-with-near": _single_tasks_figure(spec, results, start, near_names(everyone)),
        },
    )


def claims(
    ratios: Mapping[str, Ratios],
    episodes: Mapping[str, FloatArray],
    *,
    p_min: float,
) -> list[Claim]:
    """Decide the claims about the agents of the paper in the main experiment.

    Args:
        ratios: returns relative to RMax, by agent of the paper.
        episodes: discounted returns averaged over the tasks from the second on,
            [repetition, episode], by agent.
        p_min: the probability of each task.
    """
    start = tasks_for_max_q(p_min, ratios["MaxQInit"].agent.all_options.delta) + 1
    learned_start = tasks_for_max_q(p_min, ratios["LRMax"].agent.all_options.delta) + 1
    n_tasks = ratios["RMax"].vs_rmax.shape[1]
    return [
        *(transfers_early(name, ratios[name]) for name in ("LRMax(0.2)", "LRMax(0.1)")),
        _smaller_is_better(ratios),
        *max_q_start_claims(ratios["MaxQInit"].vs_rmax, start),
        *combination_claims(ratios, start),
        _three_stages(episodes),
        *(
            never_below_rmax(name, ratios[name].vs_rmax)
            for name in ratios
            if name not in ("RMax", "MaxQInit")
        ),
        _no_prior_no_transfer(ratios["LRMax"].vs_rmax, learned_start, n_tasks),
    ]


def near_claims(spec: ExperimentSpec, ratios: Mapping[str, Ratios]) -> list[Claim]:
    """Decide the claims about NearRMax, given the returns of all agents relative to RMax."""
    near = {name: ratios[name].vs_rmax for name in near_names(ratios)}
    least = LEAST_RATIOS[spec.family.options["variant"]]
    return return_claims(near, dict(zip(near, least, strict=True)))


def _smaller_is_better(ratios: Mapping[str, Ratios]) -> Claim:
    """Claim that LRMax(0.1) outperforms LRMax(0.2) over the tasks from the second on."""
    smaller, larger = (
        ratios[name].vs_rmax[:, 1:].mean(axis=1) for name in ("LRMax(0.1)", "LRMax(0.2)")
    )
    gap = format_interval(student_interval(smaller - larger))
    return Claim(
        "a smaller prior increases transfer: LRMax(0.1) outperforms LRMax(0.2)",
        f"the difference is {gap} times the return of RMax, from task 2 on",
        all_above(smaller - larger),
    )


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


def _no_prior_no_transfer(vs_rmax: FloatArray, learned_start: int, n_tasks: int) -> Claim:
    """Claim that LRMax without a prior performs like RMax before it has a learned prior.

    The paper reports that LRMax transfers without a prior, which is impossible (erratum 7).
    """
    last = min(learned_start - 1, n_tasks)
    mean = vs_rmax[:, 1:last].mean(axis=1)
    return Claim(
        f"LRMax without a prior performs like RMax until it has learned one (erratum 7) {WITHIN}",
        f"{format_interval(student_interval(mean))} times the return of RMax in tasks 2 to {last}; "
        f"a learned prior is available from task {learned_start} on",
        all_within_margin(mean - 1),
        OURS,
    )


def _single_tasks_figure(
    spec: ExperimentSpec, results: "xr.Dataset", start: int, near: Sequence[str] = ()
) -> "Figure":
    """Figure 3c: returns in single tasks before and after transfer begins.

    Args:
        spec: the experiment.
        results: its results.
        start: the first task in which MaxQInit uses its bound.
        near: the agents whose second task is shown in addition to those of the paper.
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
        curve = relative.transpose("repetition", "episode").values
        label = f"{name}, task {task}"
        curves[label] = student_interval(moving_average(curve, WINDOW))
        styles[label] = {"color": colour_of(name, list(near)), "linestyle": linestyle}
    title = f"Discounted return in single tasks, {spec.name}"
    return draw_relative_returns(
        curves, per="episode", ylabel=Y_EPISODE, title=title, styles=styles
    )


def _add_every_source(
    main_report: Report, all_results: "xr.Dataset", results: "xr.Dataset", title: str
) -> dict[str, dict[str, Any]]:
    """Compare agents that keep every source with agents that keep only the first.

    Adds two figures and notes to the report: with the agents of the paper, and with NearRMax too.

    Args:
        main_report: the report to extend.
        all_results: the results of the agents that keep every source.
        results: the results of the agents that keep only the first, and of RMax.
        title: the title of the figure.

    Returns:
        The numbers for `summary.json`, by agent.
    """
    numbers, curves, styles = {}, {}, {}
    names = all_results.agent.values.tolist()
    for name in names:
        all_sources, first_only = (vs_rmax(r, name, results) for r in (all_results, results))
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
    for key, shown in (
        ("3a-every-source", of_the_paper(curves)),
        ("3a-every-source-with-near", curves),
    ):
        main_report.figures[key] = draw_relative_returns(
            shown,
            per="task",
            ylabel=Y_TASK,
            title=title,
            styles={label: style for label, style in styles.items() if label in shown},
        )
    return numbers


EXPERIMENT = Experiment(reproduce, settings)
