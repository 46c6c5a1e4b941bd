"""The Lipschitz bound as a reference: source by source, d̂ by sweeps over all pairs."""

import numpy as np

import heirloom as hl
from heirloom.kernels import dissimilarity
from heirloom.transfer.bound import NOTHING
from heirloom.transfer.lipschitz.distance import WeightedL1


class ReferenceLipschitz(hl.Bound):
    """`Lipschitz(d_max=...)` in the plainest way that is sound."""

    def __init__(self, *, d_max, distance=None):
        self.d_max, self.distance = np.asarray(d_max, dtype=float), distance or WeightedL1()

    def begin_task(self, setting, model, memory):
        self.model = model
        self.U = np.full(setting.n_pairs, setting.v_max)
        self._decider = np.zeros(setting.n_pairs, dtype=np.int64)
        prior = np.broadcast_to(self.d_max.reshape(-1), setting.n_pairs)
        V = np.full(setting.n_states, setting.v_max)
        self.transfers = [
            Transfer(source, prior, model, V, setting, self.distance) for source in memory.sources
        ]
        for transfer in self.transfers:
            self._lower(transfer, np.zeros(setting.n_pairs, dtype=bool))
        return bool(self.transfers)

    def refine(self, change):
        known = self.model.arrays.known
        lowered = [
            self._lower(transfer, known)
            for transfer in self.transfers
            if transfer.refine(change.pair, change.V)
        ]
        return np.concatenate(lowered) if lowered else NOTHING

    def sources_used(self):
        return self._decider

    def _lower(self, transfer, known):
        bound = transfer.U
        pairs = np.flatnonzero(~known & (bound < self.U))
        self.U[pairs] = bound[pairs]
        self._decider[pairs] = transfer.source.task
        return pairs


class Transfer:
    """A source, and any model distance."""

    def __init__(self, source, prior, model, V, setting, distance):
        self.source, self.model, self.setting, self.distance = source, model, setting, distance
        self.prior = prior
        self.widest = max(source.widest, model.arrays.widest)
        self.pairs = np.arange(setting.n_pairs)
        self.weights = distance.weigh(source.V, self.widest, setting)
        self.least = distance.least(float(source.V.max()), setting)
        self.there = Distances(prior, setting)
        self.unknown_top = 0  # an unknown pair that attains the largest D̂, until it is known
        self._measure(self.there, model.rows, source.rows, self.weights, self.pairs)
        self._solve_there()
        if distance.both_ways:
            self.V = V.copy()
            self.back = Distances(prior, setting)
            weights = distance.weigh(V, self.widest, setting)
            self._measure(self.back, source.rows, model.rows, weights, self.pairs)
            self.back.lower(source.rows)

    def refine(self, pair, V):
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

    @property
    def U(self):
        """The bound on Q* at pairs that are unknown in M, over all pairs."""
        d = self.there.D + self.setting.gamma * self.there.largest
        if self.distance.both_ways:
            np.minimum(d, self.back.d, out=d)
        return self.source.Q + d

    def _measure(self, distances, m, m_bar, weights, pairs):
        """Lower D̂ at `pairs`, if what is known by now lowers it."""
        D = self.distance.between(m, m_bar, weights, pairs, self.setting)
        lower = D < distances.D[pairs]
        if not lower.any():
            return False
        distances.D[pairs[lower]] = D[lower]
        distances.top = float(distances.D.max())
        return True

    def _solve_there(self):
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

    def __init__(self, prior, setting):
        self.setting = setting
        self.D = prior.copy()
        self.top = float(prior.max())
        """The largest D̂."""
        self.largest = self.top / (1 - setting.gamma)
        """The largest d̂."""
        self.d = np.full(setting.n_pairs, self.largest)
        self.worst = np.full(setting.n_states, self.largest)

    def lower(self, rows):
        """Lower d̂ to its fixed point through the model `rows`, within the tolerance."""
        setting = self.setting
        largest = dissimilarity.lower_dissimilarity(
            rows, self.D, setting.gamma, setting.epsilon, setting.slack, self.d, self.worst
        )
        self.largest = min(self.largest, largest)
