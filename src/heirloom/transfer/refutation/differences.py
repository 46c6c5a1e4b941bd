"""By how much the models of the tasks in a memory differ: as learned, and at least for certain."""

from dataclasses import dataclass

import numpy as np

from heirloom.arrays import BoolArray, FloatArray, IntArray, joined, ranges
from heirloom.kernels import audit as kernels
from heirloom.kernels.audit import SEEN, SURE, ComparedRows
from heirloom.mdp.rows import Rows
from heirloom.transfer.nearness.knowledge import Nearness
from heirloom.transfer.nearness.rows import gathered
from heirloom.transfer.program import lower_values
from heirloom.transfer.radii import Accuracy, Radii, all_outcomes
from heirloom.transfer.setting import Setting
from heirloom.transfer.source import Source


@dataclass(frozen=True, eq=False)
class Largest:
    """The largest difference between two tasks at each pair, and the numbers of these tasks."""

    difference: FloatArray
    tasks: IntArray
    """[pair, 2]; 0 where no two tasks differ."""


class Differences:
    """The differences between the known models of tasks.

    `seen` differences are those of the learned models. `sure` ones are what remains after the radii
    of both models are subtracted: lower bounds on the true differences, all at once with
    probability 1 - δ.
    """

    def __init__(
        self, sources: list[Source], setting: Setting, accuracy: Accuracy, outcomes: IntArray
    ) -> None:
        self.sources, self.setting, self.accuracy = sources, setting, accuracy
        self.outcomes = outcomes
        self.radii: list[Radii] = [accuracy.radii(one, setting, outcomes) for one in sources]
        self.rows = rows_by_pair(sources, self.radii, setting)
        self._owner = np.repeat(np.arange(setting.n_pairs), np.diff(self.rows.start))
        self._numbers = np.array([0, *(source.task for source in sources)])

    @property
    def compared(self) -> BoolArray:
        """The pairs that are known in two tasks or more."""
        return np.diff(self.rows.start) > 1

    def rewards(self) -> tuple[Largest, Largest]:
        """Return the largest differences of mean rewards, as seen and for certain."""
        rows, found = self.rows, []
        for eta in (np.zeros_like(rows.eta), rows.eta):
            low, high = self._best_rows(-rows.R - eta), self._best_rows(rows.R - eta)
            difference = rows.R[high] - rows.R[low] - (eta[high] + eta[low])
            found.append(self._of_rows(difference, low, high))
        return found[0], found[1]

    def transitions(self) -> tuple[Largest, Largest]:
        """Return the largest total variations between transitions, as seen and for certain."""
        arrays = self._arrays(3)
        kernels.compare_transitions(self.rows, self.setting.n_states, *arrays)
        return self._largest(arrays, SEEN), self._largest(arrays, SURE)

    def distances(self) -> Largest:
        """Lower bounds on the largest D between two tasks; the second task weighs with its values.

        The radii are those for all outcomes, since a prior says nothing about successors.
        """
        setting, n = self.setting, len(self.sources)
        everything = all_outcomes(setting)
        radii = [self.accuracy.radii(source, setting, everything) for source in self.sources]
        W, heaviest, top = np.empty((n, setting.n_states)), np.empty(n), np.empty(n)
        for i, source in enumerate(self.sources):
            W[i], heaviest[i], top[i] = lower_weights(source.rows, radii[i], setting)
        weights = kernels.Weights(W, -setting.floor, heaviest, top, setting.gamma)
        arrays = self._arrays(1)
        rows = rows_by_pair(self.sources, radii, setting)
        kernels.compare_models(rows, weights, setting.n_states, arrays[0][0], arrays[1][0])
        return self._largest(arrays, 0)

    def _arrays(self, n: int) -> tuple[FloatArray, IntArray]:
        n_pairs = self.setting.n_pairs
        return np.zeros((n, n_pairs)), np.full((n, n_pairs, 2), -1)

    def _largest(self, arrays: tuple[FloatArray, IntArray], which: int) -> Largest:
        differences, indices = arrays
        return Largest(differences[which], self._numbers[indices[which] + 1])

    def impossible(self, nearness: Nearness) -> Largest:
        """Return the largest probability of outcomes that a nearness excludes, and the task."""
        rows, owner, n_states = self.rows, self._owner, self.setting.n_states
        lengths = rows.last - rows.first
        row, at = np.repeat(np.arange(lengths.size), lengths), ranges(rows.first, lengths)
        excluded = nearness._excludes(owner[row], rows.successors[at], n_states)
        mass = rows.ends * nearness._excludes(owner, np.full(owner.size, n_states), n_states)
        mass += np.bincount(row, excluded * rows.p[at], minlength=lengths.size)
        worst = self._best_rows(mass)
        return self._of_rows(mass[worst], worst, worst)

    def above(self, highest: FloatArray) -> Largest:
        """Return by how much mean rewards are surely above `highest`, and in which task."""
        excess = self.rows.R - self.rows.eta - highest[self._owner]
        worst = self._best_rows(excess)
        return self._of_rows(excess[worst], worst, worst)

    def _best_rows(self, values: FloatArray) -> IntArray:
        """Return the first row with the largest value, of each pair that has rows."""
        order = np.lexsort((-np.arange(values.size), values, self._owner))
        return order[self.rows.start[1:][np.diff(self.rows.start) > 0] - 1]

    def _of_rows(self, difference: FloatArray, first: IntArray, second: IntArray) -> Largest:
        """Return positive differences of two rows of each pair that has rows, with their tasks."""
        n_pairs, pairs = self.setting.n_pairs, self._owner[first]
        largest, tasks = np.zeros(n_pairs), np.zeros((n_pairs, 2), dtype=np.int64)
        largest[pairs] = np.maximum(difference, 0.0)
        tasks[pairs] = self._numbers[self.rows.source[np.column_stack([first, second])] + 1]
        tasks[largest == 0] = 0
        return Largest(largest, tasks)


def rows_by_pair(sources: list[Source], radii: list[Radii], setting: Setting) -> ComparedRows:
    """Return the known rows of `sources`, ordered by pair and then by task.

    Larger radii than the width of the reward range, or than 1 for transitions, prove nothing more
    and are reduced to these.
    """
    n_pairs, (lo, hi) = setting.n_pairs, setting.reward_range
    own = [gathered(source) for source in sources]
    lengths = [one.pairs.size for one in own]
    sizes = np.array([source.rows.p.size for source in sources], dtype=np.int64)
    pairs = joined([one.pairs for one in own], np.int64)
    order = np.argsort(pairs, kind="stable")
    shift = np.repeat(np.cumsum(sizes) - sizes, lengths)[order]
    start = np.zeros(n_pairs + 1, dtype=np.int64)
    np.cumsum(np.bincount(pairs, minlength=n_pairs), out=start[1:])
    eta = [radius.rewards[one.pairs] for radius, one in zip(radii, own, strict=True)]
    tau = [radius.transitions[one.pairs] for radius, one in zip(radii, own, strict=True)]
    return ComparedRows(
        start=start,
        source=np.repeat(np.arange(len(sources)), lengths)[order],
        R=joined([one.R for one in own], np.float64)[order],
        ends=joined([one.ends for one in own], np.float64)[order],
        first=joined([one.first for one in own], np.int64)[order] + shift,
        last=joined([one.last for one in own], np.int64)[order] + shift,
        successors=joined([source.rows.successors for source in sources], np.int32),
        p=joined([source.rows.p for source in sources], np.float64),
        eta=np.minimum(joined(eta, np.float64)[order], hi - lo),
        tau=np.minimum(joined(tau, np.float64)[order], 1.0),
    )


def lower_weights(rows: Rows, radii: Radii, setting: Setting) -> tuple[FloatArray, float, float]:
    """Return lower bounds W = V - c on the weights of states, from the known pairs of a task.

    Only a lower bound on D refutes a prior, which needs lower bounds on the values V of the
    weighing task. Also returns the largest weight of an outcome, and the sum of the two largest.
    """
    W = np.maximum(lower_values(rows, radii, setting) - setting.floor, 0.0)
    largest = np.sort(np.append(W, -setting.floor) if setting.terminating else W)[-2:]
    return W, float(largest[-1]), float(largest.sum()) if largest.size > 1 else 0.0
