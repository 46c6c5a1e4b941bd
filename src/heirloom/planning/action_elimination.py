"""Value iteration that eliminates actions which are unlikely to be optimal.

If a plain sweep changes V by lo to hi, and the span hi - lo keeps shrinking by the factor ρ of the
last sweep, then later sweeps change differences of values by at most (hi - lo) ρ / (1-ρ). An action
that is worse than the best one by more than this is unlikely to become the best, and is eliminated.
(Proved bounds eliminate actions too, but much later: MacQueen, 1967.) The rows of the remaining
actions are copied into contiguous arrays. In tasks that mix, little more than one action per state
soon remains, and a sweep over all remaining actions costs no more than a sweep that follows a
policy.

The extrapolation of ρ is a heuristic, so an optimal action may be eliminated. The result is then
the fixed point of a problem with too few actions, which is below the true one. The certificate
detects this, because it backs up all actions.
"""

import numpy as np

from heirloom.arrays import FloatArray, frozen
from heirloom.kernels import values
from heirloom.mdp.available import SparseRows
from heirloom.planning.operators import Problem

MIN_PAIRS = 2000  # in smaller problems, a sweep costs less than eliminating pairs
MAX_KEPT = 0.65  # rows are copied if at most this fraction of the pairs remains
GIVE_UP_ABOVE = 2.0  # pairs per state, unless their number decreased to MAX_KEPT during the trial
STOP_PRUNING_BELOW = 1.2  # pairs per state
MAX_SPAN_RATIO = 0.9  # span of a sweep / of the sweep before; above it, the task does not mix
TRIAL_SWEEPS = 7
MAX_TRIAL_SPAN_RATIO = 0.25  # span after a trial / span before it; above it, give up


class Elimination:
    """Plain sweeps over a problem whose unlikely actions are eliminated on the way."""

    def __init__(self, problem: Problem, span: float) -> None:
        """Start with all actions; `span` is the span of the changes of the last sweep."""
        self.R, self.rows, self.gamma, self.n_states, terminating = problem
        self.promising = not terminating and problem.n_actions > 1 and self.R.size >= MIN_PAIRS
        if self.promising:
            states = np.arange(self.n_states, dtype=np.int32)
            self.states = frozen(np.repeat(states, problem.n_actions))
            self.q = np.empty(self.R.size)
        self.sweeps, self.span = 0, span
        self.before_trial = span, self.R.size

    def improve(self, V: FloatArray, V_new: FloatArray) -> tuple[float, float]:
        """Do a plain sweep over the remaining actions, then eliminate some of them if it pays.

        Returns the smallest and the largest change of the sweep. Sets `promising` to False if
        further sweeps are not worth their cost.
        """
        arguments = self.states, self.R, *self.rows, self.gamma
        lo, hi = values.improve_among(*arguments, V, V_new, self.q)
        span_before, self.span = self.span, hi - lo
        if self.span < span_before and self.R.size > STOP_PRUNING_BELOW * self.n_states:
            self._eliminate(V_new, self.span * (self.span / (span_before - self.span)))
        self.sweeps += 1
        if self.span > MAX_SPAN_RATIO * span_before:
            self.promising = False
        elif self.sweeps % TRIAL_SWEEPS == 0:
            self._end_trial()
        return lo, hi

    def _eliminate(self, best: FloatArray, gap: float) -> None:
        """Eliminate the actions worse than the best by more than `gap`, if there are enough."""
        near = self.states, self.q, best, gap
        size = values.count_near(*near)
        if size > MAX_KEPT * self.R.size:
            return
        pairs = np.empty(size + 1, dtype=np.int64)
        values.find_near(*near, pairs)
        pairs = pairs[:size]
        indptr = np.zeros(size + 1, dtype=np.int64)
        np.cumsum(self.rows.indptr[pairs + 1] - self.rows.indptr[pairs], out=indptr[1:])
        successors, p = np.empty(indptr[-1], dtype=np.int32), np.empty(indptr[-1])
        values.copy_rows(*self.rows, pairs, indptr, successors, p)
        self.rows = SparseRows(frozen(indptr), frozen(successors), frozen(p))
        self.states, self.R = frozen(self.states[pairs]), frozen(self.R[pairs])
        self.q = self.q[:size]

    def _end_trial(self) -> None:
        """Continue only if sweeps are cheap or became cheaper, and the span shrank quickly."""
        span, size = self.before_trial
        cheap = self.R.size <= max(GIVE_UP_ABOVE * self.n_states, MAX_KEPT * size)
        self.promising = cheap and self.span <= MAX_TRIAL_SPAN_RATIO * span
        self.before_trial = self.span, self.R.size
