"""What a prior is worth (figure 3d), and how much it is used."""

from typing import TYPE_CHECKING

import numpy as np

from heirloom.envs.families import HEAT_MAP, OTHER_HEAT_MAP, TIGHT
from heirloom.envs.grid import GridMap
from heirloom.experiments import paper
from heirloom.experiments.claims import claims_of_bounds, claims_of_prior_use, judged
from heirloom.experiments.spec import ExperimentSpec
from heirloom.figures.grids import draw_map
from heirloom.figures.lifelong import prior_use_curves, ratios
from heirloom.reproduce.report import Options, Report, band, or_none, over
from heirloom.stats import student_interval

if TYPE_CHECKING:
    import xarray as xr


def bounds(options: Options) -> Report:
    """What a prior is worth."""
    spec = options.apply(paper.bounds(options.variant))
    return report_bounds(spec, options.run(spec))


def prior_use(options: Options) -> Report:
    """How much a prior is used as the second task is learned."""
    spec = options.apply(paper.prior_use())
    return report_prior_use(spec, options.run(spec))


def report_bounds(spec: ExperimentSpec, results: "xr.Dataset") -> Report:
    """The three ratios of figure 3d, for LRMax after one source task."""
    d_max = _priors(spec)
    second = results.isel(task=1)
    rmax = second.sel(agent="RMax")
    lrmax = second.sel(agent=[f"LRMax({d})" for d in d_max])
    total, baseline = lrmax.returns.sum("episode"), rmax.returns.sum("episode")
    measures = {
        "ρ_Lip": lrmax.lipschitz_use,
        "ρ_Speed-up": over(rmax.late_update - lrmax.late_update, rmax.late_update),
        "ρ_Return": over(total - baseline, baseline),
    }
    arrays = {name: m.transpose("repetition", "agent").values for name, m in measures.items()}
    intervals = {name: student_interval(values) for name, values in arrays.items()}
    keys = dict(zip(("rho_lip", "rho_speedup", "rho_return"), intervals.values(), strict=True))
    title = f"What a prior is worth, {spec.name}"
    return Report(
        spec=spec,
        summary={
            "repetitions": spec.repetitions,
            "d_max": d_max,
            **{key: or_none(interval.mean) for key, interval in keys.items()},
            "ci95": {key: or_none(interval.half_width) for key, interval in keys.items()},
        },
        claims=judged(claims_of_bounds(d_max, arrays), spec.repetitions),
        figures={
            "environment": draw_map(GridMap.read(TIGHT), title="tight"),
            "3d": ratios(
                np.array(d_max),
                {name: band(values) for name, values in arrays.items()},
                xlabel="D_max",
                title=title,
            ),
        },
    )


def report_prior_use(spec: ExperimentSpec, results: "xr.Dataset") -> Report:
    """The percentage of use per computation, for each prior."""
    d_max = _priors(spec)
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
        claims=claims_of_prior_use(use),
        figures={
            "environment-1": draw_map(GridMap.read(HEAT_MAP), title="slip 0.1"),
            "environment-2": draw_map(GridMap.read(OTHER_HEAT_MAP), title="slip 0.05"),
            "prior-use": prior_use_curves(
                {f"D_max = {d:g}": band(100 * values) for d, values in use.items()},
                title=f"Use of the prior in the second task, {spec.name}",
            ),
        },
    )


def _priors(spec: ExperimentSpec) -> list[float]:
    return [agent.d_max for agent in spec.agents if isinstance(agent.d_max, float)]
