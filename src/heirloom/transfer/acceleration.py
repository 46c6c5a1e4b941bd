"""Upper bounds on the fixed point of `Q`, computed by policy iteration.

The operator F of `kernels.learning` takes, for each pair, a minimum: of U, of the backup if the
pair is known, and of the backups through the rows of sources. If one operand is chosen for each
pair, the result is an operator G >= F of a Markov decision process: values of states are maxima
over actions, and an adversary who maximises chooses the transitions of pairs near to a source.
Policy iteration computes values x that are nearly its fixed point. Let G(x) <= x + e in every
state, with an allowance for rounding in e >= 0. Then y = x + e / (1-γ) has

    F(y) <= G(y) <= G(x) + γ e / (1-γ) <= y,

because F and G are monotone and adding a constant to all values adds at most γ times the constant.
So y is above the fixed point of F, whatever x is, and so are the values G(y) of pairs.
"""

from typing import NamedTuple

import numpy as np
from scipy import sparse

from heirloom.arrays import FloatArray, IntArray
from heirloom.kernels import largest_rows
from heirloom.kernels.learning import Model, Near, Values
from heirloom.planning.linear import MarkovChain

ROUNDOFF = 2.0**-53
MAX_EVALUATIONS = 40  # of policies


class Rows(NamedTuple):
    """One row of transitions for each of `pairs`, with its mean reward and its radius t."""

    pairs: IntArray
    R: FloatArray
    first: IntArray
    last: IntArray
    ends: FloatArray
    t: FloatArray

    def keep(self, kept: np.ndarray) -> "Rows":
        """Return those of the rows that are marked in `kept`."""
        return Rows(*(array[kept] for array in self))


def caps(model: Model, values: Values, near: Near | None) -> tuple[IntArray, FloatArray]:
    """Return the pairs whose values can be lowered, and upper bounds on their fixed point [k].

    The bounds of all other pairs are infinite.
    """
    game = _Game(model, values, near)
    x = game.nearly_fixed_point()
    q = game._means(x)[0]
    V = game.values_of(q)[0]
    scale = np.abs(game.rows.R).max(initial=0.0) + np.abs(x).max()
    rounding = ROUNDOFF * (game.most_moves + 16) * scale
    excess = max(float((V - x).max()) + rounding, 0.0)
    margin = excess / (1 - values.gamma) * (1 + 1e-12)
    bounds = np.full(values.Q.size, np.inf)
    bounds[game.rows.pairs] = q + values.gamma * margin + 2 * rounding
    return game.rows.pairs, bounds


def largest_decrease(model: Model, values: Values, near: Near | None) -> float:
    """Return by how much a backup can lower the value of a pair at most."""
    game = _Game(model, values, near)
    pairs = game.rows.pairs
    return float((values.Q[pairs] - game._means(values.V)[0]).max(initial=0.0))


class _Game:
    """The Markov decision process that remains when the operands of minima are chosen at V."""

    def __init__(self, model: Model, values: Values, near: Near | None) -> None:
        self.near, self.gamma, self.V = near, values.gamma, values.V
        self.n_actions = values.U.size // values.V.size
        known = np.flatnonzero(model.known)
        n = int(model.sizes[0])
        self.successors, self.p = model.successors[:n], model.p[:n]
        rows = Rows(
            known,
            model.R[known],
            model.first[known],
            model.last[known],
            model.ends[known],
            np.zeros(known.size),
        )
        if near is not None:
            rows = self._with_near_rows(rows, near, near.pairs[~model.known[near.pairs]])
        self._set_rows(rows)
        # Where U is the smaller operand, the value is constant; but not where U is itself the bound
        # through the rows of sources, which will fall with V.
        varies = self._means(values.V)[0] < values.U[rows.pairs]
        if near is not None:
            varies[known.size :] |= (near.decider == near.number)[rows.pairs[known.size :]]
        self._set_rows(rows.keep(varies))
        constant = values.U.copy()
        constant[self.rows.pairs] = -np.inf
        self.constant: FloatArray = constant.reshape(values.V.size, -1).max(axis=1)

    def _set_rows(self, rows: Rows) -> None:
        self.rows, self.lengths = rows, rows.last - rows.first
        # Each outcome from which mass moves adds a rounding error.
        self.most_moves = int(self.lengths[rows.t > 0].max(initial=0)) + 1
        self.start = np.append(0, np.cumsum(self.lengths))

    def _with_near_rows(self, rows: Rows, near: Near, pairs: IntArray) -> Rows:
        """Append the row of a source, or the empty row, that gives each pair its smallest bound."""
        _, highest = self._highest_outcomes(pairs, self.V)
        chosen, means = np.empty(pairs.size, dtype=np.int64), np.empty(pairs.size)
        largest_rows.choose_rows(
            *(pairs, near.t, near.rows, near.first, near.last, near.ends),
            *(near.successors, near.p, self.V, highest, chosen, means),
        )
        has_row, shift = chosen >= 0, self.p.size
        self.successors = np.concatenate([self.successors, near.successors])
        self.p = np.concatenate([self.p, near.p])

        def of_rows(array: np.ndarray, shift: int = 0) -> np.ndarray:
            result = np.zeros(pairs.size, dtype=array.dtype)
            result[has_row] = array[chosen[has_row]] + shift
            return result

        added = Rows(
            *(pairs, near.reward[pairs], of_rows(near.first, shift), of_rows(near.last, shift)),
            *(of_rows(near.ends), near.t[pairs]),
        )
        return Rows(*(np.concatenate(both) for both in zip(rows, added, strict=True)))

    def _highest_outcomes(self, pairs: IntArray, V: FloatArray) -> tuple[IntArray, FloatArray]:
        """Return for each pair its outcome of the largest value, -1 for ⊥; and its value."""
        near = self.near
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

    def _means(self, V: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, IntArray]:
        """Return the backups q of all rows, and the transitions that attain them.

        These are the probabilities `kept` of the successors of all rows, and the mass `moved` to
        one outcome per row.
        """
        rows = self.rows
        states, highest = self._highest_outcomes(rows.pairs, V)
        kept, moved = np.empty(int(self.start[-1])), np.empty(rows.pairs.size)
        means = np.empty(rows.pairs.size)
        largest_rows.largest_means(
            *(rows.first, rows.last, rows.ends, self.successors, self.p, rows.t),
            *(V, highest, self.start, kept, moved, means),
        )
        return rows.R + self.gamma * means, kept, moved, states

    def values_of(self, q: FloatArray) -> tuple[FloatArray, IntArray]:
        """Return the values of states, and the row that each follows, or -1 for a constant."""
        V, best = self.constant.copy(), np.full(self.constant.size, -1)
        n_actions = self.n_actions
        order = np.lexsort(
            (-np.arange(q.size), q)
        )  # ascending, so that the largest is written last
        states = self.rows.pairs[order] // n_actions
        lead, rows = np.full(V.size, -np.inf), np.full(V.size, -1)
        lead[states], rows[states] = q[order], order
        follows = lead > V
        V[follows], best[follows] = lead[follows], rows[follows]
        return V, best

    def nearly_fixed_point(self) -> FloatArray:
        """Return values of states by policy iteration from the current ones."""
        x, last_best = self.V, None
        for _ in range(MAX_EVALUATIONS):
            q, kept, moved, targets = self._means(x)
            V, best = self.values_of(q)
            if last_best is not None and (best == last_best).all() and (V <= x).all():
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
        flat = _ranges(self.start[rows], lengths)
        row = np.concatenate([np.repeat(np.arange(rows.size), lengths), np.arange(rows.size)])
        to = self.successors[_ranges(self.rows.first[rows], lengths)]
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


def _ranges(first: IntArray, lengths: IntArray) -> IntArray:
    """Return the numbers first[i], ..., first[i] + lengths[i] - 1, for all i."""
    before = np.cumsum(lengths) - lengths
    return np.repeat(first - before, lengths) + np.arange(int(lengths.sum()))
