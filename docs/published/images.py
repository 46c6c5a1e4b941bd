"""The images of docs, drawn from computed values: `python -m published --images` in `docs`."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import heirloom as hl
from heirloom.envs.paper_families import Corridor, Tight
from heirloom.envs.paper_tasks import tight
from heirloom.paper import rivals
from published import algorithm_curves, checks, ideas, results
from published.drawing import draw_algorithms, draw_claims, draw_moved_mass, draw_power
from published.results import PROJECT

if TYPE_CHECKING:
    from matplotlib.figure import Figure

IMAGES = PROJECT / "docs" / "images"
STATE, RIGHT = 2 * 11 + 7, 1  # a cell near the goals of the main experiment, and an action
NAMES = {1: "right", -11: "slips up", 11: "slips down"}  # by the change of the state
START = 10  # cell 11 of the corridor
SLIPS = np.linspace(0, 0.3, 31)
NUMBERS = np.linspace(0, 1.2, 61)
TRUTH = 0.1  # the width of the range of rewards of the corridor


class MovedMass(NamedTuple):
    """The transitions of one pair in a source, and the most favourable ones near to them."""

    names: list[str]
    values: np.ndarray
    source: np.ndarray
    favourable: np.ndarray


def moved_mass(t: float = 0.1) -> MovedMass:
    """Compute the most favourable transitions of one pair of the main experiment.

    The outcomes are ordered by the value that the nearness implies, and the last is the state with
    the largest value, to which mass moves.
    """
    m_bar = tight((0.95, 0.95, 0.95), 0.08)
    V = hl.near_bound(m_bar, m_bar, hl.Nearness(rewards=0.19, transitions=t)).max(axis=1)
    row = m_bar.T[[STATE * m_bar.n_actions + RIGHT]].toarray()[0]
    outcomes = np.union1d(np.flatnonzero(row), [V.argmax()])
    outcomes = outcomes[np.argsort(V[outcomes], kind="stable")]
    values, source = V[outcomes], row[outcomes]
    taken = np.minimum(source, np.maximum(0.0, t - (source.cumsum() - source)))
    taken[-1] = 0.0
    favourable = source - taken
    favourable[-1] += taken.sum()
    return MovedMass(
        [NAMES.get(s - STATE, "best state") for s in outcomes], *(values, source, favourable)
    )


def bounds_in_corridor(number: float) -> dict[str, float]:
    """Return bounds on the value of the start of a corridor, after a source that is fully known.

    The source has the smallest goal reward, and the new task has the largest.
    """
    source, task = Corridor().corners
    at_goal = source.R == source.R.max()
    bounds = {
        "LRMax, a number": hl.Lipschitz(d_max=number),
        "NearRMax, a number": hl.NearModels(hl.Nearness(rewards=number, transitions=0)),
        "NearRMax, arrays": hl.NearModels(hl.Nearness(rewards=number * at_goal, transitions=0)),
    }
    values = {name: _start_value(bound, source) for name, bound in bounds.items()}
    return {
        "RMax: v_max": task.v_max,
        "LRMax, a number": values["LRMax, a number"],
        "NearRMax, a number": values["NearRMax, a number"],
        "optimal value": float(hl.solve(task).V[START]),
        "NearRMax, arrays": values["NearRMax, arrays"],
    }


def bounds_with_slip(largest: float) -> dict[str, float]:
    """Return bounds on the value of the start in the main experiment, with slip in [0, largest].

    The source is the least favourable task of the family, and the new task the most favourable.
    """
    family = Tight(slips=(0.0, largest))
    task, source = tight((1.0, 1.0, 1.0), 0.0), tight((0.9, 0.9, 0.9), largest)
    near = family.nearness
    numbers = hl.Nearness(rewards=near.rewards.max(), transitions=near.transitions.max())
    centre = task.n_states // 2

    def at_start(bound: np.ndarray) -> float:
        return min(task.v_max, float(bound[centre].max()))

    return {
        "RMax: v_max": task.v_max,
        "LRMax, the exact distance": at_start(hl.lipschitz_bound(task, source)),
        "NearRMax, two numbers": at_start(hl.near_bound(task, source, numbers)),
        "optimal value": float(hl.solve(task).V[centre]),
        "NearRMax, arrays": at_start(hl.near_bound(task, source, near)),
    }


def _start_value(bound: hl.Bound, source: hl.TabularMDP) -> float:
    """Return the initial value of an agent with this bound, after it has learned the source."""
    agent = hl.OptimisticAgent(
        bounds=[bound],
        n_states=source.n_states,
        n_actions=source.n_actions,
        gamma=source.gamma,
        n_known=1,
        refresh=None,
        seed=0,
    )
    agent.begin_task()
    for k in range(source.R.size):
        s, a = divmod(k, source.n_actions)
        successor, ends = int(source.T[[k]].indices[0]), bool(source.ends[s, a])
        agent.observe(s, a, float(source.R[s, a]), successor, terminated=ends)
    agent.end_task()
    agent.begin_task()
    return float(agent.Q[START].max())


def curves(bounds: Callable[[float], dict[str, float]], x: np.ndarray) -> dict[str, np.ndarray]:
    """Return the bounds over x, by name."""
    rows = [bounds(float(at)) for at in x]
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def power(key: str) -> dict[str, dict[str, dict[int, Any]]]:
    """Return stored numbers on detected contradictions, by part, test and `n_known`."""
    found: dict[str, dict[str, dict[int, Any]]] = {}
    for row in results.load("checks")["power"]:
        found.setdefault(row["part"], {}).setdefault(row["test"], {})[row["n"]] = row[key]
    return found


def draw() -> dict[str, "Figure"]:
    """Draw all images, by name."""
    return {
        **ideas.draw(),
        "nearness-mass": draw_moved_mass(
            *moved_mass(), title="The action right in a cell of a grid, with transitions = 0.1"
        ),
        "nearness-slip": draw_claims(
            SLIPS,
            curves(bounds_with_slip, SLIPS),
            xlabel="largest slip of the family",
            title="Main experiment: bounds from one source, all claims true",
        ),
        "nearness-number": draw_claims(
            NUMBERS,
            curves(bounds_in_corridor, NUMBERS),
            truth=TRUTH,
            xlabel="claimed number: d_max of LRMax, rewards of NearRMax (transitions = 0)",
            title="Corridor: bounds from one source, over the number that is claimed",
        ),
        "algorithms": draw_algorithms(
            np.arange(1, algorithm_curves.EPISODES // algorithm_curves.BLOCK + 1)
            * algorithm_curves.BLOCK,
            algorithm_curves.curves(),
            baseline="RMax",
            title=f"A grid after {algorithm_curves.EARLIER} others (grey: RMax, dashed: optimum)",
        ),
        "knowledge-power": draw_power(
            checks.RATIOS,
            power("shares"),
            power("says"),
            title=f"{checks.POWER_TASKS} tasks of 4 pairs that all differ, claim {checks.CLAIM:g}",
        ),
        **rivals.figures(results.load("rivals")["summary"]["families"]),
    }


def write() -> list[Path]:
    """Write the images of the docs, and return their paths."""
    return [hl.plot.save_figure(figure, IMAGES / f"{name}.png") for name, figure in draw().items()]
