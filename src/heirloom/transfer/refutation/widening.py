"""Widen knowledge that was refuted, so that it agrees with what was observed.

A part of the claim that is contradicted at a pair becomes the observed difference plus the radii of
both models; a claim that is one number for all pairs becomes the larger number everywhere.
"""

from typing import Any

import numpy as np
from scipy import sparse

from heirloom.arrays import BoolArray, FloatArray, frozen
from heirloom.transfer import program
from heirloom.transfer.memory import TaskMemory
from heirloom.transfer.nearness.knowledge import Nearness
from heirloom.transfer.nearness.learned import REWARDS, TRANSITIONS
from heirloom.transfer.nearness.successors import Successors
from heirloom.transfer.refutation.observed import Difference, Observed, outside
from heirloom.transfer.refutation.pooled import Pooled
from heirloom.transfer.refutation.watch import TaskWatch
from heirloom.transfer.setting import Setting
from heirloom.transfer.source import Source

NEEDS_NO_VALUES = (REWARDS, TRANSITIONS)
ROUNDING = 1e-12  # relative, of differences that compiled code computed in another order


def widened_nearness(
    nearness: Nearness, seen: Observed, found: list[Difference], watch: TaskWatch
) -> Nearness:
    """Return a nearness that agrees with the model of a pair and those of all sources."""
    (lo, hi), n_pairs = watch.setting.reward_range, watch.setting.n_pairs
    k = seen.pair
    r, t = (float(nearness._per_pair(name, n_pairs)[k]) for name in ("rewards", "transitions"))
    least = r - ROUNDING * max(abs(lo), abs(hi))
    new_r = max((d.reward + d.eta for d in found if d.reward - d.eta > least), default=r)
    new_t = max((d.tv + d.tau for d in found if d.tv - d.tau > t - ROUNDING), default=t)
    options: dict[str, Any] = {
        "rewards": _raised(nearness.rewards, k, min(new_r, hi - lo)),
        "transitions": _raised(nearness.transitions, k, min(new_t, 1.0)),
    }
    states, ends = outside(nearness, seen)
    if nearness.successors is not None and states.size:
        options["successors"] = _with_states(nearness.successors, k, states, watch.setting)
    if nearness.terminates is not None and ends:
        terminates = nearness.terminates.copy()
        terminates[...] |= True if terminates.ndim == 0 else _at(terminates, k)
        options["terminates"] = terminates
    highest = nearness.highest_rewards
    if highest is not None:
        eta = watch.own.of_pair(k, seen.n)[0]
        above = seen.R - eta > highest.reshape(-1)[k if highest.ndim else 0]
        if above:
            options["highest_rewards"] = _raised(highest, k, seen.R + eta)
    return nearness._with(**options)


def widened_d_max(
    d_max: FloatArray, seen: Observed, found: list[Difference], setting: Setting
) -> FloatArray:
    """Return a prior that is an upper bound on the distance to the sources that contradict it.

    No value is above v_max, so D is at most |R - R̄| + γ (v_max - c) ‖T - T̄‖₁, within the radii.
    """
    claimed = float(d_max.reshape(-1)[seen.pair if d_max.ndim else 0])
    weight = setting.gamma * (setting.v_max - setting.floor)
    k, (lo, hi) = seen.pair, setting.reward_range
    largest = max(
        (
            min(d.reward + d.eta, hi - lo) + weight * 2 * min(d.tv + d.tau, 1.0)
            for d in found
            if d.distance > claimed * (1 - ROUNDING)
        ),
        default=0.0,
    )
    return _raised(d_max, k, largest)


def widened_everywhere(nearness: Nearness, pooled: Pooled, setting: Setting) -> Nearness:
    """Return a nearness that claims nothing where pooled evidence contradicts it.

    The evidence does not say by how much tasks differ, and a larger claim might be false as well.
    """
    lo, hi = setting.reward_range
    return nearness._with(
        rewards=raised_where(nearness.rewards, pooled.rewards > 0, hi - lo),
        transitions=raised_where(nearness.transitions, pooled.transitions > 0, 1.0),
    )


def raised_where(array: FloatArray, where: BoolArray, value: float) -> FloatArray:
    """Return a claim with at least `value` at some pairs; one number is raised for all pairs."""
    if array.ndim == 0:
        return frozen(np.maximum(array, value if where.any() else 0.0) + 0.0)
    return frozen(np.where(where.reshape(array.shape), np.maximum(array, value), array))


def _raised(array: FloatArray, k: int, value: float) -> FloatArray:
    raised = array.copy()
    if raised.ndim == 0:
        return frozen(np.maximum(raised, value) + 0.0)
    flat = raised.reshape(-1)
    flat[k] = max(flat[k], value)
    return frozen(raised)


def _at(array: np.ndarray, k: int) -> np.ndarray:
    mask = np.zeros(array.size, dtype=bool)
    mask[k] = True
    return mask.reshape(array.shape)


def _with_states(possible: Successors, k: int, states: Any, setting: Setting) -> sparse.csr_array:
    first, old = possible
    shape = setting.n_pairs, setting.n_states
    matrix = sparse.csr_array((np.ones(old.size), old, first), shape=shape).tolil()
    matrix[k, states] = 1.0
    return sparse.csr_array(matrix)


def revise(memory: TaskMemory, setting: Setting) -> None:
    """Recompute all that a memory derived from knowledge that turned out to be false.

    The values of each stored task are computed again from its own model, with `v_max` at unknown
    pairs. The largest Q of all tasks becomes that of the stored tasks, or `v_max` if a task is no
    longer stored. Learned distances, which were weighed with the values, are measured again as
    tasks end, or no longer used if the first tasks are not stored. Envelopes are calibrated anew on
    later tasks. A learned nearness stays, because it compares models only.
    """
    renewed: dict[int, Source] = {}
    for source in (*memory._sources, *memory._first, *memory._different):
        if source.task not in renewed:
            renewed[source.task] = _own_values(source, setting)
    for stored in (memory._sources, memory._first, memory._different):
        stored[:] = [renewed[source.task] for source in stored]
    if memory.n_tasks:
        largest = np.full(setting.n_pairs, setting.v_max)
        if all(task in renewed for task in range(1, memory.n_tasks + 1)):
            largest = np.max([source.Q for source in renewed.values()], axis=0)
        memory.max_Q = frozen(largest)
    memory.learned = {name: x for name, x in memory.learned.items() if name in NEEDS_NO_VALUES}
    memory.envelopes.clear()


def _own_values(source: Source, setting: Setting) -> Source:
    """Return a source with the values that follow from its own model alone, from above."""
    U = np.where(source.missing, -np.inf, setting.v_max)
    values = program.upper_values(source.rows, setting, U)
    return source._with(Q=frozen(values.Q), V=frozen(values.V))
