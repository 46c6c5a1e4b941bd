"""Refutation of `p_min`, the smallest probability of a task, by tasks that differ.

At most 1 / p_min tasks can have a probability of p_min or more each. A memory that holds more tasks
than that, each different from all others, refutes `p_min`; bounds that rest on it would be invalid.

Two tasks differ if their true models differ at a pair that is known in both. The learned models
prove this in one of two cases:

- They are exact, and differ. Models count as exact only if they were declared so, with
  `exact=True` and `epsilon=0`.
- They differ by more than sampling explains. All mean rewards and distributions of a task are
  within the radii η and τ (`radii.py`) of the true ones. Tasks i and j differ if
  |R̂_i - R̂_j| > η_i + η_j or TV(T̂_i, T̂_j) > τ_i + τ_j at a pair. With δ = 1e-6, a valid `p_min` is
  practically never refuted. At small `n_known` the radii are so large that no difference is proved.
"""

import math

import numpy as np

from heirloom.arrays import FloatArray, frozen
from heirloom.errors import InvalidArgument
from heirloom.kernels import audit as kernels
from heirloom.kernels import distances
from heirloom.mdp.rows import Rows
from heirloom.transfer.memory import TaskMemory
from heirloom.transfer.radii import Accuracy, all_outcomes
from heirloom.transfer.setting import Setting
from heirloom.transfer.source import Source
from heirloom.wording import are, counted

DELTA = 1e-6  # probability that a valid p_min is ever refuted


def check_p_min(p_min: float, memory: TaskMemory, setting: Setting) -> None:
    """Raise `InvalidArgument` if the tasks in the memory refute `p_min`."""
    limit = math.floor((1 + 1e-9) / p_min)
    different = memory._different
    if len(memory._sources) <= limit and len(different) <= limit:
        return
    stored = memory.stored
    tasks = {source.task for source in stored}
    different[:] = [source for source in different if source.task in tasks]
    accuracy = Accuracy(setting.exact and setting.epsilon == 0, DELTA)
    for source in stored:
        if len(different) > limit:
            break
        if source.task > memory._n_examined:
            memory._n_examined = source.task
            candidates = [*different, source]
            if len(different_tasks(candidates, setting, accuracy)) == len(candidates):
                different.append(source)
    if len(different) > limit:
        numbers = ", ".join(str(source.task) for source in different[: limit + 1])
        raise InvalidArgument(
            f"p_min is {p_min:g}, so that there {are(limit)} at most {counted(limit, 'task')}, but "
            f"the memory holds {len(different)} different tasks (numbers {numbers}): give "
            f"p_min={1 / len(different):.3g} or less, and a new memory, because Q of these tasks "
            "may not be an upper bound; if tasks are stochastic, do not use exact=True"
        )


def different_tasks(sources: list[Source], setting: Setting, accuracy: Accuracy) -> tuple[int, ...]:
    """Return the numbers of tasks that are proved to be all different from each other."""
    if not sources:
        return ()
    outcomes = all_outcomes(setting)
    radii = [accuracy.radii(source, setting, outcomes) for source in sources]
    sizes = np.array([source.rows.p.size for source in sources])
    chosen = np.zeros(len(sources), dtype=bool)
    rows = [source.rows for source in sources]
    kernels.choose_different(
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
        np.ones(setting.n_states),
        chosen,
    )
    return tuple(
        source.task for source, is_chosen in zip(sources, chosen, strict=True) if is_chosen
    )


def total_variation(rows: Rows, other: Rows, n_states: int) -> FloatArray:
    """Return ½ Σ |T - T̄| over the states and ⊥ at each pair; meaningless at unknown pairs.

    Rows follow each other in the order of pairs.
    """
    L1 = np.empty(rows.R.size)
    matrices = [(frozen(np.append(0, x.last)), x.successors, x.p) for x in (rows, other)]
    distances.weigh_differences(*matrices[0], *matrices[1], frozen(np.ones(n_states)), L1)
    return (L1 + np.abs(rows.ends - other.ends)) / 2
