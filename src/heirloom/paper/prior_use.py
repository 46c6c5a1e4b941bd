"""How much a prior is used as the second of two heat maps is learned."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from heirloom.choices import Variant
from heirloom.envs.grid import GridMap
from heirloom.envs.paper_tasks import HEAT_MAP, OTHER_HEAT_MAP
from heirloom.experiments.spec import ExperimentSpec
from heirloom.figures.curves import prior_use_curves
from heirloom.figures.maps import draw_map
from heirloom.paper.claims import Claim
from heirloom.paper.experiment import Experiment, Options, Report, band, or_none
from heirloom.paper.settings import EPSILON, N_KNOWN, SEED
from heirloom.stats import FloatArray, student_interval

if TYPE_CHECKING:
    import xarray as xr


def settings(variant: Variant = "text") -> ExperimentSpec:
    """How much a prior is used as a task is learned: the two heat maps. Both variants are alike."""
    return ExperimentSpec.read(
        {
            "name": "prior-use",
            "family": {"name": "heat-map"},
            "in_order": True,
            "defaults": {"n_known": N_KNOWN, "epsilon": EPSILON},
            "agents": [{"algorithm": "LRMax", "d_max": [19.0, 17.0, 15.0, 10.0, 0.0]}],
            "tasks": 2,
            "episodes": 100,
            "steps": 30,
            "repetitions": 100,
            "seed": SEED,
            "measure": "prior_use",
        }
    )


def reproduce(options: Options) -> Report:
    """How much a prior is used as the second task is learned."""
    spec = options.apply(settings())
    return report(spec, options.run(spec))


def report(spec: ExperimentSpec, results: "xr.Dataset") -> Report:
    """The percentage of use per computation, for each prior."""
    d_max = spec.priors
    use = {
        d: results.prior_use.sel(agent=f"LRMax({d})", task=2)
        .transpose("repetition", "computation")
        .values
        for d in d_max
    }
    intervals = {f"D_max = {d:g}": student_interval(100 * values) for d, values in use.items()}
    return Report(
        spec=spec,
        summary={
            "repetitions": spec.repetitions,
            "d_max": d_max,
            "percentage_of_use": [or_none(interval.mean) for interval in intervals.values()],
            "ci95": [or_none(interval.half_width) for interval in intervals.values()],
        },
        claims=claims(use),
        figures={
            "environment-1": draw_map(GridMap.read(HEAT_MAP), title="slip 0.1"),
            "environment-2": draw_map(GridMap.read(OTHER_HEAT_MAP), title="slip 0.05"),
            "prior-use": prior_use_curves(
                {f"D_max = {d:g}": band(100 * values) for d, values in use.items()},
                title=f"Use of the prior in the second task, {spec.name}",
            ),
        },
    )


def claims(use: Mapping[float, FloatArray]) -> list[Claim]:
    """The claims of the use of a prior, parts [repetition, computation] for each D_max."""
    made = [
        Claim(
            f"a prior of {d:g} is used {100 * part:.0f} % of the time",
            f"{100 * use[d].min():.1f} to {100 * use[d].max():.1f} %",
            bool((np.abs(use[d] - part) < 1e-12).all()),
        )
        for d, part in ((19.0, 0.0), (0.0, 1.0))
    ]
    for d, parts in use.items():
        if 0 < d < 19:
            mean = parts.mean(axis=0)
            made.append(
                Claim(
                    f"a prior of {d:g} is used less and less",
                    f"{100 * mean[0]:.0f} % at first, {100 * mean[-1]:.0f} % in the end",
                    bool((np.diff(mean) <= 1e-12).all() and mean[0] > mean[-1]),
                )
            )
    mean = use[10.0].mean(axis=0)
    x = np.arange(mean.size)
    fitted = np.polyval(np.polyfit(x, mean, 1), x)
    off = float(np.abs(fitted - mean).max())
    made.append(
        Claim(
            "at 10 it falls linearly",
            f"within {100 * off:.1f} % of pairs of a straight line",
            off < 0.05,
        )
    )
    return made


EXPERIMENT = Experiment(reproduce, settings, has_variants=False)
