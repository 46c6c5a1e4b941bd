"""Negative transfer: values that must be unlearned, in T-shaped tasks of growing length."""

from typing import Any

import numpy as np

from heirloom.envs.families import t_shape_map
from heirloom.experiments import paper
from heirloom.experiments.claims import claims_of_negative_transfer, judged
from heirloom.figures.grids import draw_map
from heirloom.figures.lifelong import episodes_to_optimality
from heirloom.reproduce.report import Options, Report, or_none
from heirloom.stats import student_interval


def negative_transfer(options: Options) -> Report:
    """Episodes until the greedy policy is optimal for good, in the target task, as k grows."""
    after: dict[str, list[np.ndarray]] = {}
    never: dict[str, int] = {}
    for k in paper.K:
        spec = options.apply(paper.negative_transfer(k=k), {"episodes": 200})
        results = options.run(spec, f"run-k{k}")
        second = results.optimal_after.sel(task=2)
        for agent in spec.agents:
            numbers = second.sel(agent=agent.name).values
            # Whoever is not optimal in the end counts as all episodes, which is too few.
            never[agent.name] = never.get(agent.name, 0) + int(np.isnan(numbers).sum())
            after.setdefault(agent.name, []).append(
                np.where(np.isnan(numbers), spec.episodes, numbers)
            )
    intervals = {name: student_interval(np.array(numbers).T) for name, numbers in after.items()}
    summary: dict[str, Any] = {
        "repetitions": spec.repetitions,
        "k": list(paper.K),
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
        claims=judged(
            claims_of_negative_transfer(
                paper.K, {name: np.array(numbers).T for name, numbers in after.items()}
            ),
            spec.repetitions,
        ),
        figures={
            "environment": draw_map(t_shape_map(4, goal="up"), title="source, k = 4"),
            "environment-target": draw_map(t_shape_map(4, goal="down"), title="target, k = 4"),
            "negative-transfer": episodes_to_optimality(
                np.array(paper.K),
                intervals,
                title="Episodes until the policy is optimal for good"
                + (", quick" if options.quick else ""),
            ),
        },
    )
