"""Upper bounds on the fixed point of a Markov decision process with sets of transitions.

Values of states are the maximum over actions and, for each pair, over the distributions near to a
row of transitions (`kernels.largest_rows`); both maxima are computed by policy iteration. Let G be
the operator, and x values of states that are nearly its fixed point: G(x) <= x + e in every state,
with an allowance for rounding in e >= 0. Then y = x + e / (1-γ) has

    G(y) <= G(x) + γ e / (1-γ) <= y,

because G is monotone and adding a constant to all values adds at most γ times the constant. So y is
above the fixed point of G, whatever x is, and so are the values G(y) of pairs. In the same way, the
fixed point is above x - f / (1-γ) if G(x) >= x - f.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import sparse

from heirloom.arrays import FloatArray, IntArray, ranges
from heirloom.kernels import largest_rows
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
        largest_rows.largest_means(
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
