"""Distances between partly known models: upper bounds at each pair."""

from typing import Any, NamedTuple, Protocol

import numpy as np

from heirloom.arrays import FloatArray, IntArray
from heirloom.errors import InvalidArgument
from heirloom.kernels import distances
from heirloom.mdp.rows import Rows, check_in_any_order, values
from heirloom.transfer.setting import Setting
from heirloom.validation import instance, shown, truth, whole_number


class ModelDistance(Protocol):
    """An upper bound `D̂_sa(M ‖ M̄)` on the distance between two models at a pair.

    It must be an upper bound for all tasks that agree with the known pairs, and Proposition 1 must
    hold for it: `Q*_M <= Q*_M̄ + d`, where `d = D̂ + γ Σ T max d`. A memory identifies a distance by
    its class and its attributes, so its parameters must be attributes.
    """

    both_ways: bool
    """Whether d from D̂(M̄ ‖ M), through the model of M̄, bounds Q*_M - Q*_M̄ as well."""

    def weigh(self, V_bar: FloatArray, widest: int, setting: Setting) -> Any:
        """Return the weights for `between`, from upper bounds on the values of M̄.

        No known pair has more than `widest` successors.
        """

    def between(
        self, m: Rows, m_bar: Rows, weights: Any, pairs: IntArray, setting: Setting
    ) -> FloatArray:
        """Return `D̂(M ‖ M̄)` at `pairs`, with weights from the values of M̄."""


class Weights(NamedTuple):
    """The weights of states, W = V̄ - c, and the heaviest states by decreasing weight."""

    W: FloatArray
    heaviest: IntArray


class WeightedL1:
    """The largest possible value of the paper's `|R - R̄| + γ Σ V̄ |T - T̄|` (Proposition 3).

    It is the minimum of the following expressions that apply (all of them if both models are
    known), with W = V̄ - c in place of V̄ and `B = ε (1 + γ max W)`:

        both known      |R̂ - R̄̂| + γ Σ W |T̂ - T̄̂| + 2B
        one known       max(R̂ - lo, hi - R̂) + γ (Σ T̂ W + max_j W(j) (1 - 2 T̂(j))) + B
        always          hi - lo + γ (the sum of the two largest of W)
    """

    both_ways = True

    def weigh(self, V_bar: FloatArray, widest: int, setting: Setting) -> Weights:
        """Return the weights from upper bounds on the values of M̄."""
        _check_setting(setting)
        V_bar = values("V_bar", V_bar)
        if V_bar.size != setting.n_states:
            raise InvalidArgument(
                f"V_bar has {V_bar.size} entries: expected one for each of the {setting.n_states} "
                "states"
            )
        W = np.maximum(V_bar - setting.floor, 0.0)
        n_heaviest = whole_number("widest", widest, least=0) + 2  # more than any row contains
        return Weights(W, heaviest_of(W, n_heaviest))

    def between(
        self, m: Rows, m_bar: Rows, weights: Weights, pairs: IntArray, setting: Setting
    ) -> FloatArray:
        """Return `D̂(M ‖ M̄)` at `pairs`."""
        _check_setting(setting)
        widest = 0
        for name, rows in (("m", m), ("m_bar", m_bar)):
            check_in_any_order(name, rows, setting.n_pairs, setting.n_states)
            widest = max(widest, rows.widest)
        _check_weights(weights, widest, setting)
        return _between(m, m_bar, weights, checked_pairs(pairs, setting), setting)


def measure(
    distance: ModelDistance,
    m: Rows,
    m_bar: Rows,
    weights: Any,
    pairs: IntArray,
    setting: Setting,
) -> FloatArray:
    """Return `D̂(M ‖ M̄)` of any model distance at `pairs`; arguments are valid.

    Raises `InvalidArgument` unless a user-defined distance gives a valid number for each pair.
    """
    if type(distance) is WeightedL1:  # a derived class may compute another distance
        return _between(m, m_bar, weights, pairs, setting)
    D = distance.between(m, m_bar, weights, pairs, setting)
    name = f"between of the distance {type(distance).__name__}"
    if not isinstance(D, np.ndarray) or D.dtype.kind not in "biuf" or D.shape != pairs.shape:
        raise InvalidArgument(
            f"{name} returned {shown(D)}: expected an array with one number for each of the "
            f"{pairs.size} pairs"
        )
    bad = np.flatnonzero(~(np.isfinite(D) & (D >= 0)))
    if bad.size:
        raise InvalidArgument(
            f"{name} returned {D[bad[0]]} at pair {pairs[bad[0]]}: expected a distance, finite and "
            "not negative"
        )
    return D.astype(np.float64, copy=False)


def check_distance(distance: object) -> None:
    """Raise `InvalidArgument` unless an object has what `ModelDistance` requires."""
    has_methods = all(callable(getattr(distance, name, None)) for name in ("weigh", "between"))
    if not has_methods or isinstance(distance, type):
        raise InvalidArgument(
            f"distance is {shown(distance)}: expected a ModelDistance, an object with the methods "
            "weigh and between and the attribute both_ways, such as WeightedL1()"
        )
    truth(f"both_ways of {type(distance).__name__}", getattr(distance, "both_ways", None))


def attributes_of(distance: ModelDistance) -> dict[str, Any]:
    """Return the attributes of a distance, which identify it together with its class."""
    slots = [
        name
        for kind in type(distance).__mro__
        for name in np.atleast_1d(getattr(kind, "__slots__", ())).tolist()
    ]
    found = {name: getattr(distance, name) for name in slots if hasattr(distance, name)}
    return {**found, **getattr(distance, "__dict__", {})}


def heaviest_of(W: FloatArray, n: int) -> IntArray:
    """Return the n heaviest states by decreasing weight, for weights [state] or [source, state]."""
    if n >= W.shape[-1]:
        return np.argsort(-W, kind="stable")
    heaviest = np.argpartition(-W, n)[..., :n]
    order = np.argsort(-np.take_along_axis(W, heaviest, -1), kind="stable")
    return np.take_along_axis(heaviest, order, -1)


def _between(
    m: Rows, m_bar: Rows, weights: Weights, pairs: IntArray, setting: Setting
) -> FloatArray:
    D = np.empty(pairs.size)
    parameters = tuple(parameters_of(setting))
    distances.bound_differences(pairs, m, m_bar, weights.W, weights.heaviest, parameters, D)
    return D


def _check_setting(setting: object) -> None:
    instance("setting", setting, Setting, "such as agent.setting")


def checked_pairs(pairs: object, setting: Setting) -> IntArray:
    """Return pairs as int64; raise `InvalidArgument` unless there are such pairs."""
    expected = f"expected an array of pairs k = s * A + a, from 0 to {setting.n_pairs - 1}"
    if not isinstance(pairs, np.ndarray) or pairs.ndim != 1 or pairs.dtype.kind not in "iu":
        raise InvalidArgument(f"pairs is {shown(pairs)}: {expected}")
    outside = pairs[(pairs < 0) | (pairs >= setting.n_pairs)]
    if outside.size:
        raise InvalidArgument(f"pairs holds {outside[0]}: {expected}")
    return pairs.astype(np.int64, copy=False)


def _check_weights(weights: object, widest: int, setting: Setting) -> None:
    """Raise `InvalidArgument` unless weights are those of `weigh`, for rows up to `widest` long."""
    W, heaviest = instance("weights", weights, Weights, "such as distance.weigh(...)")
    n = setting.n_states
    is_valid = (
        all(isinstance(array, np.ndarray) and array.ndim == 1 for array in (W, heaviest))
        and W.dtype == np.float64
        and heaviest.dtype == np.int64
        and W.size == n
        and min(widest + 1, n) <= heaviest.size <= n
        and bool(((heaviest >= 0) & (heaviest < n)).all())
        and bool((np.isfinite(W) & (W >= 0)).all())
        and bool((np.diff(W[heaviest]) <= 0).all())
        and np.unique(heaviest).size == heaviest.size
        and (heaviest.size == n or W[heaviest[-1]] >= np.delete(W, heaviest).max())
    )
    if not is_valid:
        raise InvalidArgument(
            f"weights is {shown(weights)}: expected weights W of the {n} states and at least "
            f"{min(widest + 1, n)} heaviest states, as weigh returns them"
        )


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
