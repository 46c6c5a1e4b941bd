"""Figure 1 of the paper, drawn from computed values: bounds from sampled tasks.

The family has one parameter, the width of the heat map: how far from the goal a cell still pays.
"""

import numpy as np

from heirloom.arrays import FloatArray
from heirloom.envs.paper_tasks import heat_map
from heirloom.figures.diagrams import draw_bounds
from heirloom.mdp.tabular import TabularMDP
from heirloom.metrics.pseudometrics import lipschitz_bound
from heirloom.paper.claims import Claim
from heirloom.paper.experiment import Experiment, Options, Report
from heirloom.planning.solve import solve

WIDTHS = (0.6, 2.2)
SAMPLED = (0.8, 1.2, 1.7)
N_WIDTHS = 81
PAIR = (8, 1)  # the start, to the right


def task(width: float) -> TabularMDP:
    """The heat map of this width."""
    return heat_map(width=width)


def reproduce(options: Options) -> Report:
    """Figure 1: Q* at a pair over the parameter, and bounds from three sampled tasks."""
    widths = np.linspace(*WIDTHS, 17 if options.quick else N_WIDTHS)
    tasks, sampled = [task(w) for w in widths], [task(w) for w in SAMPLED]
    Q = np.array([solve(m).Q[PAIR] for m in tasks])
    sources = np.array([solve(m).Q[PAIR] for m in sampled])
    lipschitz = np.array([[lipschitz_bound(m, source)[PAIR] for m in tasks] for source in sampled])
    v_max = tasks[0].v_max
    U = np.minimum(lipschitz.min(axis=0), v_max)
    return Report(
        summary={
            "width": widths.tolist(),
            "Q": Q.tolist(),
            "sampled": list(SAMPLED),
            "lipschitz": lipschitz.tolist(),
            "max_q": float(sources.max()),
            "v_max": v_max,
        },
        claims=claims(Q, U, v_max, float(sources.max())),
        figures={
            "1": draw_bounds(
                widths,
                Q,
                np.array(SAMPLED),
                sources,
                lipschitz,
                v_max,
                xlabel="width of the heat map",
                title="Q* at the start, and bounds from three tasks" + options.mark,
            )
        },
    )


def claims(Q: FloatArray, U: FloatArray, v_max: float, max_q: float) -> list[Claim]:
    """What the figure shows, from Q* and the bound over the family."""
    covered = float((U < v_max).mean())
    return [
        Claim(
            "the Lipschitz bound is a bound wherever it is",
            f"{(U - Q).min():.3f} to {(U - Q).max():.2f} above Q*",
            bool((U >= Q - 1e-6).all()),
        ),
        Claim(
            "it is below v_max near the sampled tasks",
            f"in {covered:.0%} of the family",
            covered > 0,
        ),
        Claim(
            "the maximum of the sampled tasks is a bound on all tasks",
            f"{max_q:.2f}, and Q* is up to {Q.max():.2f}",
            bool((max_q >= Q - 1e-6).all()),
        ),
    ]


EXPERIMENT = Experiment(reproduce, has_variants=False)
