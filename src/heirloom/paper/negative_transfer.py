"""Negative transfer: values that an agent must unlearn, in T-shaped tasks of growing length."""

from collections.abc import Mapping, Sequence

import numpy as np

from heirloom.choices import Variant
from heirloom.envs.paper_tasks import t_shape_map
from heirloom.experiments.spec import ExperimentSpec
from heirloom.paper.catalogue import SEED
from heirloom.paper.claims import OURS, Claim, all_above
from heirloom.paper.experiment import FROZEN, Experiment, Options, Report, nan_to_none
from heirloom.paper.returns import FAMILY, near_names, with_near
from heirloom.plot.curves import draw_episodes_to_optimality
from heirloom.plot.maps import draw_map
from heirloom.stats import FloatArray, student_interval

K = (1, 2, 4, 8, 16)
"""Numbers of inner states of the T-shaped tasks."""


def settings(variant: Variant = "text", *, k: int = 4) -> ExperimentSpec:
    """Return the spec of the T-shaped source and target task with k inner states."""
    return ExperimentSpec.read(
        {
            "name": f"negative-transfer (k = {k})",
            "family": {"name": "t-shape", "k": k},
            "in_order": True,
            "defaults": {"n_known": 1, **FROZEN},
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
                FAMILY,
            ],
            "tasks": 2,
            "episodes": 1000,
            "steps": 200,
            "repetitions": 10,
            "seed": SEED,
            "measure": "optimal_after",
        }
    )


def runs(options: Options) -> dict[str, ExperimentSpec]:
    """Return the spec of the run of each number of inner states."""
    return {f"run-k{k}": options.apply(settings(k=k), {"episodes": 200}) for k in K}


def reproduce(options: Options) -> Report:
    """Measure the episodes until the policy stays optimal, for each number of inner states.

    A policy that is not optimal in the end counts as the number of all episodes, a lower bound on
    the episodes that it needs.
    """
    specs = runs(options)
    targets = [options.run(specs[name], name).optimal_after.sel(task=2) for name in specs]
    spec = specs[f"run-k{K[-1]}"]
    episodes, never_optimal = {}, {}
    for name in (agent.name for agent in spec.agents):
        numbers = np.column_stack([target.sel(agent=name).values for target in targets])
        never_optimal[name] = int(np.isnan(numbers).sum())
        episodes[name] = np.where(np.isnan(numbers), spec.episodes, numbers)
    intervals = {name: student_interval(numbers) for name, numbers in episodes.items()}
    title = "Episodes until the greedy policy stays optimal" + options.title_suffix
    return Report(
        specs=tuple(specs.values()),
        summary={
            "repetitions": spec.repetitions,
            "k": list(K),
            "agents": {
                name: {
                    "episodes_to_optimality": nan_to_none(mean),
                    "ci95": nan_to_none(half),
                    "never_optimal": never_optimal[name],
                }
                for name, (mean, half) in intervals.items()
            },
        },
        claims=[*claims(K, episodes), *near_claims(episodes)],
        figures={
            "environment": draw_map(t_shape_map(4, goal="up"), title="source task, k = 4"),
            "environment-target": draw_map(t_shape_map(4, goal="down"), title="target task, k = 4"),
            **with_near(
                "negative-transfer",
                intervals,
                lambda shown: draw_episodes_to_optimality(np.array(K), shown, title=title),
            ),
        },
    )


def claims(k: Sequence[int], episodes: Mapping[str, FloatArray]) -> list[Claim]:
    """Decide the claims of the paper, from episodes until policies stay optimal [repetition, k]."""
    transfers = ("BisimulationTransfer", "BisimulationTransfer, recursive")
    decided = [
        Claim(
            f"{name} needs more episodes as k grows",
            f"{_means(episodes[name])} episodes for k = {', '.join(map(str, k))}",
            all_above(np.diff(episodes[name], axis=1)),
        )
        for name in transfers
    ]
    decided.append(_does_not_grow("LRMax", episodes["LRMax"]))
    for name in transfers:
        delays = episodes[name] - episodes["QLearning"]
        delay = student_interval(delays)
        slower = np.flatnonzero(delay.mean - delay.half_width > 0).tolist()
        decided.append(
            Claim(
                f"{name} causes negative transfer: it is slower than Q-learning without transfer",
                f"Q-learning needs {_means(episodes['QLearning'])} episodes; "
                f"{name} is slower for k = {', '.join(str(k[i]) for i in slower) or 'none'}",
                all_above(delays),
            )
        )
    return decided


def near_claims(episodes: Mapping[str, FloatArray]) -> list[Claim]:
    """Decide our claims about NearRMax from the same numbers."""
    names = near_names(episodes)
    return [_does_not_grow(name, episodes[name], OURS) for name in names]


def _does_not_grow(name: str, episodes: FloatArray, whose: str = "paper") -> Claim:
    """Claim that no k needs more episodes than the smallest one, with a margin of one episode."""
    return Claim(
        f"{name} does not need more episodes as k grows (margin 1 episode)",
        f"{_means(episodes)} episodes",
        all_above(episodes[:, :1] - episodes[:, 1:], -1.0),
        whose,
    )


def _means(numbers: FloatArray) -> str:
    return ", ".join(f"{mean:.1f}" for mean in numbers.mean(axis=0))


EXPERIMENT = Experiment(
    "Negative transfer: episodes until the policy stays optimal, in T-shaped tasks.",
    reproduce,
    settings,
    runs,
    has_variants=False,
)
