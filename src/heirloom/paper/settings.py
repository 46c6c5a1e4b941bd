"""Settings that the paper's experiments share, in both variants.

`text` has the settings that the paper states; `released` has those of the authors' public scripts
where they differ. The two variants differ only in the settings below and in the task families.

The paper solves values to a precision of 0.01. Heirloom uses the much smaller default of `solve`,
so that results do not depend on the iteration at which a solver stops.
"""

from typing import Any, NamedTuple

from heirloom.choices import Variant

SEED = 20210202  # the date of the conference
N_KNOWN, EPSILON = 10, 0.01
FROZEN = {"refresh": "none"}
"""Known pairs are estimated once."""


class VariantOptions(NamedTuple):
    """Options of agents in which the variants differ."""

    delta: float
    capacity: int | None


VARIANT_OPTIONS: dict[Variant, VariantOptions] = {
    "text": VariantOptions(delta=0.05, capacity=None),
    "released": VariantOptions(delta=0.1, capacity=1),
}


def defaults(variant: Variant, *, all_sources: bool = False) -> dict[str, Any]:
    """Return the options of all agents; with `all_sources`, the memory has no capacity limit."""
    delta, capacity = VARIANT_OPTIONS[variant]
    common = {"n_known": N_KNOWN, **FROZEN, "epsilon": EPSILON, "delta": delta}
    if capacity is None or all_sources:
        return common
    return {**common, "capacity": capacity, "keep": "first"}
