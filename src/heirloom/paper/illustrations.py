"""Figures 1 and 2 of the paper, drawn from computed values.

In figure 1 tasks are heat maps, whose rewards decrease with the distance to the goal. They differ
in one parameter, the width of that decrease. Those of figure 2 are the tasks of the main
experiment, with the released settings.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from heirloom.envs.paper_tasks import heat_map, tight
from heirloom.learning.streams import stream
from heirloom.mdp.tabular import TabularMDP
from heirloom.metrics.pseudometrics import family_distance, lipschitz_bound
from heirloom.paper.catalogue import SEED
from heirloom.paper.claims import Claim, computed
from heirloom.paper.experiment import Experiment, Options, Report
from heirloom.planning.solve import solve
from heirloom.plot.style import hide_frame, legend_below, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
    by the square roots of their eigenvalues. Also returns the root-mean-square error of the
    distances relative to their root mean square.
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


SOURCE_COLOURS = ("#0072B2", "#009E73", "#CC79A7")


def draw_bounds(
    x: np.ndarray,
    Q: np.ndarray,
    sampled: np.ndarray,
    sources: np.ndarray,
    lipschitz: np.ndarray,
    v_max: float,
    *,
    xlabel: str,
    title: str,
) -> "Figure":
    """Q* at one pair over a parameter of the task, with the bounds of RMax, MaxQInit and LRMax.

    `sources` are the values of Q* of the source tasks, whose parameters are `sampled`. A Lipschitz
    bound [source, x] is not drawn where it exceeds `v_max` by more than 5 %.
    """
    figure, ax = new_figure(6.4, 4.6)
    ax.axhline(v_max, color="black", label="RMax: v_max")
    ax.axhline(sources.max(), color="#E69F00", linestyle="--", label="MaxQInit: maximum of Q*")
    for i, bound in enumerate(lipschitz):
        shown = np.where(bound <= 1.05 * v_max, bound, np.nan)
        colour = SOURCE_COLOURS[i % len(SOURCE_COLOURS)]
        ax.plot(x, shown, color=colour, linewidth=1, label=f"Lipschitz bound, task {i + 1}")
    U = np.minimum(lipschitz.min(axis=0), v_max)
    ax.plot(x, U, color="#D55E00", linewidth=2.5, alpha=0.6, label="LRMax: smallest bound")
    ax.fill_between(x, Q, U, color="#D55E00", alpha=0.08, linewidth=0)
    ax.plot(x, Q, color="0.35", linewidth=2, label="Q*")
    ax.plot(sampled, sources, "o", color="0.35")
    ax.set_ylim(0, 1.1 * v_max)
    ax.set_xlabel(xlabel)
    ax.set_ylabel("value at one state-action pair")
    ax.set_title(title)
    legend_below(figure)
    return figure


def draw_embedding(
    points: np.ndarray,
    parameter: np.ndarray,
    prior: float,
    largest: float,
    *,
    label: str,
    title: str,
) -> "Figure":
    """Tasks as points in the plane, inside circles whose radii are two upper bounds on distances.

    The bounds are a valid prior on the distances between these tasks, and the largest possible
    distance. The circles are centred on the task nearest to the mean of all points. The left axes
    show both circles, and the right axes zoom in on the smaller one. The colour of a task shows its
    `parameter`.
    """
    from matplotlib.figure import Figure
    from matplotlib.patches import Circle

    figure = Figure(figsize=(8.4, 4.6), layout="constrained")
    centre = points[np.linalg.norm(points - points.mean(axis=0), axis=1).argmin()]
    for ax, reach in zip(figure.subplots(1, 2), (1.1 * largest, 1.3 * prior), strict=True):
        for radius, colour, name in (
            (largest, "0.6", f"largest possible distance, {largest:.0f}"),
            (prior, "#D55E00", f"valid prior for these tasks, {prior:.2f}"),
        ):
            circle = Circle(centre, radius, fill=False, color=colour, linewidth=1.5, label=name)
            ax.add_patch(circle)
        size = 12 if reach > largest else 50
        dots = ax.scatter(
            points[:, 0], points[:, 1], s=size, c=parameter, cmap="cividis", edgecolor="black"
        )
        ax.set_xlim(centre[0] - reach, centre[0] + reach)
        ax.set_ylim(centre[1] - reach, centre[1] + reach)
        ax.set_aspect("equal")
        ax.set_xlabel("first coordinate (units of D)")
        ax.set_ylabel("second coordinate (units of D)")
        hide_frame(ax)
    figure.colorbar(dots, ax=figure.axes, label=label, shrink=0.7)
    figure.suptitle(title)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", frameon=False, fontsize="small")
    return figure
