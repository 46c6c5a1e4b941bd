"""The settings that the paper's experiments share, in both variants.

`text` is what the paper states; `released` is what the authors' public scripts set, where they
differ. Everything in which the variants differ stands here and in the families.

The paper solves values to a precision of 0.01. Heirloom solves them to its own default, which is
far smaller: otherwise results depend on where an iteration happens to stop.
"""

from typing import Any, NamedTuple

from heirloom.choices import Variant

SEED = 20210202  # of the conference
N_KNOWN, EPSILON = 10, 0.01


class Difference(NamedTuple):
    """In what, beside their families, the variants differ."""

    delta: float
    capacity: int | None


DIFFERENCES: dict[Variant, Difference] = {
    "text": Difference(delta=0.05, capacity=None),
    "released": Difference(delta=0.1, capacity=1),
}


def defaults(variant: Variant, *, all_sources: bool = False) -> dict[str, Any]:
    """The options of all agents of an experiment; with `all_sources`, no source is forgotten."""
    delta, capacity = DIFFERENCES[variant]
    common = {"n_known": N_KNOWN, "epsilon": EPSILON, "delta": delta}
    if capacity is None or all_sources:
        return common
    return {**common, "capacity": capacity, "keep": "first"}
