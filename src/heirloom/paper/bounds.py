"""The effect of the prior, figure 3d: LRMax after one source task, with five priors."""

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from heirloom.choices import Variant
from heirloom.envs.grid import GridMap
from heirloom.envs.paper_tasks import TIGHT
from heirloom.experiments.spec import ExperimentSpec
from heirloom.figures.curves import draw_ratios
from heirloom.figures.maps import draw_map
from heirloom.paper.claims import Claim, undecided_if_few
from heirloom.paper.experiment import Experiment, Options, Report, band, nan_to_none, ratio
from heirloom.paper.settings import SEED, defaults
from heirloom.stats import FloatArray, student_interval

if TYPE_CHECKING:
    import xarray as xr

D_MAX = (0.0, 0.2, 0.5, 0.8, 1.0)


def settings(variant: Variant = "released") -> ExperimentSpec:
    """Return the spec of figure 3d: in each repetition, two new tasks in sequence."""
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
    """Figure 3d: the effect of the prior D_max on LRMax after one source task."""
    spec = options.apply(settings(options.variant))
    return report(spec, options.run(spec))


def report(spec: ExperimentSpec, results: "xr.Dataset") -> Report:
    """Report the three ratios of figure 3d, for LRMax in the second task.

    ρ_Lip is the fraction of computed Lipschitz bounds that are at most v_max, over pairs known in
    the task or in the source. ρ_Speed-up is the relative decrease of `late_update`, the mean time
    step of the last model updates, compared with RMax. ρ_Return is the relative gain in total
    return over RMax.
    """
    d_max = spec.priors
    second = results.isel(task=1)
    rmax = second.sel(agent="RMax")
    lrmax = second.sel(agent=[f"LRMax({d})" for d in d_max])
    total, baseline = lrmax.returns.sum("episode"), rmax.returns.sum("episode")
    measures = {
        "ρ_Lip": lrmax.lipschitz_use,
        "ρ_Speed-up": ratio(rmax.late_update - lrmax.late_update, rmax.late_update),
        "ρ_Return": ratio(total - baseline, baseline),
    }
    arrays = {name: m.transpose("repetition", "agent").values for name, m in measures.items()}
    intervals = {name: student_interval(values) for name, values in arrays.items()}
    keys = dict(zip(("rho_lip", "rho_speedup", "rho_return"), intervals.values(), strict=True))
    title = f"Effect of the prior D_max on LRMax, {spec.name}"
    return Report(
        spec=spec,
        summary={
            "repetitions": spec.repetitions,
            "d_max": d_max,
            **{key: nan_to_none(interval.mean) for key, interval in keys.items()},
            "ci95": {key: nan_to_none(interval.half_width) for key, interval in keys.items()},
        },
        claims=undecided_if_few(claims(d_max, arrays), spec.repetitions),
        figures={
            "environment": draw_map(GridMap.read(TIGHT), title="tight"),
            "3d": draw_ratios(
                np.array(d_max),
                {name: band(values) for name, values in arrays.items()},
                xlabel="D_max",
                title=title,
            ),
        },
    )


def claims(d_max: Sequence[float], measures: Mapping[str, FloatArray]) -> list[Claim]:
    """Decide for each ratio [repetition, d_max] whether it increases as D_max decreases."""
    return [_increases(name, d_max, values) for name, values in measures.items()]


def _increases(name: str, d_max: Sequence[float], values: FloatArray) -> Claim:
    """Claim that a ratio increases as D_max decreases.

    The claim is true if the ratio increases significantly from the largest D_max to the smallest,
    and no step to the next smaller D_max decreases it significantly.
    """
    order = np.argsort(d_max)[::-1]
    mean = values.mean(axis=0)[order]
    steps = [student_interval(values[:, b] - values[:, a]) for a, b in itertools.pairwise(order)]
    decreases = any(bool(step.mean + step.half_width < 0) for step in steps)
    total = student_interval(values[:, order[-1]] - values[:, order[0]])
    percentages = ", ".join(f"{100 * value:.1f}" for value in mean)
    return Claim(
        f"{name} increases as D_max decreases",
        f"{percentages} % for D_max = {', '.join(f'{d_max[i]:g}' for i in order)}",
        bool(not decreases and total.mean - total.half_width > 0),
    )


EXPERIMENT = Experiment(reproduce, settings)
