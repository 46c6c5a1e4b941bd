"""One unit of work, as a worker is asked for it."""

from collections.abc import Callable, Generator
from typing import Any

import numpy as np

from heirloom.errors import InvalidArgument
from heirloom.experiments.spec import ExperimentSpec
from heirloom.experiments.units import Unit, run_unit
from heirloom.experiments.versions import differences, versions

Computed = tuple[Unit, dict[str, np.ndarray]]
Compute = Callable[[ExperimentSpec, list[Unit]], Generator[Computed]]
"""Computes units of an experiment, and yields them as they are done, in any order.

Workers begin at once. Closing the generator ends the work on units that are left.
"""


def compute_unit(spec: dict[str, Any], unit: Unit) -> Computed:
    """A unit, from the spec in plain types."""
    return unit, run_unit(ExperimentSpec.read(spec), *unit)


def compute_elsewhere(spec: dict[str, Any], unit: Unit, theirs: dict[str, str]) -> Computed:
    """A unit on another machine, if it has the versions of the one that asks."""
    differ = differences(versions(), theirs)
    if differ:
        from socket import gethostname

        raise InvalidArgument(
            f"a worker on {gethostname()} would not give the same bits ({differ[0]}): install the "
            "same versions on all machines"
        )
    return compute_unit(spec, unit)
