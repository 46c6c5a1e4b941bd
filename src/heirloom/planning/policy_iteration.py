"""Approaching the fixed point of a Bellman operator from below, quickly.

A round of modified policy iteration (Puterman and Shin, 1978) is one sweep that improves the policy
and cheap ones that follow it. There are two kinds of rounds. Plain sweeps bound the error by the
range of their changes (MacQueen, 1966), which shrinks quickly where the task mixes; sweeps in place
carry values along whole paths, which is quick where it does not. Each stretch of rounds takes the
kind that promises most for its work, counted in transitions and not in seconds, so that an approach
repeats to the last bit. Where neither is quick, and the problem is small, policies are evaluated by
solving their linear equations: no discount is too near to one for that. Before all that, large
problems are tried with fewer and fewer actions (`elimination`), which may be all that is needed.

Nothing here is certified: `fixed_point` does that, whatever happened here.
"""

from typing import Literal

import numpy as np
from scipy import sparse

from heirloom.arrays import FloatArray
from heirloom.kernels import values
from heirloom.planning.action_elimination import Elimination
from heirloom.planning.operators import Problem, greedy

Kind = Literal["plain", "in place", "direct"]
ROUNDS: dict[Kind, int] = {"plain": 2, "in place": 3, "direct": 1}
SMALL = 500  # states, up to which linear equations are solved directly
PATIENCE = 60.0  # sweeps over all actions that a kind may take without the other being tried
ROUNDING = 1e-12  # relative changes of this size may be rounding, in long rows and on long paths
ROUNDS_IN_VAIN = 20  # after so many stretches of only such changes, nothing comes nearer


class PolicyIteration:
    """An approach to the fixed point of max_a R + γ Σ T V from below, which can be gone on with."""

    def __init__(self, problem: Problem) -> None:
        R, rows, gamma, n_states, ending = problem
        mass = np.diff(np.append(0.0, np.cumsum(rows.p))[rows.indptr]).max() if ending else 1.0
        best = greedy(R.reshape(n_states, -1))[0]
        lowest = best.min() / (1 - gamma)
        self.problem = problem
        self.factor = gamma * mass / (1 - gamma * mass)
        # A sweep from values that are all the same leads to the best rewards, without a sweep.
        self.V = np.full(n_states, min(lowest, 0.0)) if ending else best + gamma * lowest
        self.spare = np.empty(n_states)
        self.policy = np.zeros(n_states, dtype=np.int32)
        self.target = self.estimate = np.inf
        self.middle = 0.0
        self.kind: Kind = "plain"
        self.rate: dict[Kind, float] = {}

    def until(self, target: float) -> FloatArray:
        """Values with an estimated error of `target`, or that rounding keeps from coming nearer."""
        first, self.target = np.isinf(self.target), target
        if first and self._eliminate():
            return self.V + self.middle
        best, in_vain = self._improve(), 0
        while self.estimate > target and in_vain < ROUNDS_IN_VAIN:
            self._run_rounds()
            rounded = self.estimate <= self.factor * ROUNDING * np.abs(self.V).max()
            stuck = (rounded or self.kind == "direct") and self.estimate >= best
            in_vain = in_vain + 1 if stuck else 0
            best = min(best, self.estimate)
        return self.V + self.middle

    def _eliminate(self) -> bool:
        """Sweeps among fewer and fewer actions, while they promise much; whether they suffice.

        Only once: where they left out too much, what is certified falls short of the target, and
        the way to the next target is one that looks at all actions.
        """
        elimination = Elimination(self.problem, float(np.ptp(self.V)))
        while elimination.promising and self.estimate > self.target:
            self._take(*elimination.improve(self.V, self.spare))
        return self.estimate <= self.target

    def _run_rounds(self) -> None:
        """A few rounds of one kind, and the choice of the next."""
        before, work = self.estimate, 0.0
        for _ in range(ROUNDS[self.kind]):
            work += 1 + self._follow()
            if self._improve() <= self.target:
                return
        self._choose(np.log(before / self.estimate) / work)

    def _choose(self, rate: float) -> None:
        """The next kind of rounds, from what this one gained for its work."""
        self.rate[self.kind] = rate
        other: Kind = "in place" if self.kind == "plain" else "plain"
        if self.kind == "direct" or np.log(self.estimate / self.target) <= rate * PATIENCE:
            return
        if len(self.rate) > 1 and self.problem.n_states <= SMALL:
            self.kind = "direct"
            return
        if self.rate.setdefault(other, np.inf) > rate:
            self.kind = other
        self.rate[other] += 0.05 * abs(self.rate[other])  # what was not tried for long is tried

    def _improve(self) -> float:
        """One plain sweep; the error that V + middle would have if nothing were rounded."""
        R, rows, gamma, _, _ = self.problem
        self._take(*values.improve(R, *rows, gamma, self.V, self.spare, self.policy))
        return self.estimate

    def _take(self, lo: float, hi: float) -> None:
        """Take the result of a plain sweep that changed values by `lo` to `hi`."""
        self.V, self.spare = self.spare, self.V
        if self.problem.ending:
            self.estimate = self.factor * max(abs(lo), abs(hi))
        else:
            rise = self.factor * max(lo, 0.0)
            self.V += rise  # still a lower bound, from which the operator leads upwards
            self.middle = self.factor * (lo + hi) / 2 - rise
            self.estimate = self.factor * (hi - lo) / 2

    def _follow(self) -> float:
        """Follow the policy, as the kind does; returns the work in sweeps over all actions."""
        if self.kind == "plain":
            return self._plain()
        return self._in_place() if self.kind == "in place" else self._direct()

    def _direct(self) -> float:
        """Solve V = R + γ T V for the policy: the best lower bound that it gives.

        By SuperLU, which gives the same bits whatever the number of threads.
        """
        from scipy.sparse.linalg import splu

        R, rows, gamma, n_states, _ = self.problem
        pairs = np.arange(n_states) * self.problem.n_actions + self.policy
        T = sparse.csr_array((rows.p, rows.successors, rows.indptr), (R.size, n_states))[pairs]
        try:
            V = splu((sparse.eye_array(n_states) - gamma * T).tocsc()).solve(R[pairs])
        except RuntimeError:  # singular, as far as doubles can tell
            return float(n_states)
        if np.isfinite(V).all():
            self.V[:] = V
        return float(n_states)

    def _plain(self) -> float:
        """Follow the policy until its values are better known than whether it is the best."""
        R, rows, gamma, _, ending = self.problem
        enough = 2 * max(self.target, self.estimate / 4) / self.factor
        sweeps, lo, hi = 0, 0.0, np.inf
        while sweeps < 4 * self.problem.n_actions and (2 * hi if ending else hi - lo) > enough:
            lo, hi = values.follow(R, *rows, gamma, self.policy, self.V, self.spare)
            self.V, self.spare = self.spare, self.V
            sweeps += 1
        if self.problem.ending:
            sweeps += self._extrapolate()
        return sweeps / self.problem.n_actions

    def _extrapolate(self) -> int:
        """Add what the last change of a plain sweep will still lead to, at least.

        Where a sweep changes V by δ and the next one by δ' >= λ δ >= 0, all later ones together
        add at least δ' λ / (1-λ). This is to problems that end what rising by `lo` is to others.
        """
        R, rows, gamma, _, _ = self.problem
        before = self.V - self.spare
        values.follow(R, *rows, gamma, self.policy, self.V, self.spare)
        self.V, self.spare = self.spare, self.V
        after = self.V - self.spare
        well_above_rounding = after.max() > 1e4 * ROUNDING * np.abs(self.V).max()
        if well_above_rounding and before.min() >= 0:
            moved = before > 0
            ratio = min(float((after[moved] / before[moved]).min(initial=1.0)), gamma)
            if ratio > 0:
                self.V += after * (ratio / (1 - ratio))
        return 1

    def _in_place(self) -> float:
        R, rows, gamma, _, _ = self.problem
        sweeps = self.problem.n_actions + 2
        for backwards in (True, False):
            values.improve_in_place(R, *rows, gamma, self.V, self.policy, backwards)
        for _ in range(sweeps):
            for backwards in (True, False):
                values.follow_in_place(R, *rows, gamma, self.policy, self.V, backwards)
        return 2 + 2 * sweeps / self.problem.n_actions
