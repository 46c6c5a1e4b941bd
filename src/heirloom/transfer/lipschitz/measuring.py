"""D̂ between the current task and each source, in both directions, updated as the task is learned.

D̂ only decreases, as more pairs become known. D̂(M ‖ M̄), from the task to a source, is weighted with
the values of the source; D̂(M̄ ‖ M), from a source to the task, with those of the task. `ByKernel`
computes the paper's distance in compiled code, for all sources at once; `ByCall` calls any
`ModelDistance`, source by source.
"""

from typing import Any

import numpy as np

from heirloom.arrays import FloatArray, IntArray, frozen
from heirloom.kernels import dissimilarity, distances
from heirloom.kernels.dissimilarity import FROM_SOURCE, TO_SOURCE
from heirloom.mdp.learned import LearnedModel
from heirloom.transfer.bound import Change
from heirloom.transfer.lipschitz.distance import (
    ModelDistance,
    least_distance,
    measure,
    parameters_of,
)
from heirloom.transfer.lipschitz.known_rows import KnownRows, plain_tuples
from heirloom.transfer.lipschitz.missing_actions import Priors
from heirloom.transfer.setting import Setting
from heirloom.transfer.source import Source

RESERVE = 64  # additional heavy states, which take over when others become lighter
MAX_CHANGES = 4096  # entries of D̂ listed as changed; if there are more, all pairs are examined


class ByKernel:
    """The paper's distance, from compiled code.

    D̂ begins at the smaller of the prior and the distance that follows from the sources alone.
    """

    def __init__(
        self,
        sources: list[Source],
        known: KnownRows,
        priors: Priors,
        model: LearnedModel,
        setting: Setting,
    ) -> None:
        n, n_pairs = len(sources), setting.n_pairs
        self.setting = setting
        self.D = _initial_distances(priors)
        widest = max(model.widest, *(source.widest for source in sources))
        n_ranks = min(widest + 1, setting.n_states)
        V_bar = np.array([source.V for source in sources])
        source_weights = distances.SourceWeights(
            W=np.maximum(V_bar - setting.floor, 0.0),
            heaviest=np.empty((n, n_ranks), dtype=np.int64),
            least=np.empty(n),
            least_one_known=np.empty(n),
        )
        arrays = distances.Measured(
            to_source=self.D.to_source,
            from_source=self.D.from_source,
            largest=self.D.largest,
            n_at_largest=np.empty((n, 2), dtype=np.int64),
            changed=self.D.changed,
            n_changed=self.D.n_changed,
            all_changed=self.D.all_changed,
            is_listed=np.zeros(n_pairs, dtype=bool),
            listed=np.empty(n_pairs, dtype=np.int64),
        )
        self._n_at_largest = arrays.n_at_largest
        self._task_weights = _task_weights(setting, n_ranks)
        arguments = (
            plain_tuples(source_weights),
            plain_tuples(self._task_weights),
            plain_tuples(parameters_of(setting)),
        )
        self._sources, self._measured = plain_tuples(known.linked), plain_tuples(arrays)
        distances.measure_sources(self._sources, *arguments, self._measured)
        self._arguments = *arguments, setting.floor
        self._known_pairs, self._n_known = np.empty(n_pairs, dtype=np.int64), 0
        largest = self.D.largest
        self._to_source_is_final = bool((largest[:, TO_SOURCE] <= source_weights.least).all())
        self._largest_from_source = float(largest[:, FROM_SOURCE].max())
        self._weights_are_current = False

    def add(self, pair: int) -> None:
        """Mark the pair as known in the task; calling again for the same pair has no effect."""
        if self._n_known == 0 or self._known_pairs[self._n_known - 1] != pair:
            self._known_pairs[self._n_known] = pair
            self._n_known += 1

    def wait(self) -> None:
        """Take note that a change is left out, because the next update includes it."""
        self._weights_are_current = False

    def update(self, change: Change, pairs: IntArray, linked: Any, active: IntArray) -> None:
        """Lower D̂ of the `active` sources after a change; `linked` holds the rows of the task.

        `pairs` became known since the last update.
        """
        V, W = change.V, self._task_weights.W
        if self._is_final(V):
            self._weights_are_current = False
            return
        decreased = change.decreased
        if not self._weights_are_current:  # skipped changes lowered values at other states too
            # Read-only like `change.decreased`: otherwise the kernel would be compiled twice.
            decreased = frozen(np.flatnonzero(np.maximum(V - self.setting.floor, 0.0) != W))
        self._largest_from_source = distances.remeasure_sources(
            pairs,
            self._known_pairs[: self._n_known],
            V,
            decreased,
            active,
            linked,
            self._sources,
            *self._arguments,
            self._measured,
        )
        self._weights_are_current = True

    def exclude(self, pairs: IntArray) -> None:
        """Leave pairs that the task lacks out of every maximum."""
        exclude_pairs(self.D, pairs)
        self.D.all_changed[:] = True
        for D, direction in ((self.D.to_source, TO_SOURCE), (self.D.from_source, FROM_SOURCE)):
            at_largest = D == self.D.largest[:, direction : direction + 1]
            self._n_at_largest[:, direction] = at_largest.sum(axis=1)
        self._largest_from_source = float(self.D.largest[:, FROM_SOURCE].max())

    def _is_final(self, V: FloatArray) -> bool:
        """Return whether no D̂ can decrease, because all are at a lower bound on any D̂.

        For D̂(M̄ ‖ M) the lower bound depends on the largest value in V; the value of one heavy state
        gives a smaller, still valid one.
        """
        if not self._to_source_is_final:
            return False
        least = least_distance(float(V[self._task_weights.heavy[0]]), self.setting)
        return self._largest_from_source <= least


class ByCall:
    """Any model distance, called for one source after the other."""

    def __init__(
        self,
        sources: list[Source],
        distance: ModelDistance,
        priors: Priors,
        model: LearnedModel,
        setting: Setting,
    ) -> None:
        self.sources, self.distance, self.model, self.setting = sources, distance, model, setting
        self.D = _initial_distances(priors)
        self._widest = max(model.widest, *(source.widest for source in sources))
        self._weights = [distance.weigh(source.V, self._widest, setting) for source in sources]
        pairs = frozen(np.arange(setting.n_pairs))  # user-defined distances are given the array
        self._V = np.full(setting.n_states, setting.v_max)
        task_weights = distance.weigh(self._V, self._widest, setting)
        for i, source in enumerate(sources):
            self._lower(self.D.to_source[i], self._to_source(i, pairs), pairs)
            if distance.both_ways:
                rows = source.rows, model.first_rows
                D = measure(distance, *rows, task_weights, pairs, setting)
                self._lower(self.D.from_source[i], D, pairs)
        self.D.largest[:, TO_SOURCE] = self.D.to_source.max(axis=1)
        self.D.largest[:, FROM_SOURCE] = self.D.from_source.max(axis=1)

    def exclude(self, pairs: IntArray) -> None:
        """Leave pairs that the task lacks out of every maximum."""
        exclude_pairs(self.D, pairs)
        self.D.all_changed[:] = self.distance.both_ways  # otherwise d̂(M̄ ‖ M) is not solved

    def add(self, pair: int) -> None:
        """Do nothing: `update` reads the known pairs from the model of the task."""

    def wait(self) -> None:
        """Do nothing: `update` compares all values."""

    def update(self, change: Change, pairs: IntArray, linked: Any, active: IntArray) -> None:
        """Lower D̂ of the `active` sources after `pairs` became known; `linked` is not used."""
        pairs = new_pairs = frozen(pairs)
        if not np.array_equal(change.V, self._V):
            pairs, self._V = frozen(np.arange(self.setting.n_pairs)), change.V.copy()
        task_weights = self.distance.weigh(change.V, self._widest, self.setting)
        for i in active.tolist():
            if self._lower(self.D.to_source[i], self._to_source(i, new_pairs), new_pairs):
                self.D.largest[i, TO_SOURCE] = self.D.to_source[i].max()
            if not self.distance.both_ways:
                continue
            rows = self.sources[i].rows, self.model.first_rows
            D = measure(self.distance, *rows, task_weights, pairs, self.setting)
            if self._lower(self.D.from_source[i], D, pairs):
                self.D.largest[i, FROM_SOURCE] = self.D.from_source[i].max()
                self.D.all_changed[i] = True

    def _to_source(self, i: int, pairs: IntArray) -> FloatArray:
        """Return D̂ from the task to the source i at `pairs`."""
        rows = self.model.first_rows, self.sources[i].rows
        return measure(self.distance, *rows, self._weights[i], pairs, self.setting)

    def _lower(self, D: FloatArray, D_new: FloatArray, pairs: IntArray) -> bool:
        """Lower D at `pairs` to `D_new`; return whether any entry decreased."""
        lower = D_new < D[pairs]
        D[pairs[lower]] = D_new[lower]
        return bool(lower.any())


def exclude_pairs(D: dissimilarity.Distances, pairs: IntArray) -> None:
    """Set D̂ to -infinity at pairs that the task lacks, so that d̂ is no part of a maximum there."""
    D.to_source[:, pairs] = D.from_source[:, pairs] = -np.inf
    D.largest[:, TO_SOURCE] = D.to_source.max(axis=1)
    D.largest[:, FROM_SOURCE] = D.from_source.max(axis=1)


def _initial_distances(priors: Priors) -> dissimilarity.Distances:
    """Return D̂ of all sources, set to their priors; `largest` is not yet filled in."""
    n = len(priors.to_source)
    return dissimilarity.Distances(
        to_source=priors.to_source.copy(),
        from_source=priors.from_source.copy(),
        largest=np.empty((n, 2)),
        changed=np.empty(MAX_CHANGES, dtype=np.int64),
        n_changed=np.zeros(1, dtype=np.int64),
        all_changed=np.zeros(n, dtype=bool),
    )


def _task_weights(setting: Setting, n_ranks: int) -> distances.TaskWeights:
    """Return the weights W of the current task before any pair is known, and heaviest states."""
    W = np.full(setting.n_states, max(setting.v_max - setting.floor, 0.0))
    heavy = np.arange(min(n_ranks + RESERVE, setting.n_states))
    is_heavy = np.zeros(setting.n_states, dtype=bool)
    is_heavy[heavy] = True
    outside_bound = W[:1].copy() if heavy.size < W.size else np.array([-np.inf])
    return distances.TaskWeights(W, heavy, is_heavy, outside_bound, W[:n_ranks].copy())
