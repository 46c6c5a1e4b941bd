"""The arrays of the dynamic program for `Q`, which `kernels.learning.update_values` solves."""

import numpy as np

from heirloom.arrays import FloatArray
from heirloom.kernels.learning import Values
from heirloom.transfer.setting import Setting


def initial_values(setting: Setting, U: FloatArray) -> Values:
    """Return `Q` = `U` and its `V`, with the work space of the solver; nothing is known yet."""
    n_states, n_pairs = setting.n_states, setting.n_pairs
    return Values(
        gamma=setting.gamma,
        tie=setting.tie,
        slack=setting.slack,
        U=U,
        Q=U.copy(),
        V=U.reshape(n_states, -1).max(axis=1),
        pending=np.zeros(n_pairs),
        queue=np.empty(n_pairs, dtype=np.int64),
        queued=np.zeros(n_pairs, dtype=bool),
        decreased=np.empty(n_states, dtype=np.int64),
        n_decreased=np.zeros(1, dtype=np.int64),
        is_decreased=np.zeros(n_states, dtype=bool),
    )
