"""The maze of the appendix, in two layouts: three values of the prior, and a learned prior."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from heirloom.choices import Variant
from heirloom.envs.grid import GridMap
from heirloom.envs.paper_tasks import MAZE
from heirloom.experiments.spec import AgentSpec, ExperimentSpec
from heirloom.paper.claims import (
    OURS,
    WITHIN,
    Claim,
    all_above,
    all_within_margin,
    format_interval,
)
from heirloom.paper.experiment import Experiment, Options, Report
from heirloom.paper.near import FAMILY, near_names, of_the_paper
from heirloom.paper.returns import ratios_to_rmax, summary, vs_optimal
from heirloom.paper.settings import SEED, defaults
from heirloom.plot.curves import draw_relative_returns
from heirloom.plot.maps import draw_map
from heirloom.stats import FloatArray, Interval, student_interval
from heirloom.theory import tasks_for_max_q

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

P_LAYOUT = 0.5  # the probability of each layout
RECORD = {
    "agents": ["RMax", "LRMax(0.5)", "NearRMax(family)"],
    "tasks": [1, 2, 15],
    "first": 10,
    "last": 1,
    "every": 20,
}
"""What is recorded for `heirloom replay`, in the first repetition."""


def settings(variant: Variant = "released") -> ExperimentSpec:
    """Return the spec of the maze: the agents of the paper, then NearRMax.

    In the variant "text" tasks are the two layouts. In the variant "released" they are five drawn
    tasks, each with a layout and a slip.
    """
    options = {**defaults(variant), "n_known": 1}
    released: dict[str, Any] = {}
    if variant == "released":
        options["capacity"] = 10
        released["distinct_tasks"] = 5
    return ExperimentSpec.read(
        {
            "name": f"maze ({variant})",
            "family": {"name": "maze", "variant": variant},
            "defaults": options,
            "agents": [
                {"algorithm": "RMax"},
                {"algorithm": "LRMax", "d_max": [2.0, 1.0, 0.5]},
                {"algorithm": "LRMax"},
                {"algorithm": "MaxQInit"},
                FAMILY,
            ],
            "tasks": 30,
            **released,
            "episodes": 100,
            "steps": 15,
            "repetitions": 5,  # the paper's table says 1
            "seed": SEED,
            "measure": "transfer",
        }
    )


def reproduce(options: Options) -> Report:
    """The maze of the appendix: three values of the prior D_max, and a learned prior."""
    spec = options.apply(settings(options.variant), {"tasks": 15})
    return report(spec, options.run(spec, record=RECORD))


def report(spec: ExperimentSpec, results: "xr.Dataset") -> Report:
    """Report the claims, the figure and the numbers of the maze.

    With the released settings the return of RMax is often 0 in a task, so the claims and the figure
    use returns relative to the optimal return instead. The figure is drawn twice: with the agents
    of the paper, and with NearRMax too.
    """
    relative = {agent.name: vs_optimal(results, agent.name) for agent in spec.agents}
    curves = {name: student_interval(values) for name, values in relative.items()}
    p_min = 1 / spec.distinct_tasks if spec.distinct_tasks else P_LAYOUT
    return Report(
        spec=spec,
        summary=summary(spec, ratios_to_rmax(spec, results), results),
        claims=[
            *claims(
                of_the_paper(relative), {agent.name: agent for agent in spec.agents}, p_min=p_min
            ),
            *near_claims(relative),
        ],
        figures={
            "environment": draw_map(
                GridMap.read(MAZE), title="maze: either the orange or the green cells are walls"
            ),
            "maze": _returns_figure(spec, of_the_paper(curves)),
            "maze-with-near": _returns_figure(spec, curves),
        },
    )


def _returns_figure(spec: ExperimentSpec, curves: Mapping[str, Interval]) -> "Figure":
    return draw_relative_returns(
        curves,
        per="task",
        ylabel="return relative to the optimal return",
        title=f"Mean discounted return per task, {spec.name}",
    )


def claims(
    relative: Mapping[str, FloatArray], agents: Mapping[str, AgentSpec], *, p_min: float
) -> list[Claim]:
    """Decide the claims about the agents of the paper in the maze.

    Args:
        relative: returns relative to the optimal return, [repetition, task], by agent of the paper.
        agents: the agents, by name.
        p_min: the probability of each task.
    """
    names = ["LRMax(2.0)", "LRMax(1.0)", "LRMax(0.5)"]
    means = np.column_stack([relative[name][:, 1:].mean(axis=1) for name in names])
    delta = agents["LRMax"].all_options.delta
    start = tasks_for_max_q(p_min, delta) + 1
    learned, max_q, rmax = (
        relative[name][:, start - 1 :].mean(axis=1) for name in ("LRMax", "MaxQInit", "RMax")
    )
    gap, gain = (format_interval(student_interval(x)) for x in (learned - max_q, max_q - rmax))
    return [
        Claim(
            "returns increase as D_max decreases from 2 to 1 to 0.5",
            ", ".join(f"{mean:.3f}" for mean in means.mean(axis=0))
            + f" of the optimal return (RMax: {relative['RMax'][:, 1:].mean():.3f})",
            all_above(np.diff(means, axis=1)),
        ),
        Claim(
            "LRMax with a learned D_max performs like MaxQInit once both use their bounds "
            f"{WITHIN}",
            f"the difference is {gap} of the optimal return, from task {start} on",
            all_within_margin(learned - max_q),
        ),
        Claim(
            "MaxQInit outperforms RMax once it uses its bound",
            f"the difference is {gain} of the optimal return, from task {start} on",
            all_above(max_q - rmax),
        ),
    ]


def near_claims(relative: Mapping[str, FloatArray]) -> list[Claim]:
    """Decide the claims about NearRMax, given returns relative to the optimal return, by agent."""
    means = {name: values[:, 1:].mean(axis=1) for name, values in relative.items()}
    claims = []
    for name in near_names(relative):
        gaps = {other: means[name] - mean for other, mean in of_the_paper(means).items()}
        best = min(gaps, key=lambda other: float(gaps[other].mean()))
        own, gap = (format_interval(student_interval(x)) for x in (means[name], gaps[best]))
        claims.append(
            Claim(
                f"{name} outperforms the agents of the paper from task 2 on",
                f"{own} of the optimal return; the difference to {best}, the best of them, is "
                f"{gap}",
                all_above(np.column_stack(list(gaps.values()))),
                OURS,
            )
        )
    return claims


EXPERIMENT = Experiment(reproduce, settings)
