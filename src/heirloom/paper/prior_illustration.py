"""Figure 2 of the paper, drawn from computed values: what a prior on distances excludes.

The family is that of the main experiment, as it was released.
"""

from collections.abc import Sequence

import numpy as np

from heirloom.envs.paper_tasks import tight
from heirloom.figures.diagrams import draw_embedding
from heirloom.learning.streams import stream
from heirloom.mdp.tabular import TabularMDP
from heirloom.metrics.pseudometrics import family_distance
from heirloom.paper.claims import Claim
from heirloom.paper.experiment import Experiment, Options, Report
from heirloom.paper.settings import SEED

N_TASKS = 12


def reproduce(options: Options) -> Report:
    """Figure 2: sampled tasks by their distances, a prior's radius, and the largest distance."""
    rng = stream(SEED if options.seed is None else options.seed, "prior-illustration")
    n = 6 if options.quick else N_TASKS
    slips = rng.uniform(0.0, 0.1, n)
    tasks = [tight(rng.uniform(0.9, 1.0, 3), slip) for slip in slips]
    distances = largest_distances(tasks)
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
                title="Tasks by their largest D, embedded" + options.mark,
            )
        },
        notes=[f"the embedding misses distances by {stress:.0%} of their size (root mean square)"],
    )


def largest_distances(tasks: Sequence[TabularMDP]) -> np.ndarray:
    """The largest D of each two tasks, over pairs."""
    distances = np.zeros((len(tasks), len(tasks)))
    for i, one in enumerate(tasks):
        for j, other in enumerate(tasks[:i]):
            distances[i, j] = distances[j, i] = family_distance([one, other]).max()
    return distances


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


EXPERIMENT = Experiment(reproduce, has_variants=False)
