"""The corridor of the appendix, whose left half is not worth exploring."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from heirloom.choices import Variant
from heirloom.envs.grid import GridMap
from heirloom.envs.paper_tasks import CORRIDOR
from heirloom.experiments.spec import ExperimentSpec
from heirloom.paper.claims import (
    OURS,
    Claim,
    Ratios,
    combination_claims,
    max_q_start_claims,
    never_below_rmax,
    transfers_early,
)
from heirloom.paper.experiment import Experiment, Options, Report
from heirloom.paper.near import (
    FAMILY,
    near_names,
    near_with_numbers,
    of_the_paper,
    return_claims,
)
from heirloom.paper.returns import per_episode_figure, per_task_figure, ratios_to_rmax, summary
from heirloom.paper.settings import SEED, defaults
from heirloom.plot.maps import draw_map
from heirloom.theory import tasks_for_max_q

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


def reproduce(options: Options) -> Report:
    """The corridor of the appendix: transfer on a line of 20 cells."""
    spec = options.apply(settings(options.variant))
    return report(spec, options.run(spec))


def report(spec: ExperimentSpec, results: "xr.Dataset") -> Report:
    """Report the claims, the two figures and the numbers of the corridor.

    The figures are drawn twice: with the agents of the paper, and with NearRMax too.
    """
    everyone = ratios_to_rmax(spec, results)
    compared = of_the_paper(everyone)
    return Report(
        spec=spec,
        summary=summary(spec, everyone, results),
        claims=[
            *claims(compared, p_min=1 / (spec.distinct_tasks or spec.tasks)),
            *near_claims(spec, everyone),
        ],
        figures={
            "environment": draw_map(GridMap.read(CORRIDOR), title="corridor"),
            "corridor-tasks": per_task_figure(spec, compared),
            "corridor-tasks-with-near": per_task_figure(spec, everyone),
            "corridor-episodes": per_episode_figure(spec, results, compared, window=1),
            "corridor-episodes-with-near": per_episode_figure(spec, results, everyone, window=1),
        },
    )


def claims(ratios: Mapping[str, Ratios], *, p_min: float) -> list[Claim]:
    """Decide the claims of the corridor, which are those of `tight` with the prior 0.2.

    Args:
        ratios: returns relative to RMax, by agent of the paper.
        p_min: the probability of each task.
    """
    start = tasks_for_max_q(p_min, ratios["MaxQInit"].agent.all_options.delta) + 1
    return [
        transfers_early("LRMax(0.2)", ratios["LRMax(0.2)"]),
        *max_q_start_claims(ratios["MaxQInit"].vs_rmax, start),
        *combination_claims(ratios, start, "0.2"),
        *(
            never_below_rmax(name, ratios[name].vs_rmax)
            for name in ratios
            if name not in ("RMax", "MaxQInit")
        ),
    ]


def near_claims(spec: ExperimentSpec, ratios: Mapping[str, Ratios]) -> list[Claim]:
    """Decide the claims about NearRMax, given the returns of all agents relative to RMax.

    The paper reports early transfer in the corridor. With the released settings, NearRMax has it if
    it knows that transitions are the same in all tasks, and one number for the rewards. With those
    of the text, that number is 0.2: cells on the left could pay it at every step, 2 in all, which
    is more than the goal pays, so the agent still explores most of them.
    """
    near = near_names(ratios)
    return [
        *(transfers_early(name, ratios[name])._replace(whose=OURS) for name in near),
        *return_claims(
            {name: ratios[name].vs_rmax for name in near},
            dict(zip(near, LEAST_RATIOS[spec.family.options["variant"]], strict=True)),
        ),
    ]


EXPERIMENT = Experiment(reproduce, settings)
