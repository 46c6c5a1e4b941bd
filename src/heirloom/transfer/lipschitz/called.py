"""D̂ by a user-defined model distance, which is called for one source after the other."""

import numpy as np

from heirloom.arrays import FloatArray, IntArray, frozen
from heirloom.kernels.sources import FROM_SOURCE, TO_SOURCE, Sources
from heirloom.mdp.learned import LearnedModel
from heirloom.transfer.lipschitz.distance import ModelDistance, measure
from heirloom.transfer.setting import Setting
from heirloom.transfer.source import Source


class CalledDistance:
    """D̂ of all sources in both directions, in the arrays of `state`.

    It is first lowered to the distance that follows from the sources alone.
    """

    def __init__(
        self,
        sources: list[Source],
        distance: ModelDistance,
        state: Sources,
        model: LearnedModel,
        setting: Setting,
    ) -> None:
        self.sources, self.distance, self.state = sources, distance, state
        self.model, self.setting = model, setting
        self._widest = max(model.widest, *(source.widest for source in sources))
        self._weights = [distance.weigh(source.V, self._widest, setting) for source in sources]
        self._V = np.full(setting.n_states, setting.v_max)
        pairs = frozen(np.arange(setting.n_pairs))  # user-defined distances are given the array
        self._lower(pairs, pairs, self._V, np.arange(len(sources)))
        state.is_outdated[:] = False  # nothing was solved yet

    def update(self, V: FloatArray, pairs: IntArray, active: IntArray) -> None:
        """Lower D̂ of the `active` sources after `pairs` became known; V are the values now."""
        new_pairs = pairs = frozen(pairs)
        if not np.array_equal(V, self._V):
            pairs, self._V = frozen(np.arange(self.setting.n_pairs)), V.copy()
        self._lower(new_pairs, pairs, V, active)

    def _lower(
        self, pairs: IntArray, pairs_from: IntArray, V: FloatArray, active: IntArray
    ) -> None:
        """Lower D̂(M ‖ M̄) at `pairs`, and D̂(M̄ ‖ M), which is weighed with V, at `pairs_from`."""
        state, rows = self.state, self.model.first_rows
        weights = self.distance.weigh(V, self._widest, self.setting)
        for i in active.tolist():
            rows_bar, weights_bar = self.sources[i].rows, self._weights[i]
            D = measure(self.distance, rows, rows_bar, weights_bar, pairs, self.setting)
            if _lower(state.D_to[i], D, pairs):
                state.largest[i, TO_SOURCE], state.candidate[i] = state.D_to[i].max(), 0
            if not self.distance.both_ways:
                continue
            D = measure(self.distance, rows_bar, rows, weights, pairs_from, self.setting)
            if _lower(state.D_from[i], D, pairs_from):
                state.largest[i, FROM_SOURCE] = state.D_from[i].max()
                state.is_outdated[i] = True


def _lower(D: FloatArray, D_new: FloatArray, pairs: IntArray) -> bool:
    """Lower D at `pairs` to `D_new`; return whether any entry decreased."""
    lower = D_new < D[pairs]
    D[pairs[lower]] = D_new[lower]
    return bool(lower.any())
