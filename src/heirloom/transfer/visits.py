"""`Visits`: sums over all visits of all tasks that a memory has seen."""

import numpy as np

from heirloom.arrays import FloatArray, IntArray
from heirloom.kernels import counting
from heirloom.mdp.rows import Rows, collected

SPLIT = 2.0**27 + 1  # splits a float64 into two halves, whose products are exact


class Visits:
    """How often each outcome of each pair was seen in all tasks together, and their rewards.

    Adding a task takes time in proportion to its rows, up to logarithms, on average over tasks:
    outcomes are in sorted runs, each more than twice as long as the next one, so that an outcome is
    moved at most once for each doubling of the number of outcomes.
    """

    def __init__(self, n_states: int, n_actions: int) -> None:
        self.n_states = n_states
        self.counts: IntArray = np.zeros(n_states * n_actions, dtype=np.int64)
        """The visits of each pair."""
        self.reward_sums: FloatArray = np.zeros((2, n_states * n_actions))
        """The sum of the rewards of each pair, and what rounding has taken from it."""
        self._runs: list[tuple[IntArray, IntArray]] = []
        self._rows: Rows | None = None

    @classmethod
    def of_sums(
        cls, n_states: int, outcomes: IntArray, times: IntArray, reward_sums: FloatArray
    ) -> "Visits":
        """Return visits with these `outcomes` and `reward_sums`, which are known to be valid."""
        visits = cls(n_states, reward_sums.shape[1] // n_states)
        np.add.at(visits.counts, outcomes // (n_states + 1), times)
        visits.reward_sums += reward_sums
        visits._runs = [(outcomes, times.copy())] if times.size else []
        return visits

    @property
    def outcomes(self) -> tuple[IntArray, IntArray]:
        """The outcomes that were seen, as in `Rows.outcomes` and in increasing order; how often."""
        if len(self._runs) > 1:
            self._runs = [_merged(self._runs)]
        nothing = np.empty(0, dtype=np.int64)
        return self._runs[0] if self._runs else (nothing, nothing)

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
        self._add_rewards(pairs, *_product(rows.R[pairs], rows.counts[pairs].astype(np.float64)))
        self.counts[pairs] += rows.counts[pairs]
        self._rows = None

    def _add_outcomes(self, outcomes: IntArray, times: IntArray) -> None:
        """Add outcomes in increasing order."""
        for seen, seen_times in self._runs:
            at = np.searchsorted(seen, outcomes)
            at[at == seen.size] = 0
            found = seen[at] == outcomes
            seen_times[at[found]] += times[found]
            outcomes, times = outcomes[~found], times[~found]
        if outcomes.size:
            self._runs.append((outcomes, times))
        while len(self._runs) > 1 and self._runs[-2][0].size <= 2 * self._runs[-1][0].size:
            self._runs[-2:] = [_merged(self._runs[-2:])]

    def _add_rewards(self, pairs: IntArray, sums: FloatArray, rest: FloatArray) -> None:
        """Add sums of rewards and their remainders; the errors of sums are exact (Knuth, 1969)."""
        before = self.reward_sums[0, pairs]
        total = before + sums
        added = total - before
        self.reward_sums[0, pairs] = total
        self.reward_sums[1, pairs] += ((before - (total - added)) + (sums - added)) + rest


def _merged(runs: list[tuple[IntArray, IntArray]]) -> tuple[IntArray, IntArray]:
    """Return sorted runs of outcomes, none of which is in two of them, as one."""
    outcomes, times = (np.concatenate(arrays) for arrays in zip(*runs, strict=True))
    order = np.argsort(outcomes, kind="stable")
    return outcomes[order], times[order]


def _product(a: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return a b rounded to float64, and the exact remainder (Dekker, 1971)."""
    product = a * b
    a_high, b_high = (SPLIT * x - (SPLIT * x - x) for x in (a, b))
    a_low, b_low = a - a_high, b - b_high
    rest = ((product - a_high * b_high) - a_low * b_high) - a_high * b_low
    return product, a_low * b_low - rest
