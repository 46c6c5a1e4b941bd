"""Distances between partly known models: upper bounds at each pair."""

from typing import Any, NamedTuple, Protocol

import numpy as np

from heirloom.arrays import FloatArray, IntArray
from heirloom.kernels import distances
from heirloom.mdp.learned import Known
from heirloom.transfer.setting import Setting


class ModelDistance(Protocol):
    """An upper bound D̂_sa(M ‖ M̄) on the distance between two models at a pair.

    It must be an upper bound for all tasks that agree with the known pairs, and Proposition 1 must
    hold for it: Q*_M <= Q*_M̄ + d, where d = D̂ + γ Σ T max d. A memory identifies a distance by its
    class and its attributes, so its parameters must be attributes.
    """

    both_ways: bool
    """Whether d from D̂(M̄ ‖ M), through the model of M̄, bounds Q*_M - Q*_M̄ as well."""

    def weigh(self, V_bar: FloatArray, widest: int, setting: Setting) -> Any:
        """Return the weights for `between`, from upper bounds on the values of M̄.

        No known pair has more than `widest` successors.
        """

    def between(
        self, m: Known, m_bar: Known, weights: Any, pairs: IntArray, setting: Setting
    ) -> FloatArray:
        """Return D̂(M ‖ M̄) at `pairs`, with weights from the values of M̄."""


class Weights(NamedTuple):
    """The weights of states, W = V̄ - c, and the heaviest states by decreasing weight."""

    W: FloatArray
    heaviest: IntArray


class WeightedL1:
    """The largest possible value of the paper's |R - R̄| + γ Σ V̄ |T - T̄| (Proposition 3).

    It is the minimum of the following expressions that apply (all of them if both models are
    known), with W = V̄ - c in place of V̄ and B = ε (1 + γ max W):

        both known      |R̂ - R̄̂| + γ Σ W |T̂ - T̄̂| + 2B
        one known       max(R̂ - lo, hi - R̂) + γ (Σ T̂ W + max_j W(j) (1 - 2 T̂(j))) + B
        always          hi - lo + γ (the sum of the two largest of W)
    """

    both_ways = True

    def weigh(self, V_bar: FloatArray, widest: int, setting: Setting) -> Weights:
        """Return the weights from upper bounds on the values of M̄."""
        W = np.maximum(V_bar - setting.floor, 0.0)
        n_heaviest = widest + 1  # more states than any row contains
        if n_heaviest >= W.size:
            return Weights(W, np.argsort(-W, kind="stable"))
        heaviest = np.argpartition(-W, n_heaviest)[: n_heaviest + 1]
        return Weights(W, heaviest[np.argsort(-W[heaviest], kind="stable")])

    def least(self, largest_V_bar: float, setting: Setting) -> float:
        """Lower bound on every D̂ between models, if the largest value of M̄ is `largest_V_bar`.

        D̂ is at least 2B where both models are known, B + (hi - lo) / 2 where one is, and hi - lo
        where neither is.
        """
        lo, hi = setting.reward_range
        max_W = max(largest_V_bar - setting.floor, -setting.floor if setting.terminating else 0)
        B = setting.epsilon * (1 + setting.gamma * max_W)
        return min(2 * B, B + (hi - lo) / 2, hi - lo)

    def between(
        self, m: Known, m_bar: Known, weights: Weights, pairs: IntArray, setting: Setting
    ) -> FloatArray:
        """Return D̂(M ‖ M̄) at `pairs`."""
        D = np.empty(pairs.size)
        parameters = tuple(parameters_of(setting))
        distances.bound_differences(pairs, m, m_bar, weights.W, weights.heaviest, parameters, D)
        return D


def parameters_of(setting: Setting) -> distances.Parameters:
    """Return the parameters of the distance kernels in a setting."""
    lo, hi = setting.reward_range
    return distances.Parameters(
        W_end=-setting.floor,
        terminating=setting.terminating,
        lo=lo,
        hi=hi,
        gamma=setting.gamma,
        epsilon=setting.epsilon,
    )
