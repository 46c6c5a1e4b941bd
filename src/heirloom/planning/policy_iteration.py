"""Resumable modified policy iteration, from below.

A round of modified policy iteration (Puterman and Shin, 1978) evaluates the current policy
approximately, then improves it by one plain sweep over all actions. There are three kinds of
rounds, by how they evaluate the policy:

- "plain" sweeps read one array and write another. The span of their changes bounds the error
  (MacQueen, 1966), and it shrinks quickly where the task mixes.
- "in place" sweeps use each new value at once, so that values travel along whole paths. They are
  quick where the task does not mix.
- "direct" rounds solve the linear equations of the policy. They are used where neither kind of
  sweep is quick, and work however close the discount factor is to 1: by a factorisation in problems
  that are small or whose matrix has a narrow band, otherwise by iteration (`linear`).

After each batch of rounds the next kind is chosen by its progress per unit of work. Work is counted
in transitions, not in seconds, so that results are reproducible to the last bit. Before the first
round, large problems are tried with action elimination (`Elimination`), which may suffice.
The total work is limited. All loops return to Python after each sweep, so that Ctrl-C is handled.

Nothing here is certified: `certificate.fixed_point` certifies the result independently.
"""

from typing import Literal

import numpy as np
from scipy import sparse

from heirloom.arrays import FloatArray, frozen
from heirloom.kernels import values
from heirloom.mdp.available import SparseRows
from heirloom.planning.linear import MarkovChain, solved
from heirloom.planning.operators import Problem, greedy

Kind = Literal["plain", "in place", "direct"]
ROUNDS_PER_BATCH: dict[Kind, int] = {"plain": 2, "in place": 3, "direct": 1}
MAX_DIRECT_STATES = 500  # factorised without looking at the matrix first
ACCEPTABLE_WORK = 60.0  # sweeps over all actions; a kind expected to need no more is kept
# The same for the sweeps of a problem above MAX_DIRECT_STATES, with a narrow band and without.
LONG_WORK, VERY_LONG_WORK = 300.0, 3000.0
FIRST_WORK = 500.0  # sweeps of a problem without a narrow band, before direct rounds are tried
ROUNDING = 1e-12  # relative changes of this size may be rounding, in long rows and on long paths
MAX_STALLED_BATCHES = 20  # in sequence; then rounding is assumed to prevent further progress
MAX_STALLED_LONG_BATCHES = 3  # the same for direct rounds above MAX_DIRECT_STATES
MAX_POOR_ROUNDS = 10  # the first direct rounds may increase the estimate
MAX_SWEEPS = 20_000  # over all actions; more if they are short
MAX_TRANSITIONS = 2 * 10**10  # that the sweeps of small problems read


class PolicyIteration:
    """Resumable modified policy iteration, from below, for V = max_a R + γ Σ T V."""

    def __init__(self, problem: Problem) -> None:
        R, rows, gamma, n_states, terminating = problem
        mass = np.diff(np.append(0.0, np.cumsum(rows.p))[rows.indptr]).max() if terminating else 1.0
        best = greedy(R.reshape(n_states, -1))[0]
        lowest = best.min() / (1 - gamma)
        self.problem = problem
        self.factor = gamma * mass / (1 - gamma * mass)
        # Without termination, a sweep from the constant `lowest` has this closed form.
        self.V = np.full(n_states, min(lowest, 0.0)) if terminating else best + gamma * lowest
        self.V_buffer = np.empty(n_states)  # plain sweeps write here; afterwards, the previous V
        self.policy = np.zeros(n_states, dtype=np.int32)
        self.target = self.estimate = np.inf
        self.offset = 0.0  # V + offset is the midpoint of MacQueen's bounds
        self.kind: Kind = "plain"
        self.rates: dict[Kind, float] = {}
        self.small = n_states <= MAX_DIRECT_STATES
        self.stuck = False  # whether the last run stopped because rounding prevents progress
        self.has_band: bool | None = None  # whether the equations of a policy can be factorised
        self.poor_rounds = 0  # direct rounds that made less progress per work than sweeps
        self.direct_after = 0.0  # direct rounds of large problems are tried after this work
        self.work = 0.0  # in sweeps over all actions
        self.max_work = max(MAX_SWEEPS, MAX_TRANSITIONS / (rows.p.size + R.size))

    def run_until(self, target: float) -> FloatArray:
        """Return values with an estimated error of at most `target`, if rounding permits.

        A later call with a smaller target resumes from the values of this one.
        """
        first, self.target = np.isinf(self.target), target
        if first and self._eliminate():
            return self.V + self.offset
        best, stalled = self._improve(), 0
        self.stuck = False
        while self.estimate > target and not (self.stuck or self.exhausted):
            self._run_rounds()
            no_progress = (self._rounded or self.kind == "direct") and self.estimate >= best
            stalled = stalled + 1 if no_progress else 0
            best = min(best, self.estimate)
            is_long = self.kind == "direct" and not self.small and self._rounded
            self.stuck = stalled >= (MAX_STALLED_LONG_BATCHES if is_long else MAX_STALLED_BATCHES)
        return self.V + self.offset

    @property
    def exhausted(self) -> bool:
        """Whether the iteration stopped because it needs too much work."""
        return self.work > self.max_work

    @property
    def _rounded(self) -> bool:
        return bool(self.estimate <= self.factor * ROUNDING * np.abs(self.V).max())

    def _eliminate(self) -> bool:
        """Sweep with action elimination while it is promising; return whether this suffices.

        Elimination is tried once. If it eliminated an optimal action, the certified error is above
        the tolerance, and the rounds for the next target use all actions.
        """
        elimination = Elimination(self.problem, float(np.ptp(self.V)))
        while elimination.promising and self.estimate > self.target:
            self._accept_sweep(*elimination.improve(self.V, self.V_buffer))
        return self.estimate <= self.target

    def _run_rounds(self) -> None:
        """Run a batch of rounds of the current kind, then choose the next kind."""
        before, work = self.estimate, 0.0
        for _ in range(ROUNDS_PER_BATCH[self.kind]):
            used = 1 + self._evaluate()
            work, self.work = work + used, self.work + used
            if self._improve() <= self.target:
                return
        self._choose_kind(np.log(before / self.estimate) / work)

    def _choose_kind(self, rate: float) -> None:
        """Choose the next kind; `rate` is how fast log(estimate) decreased per unit of work."""
        if self.kind != "direct" or self.small:
            self.rates[self.kind] = rate
        other: Kind = "in place" if self.kind == "plain" else "plain"
        # A smaller target could not be reached, and the quotient could overflow.
        target = max(self.target, 1e-300 * self.estimate, np.nextafter(0, 1))
        left = np.log(self.estimate / target)
        if (self.kind == "direct" and self.small) or left <= rate * ACCEPTABLE_WORK:
            return
        if self.kind == "direct":
            is_slow = not self.has_band and left > rate * VERY_LONG_WORK
            self.poor_rounds += is_slow or rate <= (
                0.0 if self.has_band else max(self.rates.values())
            )
            if self.poor_rounds < MAX_POOR_ROUNDS:
                return
            self.poor_rounds, self.direct_after = 0, 2 * self.work
        if len(self.rates) > 1 and (self.small or self._is_long(left)):
            self.kind = "direct"
            return
        if self.rates.setdefault(other, np.inf) > rate:
            self.kind = other
        # The rate of a kind that is not used grows, so that it is tried again eventually.
        self.rates[other] += 0.05 * abs(self.rates[other])

    def _is_long(self, left: float) -> bool:
        """Whether sweeps of a large problem take long to reduce log(estimate) by `left`."""
        rate = max(self.rates.values())
        if self._rounded or self.work < self.direct_after or left <= rate * LONG_WORK:
            return False
        if self.has_band is None:
            self.has_band = MarkovChain(self._chain()[1], self.problem.gamma).has_band
        # The estimate may increase in the first sweeps, until values have reached all states.
        return self.has_band or (self.work > FIRST_WORK and left > rate * VERY_LONG_WORK)

    def _improve(self) -> float:
        """Do a plain sweep over all actions; return the error of V + offset, without rounding."""
        R, rows, gamma, _, _ = self.problem
        sweep = *rows, gamma, self.V, self.V_buffer, self.policy, values.FORWARDS
        self._accept_sweep(*values.improve(R, *sweep))
        return self.estimate

    def _accept_sweep(self, lo: float, hi: float) -> None:
        """Swap in the result of a plain sweep that changed values by `lo` to `hi`."""
        self.V, self.V_buffer = self.V_buffer, self.V
        if self.problem.terminating:
            self.estimate = self.factor * max(abs(lo), abs(hi))
        else:
            increase = self.factor * max(lo, 0.0)
            self.V += increase  # V stays a lower bound that the operator maps above itself
            self.offset = self.factor * (lo + hi) / 2 - increase
            self.estimate = self.factor * (hi - lo) / 2

    def _evaluate(self) -> float:
        """Evaluate the policy by the current kind; return the work, in sweeps over all actions."""
        if self.kind == "plain":
            return self._sweep()
        return self._sweep_in_place() if self.kind == "in place" else self._solve_directly()

    def _solve_directly(self) -> float:
        """Solve V = R + γ T V for the policy; its value is the best lower bound that it gives."""
        if not self.small:
            return self._solve_large()
        R, T = self._chain()
        n_states = self.problem.n_states
        V = solved((sparse.eye_array(n_states) - self.problem.gamma * T).tocsc(), R)
        if V is not None:
            self.V[:] = V
        return float(n_states)

    def _solve_large(self) -> float:
        """Improve the policy in place, then solve its equations (`linear`).

        Sweeps in place change the policy along whole paths, so that fewer rounds are needed.
        """
        R, rows, gamma, _, _ = self.problem
        for backwards in (True, False):
            values.improve(R, *rows, gamma, self.V, self.V, self.policy, backwards)
        R_of_policy, T = self._chain()
        V, work = MarkovChain(T, gamma).values(R_of_policy, self.V)
        self.V[:] = V
        return 2 + work / (rows.p.size + R.size)

    def _chain(self) -> tuple[FloatArray, sparse.csr_array]:
        """Return the rewards and transitions of the policy."""
        R, rows, _, n_states, _ = self.problem
        pairs = np.arange(n_states) * self.problem.n_actions + self.policy
        T = sparse.csr_array((rows.p, rows.successors, rows.indptr), (R.size, n_states))[pairs]
        return R[pairs], T

    def _sweep(self) -> float:
        """Evaluate the policy by at most 4 A plain sweeps.

        They stop once the error of the evaluation is at most a quarter of `estimate`, or `target`.
        """
        R, rows, gamma, _, terminating = self.problem
        enough = 2 * max(self.target, self.estimate / 4) / self.factor
        sweeps, lo, hi = 0, 0.0, np.inf
        while sweeps < 4 * self.problem.n_actions and (2 * hi if terminating else hi - lo) > enough:
            lo, hi = values.follow(R, *rows, gamma, self.policy, self.V, self.V_buffer)
            self.V, self.V_buffer = self.V_buffer, self.V
            sweeps += 1
        if self.problem.terminating:
            sweeps += self._extrapolate()
        return sweeps / self.problem.n_actions

    def _extrapolate(self) -> int:
        """Add a lower bound on what all later plain sweeps would add; return the sweeps used, 1.

        If a sweep changes V by δ and the next one by δ' >= λ δ >= 0, all later ones together add
        at least δ' λ / (1-λ). In problems without termination, `_accept_sweep` does the same with
        `lo`.
        """
        R, rows, gamma, _, _ = self.problem
        before = self.V - self.V_buffer
        values.follow(R, *rows, gamma, self.policy, self.V, self.V_buffer)
        self.V, self.V_buffer = self.V_buffer, self.V
        after = self.V - self.V_buffer
        well_above_rounding = after.max() > 1e4 * ROUNDING * np.abs(self.V).max()
        if well_above_rounding and before.min() >= 0:
            moved = before > 0
            ratio = min(float((after[moved] / before[moved]).min(initial=1.0)), gamma)
            if ratio > 0:
                self.V += after * (ratio / (1 - ratio))
        return 1

    def _sweep_in_place(self) -> float:
        """Improve and then follow the policy in place, in both orders of the states."""
        R, rows, gamma, _, _ = self.problem
        sweeps = self.problem.n_actions + 2
        for backwards in (True, False):
            values.improve(R, *rows, gamma, self.V, self.V, self.policy, backwards)
        for _ in range(sweeps):
            for backwards in (True, False):
                values.follow_in_place(R, *rows, gamma, self.policy, self.V, backwards)
        return 2 + 2 * sweeps / self.problem.n_actions


MIN_PAIRS = 2000  # in smaller problems, a sweep costs less than eliminating pairs
MAX_KEPT = 0.65  # rows are copied if at most this fraction of the pairs remains
GIVE_UP_ABOVE = 2.0  # pairs per state, unless their number decreased to MAX_KEPT during the trial
STOP_PRUNING_BELOW = 1.2  # pairs per state
MAX_SPAN_RATIO = 0.9  # span of a sweep / of the sweep before; above it, the task does not mix
TRIAL_SWEEPS = 7
MAX_TRIAL_SPAN_RATIO = 0.25  # span after a trial / span before it; above it, give up


class Elimination:
    """Plain sweeps over a problem whose unlikely actions are eliminated on the way.

    If a plain sweep changes V by lo to hi, and the span hi - lo keeps shrinking by the factor ρ of
    the last sweep, then later sweeps change differences of values by at most (hi - lo) ρ / (1-ρ).
    An action that is worse than the best one by more than this is unlikely to become the best, and
    is eliminated. (Proved bounds eliminate actions too, but much later: MacQueen, 1967.) The rows
    of the remaining actions are copied into contiguous arrays. In tasks that mix, little more than
    one action per state soon remains, and a sweep over all remaining actions costs no more than a
    sweep that follows a policy.

    The extrapolation of ρ is a heuristic, so an optimal action may be eliminated. The result is
    then the fixed point of a problem with too few actions, which is below the true one. The
    certificate detects this, because it backs up all actions.
    """

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
        indptr = np.append(0, np.cumsum(self.rows.indptr[pairs + 1] - self.rows.indptr[pairs]))
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
