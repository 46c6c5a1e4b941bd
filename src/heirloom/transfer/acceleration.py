"""Upper bounds on the fixed point of `Q`, computed by policy iteration.

The operator F of `kernels.solving` takes, for each pair, a minimum: of U, of the backup if the
pair is known, and of the backups through the rows of sources. If one operand is chosen for each
pair, the result is an operator G >= F of a Markov decision process (`optimistic_program`): values
of states are maxima over actions, and an adversary who maximises chooses the transitions of pairs
near to a source. Values y with G(y) <= y have F(y) <= y, so they are above the fixed point of F.
"""

import numpy as np

from heirloom.arrays import FloatArray, IntArray
from heirloom.kernels import largest_rows
from heirloom.kernels.counting import Model
from heirloom.kernels.solving import Near, Values
from heirloom.transfer.optimistic_program import ChosenRows, OptimisticProgram


def caps(model: Model, values: Values, near: Near | None) -> tuple[IntArray, FloatArray]:
    """Return the pairs whose values can be lowered, and upper bounds on their fixed point [k].

    The bounds of all other pairs are infinite.
    """
    program = _program(model, values, near)
    bounds = np.full(values.Q.size, np.inf)
    bounds[program.rows.pairs] = program.upper_bounds(values.V).bounds
    return program.rows.pairs, bounds


def largest_decrease(model: Model, values: Values, near: Near | None) -> float:
    """Return by how much a backup can lower the value of a pair at most."""
    program = _program(model, values, near)
    pairs = program.rows.pairs
    return float((values.Q[pairs] - program.backups(values.V)).max(initial=0.0))


def _program(model: Model, values: Values, near: Near | None) -> OptimisticProgram:
    """Return the Markov decision process that remains when the operands of minima are chosen."""
    known = np.flatnonzero(model.known)
    n = int(model.sizes[0])
    successors, p = model.successors[:n], model.p[:n]
    rows = ChosenRows(
        known,
        model.high[known],
        model.first[known],
        model.last[known],
        model.ends[known],
        np.minimum(model.radius[known], 1.0) if model.radius.size else np.zeros(known.size),
    )

    def highest(pairs: IntArray, V: FloatArray) -> tuple[IntArray, FloatArray]:
        return _highest_outcomes(pairs, V, near)

    if near is not None:
        pairs = near.pairs if near.on_known else near.pairs[~model.known[near.pairs]]
        added = _near_rows(near, pairs, shift=p.size)
        rows = ChosenRows(*(np.concatenate(both) for both in zip(rows, added, strict=True)))
        successors = np.concatenate([successors, near.successors])
        p = np.concatenate([p, near.p])
    n_states = values.V.size
    n_actions, no_constant = values.U.size // n_states, np.full(n_states, -np.inf)

    def program(rows: ChosenRows, constant: FloatArray) -> OptimisticProgram:
        return OptimisticProgram(rows, (successors, p), values.gamma, constant, n_actions, highest)

    backups = program(rows, no_constant).backups(values.V)
    # Where U is the smaller operand, the value is constant; but not where U is itself the bound
    # through the rows of sources, which will fall with V.
    varies = backups < values.base[rows.pairs]
    if near is not None and values.falls:
        varies[known.size :] |= (values.decider == near.number)[rows.pairs[known.size :]]
    if near is not None and near.on_known:  # of two rows of a pair, the one with the smaller backup
        order = np.lexsort((backups, rows.pairs))
        varies[order[1:]] &= np.diff(rows.pairs[order]) > 0
    rows = rows.keep(varies)
    constant = values.base.copy()
    constant[rows.pairs] = -np.inf
    return program(rows, constant.reshape(n_states, -1).max(axis=1))


def _near_rows(near: Near, pairs: IntArray, *, shift: int) -> ChosenRows:
    """Return the row of a source that gave each pair its smallest bound, or the empty row.

    It is that of the last backup: any choice gives upper bounds. `shift` is added to the positions
    of transitions.
    """
    chosen = near.best[pairs]
    has_row = chosen >= 0

    def of_rows(array: np.ndarray, shift: int = 0) -> np.ndarray:
        result = np.zeros(pairs.size, dtype=array.dtype)
        result[has_row] = array[chosen[has_row]] + shift
        return result

    return ChosenRows(
        *(pairs, near.reward[pairs], of_rows(near.first, shift), of_rows(near.last, shift)),
        *(of_rows(near.ends), near.t[pairs]),
    )


def _highest_outcomes(
    pairs: IntArray, V: FloatArray, near: Near | None
) -> tuple[IntArray, FloatArray]:
    """Return for each pair its outcome of the largest value, -1 for ⊥; and its value."""
    if near is None or near.any_successor:
        s = int(V.argmax())
        ends = np.zeros(pairs.size, dtype=bool)
        if near is not None and V[s] < 0:
            ends = near.may_end[pairs]
        return np.where(ends, -1, s), np.where(ends, 0.0, V[s])
    states, highest = np.empty(pairs.size, dtype=np.int64), np.empty(pairs.size)
    largest_rows.highest_outcomes(
        pairs, near.possible_first, near.possible, near.may_end, V, states, highest
    )
    return states, highest
