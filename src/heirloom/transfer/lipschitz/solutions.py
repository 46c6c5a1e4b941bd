"""Complete the solutions for d̂ whose budget of work was used up.

`kernels.sources` lowers d̂ along a worklist, in calls of limited length, so that Ctrl-C is
handled between calls. If γ is close to 1, a worklist needs about 1 / (1-γ) backups per pair. Policy
iteration then needs few evaluations instead: d̂ is the fixed point of a Markov decision process with
rewards D̂, where the transitions of known pairs are all distributions within ε of their row, and
those of unknown pairs all distributions (`optimistic_program`).
"""

from typing import Any

import numpy as np

from heirloom.arrays import FloatArray, IntArray
from heirloom.errors import NotConverged
from heirloom.kernels import sources as kernels
from heirloom.kernels.sources import FROM_SOURCE, TO_SOURCE, UP_TO_DATE, Models
from heirloom.mdp.tabular import value_range
from heirloom.transfer.optimistic_program import ChosenRows, OptimisticProgram, UpperBounds
from heirloom.transfer.program import MAX_PLAIN_GAMMA, PATIENCE, PATIENCE_PER_PAIR
from heirloom.transfer.setting import Setting

MAX_ACCELERATIONS = 20


def budgets(setting: Setting, widest: int) -> tuple[int, int]:
    """Return the backups that a solution and a call may take; rows have `widest` successors."""
    backups = most = max(1, kernels.MAX_WORK // (widest + 1))
    if is_long(setting):
        backups = min(most, PATIENCE + PATIENCE_PER_PAIR * setting.n_pairs)
    return backups, most


def is_long(setting: Setting) -> bool:
    """Return whether γ is so close to 1 that a worklist alone needs too many backups."""
    return setting.gamma > MAX_PLAIN_GAMMA


def cap(setting: Setting) -> float:
    """Return the d̂ from which solutions begin: the largest possible difference of values.

    It is infinite up to γ = 0.99, where max D̂ / (1-γ) is small enough.
    """
    if not is_long(setting):
        return np.inf
    terminating = setting.terminating
    v_min, _ = value_range(setting.reward_range, setting.gamma, terminating=terminating)
    return setting.v_max - v_min


def unfinished(state: kernels.Sources, active: IntArray) -> list[tuple[int, int]]:
    """Return those of the `active` sources whose budget was used up, and the directions."""
    is_used = state.status[active] == UP_TO_DATE
    to = active[is_used & np.isinf(state.to_source.pending_all[active])]
    back = active[np.isinf(state.from_source.pending_all[active])]
    return [(int(i), TO_SOURCE) for i in to] + [(int(i), FROM_SOURCE) for i in back]


def finish(
    i: int, direction: int, task: Any, state: kernels.Sources, plain: Any, setting: Setting
) -> None:
    """Lower d̂ of source i to its fixed point, within the tolerance or what rounding permits.

    `task` has the known rows of the task, and `plain` is `state`, as plain tuples. Raises
    `NotConverged` if this takes too long; d̂ is then still an upper bound, and the next update
    continues with it.
    """
    if direction == TO_SOURCE:
        solved, D, models, m = state.to_source, state.D_to[i], Models(*task), 0
    else:
        solved, D, models, m = state.from_source, state.D_from[i], state.models, i
    index = models.index[m]
    accelerations, gap = 0, np.inf
    while np.isinf(solved.pending_all[i]):
        if is_long(setting):
            if accelerations == MAX_ACCELERATIONS:
                raise _not_converged(gap, setting)
            bounds = upper_bounds(D, index, models, setting, solved.d_state[i])
            accelerations, gap = accelerations + 1, bounds.gap
            _lower(solved.d[i], solved.d_state[i], bounds)
            solved.largest[i] = min(solved.largest[i], solved.d_state[i].max())
            solved.n_at_largest[i] = int((solved.d_state[i] >= solved.largest[i]).sum())
            if _is_enough(bounds, setting):
                # No backup can lower d̂ by more. The next update backs up all pairs first.
                solved.pending_all[i] = max(gap, setting.slack)
                return
        kernels.resume_source(i, direction, task, plain)


def upper_bounds(
    D: FloatArray, index: IntArray, rows: Any, setting: Setting, d_state: FloatArray
) -> UpperBounds:
    """Return upper bounds on d̂ over pairs; pair k has the row `index[k]`, or -1 if unknown.

    They are -infinity where D is, at pairs that the task lacks.
    """
    pairs = np.flatnonzero(D > -np.inf)
    bounds, gap, attainable = _upper_bounds(pairs, D[pairs], index[pairs], rows, setting, d_state)
    if pairs.size < D.size:
        of_pairs, bounds = bounds, np.full(D.size, -np.inf)
        bounds[pairs] = of_pairs
    return UpperBounds(bounds, gap, attainable)


def _upper_bounds(
    pairs: IntArray,
    D: FloatArray,
    index: IntArray,
    rows: Any,
    setting: Setting,
    d_state: FloatArray,
) -> UpperBounds:
    """Return upper bounds on d̂ at `pairs`; D and `index` are theirs."""
    is_known = index >= 0

    def of_pairs(array: Any) -> Any:
        result = np.zeros(index.size, dtype=array.dtype)
        result[is_known] = array[index[is_known]]
        return result

    program = OptimisticProgram(
        ChosenRows(
            pairs=pairs,
            R=D,
            first=of_pairs(rows.first),
            last=of_pairs(rows.last),
            ends=of_pairs(rows.ends),
            t=np.where(is_known, 0.5 * setting.epsilon, 1.0),
        ),
        (rows.successors, rows.p),
        setting.gamma,
        np.full(setting.n_states, -np.inf),
        setting.n_actions,
        _any_state,
    )
    return program.upper_bounds(d_state)


def _any_state(pairs: IntArray, d_state: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return the state with the largest d̂, and this d̂, for each pair; termination has 0."""
    s = int(d_state.argmax())
    return np.full(pairs.size, s), np.full(pairs.size, d_state[s])


def _lower(d: FloatArray, d_state: FloatArray, bounds: UpperBounds) -> None:
    """Lower d over pairs, and its maximum over actions, to upper bounds on the fixed point."""
    np.minimum(d, bounds.bounds, out=d)
    np.minimum(d_state, d.reshape(d_state.size, -1).max(axis=1), out=d_state)


def _is_enough(bounds: UpperBounds, setting: Setting) -> bool:
    return bounds.gap <= max(_tol(setting), bounds.attainable)


def _tol(setting: Setting) -> float:
    return setting.slack / (1 - setting.gamma)


def _not_converged(gap: float, setting: Setting) -> NotConverged:
    return NotConverged(
        f"the distance between tasks is above its fixed point by up to {gap:.2g} after "
        f"{MAX_ACCELERATIONS} policy iterations with gamma={setting.gamma}, and expected within "
        f"tol={_tol(setting):.2g}: it is still an upper bound; create the agent with "
        f"tol={2 * gap:.1g} or more, or with a smaller gamma"
    )
