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
from heirloom.kernels import distances
from heirloom.mdp.rows import Rows
from heirloom.mdp.tabular import reward_scale
from heirloom.transfer.memory import TaskMemory
from heirloom.transfer.radii import Accuracy, Radii, all_outcomes
from heirloom.transfer.setting import Setting
from heirloom.transfer.source import Source
from heirloom.wording import are, counted

DELTA = 1e-6  # probability that a valid p_min is ever refuted
ROUNDING = 1e-8  # largest difference of exact models that is due to rounding, relative to the range


def check_p_min(p_min: float, memory: TaskMemory, setting: Setting) -> None:
    """Raise `InvalidArgument` if the tasks in the memory refute `p_min`."""
    limit = math.floor((1 + 1e-9) / p_min)
    different = memory._different
    if len(memory._sources) <= limit and len(different) <= limit:
        return
    stored = {source.task: source for source in (*memory._sources, *memory._first)}
    different[:] = [source for source in different if source.task in stored]
    for task in sorted(stored):
        if len(different) > limit:
            break
        if task > memory._n_examined:
            memory._n_examined = task
            source = stored[task]
            if all(_differ(source, other, setting) for other in different):
                different.append(source)
    if len(different) > limit:
        tasks = ", ".join(str(source.task) for source in different[: limit + 1])
        raise InvalidArgument(
            f"p_min is {p_min:g}, so that there {are(limit)} at most {counted(limit, 'task')}, but "
            f"the memory holds {len(different)} different tasks (numbers {tasks}): give "
            f"p_min={1 / len(different):.3g} or less, and a new memory, because Q of these tasks "
            "may not be an upper bound; if tasks are stochastic, do not use exact=True"
        )


def _differ(source: Source, other: Source, setting: Setting) -> bool:
    """Return whether the learned models prove that two tasks have different true models."""
    radii, both = _sum_of_radii(source, other, setting), source.known & other.known
    if (np.abs(source.rows.R - other.rows.R) > radii.rewards)[both].any():
        return True
    variation = total_variation(source.rows, other.rows, source.V.size)
    return bool((variation > radii.transitions)[both].any())


def total_variation(rows: Rows, other: Rows, n_states: int) -> FloatArray:
    """Return ½ Σ |T - T̄| over the states and ⊥ at each pair; meaningless at unknown pairs.

    Rows follow each other in the order of pairs.
    """
    L1 = np.empty(rows.R.size)
    matrices = [(frozen(np.append(0, x.last)), x.successors, x.p) for x in (rows, other)]
    distances.weigh_differences(*matrices[0], *matrices[1], frozen(np.ones(n_states)), L1)
    return (L1 + np.abs(rows.ends - other.ends)) / 2


def _sum_of_radii(source: Source, other: Source, setting: Setting) -> Radii:
    """Return how far the learned models of two tasks may be apart if the tasks are equal."""
    if setting.exact and setting.epsilon == 0:
        rounding = np.full(setting.n_pairs, ROUNDING)
        return Radii(rounding * reward_scale(setting.reward_range), rounding / 2)
    own, others = (radii(one, setting) for one in (source, other))
    return Radii(own.rewards + others.rewards, own.transitions + others.transitions)


def radii(source: Source, setting: Setting) -> Radii:
    """Return η and τ of a task, infinite if its number of visits is not recorded."""
    return Accuracy(exact=False, delta=DELTA).radii(source, setting, all_outcomes(setting))
