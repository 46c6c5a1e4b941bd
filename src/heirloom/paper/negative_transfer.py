"""Negative transfer: values that must be unlearned, in T-shaped tasks of growing length."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from heirloom.choices import Variant
from heirloom.envs.paper_tasks import t_shape_map
from heirloom.experiments.spec import ExperimentSpec
from heirloom.figures.curves import episodes_to_optimality
from heirloom.figures.maps import draw_map
from heirloom.paper.claims import Claim, judged
from heirloom.paper.experiment import Experiment, Options, Report, or_none
from heirloom.paper.settings import SEED
from heirloom.stats import FloatArray, student_interval

K = (1, 2, 4, 8, 16)
"""How many inner states the T-shaped tasks have."""


def settings(variant: Variant = "text", *, k: int = 4) -> ExperimentSpec:
    """The T-shaped pair with k inner states: values that must be unlearned."""
    return ExperimentSpec.read(
        {
            "name": f"negative-transfer (k = {k})",
            "family": {"name": "t-shape", "k": k},
            "in_order": True,
            "defaults": {"n_known": 1},
            "agents": [
                {"algorithm": "QLearning"},
                {"algorithm": "BisimulationTransfer"},
                {
                    "algorithm": "BisimulationTransfer",
                    "name": "BisimulationTransfer, recursive",
                    "ground": "recursive",
                },
                {"algorithm": "LRMax", "name": "LRMax", "d_max": "family"},
                {"algorithm": "RMax"},
            ],
            "tasks": 2,
            "episodes": 1000,
            "steps": 200,
            "repetitions": 10,
            "seed": SEED,
            "measure": "optimal_after",
        }
    )


def reproduce(options: Options) -> Report:
    """Episodes until the greedy policy is optimal for good, in the target task, as k grows."""
    after: dict[str, list[np.ndarray]] = {}
    never: dict[str, int] = {}
    for k in K:
        shown = options.apply(settings(k=k), {"episodes": 200})
        results = options.run(shown, f"run-k{k}")
        second = results.optimal_after.sel(task=2)
        for agent in shown.agents:
            numbers = second.sel(agent=agent.name).values
            # Whoever is not optimal in the end counts as all episodes, which is too few.
            never[agent.name] = never.get(agent.name, 0) + int(np.isnan(numbers).sum())
            after.setdefault(agent.name, []).append(
                np.where(np.isnan(numbers), shown.episodes, numbers)
            )
    episodes = {name: np.array(numbers).T for name, numbers in after.items()}
    return report(shown, episodes, never, options.mark)


def report(
    spec: ExperimentSpec, episodes: Mapping[str, FloatArray], never: Mapping[str, int], mark: str
) -> Report:
    """Claims, figures and numbers, from episodes [repetition, k] by agent."""
    intervals = {name: student_interval(numbers) for name, numbers in episodes.items()}
    title = "Episodes until the policy is optimal for good" + mark
    summary: dict[str, Any] = {
        "repetitions": spec.repetitions,
        "k": list(K),
        "agents": {
            name: {
                "episodes_to_optimality": or_none(mean),
                "ci95": or_none(half),
                "never_optimal": never[name],
            }
            for name, (mean, half) in intervals.items()
        },
    }
    return Report(
        spec=spec,
        summary=summary,
        claims=judged(claims(K, episodes), spec.repetitions),
        figures={
            "environment": draw_map(t_shape_map(4, goal="up"), title="source, k = 4"),
            "environment-target": draw_map(t_shape_map(4, goal="down"), title="target, k = 4"),
            "negative-transfer": episodes_to_optimality(np.array(K), intervals, title=title),
        },
    )


def claims(k: Sequence[int], episodes: Mapping[str, FloatArray]) -> list[Claim]:
    """Episodes until the policy is optimal for good, [repetition, k], by agent."""
    made = []
    for name in ("BisimulationTransfer", "BisimulationTransfer, recursive"):
        grown = student_interval(episodes[name][:, -1] - episodes[name][:, 0])
        made.append(
            Claim(
                f"{name} gets worse with k",
                f"{_means(episodes[name])} episodes for k = {', '.join(map(str, k))}",
                bool(grown.mean - grown.half_width > 0),
            )
        )
    grown = student_interval(episodes["LRMax"][:, -1] - episodes["LRMax"][:, 0])
    made.append(
        Claim(
            "LRMax does not",
            f"{_means(episodes['LRMax'])} episodes",
            bool(grown.mean - grown.half_width <= 0),
        )
    )
    for name in ("BisimulationTransfer", "BisimulationTransfer, recursive"):
        later = student_interval(episodes[name] - episodes["QLearning"])
        worse = np.flatnonzero(later.mean - later.half_width > 0).tolist()
        where = ", ".join(str(k[i]) for i in worse) or "none"
        made.append(
            Claim(
                f"{name} is negative transfer: worse than Q-learning from nothing",
                f"Q-learning takes {_means(episodes['QLearning'])}; worse than it for k = {where}",
                len(worse) == len(k),
            )
        )
    return made


def _means(numbers: FloatArray) -> str:
    return ", ".join(f"{mean:.1f}" for mean in numbers.mean(axis=0))


EXPERIMENT = Experiment(reproduce, settings, has_variants=False, n_runs=len(K))
