"""`Visits`: sums over all visits of all tasks that a memory has seen."""

from copy import copy

import numpy as np

from heirloom.arrays import FloatArray, IntArray
from heirloom.kernels import counting
from heirloom.mdp.rows import Rows, collected


class Visits:
    """How often each outcome of each pair was seen in all tasks together, and their rewards."""

    def __init__(self, n_states: int, n_actions: int) -> None:
        self.n_states = n_states
        self.counts: IntArray = np.zeros(n_states * n_actions, dtype=np.int64)
        """The visits of each pair."""
        self.reward_sums: FloatArray = np.zeros((2, n_states * n_actions))
        """The sum of the rewards of each pair, and what rounding has taken from it."""
        nothing = np.empty(0, dtype=np.int64)
        self.outcomes: tuple[IntArray, IntArray] = nothing, nothing
        """The outcomes that were seen, as in `Rows.outcomes` and in increasing order; how often."""
        self._rows: Rows | None = None

    @classmethod
    def of_sums(
        cls, n_states: int, outcomes: IntArray, times: IntArray, reward_sums: FloatArray
    ) -> "Visits":
        """Return visits with these `outcomes` and `reward_sums`, which are known to be valid."""
        visits = cls(n_states, reward_sums.shape[1] // n_states)
        np.add.at(visits.counts, outcomes // (n_states + 1), times)
        visits.reward_sums += reward_sums
        visits.outcomes = outcomes, times.copy()
        return visits

    def copy(self) -> "Visits":
        """Return a copy, to which visits can be added."""
        other = copy(self)
        other.counts, other.reward_sums = self.counts.copy(), self.reward_sums.copy()
        other.outcomes = self.outcomes[0], self.outcomes[1].copy()
        return other

    @property
    def rows(self) -> Rows:
        """The means and frequencies over all visits, of which every visited pair is known."""
        if self._rows is None:
            outcomes, times = self.outcomes
            p = times / self.counts[outcomes // (self.n_states + 1)]
            known, R = self.counts > 0, np.zeros(self.counts.size)
            R[known] = counting.mean(*self.reward_sums[:, known], self.counts[known])
            self._rows = collected(known, self.counts.copy(), R, (outcomes, p), self.n_states)
        return self._rows

    def add(self, rows: Rows) -> None:
        """Add the visits of a task; rows that were given instead of estimated have none."""
        outcomes, p = rows.outcomes(self.n_states)
        n = rows.counts[outcomes // (self.n_states + 1)]
        times = np.rint(p * n).astype(np.int64)
        order = np.argsort(outcomes)
        order = order[times[order] > 0]
        self._add_outcomes(outcomes[order], times[order])
        pairs = np.flatnonzero(rows.counts)
        n = rows.counts[pairs].astype(np.float64)
        self._add_rewards(pairs, *counting.two_product(rows.R[pairs], n))
        self.counts[pairs] += rows.counts[pairs]
        self._rows = None

    def merge(self, other: "Visits", *, without: "Visits") -> None:
        """Add the visits of another memory, except those that it had at its beginning."""
        outcomes, times = other.outcomes
        old, old_times = without.outcomes
        times = times.copy()
        times[np.searchsorted(outcomes, old)] -= old_times
        self._add_outcomes(outcomes[times > 0], times[times > 0])
        pairs = np.flatnonzero(other.counts)
        self._add_rewards(pairs, *other.reward_sums[:, pairs])
        pairs = np.flatnonzero(without.counts)
        self._add_rewards(pairs, *-without.reward_sums[:, pairs])
        self.counts += other.counts - without.counts
        self._rows = None

    def contains(self, other: "Visits") -> bool:
        """Whether all visits of another memory are among these."""
        (outcomes, times), (theirs, their_times) = self.outcomes, other.outcomes
        at = np.searchsorted(outcomes, theirs)
        if theirs.size == 0 or at[-1] == outcomes.size:
            return theirs.size == 0
        return bool((outcomes[at] == theirs).all() and (times[at] >= their_times).all())

    def _add_outcomes(self, outcomes: IntArray, times: IntArray) -> None:
        """Add outcomes in increasing order."""
        seen, seen_times = self.outcomes
        at = np.searchsorted(seen, outcomes)
        is_seen = np.append(seen, -1)[at] == outcomes
        seen_times[at[is_seen]] += times[is_seen]
        if not is_seen.all():
            new, at = ~is_seen, at[~is_seen]
            self.outcomes = (
                np.insert(seen, at, outcomes[new]),
                np.insert(seen_times, at, times[new]),
            )

    def _add_rewards(self, pairs: IntArray, sums: FloatArray, rest: FloatArray) -> None:
        """Add sums of rewards and their remainders."""
        total, lost = counting.two_sum(self.reward_sums[0, pairs], sums)
        self.reward_sums[0, pairs] = total
        self.reward_sums[1, pairs] += lost + rest
