"""What a prior is worth, figure 3d: LRMax after one source task, for priors of several sizes."""

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from heirloom.choices import Variant
from heirloom.envs.grid import GridMap
from heirloom.envs.paper_tasks import TIGHT
from heirloom.experiments.spec import ExperimentSpec
from heirloom.figures.curves import ratios
from heirloom.figures.maps import draw_map
from heirloom.paper.claims import Claim, judged
from heirloom.paper.experiment import Experiment, Options, Report, band, or_none, over
from heirloom.paper.settings import SEED, defaults
from heirloom.stats import FloatArray, student_interval

if TYPE_CHECKING:
    import xarray as xr

D_MAX = (0.0, 0.2, 0.5, 0.8, 1.0)


def settings(variant: Variant = "released") -> ExperimentSpec:
    """What a prior is worth, figure 3d: two fresh tasks a repetition."""
    return ExperimentSpec.read(
        {
            "name": f"bounds ({variant})",
            "family": {"name": "tight", "variant": variant},
            "defaults": defaults(variant),
            "agents": [{"algorithm": "RMax"}, {"algorithm": "LRMax", "d_max": list(D_MAX)}],
            "tasks": 2,
            "episodes": 2000,
            "steps": 10,
            "repetitions": 100,
            "seed": SEED,
            "measure": "lipschitz_use",
        }
    )


def reproduce(options: Options) -> Report:
    """What a prior is worth."""
    spec = options.apply(settings(options.variant))
    return report(spec, options.run(spec))


def report(spec: ExperimentSpec, results: "xr.Dataset") -> Report:
    """The three ratios of figure 3d, for LRMax after one source task."""
    d_max = spec.priors
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
        claims=judged(claims(d_max, arrays), spec.repetitions),
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


def claims(d_max: Sequence[float], measures: Mapping[str, FloatArray]) -> list[Claim]:
    """ρ_Lip, ρ_Speed-up and ρ_Return [repetition, d_max] rise as D_max falls."""
    return [_rises(name, d_max, values) for name, values in measures.items()]


def _rises(name: str, d_max: Sequence[float], values: FloatArray) -> Claim:
    """From each D_max to the next smaller one, repetition by repetition."""
    order = np.argsort(d_max)[::-1]
    mean = values.mean(axis=0)[order]
    steps = [student_interval(values[:, b] - values[:, a]) for a, b in itertools.pairwise(order)]
    falls = any(bool(step.mean + step.half_width < 0) for step in steps)
    rises = student_interval(values[:, order[-1]] - values[:, order[0]])
    numbers = ", ".join(f"{100 * value:.1f}" for value in mean)
    return Claim(
        f"{name} rises as D_max falls",
        f"{numbers} % for D_max = {', '.join(f'{d_max[i]:g}' for i in order)}",
        bool(not falls and rises.mean - rises.half_width > 0),
    )


EXPERIMENT = Experiment(reproduce, settings)
