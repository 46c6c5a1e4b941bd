"""Figures 1 and 2 of the paper, drawn from computed values.

In figure 1 tasks are heat maps, whose rewards decrease with the distance to the goal. They differ
in one parameter, the width of that decrease. Those of figure 2 are the tasks of the main
experiment, with the released settings.
"""

from collections.abc import Sequence

import numpy as np

from heirloom.envs.paper_tasks import heat_map, tight
from heirloom.learning.streams import stream
from heirloom.mdp.tabular import TabularMDP
from heirloom.metrics.pseudometrics import family_distance, lipschitz_bound
from heirloom.paper.catalogue import SEED
from heirloom.paper.claims import Claim, computed
from heirloom.paper.experiment import Experiment, Options, Report
from heirloom.planning.solve import solve
from heirloom.plot.diagrams import draw_bounds, draw_embedding

WIDTHS = (0.6, 2.2)
SAMPLED = (0.8, 1.2, 1.7)
N_WIDTHS = 81
PAIR = (8, 1)  # the start state, and the action to the right
N_TASKS = 12


def bounds(options: Options) -> Report:
    """Draw Q* of one pair of heat maps over their width, and bounds from three sampled tasks."""
    widths = np.linspace(*WIDTHS, 17 if options.quick else N_WIDTHS)
    tasks, sampled = ([heat_map(width=w) for w in each] for each in (widths, SAMPLED))
    Q = np.array([solve(m).Q[PAIR] for m in tasks])
    sources = np.array([solve(m).Q[PAIR] for m in sampled])
    lipschitz = np.array([[lipschitz_bound(m, source)[PAIR] for m in tasks] for source in sampled])
    v_max = tasks[0].v_max
    U = np.minimum(lipschitz.min(axis=0), v_max)
    covered, max_q = float((U < v_max).mean()), float(sources.max())
    return Report(
        summary={
            "width": widths.tolist(),
            "Q": Q.tolist(),
            "sampled": list(SAMPLED),
            "lipschitz": lipschitz.tolist(),
            "max_q": max_q,
            "v_max": v_max,
        },
        claims=[
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
        ],
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


def prior(options: Options) -> Report:
    """Draw tasks of the main experiment, released, in the plane, and two bounds on distances."""
    rng = stream(SEED if options.seed is None else options.seed, "prior-illustration")
    n = 6 if options.quick else N_TASKS
    slips = rng.uniform(0.0, 0.1, n)
    tasks = [tight(rng.uniform(0.9, 1.0, 3), slip) for slip in slips]
    distances = largest_distances(tasks)
    d_max = float(distances.max())
    gamma = tasks[0].gamma
    largest = (1 + gamma) / (1 - gamma)
    points, stress = embed(distances)
    return Report(
        summary={
            "slip": slips.tolist(),
            "distances": distances.tolist(),
            "d_max": d_max,
            "largest_possible": largest,
            "stress": stress,
        },
        claims=[
            Claim(
                "tasks of the family are closer to each other than the largest possible distance",
                f"the distances are at most {d_max:.2f}; the largest possible one is {largest:.0f}",
                computed(fact=bool(d_max < largest)),
            )
        ],
        figures={
            "2": draw_embedding(
                points,
                slips,
                d_max,
                largest,
                label="slip probability",
                title="Tasks embedded by their largest distance D" + options.title_suffix,
            )
        },
        notes=[f"relative root-mean-square error of the distances in the embedding: {stress:.0%}"],
    )


def largest_distances(tasks: Sequence[TabularMDP]) -> np.ndarray:
    """Return the maximum over pairs (s, a) of D between each two tasks, [task, task]."""
    distances = np.zeros((len(tasks), len(tasks)))
    for i, m in enumerate(tasks):
        for j, m_bar in enumerate(tasks[:i]):
            distances[i, j] = distances[j, i] = family_distance([m, m_bar]).max()
    return distances


def embed(distances: np.ndarray) -> tuple[np.ndarray, float]:
    """Embed points in the plane by classical multidimensional scaling.

    The coordinates are the two leading eigenvectors of the doubly centred squared distances, scaled
    by the square roots of their eigenvalues.

    Returns:
        The coordinates, and the root-mean-square error of the distances relative to their
        root mean square.
    """
    n = len(distances)
    centre = np.eye(n) - 1 / n
    values, vectors = np.linalg.eigh(-centre @ distances**2 @ centre / 2)
    top = np.argsort(values)[::-1][:2]
    points = vectors[:, top] * np.sqrt(np.maximum(values[top], 0.0))
    # The sign of an eigenvector is arbitrary: make its largest entry positive.
    points = points * np.sign(points[np.abs(points).argmax(axis=0), np.arange(2)])
    embedded = np.linalg.norm(points[:, None] - points[None, :], axis=2)
    return points, float(np.sqrt(((embedded - distances) ** 2).sum() / (distances**2).sum()))


BOUNDS = Experiment(
    "Figure 1: Q* of one pair over a task parameter, and bounds from three sampled tasks.",
    bounds,
    has_variants=False,
)
PRIOR = Experiment(
    "Figure 2: tasks embedded in the plane, a valid prior, and the largest possible distance.",
    prior,
    has_variants=False,
)
