"""Figure 2 of the paper, drawn from computed values: a prior on the distances between tasks.

The tasks are those of the main experiment, with the released settings.
"""

from collections.abc import Sequence

import numpy as np

from heirloom.envs.paper_tasks import tight
from heirloom.learning.streams import stream
from heirloom.mdp.tabular import TabularMDP
from heirloom.metrics.pseudometrics import family_distance
from heirloom.paper.claims import Claim, computed
from heirloom.paper.experiment import Experiment, Options, Report
from heirloom.paper.settings import SEED
from heirloom.plot.diagrams import draw_embedding

N_TASKS = 12


def reproduce(options: Options) -> Report:
    """Figure 2: tasks embedded in the plane, a valid prior, and the largest possible distance."""
    rng = stream(SEED if options.seed is None else options.seed, "prior-illustration")
    n = 6 if options.quick else N_TASKS
    slips = rng.uniform(0.0, 0.1, n)
    tasks = [tight(rng.uniform(0.9, 1.0, 3), slip) for slip in slips]
    distances = largest_distances(tasks)
    prior = float(distances.max())
    gamma = tasks[0].gamma
    largest = (1 + gamma) / (1 - gamma)
    points, stress = embed(distances)
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
                "tasks of the family are closer to each other than the largest possible distance",
                f"the distances are at most {prior:.2f}; the largest possible one is {largest:.0f}",
                computed(fact=bool(prior < largest)),
            )
        ],
        figures={
            "2": draw_embedding(
                points,
                slips,
                prior,
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


EXPERIMENT = Experiment(reproduce, has_variants=False)
