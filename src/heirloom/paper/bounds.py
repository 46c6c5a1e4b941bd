"""The effect of the prior, figure 3d: LRMax after one source task, with five priors."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from heirloom.choices import Variant
from heirloom.envs.grid import GridMap
from heirloom.envs.paper_tasks import TIGHT
from heirloom.experiments.spec import ExperimentSpec
from heirloom.paper.catalogue import SEED
from heirloom.paper.claims import OURS, Claim, all_above, format_interval
from heirloom.paper.experiment import Experiment, Report, defaults, nan_to_none, ratio
from heirloom.paper.returns import FAMILY, near_names, near_with_numbers
from heirloom.paper.tight import NEARNESS
from heirloom.plot.curves import RATIO_COLOURS, draw_ratios
from heirloom.plot.maps import draw_map
from heirloom.stats import FloatArray, Interval, student_interval

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

D_MAX = (0.0, 0.2, 0.5, 0.8, 1.0)
KEYS = {"ρ_Lip": "rho_lip", "ρ_Speed-up": "rho_speedup", "ρ_Return": "rho_return"}
"""The measures, and their keys in `summary.json`."""
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


def report(spec: ExperimentSpec, results: "xr.Dataset") -> Report:
    """Report the three ratios of figure 3d, for LRMax in the second task.

    ρ_Lip is the fraction of computed Lipschitz bounds that are at most v_max, over pairs known in
    the task or in the source. ρ_Speed-up is the relative decrease of `late_update`, the mean time
    step of the last model updates, compared with RMax. ρ_Return is the relative gain in total
    return over RMax.

    NearRMax has no Lipschitz bounds and no D_max, so the second figure shows its two other ratios
    as horizontal lines.
    """
    d_max, second = spec.priors, results.isel(task=1)
    update, total = second.late_update, second.returns.sum("episode")
    late, least = update.sel(agent="RMax"), total.sel(agent="RMax")
    measures = (second.lipschitz_use, ratio(late - update, late), ratio(total - least, least))
    names = near_names(agent.name for agent in spec.agents)
    lrmax, near = (
        {
            name: measure.sel(agent=agents).transpose("repetition", "agent").values
            for name, measure in zip(KEYS, measures, strict=True)
        }
        for agents in ([f"LRMax({d})" for d in d_max], names)
    )
    curves = {name: student_interval(values) for name, values in lrmax.items()}
    lines = {
        agent: {name: student_interval(near[name][:, [i]]) for name in NEAR_MEASURES}
        for i, agent in enumerate(names)
    }
    return Report(
        specs=[spec],
        summary={
            "repetitions": spec.repetitions,
            "d_max": d_max,
            **{KEYS[name]: nan_to_none(mean) for name, (mean, _) in curves.items()},
            "ci95": {KEYS[name]: nan_to_none(half) for name, (_, half) in curves.items()},
            "near": {
                agent: {
                    **{KEYS[name]: float(line.mean[0]) for name, line in of_agent.items()},
                    "ci95": nan_to_none(np.array([x.half_width[0] for x in of_agent.values()])),
                }
                for agent, of_agent in lines.items()
            },
        },
        claims=[*claims(d_max, lrmax), *near_claims(names, near["ρ_Return"])],
        figures={
            "environment": draw_map(GridMap.read(TIGHT), title="tight"),
            "3d": draw_ratios(
                np.array(d_max),
                curves,
                xlabel="D_max",
                title=f"Effect of the prior D_max on LRMax, {spec.name}",
            ),
            "3d-with-near": _figure_with_near(spec, curves, lines),
        },
    )


def _figure_with_near(
    spec: ExperimentSpec,
    curves: Mapping[str, Interval],
    lines: Mapping[str, Mapping[str, Interval]],
) -> "Figure":
    """Draw the ratios of LRMax, and those of each NearRMax, which are the same for every D_max.

    A line has the colour of its measure, and a dash pattern per agent.
    """
    shown, styles = dict(curves), {}
    for colour, name in zip(RATIO_COLOURS, KEYS, strict=True):
        for dashes, (agent, of_agent) in zip((":", "--"), lines.items(), strict=True):
            if name in of_agent:
                label = f"{name}, {agent}"
                shown[label] = Interval(*(x.repeat(len(spec.priors)) for x in of_agent[name]))
                styles[label] = {"color": colour, "linestyle": dashes, "marker": ""}
    title = f"LRMax with a prior D_max, and NearRMax, {spec.name}"
    x = np.array(spec.priors)
    return draw_ratios(x, shown, xlabel="D_max of LRMax", title=title, styles=styles)


def near_claims(names: Sequence[str], gains: FloatArray) -> list[Claim]:
    """Decide our claims about NearRMax from ρ_Return in the second task, [repetition, agent]."""
    return [
        Claim(
            f"{name} returns more than RMax after one source task",
            f"ρ_Return is {format_interval(student_interval(100 * gain), 1)} %",
            all_above(gain),
            OURS,
        )
        for name, gain in zip(names, gains.T, strict=True)
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


EXPERIMENT = Experiment.of_one_run(
    "Figure 3d: the effect of the prior D_max on LRMax after one source task.", settings, report
)
