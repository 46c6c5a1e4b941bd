"""The number of tasks in a memory that are all different from each other."""

import numpy as np

from heirloom.kernels import audit as kernels
from heirloom.transfer.radii import Accuracy, all_outcomes
from heirloom.transfer.setting import Setting
from heirloom.transfer.source import Source


def count_different_tasks(
    sources: list[Source], setting: Setting, accuracy: Accuracy
) -> tuple[int, ...]:
    """Return the numbers of tasks that are proved to be all different from each other.

    Two tasks differ if their true models do, at a pair that is known in both.
    """
    if not sources:
        return ()
    outcomes = all_outcomes(setting)
    radii = [accuracy.radii(source, setting, outcomes) for source in sources]
    sizes = np.array([source.rows.p.size for source in sources])
    chosen = np.zeros(len(sources), dtype=bool)
    rows = [source.rows for source in sources]
    kernels.count_different(
        np.cumsum(sizes) - sizes,
        np.array([one.R for one in rows]),
        np.array([one.known for one in rows]),
        np.array([one.ends for one in rows]),
        np.array([one.first for one in rows]),
        np.array([one.last for one in rows]),
        np.concatenate([one.successors for one in rows]),
        np.concatenate([one.p for one in rows]),
        np.array([radius.rewards for radius in radii]),
        np.array([radius.transitions for radius in radii]),
        chosen,
    )
    return tuple(
        source.task for source, is_chosen in zip(sources, chosen, strict=True) if is_chosen
    )
