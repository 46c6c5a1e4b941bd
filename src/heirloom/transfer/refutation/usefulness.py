"""Which values of `d_max` can lower a bound below `v_max`: the mathematics of `screening`.

At a pair that is unknown in a new task, the bound of a source is at least Q̄ + d_max / (1 - γq),
where q = T̄(s, a, s) if the source knows the pair, and q = 1 otherwise (`screening.py`). So
it can be below v_max only if d_max < (v_max - Q̄) (1 - γq). A distance that follows from the models
alone cannot lower the bound, if the values of the source meet the conditions given there.
"""

import numpy as np

from heirloom.arrays import FloatArray
from heirloom.transfer.lipschitz.screening import (
    measured_distances_cannot,
    probability_of_staying,
)
from heirloom.transfer.setting import Setting
from heirloom.transfer.source import Source


def useful_below(sources: list[Source], setting: Setting) -> FloatArray:
    """Return the number below which a `d_max` can lower the bound, over pairs; 0 if none can.

    It is infinite if a source does not meet the conditions, so that no number is certain.
    """
    limit = np.zeros(setting.n_pairs)
    for source in sources:
        if not measured_distances_cannot(source, setting):
            return np.full(setting.n_pairs, np.inf)
        stays = probability_of_staying(source, setting)
        np.maximum(
            limit, (setting.v_max - source.completed_Q) * (1 - setting.gamma * stays), out=limit
        )
    return limit
