"""Upper bounds on the fixed point of a Markov decision process with sets of transitions.

Values of states are the maximum over actions and, for each pair, over the distributions near to a
row of transitions (`kernels.nearness`); both maxima are computed by policy iteration. Let G be
the operator, and x values of states that are nearly its fixed point: G(x) <= x + e in every state,
with an allowance for rounding in e >= 0. Then y = x + e / (1-γ) has

    G(y) <= G(x) + γ e / (1-γ) <= y,

because G is monotone and adding a constant to all values adds at most γ times the constant. So y is
above the fixed point of G, whatever x is, and so are the values G(y) of pairs. In the same way, the
fixed point is above x - f / (1-γ) if G(x) >= x - f.

`caps` uses this for the values of a learner. The operator F of `kernels.solving` takes, for each
pair, a minimum: of U, of the backup if the pair is known, and of the backups through the rows of
sources. If one operand is chosen for each pair, the result is an operator G >= F of such a process,
in which an adversary who maximises chooses the transitions of pairs near to a source. Values y with
G(y) <= y have F(y) <= y, so they are above the fixed point of F.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import sparse

from heirloom.arrays import FloatArray, IntArray, ranges
from heirloom.kernels import nearness as kernels
from heirloom.kernels.counting import Model
from heirloom.kernels.solving import Near, Values
from heirloom.planning.linear import MarkovChain

ROUNDOFF = 2.0**-53
MAX_EVALUATIONS = 40  # of policies

# Returns for each pair its possible outcome of the largest value V, -1 for ⊥; and its value.
Highest = Callable[[IntArray, FloatArray], tuple[IntArray, FloatArray]]


class ChosenRows(NamedTuple):
    """One row of transitions for each of `pairs`, with its mean reward and its radius t."""

    pairs: IntArray
    R: FloatArray
    first: IntArray
    last: IntArray
    ends: FloatArray
    t: FloatArray

    def keep(self, kept: np.ndarray) -> "ChosenRows":
        """Return those of the rows that are marked in `kept`."""
        return ChosenRows(*(array[kept] for array in self))


class UpperBounds(NamedTuple):
    """Upper bounds on the fixed point, one for each row.

    They are above it by at most `gap`. No gap below `attainable` can be expected in float64.
    """

    bounds: FloatArray
    gap: float
    attainable: float


class OptimisticProgram:
    """A Markov decision process with `rows`, some of which stand for sets of distributions.

    `transitions` are the successors of all rows and their probabilities. A state that has
    `constant[s]` can also obtain this value, once.
    """

    def __init__(
        self,
        rows: ChosenRows,
        transitions: tuple[IntArray, FloatArray],
        gamma: float,
        constant: FloatArray,
        n_actions: int,
        highest: Highest,
    ) -> None:
        self.rows, self.gamma, self.constant, self.n_actions = rows, gamma, constant, n_actions
        self.successors, self.p = transitions
        self.highest, self.lengths = highest, rows.last - rows.first
        # Each outcome from which mass moves adds a rounding error.
        self.most_moves = int(self.lengths[rows.t > 0].max(initial=0)) + 1
        self.start = np.append(0, np.cumsum(self.lengths))

    def upper_bounds(self, V: FloatArray) -> UpperBounds:
        """Return upper bounds on the fixed point, by policy iteration from `V`."""
        x = self._nearly_fixed_point(V)
        q = self.backups(x)
        V = self._values_of(q)[0]
        rounding = self._rounding(x)
        excess = max(float((V - x).max()) + rounding, 0.0)
        below = max(float((x - V).max()) + rounding, 0.0)
        effective_horizon = (1 + 1e-12) / (1 - self.gamma)
        bounds = q + self.gamma * excess * effective_horizon + 2 * rounding
        gap = (excess + below) * effective_horizon + 3 * rounding
        return UpperBounds(bounds, gap, 8 * rounding * effective_horizon)

    def backups(self, V: FloatArray) -> FloatArray:
        """Return the backups of V of all rows."""
        return self._means(V)[0]

    def _means(self, V: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, IntArray]:
        """Return the backups q of all rows, and the transitions that attain them.

        These are the probabilities `kept` of the successors of all rows, and the mass `moved` to
        one outcome per row.
        """
        rows = self.rows
        states, highest = self.highest(rows.pairs, V)
        kept, moved = np.empty(int(self.start[-1])), np.empty(rows.pairs.size)
        means = np.empty(rows.pairs.size)
        kernels.largest_means(
            *(rows.first, rows.last, rows.ends, self.successors, self.p, rows.t),
            *(V, highest, self.start, kept, moved, means),
        )
        return rows.R + self.gamma * means, kept, moved, states

    def _values_of(self, q: FloatArray) -> tuple[FloatArray, IntArray]:
        """Return the values of states, and the row that each follows, or -1 for a constant."""
        V, best = self.constant.copy(), np.full(self.constant.size, -1)
        n_actions = self.n_actions
        # Ascending, so that the largest is written last.
        order = np.lexsort((-np.arange(q.size), q))
        states = self.rows.pairs[order] // n_actions
        lead, rows = np.full(V.size, -np.inf), np.full(V.size, -1)
        lead[states], rows[states] = q[order], order
        follows = lead > V
        V[follows], best[follows] = lead[follows], rows[follows]
        return V, best

    def _rounding(self, x: FloatArray) -> float:
        """Return a bound on the rounding error of a backup of x."""
        scale = np.abs(self.rows.R).max(initial=0.0) + np.abs(x).max()
        return float(ROUNDOFF * (self.most_moves + 16) * scale)

    def _nearly_fixed_point(self, x: FloatArray) -> FloatArray:
        """Return values of states by policy iteration from x.

        It stops when no backup exceeds the value of the policy by more than rounding errors, which
        further evaluations would not remove.
        """
        last_best = None
        for _ in range(MAX_EVALUATIONS):
            q, kept, moved, targets = self._means(x)
            V, best = self._values_of(q)
            change, rounding = V - x, self._rounding(x)
            same = last_best is not None and (best == last_best).all()
            if (same or change.min() >= -rounding) and change.max() <= rounding:
                break
            x, last_best = self._evaluate(x, V, best, kept, moved, targets), best
        return x

    def _evaluate(
        self,
        x: FloatArray,
        V: FloatArray,
        best: IntArray,
        kept: FloatArray,
        moved: FloatArray,
        targets: IntArray,
    ) -> FloatArray:
        """Return the values of the policy `best`; V is its backup of x."""
        follows = np.flatnonzero(best >= 0)
        rows, n_states = best[follows], V.size
        lengths = self.lengths[rows]
        flat = ranges(self.start[rows], lengths)
        row = np.concatenate([np.repeat(np.arange(rows.size), lengths), np.arange(rows.size)])
        to = self.successors[ranges(self.rows.first[rows], lengths)]
        goes_on = targets[rows] >= 0
        column = np.concatenate([to, np.where(goes_on, targets[rows], 0)])
        data = np.concatenate([kept[flat], np.where(goes_on, moved[rows], 0.0)])
        T = sparse.csr_array((data, (row, column)), shape=(rows.size, n_states))
        T.eliminate_zeros()
        result = V.copy()
        result[follows] = 0.0  # the constants only
        R = self.rows.R[rows] + self.gamma * (T @ result)
        chain = MarkovChain(sparse.csr_array(T[:, follows]), self.gamma)
        result[follows] = chain.values(R, x[follows])[0]
        return result


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
    kernels.highest_outcomes(
        pairs, near.possible_first, near.possible, near.may_end, V, states, highest
    )
    return states, highest
