"""The main experiment: an 11x11 grid with three goals, figures 3a to 3c."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from heirloom.choices import Variant
from heirloom.envs.grid import GridMap
from heirloom.envs.paper_tasks import TIGHT
from heirloom.experiments.spec import ExperimentSpec
from heirloom.figures.curves import over_episodes, over_tasks
from heirloom.figures.maps import draw_map
from heirloom.figures.style import colour_of
from heirloom.paper.claims import (
    OURS,
    Claim,
    Ratios,
    combination,
    contains,
    judged,
    never_below,
    starts,
    text,
    transfers_early,
)
from heirloom.paper.experiment import Experiment, Options, Report, band, or_none, over
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
from heirloom.stats import FloatArray, moving_average, student_interval
from heirloom.theory import tasks_for_distance, tasks_for_max_q

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

EARLY, LATE = 20, 200  # episodes of the first and of the last stage of learning


def settings(variant: Variant = "released", *, all_sources: bool = False) -> ExperimentSpec:
    """The main experiment, figures 3a to 3c.

    With `all_sources` every source is kept, whatever the variant, and only those agents are run for
    which that makes a difference.
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
    if all_sources:
        agents = [agent for agent in agents if "d_max" in agent]
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
        }
    )


def reproduce(options: Options) -> Report:
    """The main experiment; as released also with every source kept."""
    spec = options.apply(settings(options.variant))
    results = options.run(spec)
    made = report(spec, results)
    if options.variant == "released" and not options.quick:
        everything = options.apply(settings(options.variant, all_sources=True))
        kept = options.run(everything, "run-every-source")
        title = f"The first source only, and every source kept, {spec.name}"
        made.summary["every_source_kept"] = _add_every_source(made, kept, results, title)
    return made


def report(spec: ExperimentSpec, results: "xr.Dataset") -> Report:
    """Claims, figures 3a to 3c, and numbers of the main experiment."""
    compared = ratios_to_rmax(spec, results)
    p_min = 1 / (spec.distinct_tasks or spec.tasks)
    start = tasks_for_max_q(p_min, compared["MaxQInit"].agent.all_options.delta) + 1
    later = results.discounted_returns.isel(task=slice(1, None)).mean("task")
    episodes = {name: later.sel(agent=name).values for name in compared}
    return Report(
        spec=spec,
        summary=summary(spec, compared, results),
        claims=judged(claims(compared, episodes, p_min=p_min), spec.repetitions),
        figures={
            "environment": draw_map(GridMap.read(TIGHT), title="tight"),
            "3a": per_task_figure(spec, compared),
            "3b": per_episode_figure(spec, results),
            "3c": _instances(spec, results, start),
        },
    )


def claims(
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
    start = tasks_for_max_q(p_min, ratios["MaxQInit"].agent.all_options.delta) + 1
    learned = tasks_for_distance(p_min, ratios["LRMax"].agent.all_options.delta) + 1
    n_tasks = ratios["RMax"].vs_rmax.shape[1]
    return [
        *(transfers_early(name, ratios[name]) for name in ("LRMax(0.2)", "LRMax(0.1)")),
        _smaller_is_better(ratios),
        *starts(ratios["MaxQInit"].vs_rmax, start),
        *combination(ratios, start),
        _three_stages(episodes),
        *(
            never_below(name, ratios[name].vs_rmax)
            for name in ratios
            if name not in ("RMax", "MaxQInit")
        ),
        _no_prior_no_transfer(ratios["LRMax"].vs_rmax, learned, n_tasks),
    ]


def _smaller_is_better(ratios: Mapping[str, Ratios]) -> Claim:
    one, other = (ratios[name].vs_rmax[:, 1:].mean(axis=1) for name in ("LRMax(0.1)", "LRMax(0.2)"))
    mean, half = student_interval(one - other)
    return Claim(
        "a smaller prior transfers more: LRMax(0.1) above LRMax(0.2)",
        f"by {mean:.2f} ± {half:.2f} times RMax, over tasks 2 on",
        bool(mean - half > 0),
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


def _no_prior_no_transfer(vs_rmax: FloatArray, learned: int, n_tasks: int) -> Claim:
    """Erratum 7: the text reports transfer of LRMax without a prior; there can be none."""
    last = min(learned - 1, n_tasks)
    interval = student_interval(vs_rmax[:, 1:last].mean(axis=1))
    return Claim(
        "LRMax without a prior is RMax, until it has learned one (erratum 7)",
        f"{text(interval)} times RMax in tasks 2 to {last}; it has learned one in task {learned}",
        contains(interval, 1.0),
        OURS,
    )


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
        relative = over(one, late_rmax(results).sel(task=task))
        curve = relative.transpose("repetition", "episode").values
        label = f"{name}, task {task}"
        curves[label] = band(moving_average(curve, WINDOW))
        styles[label] = {"color": colour_of(name, [name]), "linestyle": style}
    title = f"Single tasks, {spec.name}"
    return over_episodes(curves, ylabel=Y_EPISODE, title=title, styles=styles)


def _add_every_source(
    made: Report, kept: "xr.Dataset", results: "xr.Dataset", title: str
) -> dict[str, dict[str, Any]]:
    """What a full memory adds to the first source: another figure, notes, and numbers."""
    added, lines = {}, {}
    for name in kept.agent.values.tolist():
        every, first = (vs_rmax(one, name, results) for one in (kept, results))
        gained = student_interval((every - first)[:, 2:].mean(axis=1))
        full = f"{name}, every source"
        lines[name], lines[full] = band(first), band(every)
        added[name] = {
            "return_vs_rmax": or_none(lines[full].mean),
            "ci95": or_none(lines[full].half_width),
        }
        made.notes.append(
            f"{name} with every source kept, tasks 3 on: {gained.mean:+.3f} ± "
            f"{gained.half_width:.3f} times RMax against keeping the first only"
        )
    styles = {
        label: {"color": colour_of(label.split(",")[0], []), "linestyle": "--"}
        for label in lines
        if label.endswith("every source")
    }
    made.figures["3a-every-source"] = over_tasks(lines, ylabel=Y_TASK, title=title, styles=styles)
    return added


EXPERIMENT = Experiment(reproduce, settings)
