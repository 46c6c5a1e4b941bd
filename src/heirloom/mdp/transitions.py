"""What can happen at each pair (s, a): successors, probabilities, rewards, ends.

`Transitions` is the inside of a `TabularMDP`, valid from birth. A transition is (s, a, s', ends):
a state can be entered with and without ending the episode, and the two are kept apart.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from heirloom.arrays import BoolArray, FloatArray, IntArray, StateArray, frozen
from heirloom.errors import InvalidTask

SUM_TOLERANCE = 1e-9


class Rows(NamedTuple):
    """Rows of a sparse matrix over pairs, as the kernels take them."""

    indptr: IntArray
    successors: StateArray
    p: FloatArray


@dataclass(frozen=True, eq=False)
class Transitions:
    """Transition j of the pair k = s * A + a, for j in `indptr[k]:indptr[k + 1]`.

    Successors rise within a pair; where the same successor stands twice, the second one ends.
    `rewards` is None if every transition pays the mean `R` of its pair, `ends` if none ends.
    """

    n_states: int
    n_actions: int
    indptr: IntArray
    successors: StateArray
    p: FloatArray
    R: FloatArray
    rewards: FloatArray | None
    ends: BoolArray | None

    def __post_init__(self) -> None:
        self._freeze()

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._freeze()  # an array comes back writable from another process

    def _freeze(self) -> None:
        for value in self.__dict__.values():
            for array in value if isinstance(value, Rows) else (value,):
                if isinstance(array, np.ndarray):
                    frozen(array)

    @property
    def pairs(self) -> IntArray:
        """The pair of each transition."""
        return np.repeat(np.arange(self.indptr.size - 1), np.diff(self.indptr))

    @cached_property
    def continuing(self) -> Rows:
        """The transitions that do not end the episode; a row sums to one minus its ends."""
        if self.ends is None:
            return Rows(self.indptr, self.successors, self.p)
        indptr = np.zeros_like(self.indptr)
        np.cumsum(np.add.reduceat(~self.ends, self.indptr[:-1], dtype=np.int64), out=indptr[1:])
        return Rows(frozen(indptr), frozen(self.successors[~self.ends]), frozen(self.p[~self.ends]))

    @cached_property
    def end_probability(self) -> FloatArray:
        """The probability that the episode ends, for each pair."""
        if self.ends is None:
            return frozen(np.zeros(self.indptr.size - 1))
        return frozen(np.add.reduceat(np.where(self.ends, self.p, 0.0), self.indptr[:-1]))


class Outcomes(NamedTuple):
    """Transitions one by one, in any order, some perhaps impossible or written in several parts."""

    pairs: IntArray
    successors: IntArray
    p: FloatArray
    rewards: FloatArray
    ends: BoolArray


def collect(outcomes: Outcomes, n_states: int, n_actions: int) -> Transitions:
    """The transitions that `outcomes` describe.

    Outcomes of the same pair, successor and end are merged: their probabilities are added, and the
    merged one pays their mean. Raises `InvalidTask` if a pair has no distribution over outcomes.
    """
    _check_probabilities(outcomes, n_actions)
    _check_rewards(outcomes, n_actions)
    pairs, successors, p, rewards, ends = _merged(_possible(outcomes), n_states)
    indptr = np.zeros(n_states * n_actions + 1, dtype=np.int64)
    np.cumsum(np.bincount(pairs, minlength=n_states * n_actions), out=indptr[1:])
    p = _normalised(p, indptr, n_actions)
    R = _means(rewards, p, indptr)
    own_rewards = bool((R[pairs] != rewards).any())
    return Transitions(
        n_states=n_states,
        n_actions=n_actions,
        indptr=indptr,
        successors=successors.astype(np.int32),
        p=p,
        R=R,
        rewards=rewards if own_rewards else None,
        ends=ends if ends.any() else None,
    )


def _check_probabilities(outcomes: Outcomes, n_actions: int) -> None:
    p = outcomes.p
    bad = np.flatnonzero(~(np.isfinite(p) & (p >= 0)))
    if bad.size:
        pair, successor = outcomes.pairs[bad[0]], outcomes.successors[bad[0]]
        raise InvalidTask(
            f"T[{pair_text(pair, n_actions)}, s'={successor}] is {p[bad[0]]}: "
            "a probability is a number from 0 to 1"
        )


def _check_rewards(outcomes: Outcomes, n_actions: int) -> None:
    bad = np.flatnonzero(~np.isfinite(outcomes.rewards))
    if bad.size:
        pair, successor = outcomes.pairs[bad[0]], outcomes.successors[bad[0]]
        raise InvalidTask(
            f"R[{pair_text(pair, n_actions)}, s'={successor}] is {outcomes.rewards[bad[0]]}: "
            "rewards are finite numbers"
        )


def _possible(outcomes: Outcomes) -> Outcomes:
    possible = outcomes.p > 0
    if possible.all():
        return outcomes
    return _taken(outcomes, possible)


def _taken(outcomes: Outcomes, which: BoolArray | IntArray) -> Outcomes:
    pairs, successors, p, rewards, ends = outcomes
    return Outcomes(pairs[which], successors[which], p[which], rewards[which], ends[which])


def _merged(outcomes: Outcomes, n_states: int) -> Outcomes:
    """Sorted by pair, successor and end, each once."""
    keys = (outcomes.pairs * n_states + outcomes.successors) * 2 + outcomes.ends
    if (np.diff(keys) > 0).all():
        return outcomes
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    first = np.flatnonzero(np.diff(keys, prepend=-1))
    pairs, successors, p, rewards, ends = _taken(outcomes, order)
    mass = np.add.reduceat(p, first)
    weights = p / np.repeat(mass, np.diff(first, append=p.size))
    return Outcomes(
        pairs[first],
        successors[first],
        mass,
        _means(rewards, weights, np.append(first, p.size)),
        ends[first],
    )


def _means(rewards: FloatArray, weights: FloatArray, indptr: IntArray) -> FloatArray:
    """The mean of each row, never outside of its rewards: rounding must not leave their range."""
    starts = indptr[:-1]
    means = np.add.reduceat(weights * rewards, starts)
    lowest, highest = np.minimum.reduceat(rewards, starts), np.maximum.reduceat(rewards, starts)
    return np.clip(means, lowest, highest)


def _normalised(p: FloatArray, indptr: IntArray, n_actions: int) -> FloatArray:
    counts = np.diff(indptr)
    empty = np.flatnonzero(counts == 0)
    if empty.size:
        raise InvalidTask(
            f"T[{pair_text(empty[0], n_actions)}] sums to 0, not 1: every action needs a successor "
            "in every state; an absorbing state has itself as successor"
        )
    sums = np.add.reduceat(p, indptr[:-1])
    worst = int(np.abs(sums - 1).argmax())
    if abs(sums[worst] - 1) > SUM_TOLERANCE:
        raise InvalidTask(
            f"T[{pair_text(worst, n_actions)}] sums to {sums[worst]:.12g}, not 1: "
            "divide counts or weights by their sum, in double precision"
        )
    return p / np.repeat(sums, counts)


def pair_text(pair: int, n_actions: int) -> str:
    """Where a pair stands, as error messages say it."""
    s, a = divmod(int(pair), n_actions)
    return f"s={s}, a={a}"
