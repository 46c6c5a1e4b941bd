"""D̂ between the task at hand and each source, in both directions, kept as the task is learned.

D̂ only ever falls: to what is known of both models by now, weighed with the values of the source
(there, from the task to it) or with those of the task (back). `ByKernel` is the paper's distance in
compiled code, for all sources at once; `ByCall` asks any `ModelDistance`, source by source.
"""

from typing import Any

import numpy as np

from heirloom.arrays import FloatArray, IntArray
from heirloom.kernels import dissimilarity, distances
from heirloom.mdp.learned import LearnedModel
from heirloom.transfer.bound import Change
from heirloom.transfer.lipschitz.distance import ModelDistance, WeightedL1, terms_of
from heirloom.transfer.lipschitz.known_rows import KnownRows, plain
from heirloom.transfer.memory import Source
from heirloom.transfer.setting import Setting

RESERVE = 64  # heavy states more than are needed, to be used when others become lighter
ROOM = 4096  # changes of D̂ that are listed; where there are more, all pairs are looked at


class ByKernel:
    """The paper's distance; begins with what is known of the sources alone, below the prior."""

    def __init__(
        self,
        sources: list[Source],
        known: KnownRows,
        prior: FloatArray,
        model: LearnedModel,
        setting: Setting,
    ) -> None:
        n, n_pairs = len(sources), setting.n_pairs
        self.setting, self._distance = setting, WeightedL1()
        self.D = _begun(prior, n)
        widest = max(model.arrays.widest, *(source.widest for source in sources))
        n_ranks = min(widest + 1, setting.n_states)
        V_bar = np.array([source.V for source in sources])
        weights = distances.SourceWeights(
            W=np.maximum(V_bar - setting.floor, 0.0),
            heaviest=np.empty((n, n_ranks), dtype=np.int64),
            least=np.empty(n),
            one_known=np.empty(n),
        )
        measured = distances.Measured(
            there=self.D.there,
            back=self.D.back,
            tops=self.D.tops,
            at_top=np.empty((n, 2), dtype=np.int64),
            changed=self.D.changed,
            n_changed=self.D.n_changed,
            all_changed=self.D.all_changed,
            listed=np.zeros(n_pairs, dtype=bool),
            some=np.empty(n_pairs, dtype=np.int64),
        )
        self._own = _own_weights(setting, n_ranks)
        parts = plain(weights), plain(self._own), plain(terms_of(setting))
        self._sources, self._measured = plain(known.linked), plain(measured)
        distances.measure_sources(self._sources, *parts, self._measured)
        self._parts = *parts, setting.floor
        self._known_pairs, self._n_known = np.empty(n_pairs, dtype=np.int64), 0
        self._there_stays = bool((self.D.tops[:, 0] <= weights.least).all())
        self._highest, self._looked = float(self.D.tops[:, 1].max()), False

    def add(self, pair: int) -> None:
        """The pair is known in the task from now on; it may be said again."""
        if self._n_known == 0 or self._known_pairs[self._n_known - 1] != pair:
            self._known_pairs[self._n_known] = pair
            self._n_known += 1

    def follow(self, change: Change, linked: Any, active: IntArray) -> None:
        """Lower D̂ of the `active` sources after a change; `linked` is what the task knows."""
        V, W = change.V, self._own.W
        if self._all_stays(V):
            self._looked = False
            return
        decreased = change.decreased
        if not self._looked:  # values may have fallen at other states as well
            decreased = np.flatnonzero(np.maximum(V - self.setting.floor, 0.0) != W)
        self._highest = distances.remeasure_sources(
            change.pair,
            self._known_pairs[: self._n_known],
            V,
            decreased,
            active,
            linked,
            self._sources,
            *self._parts,
            self._measured,
        )
        self._looked = True

    def _all_stays(self, V: FloatArray) -> bool:
        """Whether no D̂ can fall: all are as small as any, as long as one state is worth so much."""
        if not self._there_stays:
            return False
        return self._highest <= self._distance.least(float(V[self._own.heavy[0]]), self.setting)


class ByCall:
    """Any model distance."""

    def __init__(
        self,
        sources: list[Source],
        distance: ModelDistance,
        prior: FloatArray,
        model: LearnedModel,
        setting: Setting,
    ) -> None:
        self.sources, self.distance, self.model, self.setting = sources, distance, model, setting
        self.D = _begun(prior, len(sources))
        self._widest = max(model.arrays.widest, *(source.widest for source in sources))
        self._weights = [distance.weigh(one.V, self._widest, setting) for one in sources]
        pairs = np.arange(setting.n_pairs)
        self._V = np.full(setting.n_states, setting.v_max)
        back = distance.weigh(self._V, self._widest, setting)
        for i, source in enumerate(sources):
            self._lower(self.D.there[i], self._there(i, pairs), pairs)
            if distance.both_ways:
                D = distance.between(source.rows, model.rows, back, pairs, setting)
                self._lower(self.D.back[i], D, pairs)
        self.D.tops[:, 0], self.D.tops[:, 1] = self.D.there.max(axis=1), self.D.back.max(axis=1)

    def add(self, pair: int) -> None:
        """The model of the task has it already."""

    def follow(self, change: Change, linked: Any, active: IntArray) -> None:
        """Lower D̂ of the `active` sources after a change; `linked` is what the task knows."""
        pairs = here = np.array([change.pair])
        if not np.array_equal(change.V, self._V):
            pairs, self._V = np.arange(self.setting.n_pairs), change.V.copy()
        back = self.distance.weigh(change.V, self._widest, self.setting)
        for i in active.tolist():
            if self._lower(self.D.there[i], self._there(i, here), here):
                self.D.tops[i, 0] = self.D.there[i].max()
            if not self.distance.both_ways:
                continue
            rows = self.sources[i].rows, self.model.rows
            D = self.distance.between(*rows, back, pairs, self.setting)
            if self._lower(self.D.back[i], D, pairs):
                self.D.tops[i, 1] = self.D.back[i].max()
                self.D.all_changed[i] = True

    def _there(self, i: int, pairs: IntArray) -> FloatArray:
        rows = self.model.rows, self.sources[i].rows
        return self.distance.between(*rows, self._weights[i], pairs, self.setting)

    def _lower(self, D: FloatArray, measured: FloatArray, pairs: IntArray) -> bool:
        """Lower D at `pairs`; returns whether it fell somewhere."""
        lower = measured < D[pairs]
        D[pairs[lower]] = measured[lower]
        return bool(lower.any())


def _begun(prior: FloatArray, n: int) -> dissimilarity.Distances:
    """D̂ of n sources where nothing but the prior is known."""
    return dissimilarity.Distances(
        there=np.tile(prior, (n, 1)),
        back=np.tile(prior, (n, 1)),
        tops=np.empty((n, 2)),
        changed=np.empty(ROOM, dtype=np.int64),
        n_changed=np.zeros(1, dtype=np.int64),
        all_changed=np.zeros(n, dtype=bool),
    )


def _own_weights(setting: Setting, n_ranks: int) -> distances.OwnWeights:
    """W of the task at hand, before anything is known of it, and its heaviest states."""
    W = np.full(setting.n_states, max(setting.v_max - setting.floor, 0.0))
    heavy = np.arange(min(n_ranks + RESERVE, setting.n_states))
    is_heavy = np.zeros(setting.n_states, dtype=bool)
    is_heavy[heavy] = True
    bar = W[:1].copy() if heavy.size < W.size else np.array([-np.inf])
    return distances.OwnWeights(W, heavy, is_heavy, bar, W[:n_ranks].copy())
