"""The corridor of the appendix, whose left half is not worth exploring."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from heirloom.choices import Variant
from heirloom.envs.grid import GridMap
from heirloom.envs.paper_tasks import CORRIDOR
from heirloom.experiments.spec import ExperimentSpec
from heirloom.paper.catalogue import SEED
from heirloom.paper.claims import OURS, Claim, transfers_early
from heirloom.paper.experiment import Experiment, Report, defaults
from heirloom.paper.returns import (
    FAMILY,
    near_names,
    near_return_claims,
    near_with_numbers,
    of_the_paper,
    paper_claims,
    per_episode_figure,
    per_task_figure,
    ratios_to_rmax,
    summary,
    used_from,
    with_near,
)
from heirloom.plot.maps import draw_map
from heirloom.stats import FloatArray

if TYPE_CHECKING:
    import xarray as xr

NEARNESS: dict[Variant, tuple[float, float]] = {"text": (0.2, 0), "released": (0.1, 0)}
"""The largest differences of rewards and of transitions between two tasks of the family."""
EXACT_MODELS = {"epsilon": 0.0}
"""For NearRMax, because a task without slip and noise is known exactly after one visit."""
LEAST_RATIOS: dict[Variant, tuple[float, float]] = {"text": (1.05, 1.8), "released": (1.5, 1.8)}
"""The claimed returns of NearRMax relative to RMax, with two numbers and with those per pair."""


def settings(variant: Variant = "released") -> ExperimentSpec:
    """Return the spec of the corridor: the agents of the paper, then NearRMax."""
    return ExperimentSpec.read(
        {
            "name": f"corridor ({variant})",
            "family": {"name": "corridor", "variant": variant},
            "defaults": {**defaults(variant), "n_known": 1},
            "agents": [
                {"algorithm": "RMax"},
                {"algorithm": "LRMax"},
                {"algorithm": "LRMax", "d_max": 0.2},
                {"algorithm": "MaxQInit"},
                {"algorithm": "LRMaxQInit"},
                {"algorithm": "LRMaxQInit", "d_max": 0.2},
                {**near_with_numbers(*NEARNESS[variant]), **EXACT_MODELS},
                {**FAMILY, **EXACT_MODELS},
            ],
            "tasks": 20,
            "distinct_tasks": 5,
            "episodes": 20,
            "steps": 11,
            "repetitions": 30,  # the paper's table says 1, but its figure shows intervals
            "seed": SEED,
            "measure": "transfer",
        }
    )


def report(spec: ExperimentSpec, results: "xr.Dataset") -> Report:
    """Report the claims, the two figures and the numbers of the corridor."""
    everyone = ratios_to_rmax(spec, results)
    return Report(
        specs=[spec],
        summary=summary(spec, everyone, results),
        claims=[
            *claims(of_the_paper(everyone), used_from(spec, "MaxQInit")),
            *near_claims(everyone, spec.family.options["variant"]),
        ],
        figures={
            "environment": draw_map(GridMap.read(CORRIDOR), title="corridor"),
            **with_near("corridor-tasks", everyone, lambda shown: per_task_figure(spec, shown)),
            **with_near(
                "corridor-episodes",
                everyone,
                lambda shown: per_episode_figure(spec, results, shown, window=1),
            ),
        },
    )


def claims(vs_rmax: Mapping[str, FloatArray], start: int) -> list[Claim]:
    """Decide the claims of the corridor, which are those of `tight` with the prior 0.2."""
    early = transfers_early("LRMax(0.2)", vs_rmax["LRMax(0.2)"])
    return [early, *paper_claims(vs_rmax, start, "0.2")]


def near_claims(vs_rmax: Mapping[str, FloatArray], variant: Variant) -> list[Claim]:
    """Decide the claims about NearRMax, given the returns of all agents relative to RMax.

    The paper reports early transfer in the corridor. With the released settings, NearRMax has it if
    it knows that transitions are the same in all tasks, and one number for the rewards. With those
    of the text, that number is 0.2: cells on the left could pay it at every step, 2 in all, which
    is more than the goal pays, so the agent still explores most of them.
    """
    return [
        *(transfers_early(name, vs_rmax[name], OURS) for name in near_names(vs_rmax)),
        *near_return_claims(vs_rmax, LEAST_RATIOS[variant]),
    ]


EXPERIMENT = Experiment.of_one_run(
    "The corridor of the appendix: transfer on a line of 20 cells.", settings, report
)
