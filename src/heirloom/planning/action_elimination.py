"""Value iteration that soon looks only at the actions that may still be the best.

If a plain sweep changes V by lo to hi, and changes go on shrinking by ρ a sweep as they just did,
later sweeps change differences of values by (hi - lo) ρ / (1-ρ) at most: an action that is worse
than the best by more than that will hardly become the best. (Bounds that are proved leave out
actions too, but much later: MacQueen, 1967.) The rows of those left are copied to where they are
read one after the other. Where a task mixes, that soon leaves little more than one action a state,
and a sweep over all of them costs no more than following a policy.

It may be wrong. What comes of it is then the fixed point of a problem with too few actions, which
is below the one looked for; and certifying it looks at all actions.
"""

import numpy as np

from heirloom.arrays import FloatArray, frozen
from heirloom.kernels import values
from heirloom.mdp.transitions import Rows
from heirloom.planning.operators import Problem

LEAST_PAIRS = 2000  # of smaller problems a sweep costs less than leaving out pairs
SMALLER = 0.65  # of the pairs are left, or fewer: then copying their rows is soon paid for
MANY, FEW = 2.0, 1.2  # pairs a state: that some are left out is a must, and no longer tried
SLOW = 0.9  # if a sweep leaves more than that of the range of changes, the task does not mix
TRIAL = 7  # sweeps after which it is asked whether they were worth it
SHRINK = 0.25  # what a trial must leave of the range of changes, at most


class Elimination:
    """A problem that loses the actions that will hardly be the best ones."""

    def __init__(self, problem: Problem, span: float) -> None:
        """`span` is the range of the changes of the sweep before."""
        self.R, self.rows, self.gamma, self.n_states, ending = problem
        self.promising = not ending and problem.n_actions > 1 and self.R.size >= LEAST_PAIRS
        if self.promising:
            states = np.arange(self.n_states, dtype=np.int32)
            self.states = frozen(np.repeat(states, problem.n_actions))
            self.q = np.empty(self.R.size)
        self.sweeps, self.span = 0, span
        self.before_trial = span, self.R.size

    def improve(self, V: FloatArray, V_new: FloatArray) -> tuple[float, float]:
        """A plain sweep over the actions left, and perhaps fewer are left after it."""
        arguments = self.states, self.R, *self.rows, self.gamma
        lo, hi = values.improve_among(*arguments, V, V_new, self.q)
        before, self.span = self.span, hi - lo
        if self.span < before and self.R.size > FEW * self.n_states:
            self._leave_out(V_new, self.span * (self.span / (before - self.span)))
        self.sweeps += 1
        if self.span > SLOW * before:
            self.promising = False
        elif self.sweeps % TRIAL == 0:
            self._try()
        return lo, hi

    def _leave_out(self, best: FloatArray, gap: float) -> None:
        """Leave out the actions worse than the best by more than `gap`, if they are many."""
        near = self.states, self.q, best, gap
        size = values.count_near(*near)
        if size > SMALLER * self.R.size:
            return
        pairs = np.empty(size + 1, dtype=np.int64)
        values.find_near(*near, pairs)
        pairs = pairs[:size]
        indptr = np.zeros(size + 1, dtype=np.int64)
        np.cumsum(self.rows.indptr[pairs + 1] - self.rows.indptr[pairs], out=indptr[1:])
        successors, p = np.empty(indptr[-1], dtype=np.int32), np.empty(indptr[-1])
        values.copy_rows(*self.rows, pairs, indptr, successors, p)
        self.rows = Rows(frozen(indptr), frozen(successors), frozen(p))
        self.states, self.R = frozen(self.states[pairs]), frozen(self.R[pairs])
        self.q = self.q[:size]

    def _try(self) -> None:
        """Whether the last sweeps came nearer quickly, and became cheap or at least cheaper."""
        span, size = self.before_trial
        cheap = self.R.size <= max(MANY * self.n_states, SMALLER * size)
        self.promising = cheap and self.span <= SHRINK * span
        self.before_trial = self.span, self.R.size
