"""The dynamic program for `Q`: its arrays, and its solution in calls of limited length.

`kernels.learning.update_values` lowers `Q` along a worklist. Each call does a limited amount of
work, so that Ctrl-C is handled between calls. If γ is close to 1, a worklist needs about 1 / (1-γ)
backups per pair. Updates are then lazy: only greedy pairs are backed up, and `refresh` backs up all
others. `Q` is also lowered to upper bounds on its fixed point (`acceleration.caps`).
"""

from typing import Literal

import numpy as np

from heirloom.arrays import FloatArray, IntArray
from heirloom.errors import NotConverged
from heirloom.kernels import learning
from heirloom.kernels.learning import Model, Near, Values
from heirloom.transfer import acceleration
from heirloom.transfer.setting import Setting

# Up to this discount factor the worklist alone is quick enough: 3500 backups per pair suffice.
MAX_PLAIN_GAMMA = 0.99
# Units of work, as `update_values` counts it, before the first acceleration of an update.
PATIENCE, PATIENCE_PER_PAIR = 10_000, 200
MIN_ACCELERATIONS = 20
MAX_SWEEPS = 50_000  # work per update, relative to the size of the program; enough for γ = 0.999
NO_PAIRS, NO_CAPS = np.empty(0, dtype=np.int64), np.empty(0)


def initial_values(setting: Setting, U: FloatArray) -> Values:
    """Return `Q` = `U` and its `V`, with the work space of the solver; nothing is known yet."""
    n_states, n_pairs = setting.n_states, setting.n_pairs
    budget = learning.MAX_WORK
    if setting.gamma > MAX_PLAIN_GAMMA:
        budget = min(budget, PATIENCE + PATIENCE_PER_PAIR * n_pairs)
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
        queue_state=np.zeros(2, dtype=np.int64),
        budget=budget,
        decreased=np.empty(n_states, dtype=np.int64),
        n_decreased=np.zeros(1, dtype=np.int64),
        is_decreased=np.zeros(n_states, dtype=bool),
    )


def update(model: Model, values: Values, near: Near | None, pairs: IntArray) -> None:
    """Lower `Q` to its fixed point, starting at `pairs`, whose bound or model changed.

    Raises `NotConverged` as `finish` does.
    """
    arrays = _plain(model, values, near)
    learning.update_values(*arrays, pairs, NO_CAPS, values.budget, is_lazy(values))
    if values.queue_state[learning.LENGTH]:
        finish(model, values, near)


def is_lazy(values: Values) -> Literal[True] | None:
    """Return True if only greedy pairs are backed up, otherwise None (see `kernels.learning`)."""
    return True if values.gamma > MAX_PLAIN_GAMMA else None


def refresh(model: Model, values: Values, near: Near | None) -> None:
    """Lower `Q` at all pairs to its fixed point, after lazy updates; `V` is already there.

    Raises `NotConverged` as `finish` does.
    """
    if is_lazy(values):
        # With this tie, every pair is greedy.
        update(model, values._replace(tie=np.inf), near, np.arange(values.Q.size))


def finish(model: Model, values: Values, near: Near | None) -> None:
    """Continue an update that used up its budget, until it is done.

    Raises `NotConverged` if this takes too long. `Q` is then still an upper bound, and the next
    update continues with it.
    """
    work, accelerations, budget = 0, 0, learning.MAX_WORK
    size = values.Q.size + int(model.sizes[learning.N_TRANSITIONS])
    if near is not None:
        size += near.p.size + near.into_pair.size
    while values.queue_state[learning.LENGTH]:
        if values.gamma > MAX_PLAIN_GAMMA:
            if accelerations >= MIN_ACCELERATIONS and work > MAX_SWEEPS * size:
                raise _not_converged(model, values, near)
            pairs, caps = acceleration.caps(model, values, near)
            arrays, budget = _plain(model, values, near), values.budget + 8 * size
            work += learning.update_values(*arrays, pairs, caps, budget, is_lazy(values))
            accelerations += 1
            budget = min(values.budget * 2**accelerations, learning.MAX_WORK)
        arrays = _plain(model, values, near)
        work += learning.update_values(*arrays, NO_PAIRS, NO_CAPS, budget, is_lazy(values))


def _plain(model: Model, values: Values, near: Near | None) -> tuple[object, object, object]:
    return tuple(model), tuple(values), None if near is None else tuple(near)


def _not_converged(model: Model, values: Values, near: Near | None) -> NotConverged:
    """Describe how far `Q` may still be above its fixed point."""
    decrease = acceleration.largest_decrease(model, values, near)
    error = decrease / (1 - values.gamma)
    return NotConverged(
        f"Q is above its fixed point by up to {error:.2g} after {MAX_SWEEPS} sweeps with "
        f"gamma={values.gamma}, and expected within tol={values.slack / (1 - values.gamma):.2g}: "
        f"it is still an upper bound; create the agent with tol={2 * error:.1g} or more, or with a "
        "smaller gamma"
    )
