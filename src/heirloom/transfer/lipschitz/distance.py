"""Distances between partly known models: upper bounds at each pair."""

from typing import NamedTuple

import numpy as np

from heirloom.arrays import FloatArray, IntArray
from heirloom.kernels import distances
from heirloom.mdp.rows import Rows
from heirloom.transfer.setting import Setting


class Weights(NamedTuple):
    """The weights of states, W = V̄ - c, and the heaviest states by decreasing weight."""

    W: FloatArray
    heaviest: IntArray


def weigh(V_bar: FloatArray, widest: int, setting: Setting) -> Weights:
    """Return the weights from upper bounds on the values of M̄.

    No known pair has more than `widest` successors.
    """
    W = np.maximum(V_bar - setting.floor, 0.0)
    return Weights(W, heaviest_of(W, widest + 2))  # more than any row contains


def measure(
    m: Rows, m_bar: Rows, weights: Weights, pairs: IntArray, setting: Setting
) -> FloatArray:
    """Return the largest possible `|R - R̄| + γ Σ V̄ |T - T̄|` at `pairs`: D̂(M ‖ M̄).

    `kernels.distances` has the formula (Proposition 3, corrected).
    """
    D = np.empty(pairs.size)
    parameters = tuple(parameters_of(setting))
    distances.bound_differences(pairs, m, m_bar, weights.W, weights.heaviest, parameters, D)
    return D


def heaviest_of(W: FloatArray, n: int) -> IntArray:
    """Return the n heaviest states by decreasing weight, for weights [state] or [source, state]."""
    if n >= W.shape[-1]:
        return np.argsort(-W, kind="stable")
    heaviest = np.argpartition(-W, n)[..., :n]
    order = np.argsort(-np.take_along_axis(W, heaviest, -1), kind="stable")
    return np.take_along_axis(heaviest, order, -1)


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
