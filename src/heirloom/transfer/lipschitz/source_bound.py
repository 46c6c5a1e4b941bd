"""What one source says of the task at hand, refined as the task is learned."""

from typing import Any, Protocol

import numpy as np

from heirloom.arrays import BoolArray, FloatArray, IntArray
from heirloom.kernels import dissimilarity
from heirloom.mdp.learned import Known, LearnedModel
from heirloom.transfer.lipschitz.distance import ModelDistance
from heirloom.transfer.memory import Source
from heirloom.transfer.setting import Setting

ROUNDING = 1e-9


class Solved(Protocol):
    """D̂ over pairs in one direction, d̂ solved for it, and the largest d̂."""

    D: FloatArray
    d: FloatArray

    @property
    def largest(self) -> float:
        """The largest d̂."""


class SourceBound:
    """What one source says of the task at hand: Q̄ + min(d̂(M ‖ M̄), d̂(M̄ ‖ M)).

    D̂ and d̂ only ever fall: `there` from M to M̄, `back` from M̄ to M. Only pairs that are unknown in
    M need a bound, and from there M may lead anywhere: d̂(M ‖ M̄) = D̂ + γ max d̂.
    """

    there: Solved
    back: Solved

    def __init__(
        self,
        source: Source,
        prior: FloatArray,
        model: LearnedModel,
        setting: Setting,
        distance: ModelDistance,
    ) -> None:
        self.source, self.model, self.setting, self.distance = source, model, setting, distance
        self.prior = prior

    @property
    def U(self) -> FloatArray:
        """The bound on Q* at pairs that are unknown in M, over all pairs."""
        d = self.there.D + self.setting.gamma * self.there.largest
        if self.distance.both_ways:
            np.minimum(d, self.back.d, out=d)
        return self.source.Q + d

    def prior_decides(self) -> BoolArray:
        """Where the prior is below D̂(M ‖ M̄), over pairs."""
        widest = max(self.source.widest, self.model.arrays.widest)
        weights = self.distance.weigh(self.source.V, widest, self.setting)
        rows, pairs = (self.model.rows, self.source.rows), np.arange(self.setting.n_pairs)
        D = self.distance.between(*rows, weights, pairs, self.setting)
        return self.prior < D - ROUNDING * np.maximum(1.0, D)


class Transfer(SourceBound):
    """A source, and any model distance."""

    there: "Distances"
    back: "Distances"

    def __init__(
        self,
        source: Source,
        prior: FloatArray,
        model: LearnedModel,
        V: FloatArray,
        setting: Setting,
        distance: ModelDistance,
    ) -> None:
        super().__init__(source, prior, model, setting, distance)
        self.widest = max(source.widest, model.arrays.widest)
        self.pairs = np.arange(setting.n_pairs)
        self.weights = distance.weigh(source.V, self.widest, setting)
        self.least = distance.least(float(source.V.max()), setting)
        self.there = Distances(prior, setting)
        self.unknown_top = 0  # an unknown pair that attains the largest D̂, until it is known
        self.useful_pair = 0  # an unknown pair where Q̄ is below the bound, until it is not
        self._measure(self.there, model.rows, source.rows, self.weights, self.pairs)
        self._solve_there()
        if distance.both_ways:
            self.V = V.copy()
            self.back = Distances(prior, setting)
            weights = distance.weigh(V, self.widest, setting)
            self._measure(self.back, source.rows, model.rows, weights, self.pairs)
            self.back.lower(source.rows)

    def refine(self, pair: int, V: FloatArray) -> bool:
        """The pair became known; returns whether `U` may have changed."""
        largest = self.there.largest
        here = self.pairs[pair : pair + 1]
        if self.there.D[pair] > self.least:
            self._measure(self.there, self.model.rows, self.source.rows, self.weights, here)
        self._solve_there()
        changed = self.there.largest < largest
        if not self.distance.both_ways:
            return changed
        if self.back.top <= self.distance.least(float(V.max()), self.setting):
            return changed
        if not np.array_equal(V, self.V):
            here, self.V = self.pairs, V.copy()
        weights = self.distance.weigh(V, self.widest, self.setting)
        if self._measure(self.back, self.source.rows, self.model.rows, weights, here):
            self.back.lower(self.source.rows)
            return True
        return changed

    def matters(self, U: FloatArray, own_U: FloatArray) -> bool:
        """Whether the source may still lower a bound: d̂ >= 0, so only where Q̄ is below it."""
        known, Q, j = self.model.arrays.known, self.source.Q, self.useful_pair
        if not known[j] and Q[j] < U[j] and Q[j] < own_U[j]:
            return True
        useful = ~known & (Q < U) & (Q < own_U)
        self.useful_pair = int(useful.argmax())
        return bool(useful[self.useful_pair])

    def _measure(
        self, distances: "Distances", m: Known, m_bar: Known, weights: Any, pairs: IntArray
    ) -> bool:
        """Lower D̂ at `pairs`, if what is known by now lowers it."""
        D = self.distance.between(m, m_bar, weights, pairs, self.setting)
        lower = D < distances.D[pairs]
        if not lower.any():
            return False
        distances.D[pairs[lower]] = D[lower]
        distances.top = float(distances.D.max())
        return True

    def _solve_there(self) -> None:
        """The largest d̂(M ‖ M̄): in closed form where an unknown pair attains the largest D̂.

        For such a pair may lead to itself, and then d̂ = D̂ / (1-γ).
        """
        there, known = self.there, self.model.arrays.known
        if known[self.unknown_top] or there.D[self.unknown_top] < there.top:
            self.unknown_top = int(np.where(known, -1.0, there.D).argmax())
        if not known[self.unknown_top] and there.D[self.unknown_top] == there.top:
            there.largest = min(there.largest, there.top / (1 - self.setting.gamma))
        else:
            there.lower(self.model.rows)


class Distances:
    """D̂ over pairs, and d̂ solved for it from above."""

    def __init__(self, prior: FloatArray, setting: Setting) -> None:
        self.setting = setting
        self.D = prior.copy()
        self.top = float(prior.max())
        """The largest D̂."""
        self.largest = self.top / (1 - setting.gamma)
        """The largest d̂."""
        self.d = np.full(setting.n_pairs, self.largest)
        self.worst = np.full(setting.n_states, self.largest)

    def lower(self, rows: Known) -> None:
        """Lower d̂ to its fixed point through the model `rows`, within the tolerance."""
        setting = self.setting
        largest = dissimilarity.lower_dissimilarity(
            rows, self.D, setting.gamma, setting.epsilon, setting.slack, self.d, self.worst
        )
        self.largest = min(self.largest, largest)
