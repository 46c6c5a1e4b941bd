"""Compare the known pairs of a task with the claims, while the task is learned.

The test is the one of `audit`, for the current task and each source: models are compared at pairs
that are known in both, and an alarm needs a difference beyond the claim and the radii of both
models. The radii are those of `transfer/radii.py`, so that a true claim is refuted with probability
δ at most, over all tasks of an agent together, however often a pair is looked at. A `d_max` is
compared with distances that are weighed with lower values of the sources only, since those of the
task at hand are not yet known.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from heirloom.arrays import FloatArray, IntArray
from heirloom.kernels.audit import ComparedRows
from heirloom.kernels.checking import Check
from heirloom.transfer.bound import Bound, Claims
from heirloom.transfer.nearness.knowledge import Nearness
from heirloom.transfer.nearness.successors import no_successors
from heirloom.transfer.radii import Accuracy, Radii, TaskRadii, all_outcomes, possible_outcomes
from heirloom.transfer.refutation.differences import lower_weights, rows_by_pair
from heirloom.transfer.setting import Setting
from heirloom.transfer.source import Source


def claims_of(bounds: Sequence[Bound]) -> Claims:
    """Return the claims of bounds together: the nearness, and the smallest `d_max`."""
    nearness, d_max = None, None
    for own in (bound.claims() for bound in bounds):
        nearness = own.nearness if nearness is None else nearness
        if own.d_max is not None:
            d_max = own.d_max if d_max is None else np.minimum(d_max, own.d_max)
    return Claims(nearness, d_max)


@dataclass(frozen=True, eq=False)
class TaskWatch:
    """The claims about one task, with the radii of its models, and what compiled code checks."""

    claims: Claims
    setting: Setting
    sources: list[Source]
    task: int
    """The number of the task."""
    own: TaskRadii
    """The radii of the task."""
    smallest: Radii
    """The radii of the task after the most visits."""
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
        most: int,
    ) -> "TaskWatch":
        """Prepare the comparison of a task with these sources.

        `most` is the largest number of visits after which a pair is compared.
        """
        nearness, n_sources = claims.nearness, len(sources)
        fixed = _fixed(nearness, setting)
        number, most_before = task + accuracy.n_dropped, _most_visits(sources)
        key = replace(accuracy, n_dropped=0), most, most_before
        blind = fixed.blind.get(key)
        if blind is not None and n_sources and claims.d_max is None and blind.number <= number:
            check = blind.in_later_task()
            return cls(claims, setting, [], task, blind.own, blind.smallest, [], check, n_sources)
        outcomes = fixed.outcomes if claims.d_max is None else all_outcomes(setting)
        own = accuracy.of_task(task, setting, outcomes)
        smallest = own.at(np.full(setting.n_pairs, most))
        if _is_blind(claims, accuracy, setting, sources, smallest, outcomes):
            sources = []
        others = [accuracy.radii(source, setting, outcomes) for source in sources]
        watch = cls(claims, setting, sources, task, own, smallest, others, None, n_sources)
        watch = replace(watch, check=watch._check(accuracy))
        if watch.blind and claims.d_max is None:
            assert nearness is not None
            if nearness.highest_rewards is None:  # otherwise the check depends on the radii
                fixed.blind[key] = _Blind(number, own, smallest, watch.check)
        return watch

    def _check(self, accuracy: Accuracy) -> Check | None:
        nearness, d_max = self.claims
        setting = self.setting
        fixed = _fixed(nearness, setting)
        (lo, hi), n_pairs = setting.reward_range, setting.n_pairs
        eta, tau = self.smallest
        if not self.sources:
            high = self._highest(np.inf)
            if nearness is None or not (fixed.excludes or (high + eta < hi).any()):
                return None
            return self._with_rows(fixed, np.full(n_pairs, -np.inf), high)
        rows = rows_by_pair(self.sources, self.source_radii, setting)
        low, high = self._interval(rows)
        limit, prior = np.full(n_pairs, np.inf), np.full(n_pairs, np.inf)
        least_tau = _of_rows(np.minimum, rows.tau, rows, np.inf)
        if nearness is not None:
            limit = nearness._per_pair("transitions", n_pairs)
            limit = np.where(limit + tau + least_tau < 1, limit, np.inf)
        if d_max is not None and (tau < 1.0).any():
            largest = hi - lo + 2 * setting.gamma * (setting.v_max - setting.floor)
            prior[:] = np.where(d_max < largest, d_max, np.inf).reshape(-1)
        fires = bool((low - eta > lo).any() or (high + eta < hi).any())
        needs_rows = bool((limit < 1.0).any() or np.isfinite(prior).any())
        if not (fixed.excludes or fires or needs_rows):
            return None
        check = self._with_rows(fixed, low, high)
        if not needs_rows:
            return check
        W, top = _weights(self.sources if np.isfinite(prior).any() else [], setting, accuracy)
        shared = {name: getattr(rows, name) for name in rows._fields}
        return check._replace(**shared, least_tau=least_tau, limit=limit, d_max=prior, W=W, top=top)

    def _with_rows(self, fixed: "_Fixed", low: FloatArray, high: FloatArray) -> Check:
        """Return a check of rewards and successors, without rows of sources."""
        return fixed.check._replace(
            active=np.ones(1, dtype=bool),
            low=low,
            high=high,
            task_eta=self.own.eta,
            width=self.own.width,
            log_rewards=self.own.log_rewards,
            task_tau=self.own.tau,
            log_sets=self.own.log_sets,
        )

    def _interval(self, rows: ComparedRows) -> tuple[FloatArray, FloatArray]:
        """Return the interval in which the claims put the true mean reward of each pair."""
        n_pairs = self.setting.n_pairs
        r = np.full(n_pairs, np.inf)
        nearness, d_max = self.claims
        if nearness is not None:
            r = np.minimum(r, nearness._per_pair("rewards", n_pairs))
        if d_max is not None:
            r = np.minimum(r, d_max.reshape(-1))
        lowest = _of_rows(np.minimum, rows.R + rows.eta, rows, np.inf)
        highest = _of_rows(np.maximum, rows.R - rows.eta, rows, -np.inf)
        return highest - r, self._highest(lowest + r)

    def _highest(self, high: FloatArray | float) -> FloatArray:
        """Return `high`, or less where the nearness gives the largest mean reward."""
        n_pairs, nearness = self.setting.n_pairs, self.claims.nearness
        if nearness is not None and nearness.highest_rewards is not None:
            return np.minimum(high, nearness._per_pair("highest_rewards", n_pairs))
        return np.full(n_pairs, high)

    @property
    def blind(self) -> bool:
        """Whether no difference between the models of the task and of sources can be detected."""
        return self.n_sources > 0 and not self.sources


def _is_blind(
    claims: Claims,
    accuracy: Accuracy,
    setting: Setting,
    sources: list[Source],
    smallest: Radii,
    outcomes: IntArray,
) -> bool:
    """Return whether no source can contradict the claims, whatever the task is.

    No source has smaller radii than the first task would have with the largest number of visits.
    """
    if not sources:
        return True
    visits = np.full(setting.n_pairs, _most_visits(sources))
    best = accuracy.of_task(1, setting, outcomes).at(visits)
    (lo, hi), (nearness, d_max) = setting.reward_range, claims
    reward = smallest.rewards + best.rewards
    if d_max is not None:
        return bool((reward >= hi - lo).all() and (smallest.transitions >= 1.0).all())
    assert nearness is not None
    transitions = smallest.transitions + best.transitions
    limit = transitions + nearness._per_pair("transitions", setting.n_pairs)
    reward = reward + nearness._per_pair("rewards", setting.n_pairs)
    return bool((reward >= hi - lo).all() and (limit >= 1.0).all())


def _most_visits(sources: list[Source]) -> int:
    """Return the largest number of visits of a pair in a source."""
    return max((source.most_visits for source in sources), default=0)


def _of_rows(ufunc: np.ufunc, values: FloatArray, rows: ComparedRows, empty: float) -> FloatArray:
    """Return the extreme value of the rows of each pair, and `empty` without rows."""
    extreme, has_rows = np.full(rows.start.size - 1, empty), np.diff(rows.start) > 0
    if values.size:
        extreme[has_rows] = ufunc.reduceat(values, rows.start[:-1][has_rows])
    return extreme


class _Blind(NamedTuple):
    """What is checked in a task whose sources cannot contradict the nearness.

    Radii grow with the number of the task, which counts dropped tasks here. So with the same
    numbers of visits, the sources of a later task cannot contradict it either.
    """

    number: int
    own: TaskRadii
    smallest: Radii
    check: Check | None

    def in_later_task(self) -> Check | None:
        """Return the check, active again."""
        return self.check and self.check._replace(active=np.ones(1, dtype=bool))


class _Fixed(NamedTuple):
    """What is checked in every task in the same way, because it is a claim about single tasks."""

    setting: Setting
    outcomes: IntArray
    excludes: bool
    """Whether a successor or termination is excluded somewhere."""
    check: Check
    """A check without rows of sources."""
    blind: dict[tuple[Accuracy, int, int], _Blind]
    """Cases in which no source can contradict the nearness, by the accuracy without
    dropped tasks, the largest number of visits in the task, and the largest one in a source."""


# A nearness serves many tasks. The key of an agent without one is None.
_FIXED: WeakKeyDictionary[Nearness, _Fixed] = WeakKeyDictionary()


def _fixed(nearness: Nearness | None, setting: Setting) -> _Fixed:
    found = None if nearness is None else _FIXED.get(nearness)
    if found is not None and found.setting == setting:
        return found
    n_pairs = setting.n_pairs
    possible = None if nearness is None else nearness.successors
    may_end, excludes = np.ones(n_pairs, dtype=bool), possible is not None
    if nearness is not None and nearness.terminates is not None:
        may_end &= nearness._per_pair("terminates", n_pairs)
        excludes = True
    first, states = possible or no_successors(n_pairs)
    nothing, rows = np.empty(0), rows_by_pair([], [], setting)
    check = Check(
        **{name: getattr(rows, name) for name in rows._fields},
        active=np.ones(1, dtype=bool),
        low=nothing,
        high=nothing,
        any_successor=possible is None,
        possible_first=first,
        possible=states,
        may_end=may_end,
        least_tau=np.full(n_pairs, np.inf),
        task_eta=0.0,
        width=0.0,
        log_rewards=0.0,
        task_tau=nothing,
        log_sets=nothing,
        limit=np.full(n_pairs, np.inf),
        d_max=np.full(n_pairs, np.inf),
        W=np.empty((0, setting.n_states)),
        W_end=-setting.floor,
        top=nothing,
        gamma=setting.gamma,
    )
    outcomes = all_outcomes(setting) if nearness is None else possible_outcomes(nearness, setting)
    found = _Fixed(setting, outcomes, excludes, check, {})
    if nearness is not None:
        _FIXED[nearness] = found
    return found


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
            radii = accuracy.radii(source, setting, outcomes)
            own, _, largest_two = lower_weights(source.rows, radii, setting)
            found = _WEIGHTS[source] = key, own, largest_two
        W[i], top[i] = found[1], found[2]
    return W, top
