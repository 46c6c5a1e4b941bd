"""Limits on the differences between the tasks seen, per pair and over pairs that are alike.

All mean rewards and distributions of all tasks are within radii of the estimates at once with
probability 1 - δ, after any numbers of visits (`transfer/radii.py`). So at every pair and for all
tasks i and j at once

    |R̂_i - R̂_j| - η_i - η_j  <=  |R_i - R_j|  <=  |R̂_i - R̂_j| + η_i + η_j,

and likewise for the total variation, with τ. If a task has not visited a pair, its mean reward can
be anywhere in the range of rewards, and the upper limit of the total variation is 1. Leaving such
pairs out would be a selection.

**Pairs that are alike.** The user may declare that in each task some pairs have the same mean
reward, or the same distribution over kinds of outcomes. The visits of these pairs in a task are
then one sequence of outcomes with one mean, so that the radii hold for the mean over all of them,
with n the number of all these visits. Such a group counts as one more pair in the division of δ.
If kinds are one to one with the outcomes of each pair, total variations over kinds are those over
outcomes. A group is contradicted if its limits and those of one of its pairs exclude each other.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from heirloom.arrays import BoolArray, FloatArray, IntArray, frozen
from heirloom.errors import InvalidArgument
from heirloom.kernels import audit as kernels
from heirloom.kernels.audit import MOST, SEEN, SURE, ComparedRows
from heirloom.naming import Names
from heirloom.transfer.nearness.knowledge import Nearness
from heirloom.transfer.nearness.successors import as_array
from heirloom.transfer.radii import Accuracy, fewest_visits, radii_for
from heirloom.transfer.setting import Setting
from heirloom.transfer.source import Source
from heirloom.validation import shown
from heirloom.wording import counted

CLOSE = 0.1  # of the largest possible difference: limits that are closer to the estimate are good

Kind = Callable[[int, int, int | None], Any]


@dataclass(frozen=True, eq=False)
class Limits:
    """By how much two of the tasks seen differ at most, at each pair, in one part of the models.

    Arrays are [s, a] and read-only. All limits of an estimate hold at once, with its confidence.
    """

    estimate: FloatArray
    """The largest difference between two learned models; NaN if fewer than two are learned."""
    lower: FloatArray
    """The largest difference between two tasks is at least this."""
    upper: FloatArray
    """It is at most this, also where a task has not visited the pair."""
    widest: float
    """The largest possible difference."""
    visits: IntArray
    """The fewest visits of the pair in a task, together with those of pairs that are alike."""
    tasks: IntArray
    """The numbers of two tasks that differ by the lower limit, [s, a, 2]; 0 where it is 0."""


class Alike(NamedTuple):
    """Which pairs are alike: the group of each pair by part, or -1; and the kinds of outcomes."""

    rewards: IntArray
    transitions: IntArray
    kind: Kind | None = None

    def has_groups(self) -> bool:
        """Return whether any pair is in a group."""
        return bool((self.rewards >= 0).any() or (self.transitions >= 0).any())


def read_alike(
    rewards: ArrayLike | None,
    transitions: ArrayLike | None,
    kind: Kind | None,
    size: tuple[int, int],
) -> Alike:
    """Return what was declared alike; raise `InvalidArgument` unless these are integers [s, a]."""
    groups: list[IntArray] = []
    for name, alike in (("rewards_alike", rewards), ("transitions_alike", transitions)):
        given = as_array(name, np.full(size, -1) if alike is None else alike)
        if given.dtype.kind not in "iu" or given.shape != size:
            raise InvalidArgument(
                f"{name} is {shown(alike)}: expected integers [s, a] of shape {size}: the same "
                "number for pairs that are alike, and -1 for the others"
            )
        own = np.maximum(given.reshape(-1).astype(np.int64), -1)
        found, group = np.unique(own, return_inverse=True)
        groups.append(group - int(found[0] < 0))
    return Alike(groups[0], groups[1], kind)


class Comparison:
    """The differences between tasks, with their limits.

    `accuracy` says at which pairs models are exact. `outcomes` is the number of possible outcomes
    of each pair.
    """

    def __init__(
        self,
        sources: Sequence[Source],
        setting: Setting,
        accuracy: Accuracy,
        outcomes: IntArray,
        alike: Alike,
        names: Names,
    ) -> None:
        self.setting, self.accuracy, self.names = setting, accuracy, names
        self.outcomes, self.alike = outcomes, alike
        self.tasks = [source.task for source in sources]
        *over_pairs, keys, p = zip(*map(_seen_in, sources), strict=True)
        self.exists, self.has_row, self.n, self.R, self.n_whole = map(np.array, over_pairs)
        self.task = np.repeat(np.arange(len(sources)), [x.size for x in keys])
        self.pair, self.outcome = np.divmod(np.concatenate(keys), setting.n_states + 1)
        self.p = np.concatenate(p)
        self.contradictions: list[str] = []
        """What was declared, and the data contradict."""
        self._sets = {part: _Sets(self, part) for part in ("rewards", "transitions")}
        self.limits = {"rewards": self._rewards(), "transitions": self._transitions()}

    def _rewards(self) -> Limits:
        sets, (lo, hi) = self._sets["rewards"], self.setting.reward_range
        single, its = slice(sets.n_pairs), sets.its
        R = sets.over(np.add, self.R, self.n_whole * self.R)
        R[:, sets.n_pairs :] /= np.maximum(sets.n[:, sets.n_pairs :], 1)
        R = np.clip(R, lo, hi)  # rounding
        low, high = np.maximum(R - sets.radii, lo), np.minimum(R + sets.radii, hi)
        low = np.maximum(low[:, single], low[:, its])
        high = np.minimum(high[:, single], high[:, its])
        self._highest_seen = low.max(axis=0, where=self.exists, initial=lo)
        lower = self._highest_seen - high.min(axis=0, where=self.exists, initial=hi)
        ends = [np.where(self.exists, low, lo).argmax(axis=0)]
        ends.append(np.where(self.exists, high, hi).argmin(axis=0))
        low[~self.exists], high[~self.exists] = np.inf, -np.inf  # they determine no limit
        lowest, highest, upper = low[0], high[0], np.zeros(sets.n_pairs)
        for one_low, one_high in zip(low[1:], high[1:], strict=True):
            upper = np.maximum(upper, np.maximum(one_high - lowest, highest - one_low))
            lowest, highest = np.minimum(lowest, one_low), np.maximum(highest, one_high)
        seen = np.where(sets.has_row[:, its] & self.exists, R[:, its], np.nan)
        estimate = np.fmax.reduce(seen) - np.fmin.reduce(seen)
        estimate[np.isfinite(seen).sum(axis=0) < 2] = np.nan
        apart = np.abs(R[:, single] - R[:, its])
        limits = estimate, np.maximum(lower, 0.0), upper
        return self._by_pair("rewards", limits, np.column_stack(ends), apart, hi - lo)

    def _transitions(self) -> Limits:
        sets, m, n_pairs = self._sets["transitions"], len(self.tasks), self.setting.n_pairs
        # Groups have the frequencies of kinds, over all visits of their pairs.
        inside = np.flatnonzero(
            (sets.group[self.pair] >= 0) & (self.n_whole > 0)[self.task, self.pair]
        )
        task, pair, p = self.task[inside], self.pair[inside], self.p[inside]
        kinds = self._kinds(pair, self.outcome[inside])
        size = max(self.setting.n_states, int(kinds.max(initial=0))) + 1
        keys, place = np.unique((sets.its[pair] * m + task) * size + kinds, return_inverse=True)
        row, kind = np.divmod(keys, size)
        mass = np.bincount(place, p * self.n[task, pair], minlength=keys.size)
        q = mass / sets.n.T.reshape(-1)[row]
        # The total variation between a pair and its group, which has also other kinds.
        excess = np.abs(p - q[place]) - q[place]
        sums = np.bincount(task * n_pairs + pair, excess, minlength=m * n_pairs)
        apart = (1 + sums.astype(np.float64).reshape(m, -1)) / 2
        # The rows of sets, ordered by set and task, as compiled code reads them.
        row = np.append(self.pair * m + self.task, row)
        kind, p = np.append(self.outcome, kind), np.append(self.p, q)
        order = np.lexsort((kind, row))
        rows = np.flatnonzero(sets.has_row.T)
        blank, n_sets = np.zeros(rows.size), sets.n.shape[1]
        found, tasks = np.zeros((3, n_sets)), np.zeros((3, n_sets, 2), dtype=np.int64)
        compared = ComparedRows(
            start=np.searchsorted(rows, np.arange(n_sets + 1) * m),
            source=rows % m,
            R=blank,
            ends=blank,
            first=np.searchsorted(row[order], rows),
            last=np.searchsorted(row[order], rows, side="right"),
            successors=kind[order].astype(np.int32),
            p=p[order],
            eta=blank,
            tau=np.minimum(sets.radii.T[sets.has_row.T], 1.0),
        )
        kernels.compare_transitions(compared, size, found, tasks)
        n_rows, n_exist = sets.has_row.sum(axis=0), sets.exists.sum(axis=0)
        found[SEEN, n_rows < 2] = np.nan
        upper = np.where((n_rows < n_exist) & (n_exist > 1), 1.0, np.minimum(found[MOST], 1.0))
        # Two tasks that have a group may differ although one of them does not have the pair.
        same = (self.exists == sets.exists[:, sets.its]).all(axis=0)
        best, single = np.where(same, sets.its, np.arange(n_pairs)), slice(n_pairs)
        surest = np.where(found[SURE, best] > found[SURE, single], best, np.arange(n_pairs))
        limits = (
            found[SEEN, best],
            found[SURE, surest],
            np.minimum(upper[single], upper[sets.its]),
        )
        return self._by_pair("transitions", limits, tasks[SURE, surest], apart, 1.0)

    def _kinds(self, pairs: IntArray, outcomes: IntArray) -> IntArray:
        """Return the number of the kind of each of these outcomes."""
        if self.alike.kind is None:
            return outcomes
        n_states = self.setting.n_states
        numbers: dict[Any, int] = {}
        found: dict[tuple[int, int], None] = {}  # pairs and kinds, in order
        keys, place = np.unique(pairs * (n_states + 1) + outcomes, return_inverse=True)
        for k, outcome in zip(*(x.tolist() for x in np.divmod(keys, n_states + 1)), strict=True):
            s, a = divmod(k, self.setting.n_actions)
            label = self.alike.kind(s, a, None if outcome == n_states else outcome)
            try:
                key = k, numbers.setdefault(label, len(numbers))
            except TypeError:
                raise InvalidArgument(
                    f"kind returned {shown(label)}: expected a number, a text or a tuple of these"
                ) from None
            if key in found:
                raise InvalidArgument(
                    f"kind returned {shown(label)} for two outcomes of {self.name(k)}: expected "
                    "different kinds for different outcomes of a pair"
                )
            found[key] = None
        return np.array([number for _, number in found], dtype=np.int64)[place]

    def _by_pair(
        self,
        part: str,
        limits: tuple[FloatArray, ...],
        ends: IntArray,
        apart: FloatArray,
        widest: float,
    ) -> Limits:
        """Return the limits of pairs, and take note of pairs that are surely not like their group.

        `ends` has the indices of the two tasks that determine each lower limit, and `apart` is the
        difference between each pair and its group in each task.
        """
        sets = self._sets[part]
        excess = (apart - sets.radii[:, : sets.n_pairs] - sets.radii[:, sets.its]).max(axis=0)
        excess[sets.group < 0] = 0.0
        if (excess > 0).any():
            k, unlike = int(excess.argmax()), counted(int((excess > 0).sum()), "pair")
            self.contradictions.append(
                f"{part}_alike: {unlike} and their groups differ in a task, {self.name(k)} by at "
                f"least {excess[k]:.4g}"
            )
        n = np.where(self.exists, sets.n[:, sets.its], np.iinfo(np.int64).max).min(axis=0)
        visits = np.where(self.exists.any(axis=0), n, 0)
        shape = self.setting.n_states, self.setting.n_actions
        arrays = (frozen(x.reshape(shape)) for x in (*limits, visits))
        estimate, lower, upper, visits = arrays
        tasks = np.where(lower[..., None] > 0, np.array(self.tasks)[ends].reshape(*shape, 2), 0)
        return Limits(estimate, lower, upper, widest, visits, frozen(tasks))

    def check_possible(self, nearness: Nearness) -> None:
        """Take note of outcomes that a nearness excludes, and of rewards above its highest ones."""
        keys = np.unique(self.pair * (self.setting.n_states + 1) + self.outcome)
        pairs, outcomes = np.divmod(keys, self.setting.n_states + 1)
        excluded = nearness._excludes(pairs, outcomes, self.setting.n_states)
        if excluded.any():
            k, s_next = int(pairs[excluded][0]), int(outcomes[excluded][0])
            what = "the end" if s_next == self.setting.n_states else f"state {s_next}"
            self.contradictions.append(
                f"{counted(int(excluded.sum()), 'outcome')} that the shape excludes were seen, "
                f"such as {what} after {self.name(k)}"
            )
        if nearness.highest_rewards is not None:
            above = self._highest_seen - nearness._per_pair("highest_rewards", self.exists.shape[1])
            if (above > 0).any():
                self.contradictions.append(
                    f"the mean reward of {self.name(int(above.argmax()))} exceeds highest_rewards "
                    f"of the shape in a task by at least {above.max():.4g}"
                )

    def visited(self, part: str) -> tuple[FloatArray, IntArray]:
        """Return the radii and the visits of each pair, or of its group, [task, pair]."""
        sets = self._sets[part]
        return sets.radii[:, sets.its], sets.n[:, sets.its]

    def name(self, k: int) -> str:
        """Return a pair in words."""
        return self.names.pair(*divmod(k, self.setting.n_actions))

    def visits_needed(self, part: str, chosen: BoolArray) -> int | None:
        """Return the visits in every task that make limits of some pairs close to estimates.

        They are the visits of each pair, together with those of pairs that are alike.
        """
        sets, widest = self._sets[part], self.limits[part].widest
        radii = radii_for(self.accuracy.share(max(self.tasks)), self.setting, sets.outcomes)
        needed = sets.its[chosen & ~sets.is_exact[: sets.n_pairs]]

        def is_enough(n: int) -> bool:
            found = getattr(radii.at(np.full(sets.outcomes.size, n)), part)
            return bool(2 * found[needed].max(initial=0.0) <= CLOSE * widest)

        return fewest_visits(is_enough)


class _Sets:
    """What was seen of pairs, and then of groups of pairs that are alike, in one part.

    Arrays are [task, set]; `its` is the largest set that each pair is in.
    """

    def __init__(self, seen: Comparison, part: str) -> None:
        self.group: IntArray = getattr(seen.alike, part)
        self.n_pairs = self.group.size
        self.its = np.where(self.group >= 0, self.n_pairs + self.group, np.arange(self.n_pairs))
        self.n: IntArray = self.over(np.add, seen.n, seen.n_whole)
        self.has_row = self.over(np.logical_or, seen.has_row, seen.n_whole > 0)
        self.exists = self.over(np.logical_or, seen.exists)
        self.outcomes: IntArray = self.over(np.maximum, seen.outcomes)
        self.is_exact = self.over(np.logical_and, getattr(seen.accuracy.parts, part))
        exact = getattr(seen.accuracy.exact_radii(seen.setting, self.outcomes), part)
        found = [
            getattr(radii_for(seen.accuracy.share(j), seen.setting, self.outcomes).at(n), part)
            for j, n in zip(seen.tasks, self.n, strict=True)
        ]
        self.radii = np.where(self.has_row, np.where(self.is_exact, exact, found), np.inf)
        """They are infinite for sets without a row. A group is exact if all its pairs are."""

    def over(self, join: np.ufunc, values: Any, pooled: Any = None) -> Any:
        """Return the values of pairs, and then the joined ones (`pooled`, if given) of groups."""
        pooled, inside = values if pooled is None else pooled, self.group >= 0
        shape = *pooled.shape[:-1], int(self.group.max(initial=-1)) + 1
        grouped = np.full(shape, join.identity or 0, dtype=values.dtype)
        join.at(grouped.T, self.group[inside], pooled.T[inside])
        return np.append(values, grouped, axis=-1)


def _seen_in(source: Source) -> tuple[np.ndarray, ...]:
    """Return what was seen of one task, over pairs and then over outcomes.

    Over pairs: whether the task has it, as far as it is known; whether its model was learned or
    given; its visits, its mean reward, and the visits that can be pooled. (Single rows may be older
    than the last visit, and can not be pooled.) Outcomes are k * (S + 1) + successor, or S for ⊥,
    each one once, and then their frequencies.
    """
    rows, seen, n_states = source.rows, source.outcomes, source.V.size
    exists = ~source.missing
    if seen is None:
        nothing = np.zeros_like(rows.counts)
        return exists, rows.exist, rows.counts, rows.R, nothing, *rows.outcomes(n_states)
    n = np.bincount(seen.pairs, seen.times, minlength=exists.size).astype(np.int64)
    R = np.bincount(seen.pairs, seen.times * seen.R, minlength=n.size) / np.maximum(n, 1)
    ends = np.where(seen.states >= 0, seen.states, n_states)
    keys, place = np.unique(seen.pairs * (n_states + 1) + ends, return_inverse=True)
    p = np.bincount(place, seen.times) / n[keys // (n_states + 1)]
    return exists, n > 0, n, R, n, keys, p
