"""The paper's experiments, in both variants, as data.

`text` is what the paper states; `released` is what the authors' public scripts set, where they
differ. Everything in which the variants differ stands in `DIFFERENCES` and in the families.
"""

from typing import Any, NamedTuple

from heirloom.envs.families import Variant
from heirloom.experiments.spec import ExperimentSpec

SEED = 20210202  # of the conference
PRECISION = 0.01  # of values
N_KNOWN, EPSILON = 10, 0.01
D_MAX = (0.0, 0.2, 0.5, 0.8, 1.0)  # of the experiment `bounds`


class Difference(NamedTuple):
    """In what, beside their families, the variants differ."""

    delta: float
    capacity: int | None


DIFFERENCES: dict[Variant, Difference] = {
    "text": Difference(delta=0.05, capacity=None),
    "released": Difference(delta=0.1, capacity=1),
}


def tight(variant: Variant = "released", *, all_sources: bool = False) -> ExperimentSpec:
    """The main experiment, figures 3a to 3c; with every source kept, whatever the variant, if so.

    With every source kept only the agents are run for which that makes a difference.
    """
    agents: list[dict[str, Any]] = [
        {"algorithm": "RMax"},
        {"algorithm": "LRMax"},
        {"algorithm": "LRMax", "d_max": 0.2},
        {"algorithm": "LRMax", "d_max": 0.1},
        {"algorithm": "MaxQInit"},
        {"algorithm": "LRMaxQInit"},
        {"algorithm": "LRMaxQInit", "d_max": 0.1},
    ]
    if all_sources:
        agents = [agent for agent in agents if "d_max" in agent]
    return ExperimentSpec.read(
        {
            "name": f"tight ({variant}{', every source kept' if all_sources else ''})",
            "family": {"name": "tight", "variant": variant},
            "defaults": _defaults(variant, all_sources=all_sources),
            "agents": agents,
            "tasks": 15,
            "distinct_tasks": 5,
            "episodes": 2000,
            "steps": 10,
            "repetitions": 10,
            "seed": SEED,
        }
    )


def bounds(variant: Variant = "released") -> ExperimentSpec:
    """What a prior is worth, figure 3d: two fresh tasks a repetition."""
    return ExperimentSpec.read(
        {
            "name": f"bounds ({variant})",
            "family": {"name": "tight", "variant": variant},
            "defaults": _defaults(variant),
            "agents": [{"algorithm": "RMax"}, {"algorithm": "LRMax", "d_max": list(D_MAX)}],
            "tasks": 2,
            "episodes": 2000,
            "steps": 10,
            "repetitions": 100,
            "seed": SEED,
            "measure": "lipschitz_use",
        }
    )


EXPERIMENTS = {"tight": tight, "bounds": bounds}
"""The experiments that can be run by name."""


def _defaults(variant: Variant, *, all_sources: bool = False) -> dict[str, Any]:
    delta, capacity = DIFFERENCES[variant]
    common = {"n_known": N_KNOWN, "epsilon": EPSILON, "tol": PRECISION, "delta": delta}
    if capacity is None or all_sources:
        return common
    return {**common, "capacity": capacity, "keep": "first"}
