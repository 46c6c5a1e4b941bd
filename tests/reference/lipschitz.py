"""Reference implementation of the Lipschitz bound: source by source, d̂ by sweeps over all pairs."""

import numpy as np

import heirloom as hl
from heirloom.kernels.distances import lower_dissimilarity
from heirloom.transfer.bound import NO_PAIRS
from heirloom.transfer.lipschitz.distance import measure, weigh


class ReferenceLipschitz(hl.Bound):
    """`Lipschitz(d_max=...)` in the simplest sound way."""

    def __init__(self, *, d_max):
        self.d_max = np.asarray(d_max, dtype=float)

    def begin_task(self, setting, model, memory):
        self.model = model
        self.U = np.full(setting.n_pairs, setting.v_max)
        self._decider = np.zeros(setting.n_pairs, dtype=np.int64)
        prior = np.broadcast_to(self.d_max.reshape(-1), setting.n_pairs)
        V = np.full(setting.n_states, setting.v_max)
        self.transfers = [Transfer(source, prior, model, V, setting) for source in memory.sources]
        for transfer in self.transfers:
            self._lower(transfer, np.zeros(setting.n_pairs, dtype=bool))
        return bool(self.transfers)

    def refine(self, change):
        known = self.model._arrays.known
        lowered = [
            self._lower(transfer, known)
            for transfer in self.transfers
            if transfer.refine(change.pair, change.V)
        ]
        return np.concatenate(lowered) if lowered else NO_PAIRS

    def sources_used(self):
        return self._decider

    def _lower(self, transfer, known):
        bound = transfer.U
        pairs = np.flatnonzero(~known & (bound < self.U))
        self.U[pairs] = bound[pairs]
        self._decider[pairs] = transfer.source.task
        return pairs


def least_distance(largest_V_bar, setting):
    """A lower bound on every D̂, if the largest value of M̄ is `largest_V_bar`.

    D̂ is at least 2B where both models are known, B + (hi - lo) / 2 where one is, else hi - lo.
    """
    lo, hi = setting.reward_range
    max_W = max(largest_V_bar - setting.floor, -setting.floor if setting.terminating else 0)
    B = setting.epsilon * (1 + setting.gamma * max_W)
    return min(2 * B, B + (hi - lo) / 2, hi - lo)


class Transfer:
    """The bound from one source."""

    def __init__(self, source, prior, model, V, setting):
        self.source, self.model, self.setting = source, model, setting
        self.prior = prior
        self.widest = max(source.widest, model.widest)
        self.pairs = np.arange(setting.n_pairs)
        self.weights = weigh(source.V, self.widest, setting)
        self.least = least_distance(float(source.V.max()), setting)
        self.to_source = Distances(prior, setting)
        self.unknown_top = 0  # an unknown pair that attains the largest D̂, until it is known
        self._measure(self.to_source, model.rows, source.rows, self.weights, self.pairs)
        self._solve_to_source()
        self.V = V.copy()
        self.from_source = Distances(prior, setting)
        weights = weigh(V, self.widest, setting)
        self._measure(self.from_source, source.rows, model.rows, weights, self.pairs)
        self.from_source.lower(source.rows)

    def refine(self, pair, V):
        """Update after `pair` became known; return whether `U` may have changed."""
        largest = self.to_source.largest
        pairs = self.pairs[pair : pair + 1]
        if self.to_source.D[pair] > self.least:
            self._measure(self.to_source, self.model.rows, self.source.rows, self.weights, pairs)
        self._solve_to_source()
        changed = self.to_source.largest < largest
        if self.from_source.top <= least_distance(float(V.max()), self.setting):
            return changed
        if not np.array_equal(V, self.V):
            pairs, self.V = self.pairs, V.copy()
        weights = weigh(V, self.widest, self.setting)
        if self._measure(self.from_source, self.source.rows, self.model.rows, weights, pairs):
            self.from_source.lower(self.source.rows)
            return True
        return changed

    @property
    def U(self):
        """The bound on Q* over all pairs; it is valid at pairs that are unknown in M."""
        d = self.to_source.D + self.setting.gamma * self.to_source.largest
        return self.source.Q + np.minimum(d, self.from_source.d)

    def _measure(self, distances, m, m_bar, weights, pairs):
        """Lower D̂ at `pairs` to its value for the current models; return whether it decreased."""
        D = measure(m, m_bar, weights, pairs, self.setting)
        lower = D < distances.D[pairs]
        if not lower.any():
            return False
        distances.D[pairs[lower]] = D[lower]
        distances.top = float(distances.D.max())
        return True

    def _solve_to_source(self):
        """Solve the largest d̂(M ‖ M̄), in closed form if an unknown pair attains the largest D̂.

        Such a pair may lead to itself, so its d̂ is D̂ / (1-γ).
        """
        to_source, known = self.to_source, self.model._arrays.known
        pair = self.unknown_top
        if known[pair] or to_source.D[pair] < to_source.top:
            pair = self.unknown_top = int(np.where(known, -1.0, to_source.D).argmax())
        if not known[pair] and to_source.D[pair] == to_source.top:
            to_source.largest = min(to_source.largest, to_source.top / (1 - self.setting.gamma))
        else:
            to_source.lower(self.model.rows)


class Distances:
    """D̂ over pairs, and d̂ solved from above for this D̂."""

    def __init__(self, prior, setting):
        self.setting = setting
        self.D = prior.copy()
        self.top = float(prior.max())
        """The largest D̂."""
        self.largest = self.top / (1 - setting.gamma)
        """The largest d̂."""
        self.d = np.full(setting.n_pairs, self.largest)
        self.d_state = np.full(setting.n_states, self.largest)

    def lower(self, rows):
        """Lower d̂ to its fixed point through the model `rows`, within the tolerance."""
        setting = self.setting
        parameters = setting.gamma, setting.epsilon, setting.slack
        largest, _ = lower_dissimilarity(rows, self.D, *parameters, self.d, self.d_state, 10**9)
        self.largest = min(self.largest, largest)
