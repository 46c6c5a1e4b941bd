"""How far two models that were learned in part may be from each other, pair by pair."""

from typing import Any, NamedTuple, Protocol

import numpy as np

from heirloom.arrays import FloatArray, IntArray
from heirloom.kernels import distances
from heirloom.mdp.learned import Known
from heirloom.transfer.setting import Setting


class ModelDistance(Protocol):
    """An upper bound D̂_sa(M ‖ M̄) on how far two models are at a pair.

    It must hold for all tasks that agree with what is known, and serve the proof of Proposition 1:
    Q*_M <= Q*_M̄ + d, where d = D̂ + γ Σ T max d. Its class and its attributes tell it apart from
    others in a memory, so parameters are attributes.
    """

    both_ways: bool
    """Whether D̂(M̄ ‖ M), passed on through the model of M̄, bounds Q*_M - Q*_M̄ as well."""

    def weigh(self, V_bar: FloatArray, widest: int, setting: Setting) -> Any:
        """What `between` needs of upper bounds on the values of M̄; no row is longer than widest."""

    def between(
        self, m: Known, m_bar: Known, weights: Any, pairs: IntArray, setting: Setting
    ) -> FloatArray:
        """D̂(M ‖ M̄) at `pairs`, with weights from the values of M̄."""


class Weights(NamedTuple):
    """The weights of states, W = V̄ - c, and the heaviest of them by falling weight."""

    W: FloatArray
    heaviest: IntArray


class WeightedL1:
    """The paper's distance, |R - R̄| + γ Σ V̄ |T - T̄|, at its largest (Proposition 3).

    The least of the rows that apply, with W = V̄ - c for V̄ and B = ε (1 + γ max W):

        both known      |R̂ - R̄̂| + γ Σ W |T̂ - T̄̂| + 2B
        one known       max(R̂ - lo, hi - R̂) + γ (Σ T̂ W + max_j W(j) (1 - 2 T̂(j))) + B
        neither         hi - lo + γ (the sum of the two largest of W)
    """

    both_ways = True

    def weigh(self, V_bar: FloatArray, widest: int, setting: Setting) -> Weights:
        """Weights from upper bounds on the values of M̄."""
        W = np.maximum(V_bar - setting.floor, 0.0)
        number = widest + 1  # one of so many is outside of any row
        if number >= W.size:
            return Weights(W, np.argsort(-W, kind="stable"))
        some = np.argpartition(-W, number)[: number + 1]
        return Weights(W, some[np.argsort(-W[some], kind="stable")])

    def least(self, largest_V_bar: float, setting: Setting) -> float:
        """A number that no D̂ is below, of models of values up to `largest_V_bar`.

        2B where both are known, B + (hi - lo) / 2 where one is, hi - lo where neither is.
        """
        lo, hi = setting.reward_range
        heaviest = max(largest_V_bar - setting.floor, -setting.floor if setting.terminating else 0)
        off = setting.epsilon * (1 + setting.gamma * heaviest)
        return min(2 * off, off + (hi - lo) / 2, hi - lo)

    def between(
        self, m: Known, m_bar: Known, weights: Weights, pairs: IntArray, setting: Setting
    ) -> FloatArray:
        """D̂(M ‖ M̄) at `pairs`."""
        D = np.empty(pairs.size)
        terms = tuple(terms_of(setting))
        distances.bound_differences(pairs, m, m_bar, weights.W, weights.heaviest, terms, D)
        return D


def terms_of(setting: Setting) -> distances.Terms:
    """What weighs beside the states, and the range of rewards."""
    lo, hi = setting.reward_range
    return distances.Terms(
        W_end=-setting.floor,
        terminating=setting.terminating,
        lo=lo,
        hi=hi,
        gamma=setting.gamma,
        epsilon=setting.epsilon,
    )
