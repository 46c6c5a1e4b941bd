"""Compare the pairs that become known in a task with prior knowledge, while the task is learned.

The test is the one of `audit`, for the current task and each source: models are compared at pairs
that are known in both, and an alarm needs a difference beyond the claim and the radii of both
models. The radii are those of `transfer/radii.py`, so that a true claim is refuted with probability
δ at most, over all tasks of an agent together. A `d_max` is compared with distances that are
weighed with lower values of the sources only, since those of the task at hand are not yet known.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from heirloom.arrays import BoolArray, FloatArray, IntArray
from heirloom.kernels.learning import Check
from heirloom.transfer.bound import Bound
from heirloom.transfer.lipschitz.bound import Lipschitz
from heirloom.transfer.lipschitz.distance import WeightedL1
from heirloom.transfer.memory import Source
from heirloom.transfer.nearness.bound import NearModels
from heirloom.transfer.nearness.knowledge import Nearness
from heirloom.transfer.radii import Accuracy, Radii, all_outcomes
from heirloom.transfer.refutation.differences import possible_outcomes
from heirloom.transfer.refutation.lower_values import lower_values, lower_weights, two_largest
from heirloom.transfer.refutation.rows import rows_by_pair
from heirloom.transfer.setting import Setting


class Claims(NamedTuple):
    """The nearness and the `d_max` that were given to the bounds of an agent; None without one.

    A nearness that is learned is no claim: it holds with a stated probability.
    """

    nearness: Nearness | None
    d_max: FloatArray | None

    @classmethod
    def of(cls, bounds: list[Bound]) -> "Claims":
        """Return the claims of bounds: those of `NearModels`, and the smallest `d_max` given."""
        nearness, d_max = None, None
        for bound in bounds:
            if type(bound) is NearModels and bound.learned is None:
                nearness = bound.nearness
            is_l1 = type(bound) is Lipschitz and type(bound.distance) is WeightedL1
            if is_l1 and bound.d_max is not None:  # type: ignore[attr-defined]
                own = bound.d_max  # type: ignore[attr-defined]
                d_max = own if d_max is None else np.minimum(d_max, own)
        return cls(nearness, d_max)


@dataclass(frozen=True, eq=False)
class TaskWatch:
    """The claims about one task, with the radii of its models, and what compiled code checks."""

    claims: Claims
    setting: Setting
    sources: list[Source]
    task: int
    """The number of the task."""
    radii: Radii
    source_radii: list[Radii]
    check: Check | None
    """None if no pair of the task can contradict the claims, for example with too few visits."""
    n_sources: int
    """The number of sources; `sources` is empty if none of them can contradict the claims."""

    @classmethod
    def begin(
        cls,
        claims: Claims,
        accuracy: Accuracy,
        setting: Setting,
        sources: list[Source],
        *,
        task: int,
        n_known: int,
    ) -> "TaskWatch":
        """Prepare the comparison of a task with these sources."""
        nearness = claims.nearness
        outcomes = all_outcomes(setting)
        if nearness is not None and claims.d_max is None:
            outcomes = possible_outcomes(nearness, setting)
        own = accuracy.radii_of(n_known, task, setting, outcomes)
        n_sources = len(sources)
        if _is_blind(claims, accuracy, setting, sources, own, outcomes):
            sources = []
        others = [accuracy.radii(source, setting, outcomes) for source in sources]
        watch = cls(claims, setting, sources, task, own, others, None, n_sources)
        check = watch._check(accuracy)
        return cls(claims, setting, sources, task, own, others, check, n_sources)

    def _check(self, accuracy: Accuracy) -> Check | None:
        nearness, d_max = self.claims
        n_pairs = self.setting.n_pairs
        low, high = self._interval()
        limit, prior = np.full(n_pairs, np.inf), np.full(n_pairs, np.inf)
        smallest = self._smallest_tau()
        if nearness is not None:
            limit = nearness._per_pair("transitions", n_pairs) + self.radii.transitions
            limit = np.where(limit + smallest < 1.0, limit, np.inf)
        if d_max is not None and self.sources and (self.radii.transitions < 1.0).any():
            (lo, hi), setting = self.setting.reward_range, self.setting
            largest = hi - lo + 2 * setting.gamma * (setting.v_max - setting.floor)
            prior[:] = np.where(d_max < largest, d_max, np.inf).reshape(-1)
        excludes = nearness is not None and (
            nearness.successors is not None or nearness.terminates is not None
        )
        reward_range = self.setting.reward_range
        fires = (low > reward_range[0]).any() or (high < reward_range[1]).any()
        needs_rows = bool((limit < 1.0).any() or np.isfinite(prior).any())
        if not (excludes or fires or needs_rows):
            return None
        return self._arrays(low, high, limit, prior, accuracy, needs_rows=needs_rows)

    def _arrays(
        self,
        low: FloatArray,
        high: FloatArray,
        limit: FloatArray,
        d_max: FloatArray,
        accuracy: Accuracy,
        *,
        needs_rows: bool,
    ) -> Check:
        setting, nearness = self.setting, self.claims.nearness
        n_pairs = setting.n_pairs
        sources, radii = (self.sources, self.source_radii) if needs_rows else ([], [])
        rows = rows_by_pair(sources, radii, setting)
        W, top = _weights(sources if np.isfinite(d_max).any() else [], setting, accuracy)
        possible = None if nearness is None else nearness.successors
        may_end = np.ones(n_pairs, dtype=bool)
        if nearness is not None and nearness.terminates is not None:
            may_end &= nearness._per_pair("terminates", n_pairs)
        empty = np.zeros(n_pairs + 1, dtype=np.int64), np.empty(0, dtype=np.int32)
        first, states = empty if possible is None else possible
        return Check(
            active=np.ones(1, dtype=bool),
            low=low,
            high=high,
            any_successor=possible is None,
            possible_first=first,
            possible=states,
            may_end=may_end,
            start=rows.start,
            first=rows.first,
            last=rows.last,
            R=rows.R,
            ends=rows.ends,
            source=rows.source,
            successors=rows.successors,
            p=rows.p,
            eta=rows.eta,
            tau=rows.tau,
            task_eta=float(self.radii.reward),
            task_tau=np.minimum(self.radii.transitions, 1.0),
            limit=limit,
            d_max=d_max,
            W=W,
            W_end=-setting.floor,
            top=top,
            gamma=setting.gamma,
        )

    def _interval(self) -> tuple[FloatArray, FloatArray]:
        """Return the interval in which the claims put the mean reward of each pair."""
        n_pairs = self.setting.n_pairs
        lowest, highest = np.full(n_pairs, np.inf), np.full(n_pairs, -np.inf)
        for source, radii in zip(self.sources, self.source_radii, strict=True):
            known, R = source.known, source.rows.R
            np.minimum(lowest, R + radii.reward, out=lowest, where=known)
            np.maximum(highest, R - radii.reward, out=highest, where=known)
        r = np.full(n_pairs, np.inf)
        nearness, d_max = self.claims
        if nearness is not None:
            r = np.minimum(r, nearness._per_pair("rewards", n_pairs))
        if d_max is not None:
            r = np.minimum(r, d_max.reshape(-1))
        high = lowest + r + self.radii.reward
        if nearness is not None and nearness.highest_rewards is not None:
            absolute = nearness._per_pair("highest_rewards", n_pairs) + self.radii.reward
            high = np.minimum(high, absolute)
        return highest - r - self.radii.reward, high

    def _smallest_tau(self) -> FloatArray:
        """Return the smallest radius of the transitions of a source that knows each pair."""
        smallest = np.full(self.setting.n_pairs, np.inf)
        for source, radii in zip(self.sources, self.source_radii, strict=True):
            np.minimum(smallest, radii.transitions, out=smallest, where=source.known)
        return smallest

    @property
    def blind(self) -> bool:
        """Whether no difference between the models of the task and of sources can be detected."""
        return self.n_sources > 0 and not self.sources


def _is_blind(
    claims: Claims,
    accuracy: Accuracy,
    setting: Setting,
    sources: list[Source],
    own: Radii,
    outcomes: IntArray,
) -> bool:
    """Return whether no source can contradict the claims, whatever the task is.

    No source has smaller radii than the first task would have with the largest number of visits.
    """
    if not sources:
        return True
    n_known = max(source.n_known for source in sources)
    best = accuracy.radii_of(n_known, 1, setting, outcomes)
    (lo, hi), (nearness, d_max) = setting.reward_range, claims
    if d_max is not None:
        return bool(own.reward + best.reward >= hi - lo and (own.transitions >= 1.0).all())
    assert nearness is not None
    reward = own.reward + best.reward + float(nearness.rewards.min())
    transitions = own.transitions + best.transitions
    limit = transitions + nearness._per_pair("transitions", setting.n_pairs)
    return bool(reward >= hi - lo and (limit >= 1.0).all())


# Lower weights of a source serve many tasks.
_WEIGHTS: WeakKeyDictionary[Source, tuple[Any, FloatArray, float]] = WeakKeyDictionary()


def _weights(
    sources: list[Source], setting: Setting, accuracy: Accuracy
) -> tuple[FloatArray, FloatArray]:
    """Return lower weights of the states in each source, and the sums of the two largest ones."""
    W, top = np.empty((len(sources), setting.n_states)), np.empty(len(sources))
    outcomes = all_outcomes(setting)
    for i, source in enumerate(sources):
        key = accuracy, setting
        found = _WEIGHTS.get(source)
        if found is None or found[0] != key:
            V = lower_values(source.rows, accuracy.radii(source, setting, outcomes), setting)
            own = lower_weights(V, setting)
            found = _WEIGHTS[source] = key, own, two_largest(own, setting)[1]
        W[i], top[i] = found[1], found[2]
    return W, top


class Observed(NamedTuple):
    """The model of a pair that became known, over the states and ⊥ (the last entry)."""

    pair: int
    R: float
    T: FloatArray


class Difference(NamedTuple):
    """The difference between the task at hand and a source at a pair."""

    task: int
    reward: float
    eta: float
    """The sum of the radii of both mean rewards."""
    tv: float
    tau: float
    """The sum of the radii of both distributions."""
    distance: float
    """A lower bound on the distance D, weighed with the values of the source; 0 without d_max."""


def differences(watch: TaskWatch, seen: Observed) -> list[Difference]:
    """Return how far the model of a pair is from that of each source that knows the pair."""
    found, n_states = [], watch.setting.n_states
    for i, (source, radii) in enumerate(zip(watch.sources, watch.source_radii, strict=True)):
        if not source.known[seen.pair]:
            continue
        rows = source.rows
        T = np.zeros(n_states + 1)
        row = slice(rows.first[seen.pair], rows.last[seen.pair])
        T[rows.successors[row]] = rows.p[row]
        T[n_states] = rows.ends[seen.pair]
        gap = np.abs(T - seen.T)
        tau = float(watch.radii.transitions[seen.pair] + radii.transitions[seen.pair])
        reward = abs(seen.R - float(rows.R[seen.pair]))
        eta = watch.radii.reward + radii.reward
        distance, check = 0.0, watch.check
        if check is not None and len(check.W):
            weighted = float(check.W[i] @ gap[:-1] + check.W_end * gap[-1])
            moved = max(weighted - min(tau, 2.0) * float(check.top[i]), 0.0)
            distance = max(reward - eta, 0.0) + watch.setting.gamma * moved
        found.append(Difference(source.task, reward, eta, float(gap.sum()) / 2, tau, distance))
    return found


def outside(nearness: Nearness, seen: Observed) -> tuple[IntArray, BoolArray]:
    """Return the observed states that a nearness excludes at a pair, and whether ⊥ is excluded."""
    states = np.flatnonzero(seen.T[:-1] > 0)
    excluded = np.empty(0, dtype=np.int64)
    if nearness.successors is not None:
        first, possible = nearness.successors
        allowed = possible[first[seen.pair] : first[seen.pair + 1]]
        excluded = np.setdiff1d(states, allowed)
    ends = np.array(seen.T[-1] > 0)
    if nearness.terminates is not None:
        ends &= ~nearness.terminates.reshape(-1)[seen.pair if nearness.terminates.ndim else 0]
    else:
        ends &= False
    return excluded, ends
