"""`Nearness`: by how much the models of any two tasks of a family can differ, pair by pair.

A family has a nearness if for any two of its tasks M and M̄ and every pair (s, a)

    |R - R̄| <= rewards,    ½ Σ |T - T̄| <= transitions,    T(s, a, s') > 0 only for `successors`,

with mean rewards R, and distributions T over the states and the absorbing terminal state ⊥.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from heirloom.arrays import BoolArray, FloatArray, IntArray, frozen
from heirloom.errors import InvalidArgument
from heirloom.mdp.transitions import SUM_TOLERANCE
from heirloom.transfer.nearness.successors import (
    Successors,
    as_array,
    common_successors,
    read_successors,
)
from heirloom.transfer.setting import Setting
from heirloom.validation import numbers
from heirloom.wording import counted

SHOWN_AS_ZERO = 1e-290  # smaller numbers are allowances for rounding


@dataclass(frozen=True, eq=False, init=False)
class Nearness:
    """By how much the models of any two tasks of a family can differ.

    Args:
        rewards: the largest difference of mean rewards, a number or an array [s, a].
        transitions: the largest total variation between transition distributions, from 0 to 1, a
            number or an array [s, a]; 0 if all tasks have the same transitions.
        successors: the successors that are possible in any task: booleans [s, a, s'], or sparse of
            shape (S·A, S). None if every state is possible.
        terminates: the pairs at which a transition can terminate, booleans [s, a]. None for all.
        highest_rewards: an upper bound on the mean rewards of all tasks, a number or an array
            [s, a]. None for the upper end of the reward range.

    Examples:
        >>> import heirloom as hl
        >>> hl.Nearness(rewards=0.2, transitions=0.1)
        Nearness(rewards=0.2, transitions=0.1)
    """

    rewards: FloatArray
    transitions: FloatArray
    successors: Successors | None
    terminates: BoolArray | None
    highest_rewards: FloatArray | None

    def __init__(
        self,
        *,
        rewards: ArrayLike,
        transitions: ArrayLike,
        successors: ArrayLike | sparse.sparray | sparse.spmatrix | Successors | None = None,
        terminates: ArrayLike | None = None,
        highest_rewards: ArrayLike | None = None,
    ) -> None:
        t = _read_numbers("transitions", transitions)
        if t.max(initial=0.0) > 1 + SUM_TOLERANCE:
            raise InvalidArgument(
                f"transitions {'contains' if t.ndim else 'is'} {t.max():.12g}: expected a total "
                "variation, ½ Σ |T - T̄|, which is at most 1"
            )
        self.__dict__.update(
            rewards=_read_numbers("rewards", rewards),
            transitions=frozen(np.minimum(t, 1.0)),  # a sum may be above 1 by rounding
            successors=None if successors is None else read_successors(successors),
            terminates=None if terminates is None else _read_flags("terminates", terminates),
            highest_rewards=(
                None
                if highest_rewards is None
                else _read_numbers("highest_rewards", highest_rewards, least=-np.inf)
            ),
        )

    def _check_shape(self, n_states: int, n_actions: int) -> None:
        """Raise `InvalidArgument` unless the arrays fit tasks of this size."""
        shape = n_states, n_actions
        for name in ("rewards", "transitions", "terminates", "highest_rewards"):
            array = getattr(self, name)
            if array is not None and array.shape not in ((), shape):
                raise InvalidArgument(
                    f"{name} of the nearness has shape {array.shape}: expected a number, or an "
                    f"array [s, a] of shape {shape}"
                )
        if self.successors is None:
            return
        first, states = self.successors
        n_pairs = n_states * n_actions
        if first.size != n_pairs + 1 or states.max(initial=0) >= n_states:
            raise InvalidArgument(
                f"successors of the nearness has {counted(first.size - 1, 'pair')} and states up "
                f"to {states.max(initial=0)}: expected shape ({n_states}, {n_actions}, "
                f"{n_states}), or a sparse matrix of shape ({n_pairs}, {n_states})"
            )

    def _check_possible(self, setting: Setting, available: BoolArray | None = None) -> None:
        """Raise `InvalidArgument` if no task of the setting can have this nearness.

        `available` marks the pairs that the task has, None for all.
        """
        lo = setting.reward_range[0]
        if self.highest_rewards is not None and self.highest_rewards.min(initial=lo) < lo:
            raise InvalidArgument(
                f"highest_rewards of the nearness contains {self.highest_rewards.min():g}, below "
                f"{lo:g}, the smallest reward of the reward_range: expected an upper bound on mean "
                "rewards"
            )
        if self.successors is None:
            return
        is_impossible = np.diff(self.successors.first) == 0
        if available is not None:
            is_impossible &= available
        if setting.terminating and self.terminates is None:
            return
        if setting.terminating:
            is_impossible &= ~self._per_pair("terminates", setting.n_pairs)
        if is_impossible.any():
            s, a = divmod(int(is_impossible.argmax()), setting.n_actions)
            raise InvalidArgument(
                f"the nearness admits no successor of state {s} and action {a}, and no termination "
                "there: mark at least one successor as possible, or let the pair terminate"
            )

    def _per_pair(self, name: str, n_pairs: int) -> Any:
        """Return one of the arrays over pairs k = s * A + a, also if it is a single number."""
        array = getattr(self, name).reshape(-1)
        return array if array.size == n_pairs else np.broadcast_to(array, n_pairs)

    def _excludes(self, pairs: IntArray, outcomes: IntArray, n_states: int) -> BoolArray:
        """Return which outcomes of these pairs are impossible: states, or `n_states` for ⊥."""
        at_end, excluded = outcomes == n_states, np.zeros(outcomes.size, dtype=bool)
        if self.terminates is not None:
            may_end = self.terminates.reshape(-1)
            excluded |= at_end & ~may_end[pairs % may_end.size]
        if self.successors is not None:
            first, states = self.successors
            possible = np.repeat(np.arange(first.size - 1), np.diff(first)) * n_states + states
            excluded |= ~at_end & ~np.isin(pairs * n_states + outcomes, possible)
        return excluded

    def _with(self, **changed: Any) -> "Nearness":
        """Return a copy with other attributes."""
        return Nearness(**{**self.__dict__, **changed})

    def __and__(self, other: "Nearness") -> "Nearness":
        """Return what follows if both are true: smaller differences, and common successors."""
        if not isinstance(other, Nearness):
            return NotImplemented
        return Nearness(
            rewards=_minimum("rewards", self, other),
            transitions=_minimum("transitions", self, other),
            successors=common_successors(self.successors, other.successors),
            terminates=_minimum("terminates", self, other),
            highest_rewards=_minimum("highest_rewards", self, other),
        )

    def __repr__(self) -> str:
        parts = [f"{name}={_as_text(getattr(self, name))}" for name in ("rewards", "transitions")]
        if self.successors is not None:
            mean = self.successors.states.size / max(1, self.successors.first.size - 1)
            parts.append(f"successors: {mean:.3g} per pair")
        if self.terminates is not None:
            n_pairs = int(self.terminates.sum())
            shown = f": {counted(n_pairs, 'pair')}" if self.terminates.ndim else f"={bool(n_pairs)}"
            parts.append(f"terminates{shown}")
        if self.highest_rewards is not None:
            parts.append(f"highest_rewards={_as_text(self.highest_rewards)}")
        return f"Nearness({', '.join(parts)})"


def _read_numbers(name: str, value: ArrayLike, *, least: float = 0.0) -> FloatArray:
    array = np.array(numbers(name, value))
    bad = np.flatnonzero(~(np.isfinite(array) & (array >= least)))
    if bad.size or array.ndim not in (0, 2) or array.size == 0:
        verb = "contains" if array.ndim else "is"
        found = f"{verb} {array.flat[bad[0]]:g}" if bad.size else f"has shape {array.shape}"
        sign = ", not negative" if least == 0 else ""
        raise InvalidArgument(
            f"{name} {found}: expected a finite number{sign}, or an array [s, a] of such numbers"
        )
    return frozen(array)


def _read_flags(name: str, value: Any) -> BoolArray:
    array = as_array(name, value)
    if array.dtype != np.bool_ or array.ndim not in (0, 2):
        raise InvalidArgument(
            f"{name} has dtype {array.dtype} and shape {array.shape}: expected booleans [s, a]"
        )
    return frozen(array)


def _minimum(name: str, near: Nearness, near_other: Nearness) -> Any:
    """Return the smaller of two arrays that may be missing; of booleans, those true in both."""
    one, other = getattr(near, name), getattr(near_other, name)
    if one is None or other is None:
        return one if other is None else other
    if one.ndim == other.ndim and one.shape != other.shape:
        raise InvalidArgument(
            f"{name} has shape {one.shape} in one nearness and {other.shape} in the other: combine "
            "nearness of the same tasks"
        )
    return np.minimum(one, other)


def _as_text(array: FloatArray) -> str:
    shown = np.where(np.abs(array) < SHOWN_AS_ZERO, 0.0, array)
    if shown.min() == shown.max():
        return f"{float(shown.max()):.4g}"
    return f"{shown.min():.4g} to {shown.max():.4g}"
