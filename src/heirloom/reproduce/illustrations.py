"""Figures 1 and 2 of the paper, drawn from computed values of real families of tasks.

That of figure 1 has one parameter, the width of the heat map: how far from the goal a cell still
pays. That of figure 2 is the family of the main experiment, as it was released.
"""

import numpy as np

from heirloom.envs.families import heat_map, tight
from heirloom.experiments.claims import Claim
from heirloom.experiments.streams import stream
from heirloom.figures.illustrations import draw_bounds, draw_embedding
from heirloom.mdp.exact import TabularMDP
from heirloom.mdp.solving import solve
from heirloom.reproduce.report import Options, Report
from heirloom.transfer.pseudometrics import family_distance, lipschitz_bound

WIDTHS = (0.6, 2.2)
SAMPLED = (0.8, 1.2, 1.7)
N_WIDTHS, N_TASKS = 81, 12
PAIR = (8, 1)  # the start, to the right
SEED = 20210202


def task(width: float) -> TabularMDP:
    """The heat map of this width."""
    return heat_map(width=width)


def bounds_illustration(options: Options) -> Report:
    """Figure 1: Q* at a pair over the parameter, and bounds from three sampled tasks."""
    widths = np.linspace(*WIDTHS, 17 if options.quick else N_WIDTHS)
    tasks, sampled = [task(w) for w in widths], [task(w) for w in SAMPLED]
    Q = np.array([solve(m).Q[PAIR] for m in tasks])
    sources = np.array([solve(m).Q[PAIR] for m in sampled])
    lipschitz = np.array([[lipschitz_bound(m, source)[PAIR] for m in tasks] for source in sampled])
    v_max = tasks[0].v_max
    U = np.minimum(lipschitz.min(axis=0), v_max)
    covered = float((U < v_max).mean())
    holds = bool((U >= Q - 1e-6).all())
    return Report(
        summary={
            "width": widths.tolist(),
            "Q": Q.tolist(),
            "sampled": list(SAMPLED),
            "lipschitz": lipschitz.tolist(),
            "max_q": float(sources.max()),
            "v_max": v_max,
        },
        claims=[
            Claim(
                "the Lipschitz bound is a bound wherever it is",
                f"{(U - Q).min():.3f} to {(U - Q).max():.2f} above Q*",
                holds,
            ),
            Claim(
                "it is below v_max near the sampled tasks",
                f"in {covered:.0%} of the family",
                covered > 0,
            ),
            Claim(
                "the maximum of the sampled tasks is a bound on all tasks",
                f"{sources.max():.2f}, and Q* is up to {Q.max():.2f}",
                bool((sources.max() >= Q - 1e-6).all()),
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
                xlabel="width of the heat map",
                title="Q* at the start, and bounds from three tasks" + _mark(options),
            )
        },
    )


def prior_illustration(options: Options) -> Report:
    """Figure 2: sampled tasks by their distances, a prior's radius, and the largest distance."""
    rng = stream(SEED if options.seed is None else options.seed, "prior-illustration")
    n = 6 if options.quick else N_TASKS
    slips = rng.uniform(0.0, 0.1, n)
    tasks = [tight(rng.uniform(0.9, 1.0, 3), slip) for slip in slips]
    distances = np.zeros((n, n))
    for i in range(n):
        for j in range(i):
            distances[i, j] = distances[j, i] = family_distance([tasks[i], tasks[j]]).max()
    prior = float(distances.max())
    gamma = tasks[0].gamma
    largest = (1 + gamma) / (1 - gamma)
    places, stress = embed(distances)
    return Report(
        summary={
            "slip": slips.tolist(),
            "distances": distances.tolist(),
            "d_max": prior,
            "largest_possible": largest,
            "stress": stress,
        },
        claims=[
            Claim(
                "tasks of a family are nearer to each other than tasks can be",
                f"at most {prior:.2f}, where {largest:.0f} is possible",
                prior < largest,
            )
        ],
        figures={
            "2": draw_embedding(
                places,
                slips,
                prior,
                largest,
                label="slip",
                title="Tasks by their largest D, embedded" + _mark(options),
            )
        },
        notes=[f"the embedding misses distances by {stress:.0%} of their size (root mean square)"],
    )


def embed(distances: np.ndarray) -> tuple[np.ndarray, float]:
    """Places in the plane whose distances are near the given ones, and how far they are off.

    Classical scaling: the two leading eigenvectors of the doubly centred squared distances.
    """
    n = len(distances)
    centre = np.eye(n) - 1 / n
    values, vectors = np.linalg.eigh(-centre @ distances**2 @ centre / 2)
    top = np.argsort(values)[::-1][:2]
    places = vectors[:, top] * np.sqrt(np.maximum(values[top], 0.0))
    # An eigenvector has two signs; the largest entry of each shall be positive.
    places = places * np.sign(places[np.abs(places).argmax(axis=0), np.arange(2)])
    apart = np.linalg.norm(places[:, None] - places[None, :], axis=2)
    return places, float(np.sqrt(((apart - distances) ** 2).sum() / (distances**2).sum()))


def _mark(options: Options) -> str:
    return " (quick)" if options.quick else ""
