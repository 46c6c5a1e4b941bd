"""The paper's experiments, in both variants, as data.

`text` is what the paper states; `released` is what the authors' public scripts set, where they
differ. Everything in which the variants differ stands in `DIFFERENCES` and in the families.

The paper solves values to a precision of 0.01. Heirloom solves them to its own default, which is
far smaller: otherwise results depend on where an iteration happens to stop.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from heirloom.envs.families import Variant
from heirloom.experiments.spec import ExperimentSpec

SEED = 20210202  # of the conference
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
    """The main experiment, figures 3a to 3c.

    With `all_sources` every source is kept, whatever the variant, and only those agents are run for
    which that makes a difference.
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


def corridor(variant: Variant = "released") -> ExperimentSpec:
    """The corridor of the appendix: what is gained by not exploring its left half."""
    return ExperimentSpec.read(
        {
            "name": f"corridor ({variant})",
            "family": {"name": "corridor", "variant": variant},
            "defaults": {**_defaults(variant), "n_known": 1},
            "agents": [
                {"algorithm": "RMax"},
                {"algorithm": "LRMax"},
                {"algorithm": "LRMax", "d_max": 0.2},
                {"algorithm": "MaxQInit"},
                {"algorithm": "LRMaxQInit"},
                {"algorithm": "LRMaxQInit", "d_max": 0.2},
            ],
            "tasks": 20,
            "distinct_tasks": 5,
            "episodes": 20,
            "steps": 11,
            "repetitions": 30,  # the paper's table has 1, and its figure an interval
            "seed": SEED,
        }
    )


def maze(variant: Variant = "released") -> ExperimentSpec:
    """The maze of the appendix, in two layouts: priors of several sizes, and a learned one."""
    defaults = {**_defaults(variant), "n_known": 1}
    if variant == "released":
        defaults["capacity"] = 10
    return ExperimentSpec.read(
        {
            "name": f"maze ({variant})",
            "family": {"name": "maze", "variant": variant},
            "defaults": defaults,
            "agents": [
                {"algorithm": "RMax"},
                {"algorithm": "LRMax", "d_max": [2.0, 1.0, 0.5]},
                {"algorithm": "LRMax"},
                {"algorithm": "MaxQInit"},
            ],
            "tasks": 30,
            "episodes": 100,
            "steps": 15,
            "repetitions": 5,  # the paper's table has 1
            "seed": SEED,
        }
    )


def prior_use(variant: Variant = "text") -> ExperimentSpec:
    """How much a prior is used as a task is learned: the two heat maps. Both variants are alike."""
    return ExperimentSpec.read(
        {
            "name": "prior-use",
            "family": {"name": "heat-map"},
            "in_order": True,
            "defaults": {"n_known": N_KNOWN, "epsilon": EPSILON},
            "agents": [{"algorithm": "LRMax", "d_max": [19.0, 17.0, 15.0, 10.0, 0.0]}],
            "tasks": 2,
            "episodes": 100,
            "steps": 30,
            "repetitions": 100,
            "seed": SEED,
            "measure": "prior_use",
        }
    )


K = (1, 2, 4, 8, 16)
"""How many inner states the T-shaped tasks have."""


def negative_transfer(variant: Variant = "text", *, k: int = 4) -> ExperimentSpec:
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


EXPERIMENTS: dict[str, Callable[..., ExperimentSpec]] = {
    "tight": tight,
    "bounds": bounds,
    "corridor": corridor,
    "maze": maze,
    "prior-use": prior_use,
    "negative-transfer": negative_transfer,
}
"""The experiments that can be run by name; each takes a variant."""


def _defaults(variant: Variant, *, all_sources: bool = False) -> dict[str, Any]:
    delta, capacity = DIFFERENCES[variant]
    common = {"n_known": N_KNOWN, "epsilon": EPSILON, "delta": delta}
    if capacity is None or all_sources:
        return common
    return {**common, "capacity": capacity, "keep": "first"}
