"""Figure 1 of the paper, drawn from computed values: bounds on Q* from sampled tasks.

The tasks are heat maps, whose rewards decrease with the distance to the goal. They differ in one
parameter, the width of that decrease.
"""

import numpy as np

from heirloom.arrays import FloatArray
from heirloom.envs.paper_tasks import heat_map
from heirloom.mdp.tabular import TabularMDP
from heirloom.metrics.pseudometrics import lipschitz_bound
from heirloom.paper.claims import Claim, computed
from heirloom.paper.experiment import Experiment, Options, Report
from heirloom.planning.solve import solve
from heirloom.plot.diagrams import draw_bounds

WIDTHS = (0.6, 2.2)
SAMPLED = (0.8, 1.2, 1.7)
N_WIDTHS = 81
PAIR = (8, 1)  # the start state, and the action to the right


def task(width: float) -> TabularMDP:
    """Return the heat map of this width."""
    return heat_map(width=width)


def reproduce(options: Options) -> Report:
    """Figure 1: Q* of one pair over a task parameter, and bounds from three sampled tasks."""
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
                xlabel="width of the heat map (cells)",
                title="Q* at the start, and bounds from three tasks" + options.title_suffix,
            )
        },
    )


def claims(Q: FloatArray, U: FloatArray, v_max: float, max_q: float) -> list[Claim]:
    """Decide the claims of figure 1.

    Args:
        Q: Q* at the pair, for each width.
        U: the smallest bound of LRMax at the pair, for each width.
        v_max: the bound of RMax.
        max_q: the bound of MaxQInit, the maximum of Q* at the pair over the sampled tasks.
    """
    covered = float((U < v_max).mean())
    return [
        Claim(
            "the Lipschitz bound is an upper bound on Q* for every width",
            f"it is {(U - Q).min():.3f} to {(U - Q).max():.2f} above Q*",
            computed(fact=bool((U >= Q - 1e-6).all())),
        ),
        Claim(
            "the Lipschitz bound is below v_max near the sampled tasks",
            f"it is below v_max for {covered:.0%} of the widths",
            computed(fact=covered > 0),
        ),
        Claim(
            "the maximum of Q* over the sampled tasks is an upper bound for every width",
            f"the maximum is {max_q:.2f}, and Q* reaches {Q.max():.2f}",
            computed(fact=bool((max_q >= Q - 1e-6).all())),
        ),
    ]


EXPERIMENT = Experiment(reproduce, has_variants=False)
