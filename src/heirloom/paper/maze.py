"""The maze of the appendix, in two layouts: three values of the prior, and a learned prior."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from heirloom.choices import Variant
from heirloom.envs.grid import GridMap
from heirloom.envs.paper_tasks import MAZE
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
)
from heirloom.paper.experiment import Experiment, Report, defaults
from heirloom.paper.returns import (
    FAMILY,
    near_names,
    of_the_paper,
    ratios_to_rmax,
    summary,
    used_from,
    vs_optimal,
    with_near,
)
from heirloom.plot.curves import draw_relative_returns
from heirloom.plot.maps import draw_map
from heirloom.stats import FloatArray, student_interval

if TYPE_CHECKING:
    import xarray as xr

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


def report(spec: ExperimentSpec, results: "xr.Dataset") -> Report:
    """Report the claims, the figure and the numbers of the maze.

    With the released settings the return of RMax is often 0 in a task, so the claims and the figure
    use returns relative to the optimal return instead.
    """
    relative = {agent.name: vs_optimal(results, agent.name) for agent in spec.agents}
    curves = {name: student_interval(values) for name, values in relative.items()}
    what = "maze: either the orange or the green cells are walls"
    return Report(
        specs=[spec],
        summary=summary(spec, ratios_to_rmax(spec, results), results),
        claims=[
            *claims(of_the_paper(relative), used_from(spec, "LRMax")),
            *near_claims(relative),
        ],
        figures={
            "environment": draw_map(GridMap.read(MAZE), title=what),
            **with_near(
                "maze",
                curves,
                lambda shown: draw_relative_returns(
                    shown,
                    per="task",
                    ylabel="return relative to the optimal return",
                    title=f"Mean discounted return per task, {spec.name}",
                ),
            ),
        },
    )


def claims(relative: Mapping[str, FloatArray], start: int) -> list[Claim]:
    """Decide the claims about the agents of the paper in the maze.

    `relative` are returns relative to the optimal return, [repetition, task]. From task `start` on,
    LRMax has a learned prior, and MaxQInit uses its bound.
    """
    names = [f"LRMax({d_max})" for d_max in (2.0, 1.0, 0.5)]
    means = np.column_stack([relative[name][:, 1:].mean(axis=1) for name in names])
    learned, max_q, rmax = (
        relative[name][:, start - 1 :].mean(axis=1) for name in ("LRMax", "MaxQInit", "RMax")
    )
    gap = format_interval(student_interval(learned - max_q))
    return [
        Claim(
            "returns increase as D_max decreases from 2 to 1 to 0.5",
            ", ".join(f"{mean:.3f}" for mean in means.mean(axis=0))
            + f" of the optimal return (RMax: {relative['RMax'][:, 1:].mean():.3f})",
            all_above(np.diff(means, axis=1)),
        ),
        Claim(
            "LRMax with a learned prior performs like MaxQInit once both use their bounds "
            f"{WITHIN}",
            f"the difference is {gap} of the optimal return, from task {start} on",
            all_within_margin(learned - max_q),
        ),
        above(
            "MaxQInit outperforms RMax once it uses its bound",
            max_q - rmax,
            measured=f"the difference is {{}} of the optimal return, from task {start} on",
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


EXPERIMENT = Experiment.of_one_run(
    "The maze of the appendix: three values of the prior D_max, and a learned prior.",
    settings,
    report,
    at_most={"tasks": 15},
    record=RECORD,
)
