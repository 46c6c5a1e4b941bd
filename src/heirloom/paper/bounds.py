"""The effect of the prior, figure 3d: LRMax after one source task, with five priors."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from heirloom.choices import Variant
from heirloom.envs.grid import GridMap
from heirloom.envs.paper_tasks import TIGHT
from heirloom.experiments.spec import ExperimentSpec
from heirloom.paper.claims import OURS, Claim, all_above, format_interval
from heirloom.paper.experiment import Experiment, Options, Report, nan_to_none, ratio
from heirloom.paper.near import FAMILY, near_names, near_with_numbers
from heirloom.paper.settings import SEED, defaults
from heirloom.paper.tight import NEARNESS
from heirloom.plot.curves import RATIO_COLOURS, draw_ratios
from heirloom.plot.maps import draw_map
from heirloom.stats import FloatArray, Interval, student_interval

if TYPE_CHECKING:
    import xarray as xr

D_MAX = (0.0, 0.2, 0.5, 0.8, 1.0)
NEAR_MEASURES = ("ρ_Speed-up", "ρ_Return")  # NearRMax has no Lipschitz bounds, so no ρ_Lip


def settings(variant: Variant = "released") -> ExperimentSpec:
    """Return the spec of figure 3d: in each repetition, two new tasks in sequence.

    NearRMax comes after the agents of the paper.
    """
    return ExperimentSpec.read(
        {
            "name": f"bounds ({variant})",
            "family": {"name": "tight", "variant": variant},
            "defaults": defaults(variant),
            "agents": [
                {"algorithm": "RMax"},
                {"algorithm": "LRMax", "d_max": list(D_MAX)},
                near_with_numbers(*NEARNESS[variant]),
                FAMILY,
            ],
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

    NearRMax has no Lipschitz bounds and no D_max, so the second figure shows its two other ratios
    as horizontal lines.
    """
    d_max = spec.priors
    second = results.isel(task=1)
    lrmax = [f"LRMax({d})" for d in d_max]
    arrays = {
        "ρ_Lip": _values(second.lipschitz_use, lrmax),
        "ρ_Speed-up": _values(_speed_up(second), lrmax),
        "ρ_Return": _values(_gain(second), lrmax),
    }
    near_agents = near_names(agent.name for agent in spec.agents)
    near = dict(
        zip(
            NEAR_MEASURES,
            (_values(measure, near_agents) for measure in (_speed_up(second), _gain(second))),
            strict=True,
        )
    )
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
            "near": _near_numbers(near_agents, near),
        },
        claims=[*claims(d_max, arrays), *near_claims(near_agents, near["ρ_Return"])],
        figures={
            "environment": draw_map(GridMap.read(TIGHT), title="tight"),
            "3d": draw_ratios(np.array(d_max), intervals, xlabel="D_max", title=title),
            "3d-with-near": draw_ratios(
                np.array(d_max),
                intervals | _horizontal_lines(near_agents, near, len(d_max)),
                xlabel="D_max of LRMax",
                title=f"LRMax with a prior D_max, and NearRMax, {spec.name}",
                styles=_line_styles(near_agents, list(intervals)),
            ),
        },
    )


def _speed_up(second: "xr.Dataset") -> "xr.DataArray":
    rmax = second.late_update.sel(agent="RMax")
    return ratio(rmax - second.late_update, rmax)


def _gain(second: "xr.Dataset") -> "xr.DataArray":
    total = second.returns.sum("episode")
    return ratio(total - total.sel(agent="RMax"), total.sel(agent="RMax"))


def _values(measure: "xr.DataArray", names: list[str]) -> FloatArray:
    """Return the measure of these agents, [repetition, agent]."""
    values: FloatArray = measure.sel(agent=names).transpose("repetition", "agent").values
    return values


def _near_numbers(names: list[str], near: Mapping[str, FloatArray]) -> dict[str, Any]:
    """Return the ratios of NearRMax for `summary.json`, by agent."""
    speed_up, gain = (student_interval(near[measure]) for measure in NEAR_MEASURES)
    return {
        name: {
            "rho_speedup": float(speed_up.mean[i]),
            "rho_return": float(gain.mean[i]),
            "ci95": nan_to_none(np.array([speed_up.half_width[i], gain.half_width[i]])),
        }
        for i, name in enumerate(names)
    }


def _horizontal_lines(
    names: list[str], near: Mapping[str, FloatArray], n_points: int
) -> dict[str, Interval]:
    """Return the ratios of NearRMax as curves that are the same for every D_max."""
    return {
        f"{measure}, {name}": student_interval(values[:, [i]].repeat(n_points, axis=1))
        for measure, values in near.items()
        for i, name in enumerate(names)
    }


def _line_styles(names: list[str], measures: list[str]) -> dict[str, dict[str, Any]]:
    """Return styles for these lines: the colour of the measure, and a dash pattern per agent."""
    return {
        f"{measure}, {name}": {"color": RATIO_COLOURS[i], "linestyle": dashes, "marker": ""}
        for i, measure in enumerate(measures)
        if measure in NEAR_MEASURES
        for name, dashes in zip(names, (":", "--"), strict=True)
    }


def near_claims(names: Sequence[str], gains: FloatArray) -> list[Claim]:
    """Decide our claims about NearRMax from ρ_Return in the second task, [repetition, agent]."""
    return [
        Claim(
            f"{name} returns more than RMax after one source task",
            f"ρ_Return is {format_interval(student_interval(100 * gains[:, i]), 1)} %",
            all_above(gains[:, i]),
            OURS,
        )
        for i, name in enumerate(names)
    ]


def claims(d_max: Sequence[float], measures: Mapping[str, FloatArray]) -> list[Claim]:
    """Decide for each ratio [repetition, d_max] whether it increases as D_max decreases."""
    return [_increases(name, d_max, values) for name, values in measures.items()]


def _increases(name: str, d_max: Sequence[float], values: FloatArray) -> Claim:
    """Claim that each step to the next smaller D_max increases a ratio."""
    order = np.argsort(d_max)[::-1]
    steps = np.diff(values[:, order], axis=1)
    percentages = ", ".join(f"{100 * value:.1f}" for value in values.mean(axis=0)[order])
    differences = ", ".join(
        format_interval(student_interval(100 * step), 1) for step in np.transpose(steps)
    )
    return Claim(
        f"{name} increases as D_max decreases",
        f"{percentages} % for D_max = {', '.join(f'{d_max[i]:g}' for i in order)}; the steps are "
        f"{differences} %",
        all_above(steps),
    )


EXPERIMENT = Experiment(reproduce, settings)
