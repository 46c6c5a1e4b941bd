"""Use of the prior while LRMax learns the second of two heat maps."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from heirloom.choices import Variant
from heirloom.envs.grid import GridMap
from heirloom.envs.paper_tasks import HEAT_MAP, OTHER_HEAT_MAP
from heirloom.experiments.spec import ExperimentSpec
from heirloom.paper.catalogue import SEED
from heirloom.paper.claims import MARGIN, WITHIN, Claim, nearly_always
from heirloom.paper.experiment import COMMON, Experiment, Report, nan_to_none
from heirloom.plot.curves import draw_prior_use
from heirloom.plot.maps import draw_map
from heirloom.stats import FloatArray, student_interval

if TYPE_CHECKING:
    import xarray as xr


def settings(variant: Variant = "text") -> ExperimentSpec:
    """Return the spec of the two heat maps, which is the same in both variants."""
    return ExperimentSpec.read(
        {
            "name": "prior-use",
            "family": {"name": "heat-map"},
            "in_order": True,
            "defaults": COMMON,
            "agents": [{"algorithm": "LRMax", "d_max": [19.0, 17.0, 15.0, 10.0, 0.0]}],
            "tasks": 2,
            "episodes": 100,
            "steps": 30,
            "repetitions": 100,
            "seed": SEED,
            "measure": "prior_use",
        }
    )


def report(spec: ExperimentSpec, results: "xr.Dataset") -> Report:
    """Report the percentage of pairs where each prior is used, per computation of the bound."""
    d_max = spec.priors
    use = {
        d: results.prior_use.sel(agent=f"LRMax({d})", task=2)
        .transpose("repetition", "computation")
        .values
        for d in d_max
    }
    intervals = {f"D_max = {d:g}": student_interval(100 * values) for d, values in use.items()}
    return Report(
        specs=[spec],
        summary={
            "repetitions": spec.repetitions,
            "d_max": d_max,
            "percentage_of_use": [nan_to_none(interval.mean) for interval in intervals.values()],
            "ci95": [nan_to_none(interval.half_width) for interval in intervals.values()],
        },
        claims=claims(use),
        figures={
            "environment-1": draw_map(GridMap.read(HEAT_MAP), title="first task, slip 0.1"),
            "environment-2": draw_map(GridMap.read(OTHER_HEAT_MAP), title="second task, slip 0.05"),
            "prior-use": draw_prior_use(
                intervals, title=f"Use of the prior in the second task, {spec.name}"
            ),
        },
    )


def claims(use: Mapping[float, FloatArray]) -> list[Claim]:
    """Decide the claims about the use of the prior, which are about each single repetition.

    By D_max, `use` has fractions of pairs where the prior is used, [repetition, computation].
    """
    often = "in at least 95 % of repetitions"
    decided = [
        Claim(
            f"D_max = {d:g} is used at {100 * fraction:.0f} % of the pairs, {often}",
            f"{100 * use[d].min():.1f} to {100 * use[d].max():.1f} %",
            nearly_always(np.all(np.abs(use[d] - fraction) < 1e-12, axis=1)),
        )
        for d, fraction in ((19.0, 0.0), (0.0, 1.0))
    ]
    for d, fractions in use.items():
        if 0 < d < 19:
            first, last = fractions[:, 0], fractions[:, -1]
            less = (np.diff(fractions, axis=1) <= 1e-12).all(axis=1) & (last < first)
            decided.append(
                Claim(
                    f"D_max = {d:g} is used less and less as the task is learned, {often}",
                    f"{100 * first.mean():.0f} % of the pairs at first, "
                    f"{100 * last.mean():.0f} % at the end; never more than before in "
                    f"{less.sum()} of {less.size} repetitions",
                    nearly_always(less),
                )
            )
    x = np.arange(use[10.0].shape[1])
    slope, start = np.polyfit(x, use[10.0].T, 1)
    deviation = np.abs(use[10.0] - start[:, None] - slope[:, None] * x).max(axis=1)
    decided.append(
        Claim(
            f"the use of D_max = 10 decreases linearly {WITHIN}, {often}",
            f"at most {100 * deviation.max():.1f} % of the pairs away from a straight line",
            nearly_always((deviation < MARGIN) & (slope < 0)),
        )
    )
    return decided


EXPERIMENT = Experiment.of_one_run(
    "Use of the prior D_max while the second of two tasks is learned.",
    settings,
    report,
    has_variants=False,
)
