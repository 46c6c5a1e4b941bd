"""`estimate_nearness`: what the visits of several tasks say about how tasks differ.

**The tasks seen.** All mean rewards and distributions of all tasks are within radii of the
estimates at once with probability 1 - δ, after any numbers of visits (`transfer/radii.py`). So at
every pair and for all tasks i and j at once

    |R̂_i - R̂_j| - η_i - η_j  <=  |R_i - R_j|  <=  |R̂_i - R̂_j| + η_i + η_j,

and likewise for the total variation, with τ. Of a pair that a task has not visited, only the ranges
of rewards and probabilities are known: the upper limit of the total variation is 1. To leave it out
because it was not visited would be a selection.

**Pairs that are alike.** The user may declare that in each task some pairs have the same mean
reward, or the same distribution over kinds of outcomes. The visits of these pairs in a task are
then one sequence of outcomes with one mean, so that the radii hold for the mean over all of them,
with n the number of all these visits. Such a group counts as one more pair in the division of δ.
If kinds are one to one with the outcomes of each pair, total variations over kinds are those over
outcomes. A group is contradicted if its limits and those of one of its pairs exclude each other.

**The next task.** Let the tasks 1, ..., m, m + 1 be exchangeable, and let x_ij be the largest
difference of tasks i and j over a set of pairs, in units of a shape r(s, a), t(s, a). If shape and
set were fixed before the tasks were seen, each of the m (m + 1) / 2 pairs of tasks is equally
likely to have the largest x, or one of the largest. m of them involve task m + 1. So with
probability 1 - 2/(m + 1) at least, the largest x among the first m tasks bounds those between the
next task and all of them. With limits in place of x it is 1 - 2/(m + 1) - δ. Nothing is assumed
about how tasks are distributed. The statement is about the next task, averaged over all that may
be seen before it; for the next k tasks together it is m (m - 1) / ((m + k) (m + k - 1)) - δ.
Without a shape, the largest differences of rewards and of transitions are two such numbers, and
each fails with probability 2/(m + 1) at most.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from heirloom.arrays import BoolArray, FloatArray, IntArray, frozen
from heirloom.errors import InvalidArgument
from heirloom.kernels import audit as kernels
from heirloom.kernels.audit import MOST, SEEN, SURE, ComparedRows
from heirloom.naming import NO_NAMES, Names
from heirloom.transfer.memory import TaskMemory
from heirloom.transfer.nearness.knowledge import Nearness
from heirloom.transfer.nearness.successors import as_array
from heirloom.transfer.radii import (
    Accuracy,
    all_outcomes,
    fewest_visits,
    possible_outcomes,
    radii_for,
    read_exact,
)
from heirloom.transfer.setting import Setting
from heirloom.transfer.source import Source
from heirloom.validation import instance, real_number, shown
from heirloom.wording import counted, were

CLOSE = 0.1  # of the largest possible difference: limits that are closer to the estimate are good
PARTS = ("rewards", "transitions")

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


@dataclass(frozen=True, eq=False, repr=False)
class NearnessEstimate:
    """What the visits of several tasks say about how tasks differ; `print` shows it as a table."""

    confidence: float
    """The probability that all limits hold at once."""
    doubt: float
    """The probability that a limit of the estimated parts fails: 0 if these are exact."""
    n_tasks: int
    """The number of tasks that were compared, m."""
    n_seen: int
    """The number of tasks that the memory has seen, also those that it has forgotten."""
    rewards: Limits
    transitions: Limits
    pairs: BoolArray
    """The pairs about which the nearness for the next task says something, [s, a]."""
    nearness: Nearness
    """The claim for the next task: it bounds the differences between it and all tasks seen."""
    parts: tuple[str, ...]
    """The parts of it that were estimated; it claims nothing about others."""
    scale: float | None
    """The factor by which the shape was multiplied for it; None without a shape."""
    n_scales: int
    """How many numbers were estimated for it: 1 with a shape, and otherwise 1 for each part."""
    obstacle: str
    """Why nothing is known about the next task; empty if it is."""
    contradictions: tuple[str, ...]
    """What the user has declared, and the data contradict."""
    visits_needed: Mapping[str, int | None]
    """How many visits in every task limits close to the estimate need, by part; None if unknown.

    They are those of a pair, together with those of pairs that are alike."""

    def probability(self, n_next: int = 1) -> float:
        """Return with which probability `nearness` holds for the next tasks; 0 if unknown.

        It is the probability that it bounds the differences between each of the next `n_next` tasks
        and all tasks seen, and among these, if tasks are exchangeable.
        """
        if self.obstacle or self.contradictions:
            return 0.0
        m, n = self.n_tasks, self.n_seen + n_next
        among_compared = m * (m - 1) / (n * (n - 1))
        return max(0.0, 1 - self.doubt - self.n_scales * (1 - among_compared))

    @property
    def is_vacuous(self) -> bool:
        """Whether the claim for the next task excludes nothing at its pairs."""
        for name in self.parts:
            claim = np.broadcast_to(getattr(self.nearness, name), self.pairs.shape)
            if (claim[self.pairs] < getattr(self, name).widest).any():
                return False
        return True

    def __repr__(self) -> str:
        lines = [
            f"{counted(self.n_tasks, 'task')}, {counted(int(self.pairs.sum()), 'pair')}, "
            f"confidence {self.confidence:.4g}; largest difference between two tasks seen:"
        ]
        width = len("total variation of transitions")
        columns = ("estimate", "lower limit", "upper limit", "possible")
        lines.append(" " * width + "".join(f"  {name:>11}" for name in columns))
        titles = {
            "difference of mean rewards": self.rewards,
            "total variation of transitions": self.transitions,
        }
        for title, x in titles.items():
            values = (*(_largest(a[self.pairs]) for a in (x.estimate, x.lower, x.upper)), x.widest)
            cells = "".join(f"  {value:>11.4g}" for value in values)
            lines.append(f"{title:<{width}}{cells}")
        lines += self._too_few()
        lines += [f"Contradicted: {text}." for text in self.contradictions]
        return "\n".join([*lines, self._next_task()])

    def _too_few(self) -> list[str]:
        """Say of which part there are too few visits, in a line each."""
        lines = []
        for name in self.parts:
            x: Limits = getattr(self, name)
            unvisited = int((self.pairs & (x.visits == 0) & (x.upper > 0)).sum())
            wide = (x.upper - np.nan_to_num(x.estimate) > CLOSE * x.widest) & self.pairs
            if not wide.any():
                continue
            line = f"Too few visits for {name} at {counted(int(wide.sum()), 'pair')}"
            if unvisited:
                line += f", {unvisited:,} of them not visited in every task"
            n = self.visits_needed[name]
            if n is not None:
                line += (
                    f": limits within {CLOSE * x.widest:.3g} of the estimate need "
                    f"{counted(n, 'visit')} in every task of each pair, or of alike ones together"
                )
            lines.append(f"{line}.")
        return lines

    def _next_task(self) -> str:
        if self.obstacle:
            return f"Nothing is known about the next task: {self.obstacle}."
        if self.contradictions:
            return "Nothing is known about the next task: what was declared is contradicted."
        if self.is_vacuous:
            return "Nothing is known about the next task: the limits exclude nothing."
        p, enough = self.probability(), 40 * self.n_scales - 1  # for a doubt of 5 % in addition
        if p == 0:
            return (
                f"Nothing is known about the next task: {counted(self.n_tasks, 'task')} of "
                f"{self.n_seen:,} are too few."
            )
        shape = "" if self.scale is None else f", {self.scale:.4g} times the shape"
        text = (
            f"The next task: {self.nearness!r}{shape}, with probability {p:.0%} if tasks are "
            "exchangeable"
        )
        if self.n_tasks == self.n_seen < enough and self.doubt < 0.95:
            text += f" ({0.95 - self.doubt:.0%} with {enough:,} tasks)"
        return f"{text}."


def estimate_nearness(
    memory: TaskMemory,
    *,
    confidence: float = 0.95,
    parts: Sequence[str] = PARTS,
    shape: Nearness | None = None,
    pairs: ArrayLike | None = None,
    rewards_alike: ArrayLike | None = None,
    transitions_alike: ArrayLike | None = None,
    kind: Kind | None = None,
    exact: bool | Mapping[str, Any] = False,
) -> NearnessEstimate:
    """Return what the visits of the tasks in a memory say about how tasks differ.

    The limits are about the tasks seen, and hold at all pairs at once with probability
    `confidence`. From them follows a nearness for the next task, with a smaller probability that
    grows with the number of tasks (`probability`), if tasks are exchangeable: any order of them is
    equally likely, as if they were drawn independently, without drift. `parts`, `shape` and `pairs`
    must not be chosen after looking at the data. The text of this module has the proof.

    Args:
        memory: the tasks that an agent has learned, such as `agent.memory`, also from a log.
        confidence: the probability that all limits hold.
        parts: the parts of the nearness for the next task that are estimated; it claims nothing
            about the other one. Each number that is estimated makes it less probable.
        shape: a nearness that is true up to a factor, which is estimated: differences of rewards
            and transitions in the same proportion at all pairs. Where it is 0, tasks are claimed
            not to differ. Its successors, `terminates` and `highest_rewards` are taken as known.
            Without it, the nearness for the next task has two numbers.
        pairs: the pairs about which the nearness for the next task is to say something, booleans
            [s, a]; by default all.
        rewards_alike: integers [s, a]. In each task, pairs with the same number have the same mean
            reward. Pairs with -1 are alike to no other one.
        transitions_alike: integers [s, a]. In each task, pairs with the same number have the same
            distribution over kinds of outcomes.
        kind: a function of a state, an action and a successor (None if the step terminated) that
            returns the kind of this outcome. Different outcomes of one pair must be of different
            kinds. By default the successor itself.
        exact: whether learned models are exact, as in `audit`.
    """
    instance("memory", memory, TaskMemory, "such as agent.memory")
    expected = "expected a probability above 0 and below 1"
    confidence = real_number("confidence", confidence, expected, above=0, below=1)
    setting = memory.setting
    if setting is None or len(memory.stored) < 2:
        raise InvalidArgument(
            f"the memory has {counted(len(memory.stored), 'task')}: differences need at least two"
        )
    if not isinstance(parts, list | tuple) or not parts or any(x not in PARTS for x in parts):
        raise InvalidArgument(f"parts is {shown(parts)}: expected some of {', '.join(PARTS)}")
    if shape is not None:
        instance("shape", shape, Nearness, "or None")._check_shape(*_size(setting))
    accuracy = Accuracy(
        exact=False,
        delta=1 - confidence,
        n_dropped=memory.n_dropped,
        parts=read_exact(exact, setting),
    )
    outcomes = all_outcomes(setting) if shape is None else possible_outcomes(shape, setting)
    groups = _Groups(
        _group_numbers("rewards_alike", rewards_alike, setting),
        _group_numbers("transitions_alike", transitions_alike, setting),
        kind,
    )
    found = _Comparison(memory.stored, setting, accuracy, outcomes, groups, memory.names)
    chosen = _flags(pairs, setting) & found.exists.any(axis=0).reshape(_size(setting))
    if not chosen.any():
        raise InvalidArgument("pairs has no pair that exists in a task: choose some that do")
    return found.estimate(memory, confidence, parts, shape, chosen)


def limits_of(
    sources: Sequence[Source], setting: Setting, accuracy: Accuracy, outcomes: IntArray
) -> dict[str, Limits]:
    """Return the limits of each part, if no pairs are alike; none for fewer than two tasks."""
    if len(sources) < 2:
        return {}
    alone = np.full(setting.n_pairs, -1)
    groups = _Groups(alone, alone, None)
    return _Comparison(sources, setting, accuracy, outcomes, groups, NO_NAMES).limits()


def _size(setting: Setting) -> tuple[int, int]:
    return setting.n_states, setting.n_actions


def _obstacle(memory: TaskMemory) -> str:
    """Return why the stored tasks are a selection, or an empty text."""
    n = memory.n_dropped
    if n:
        return f"{counted(n, 'task')} {were(n)} dropped, so that the others are a selection"
    if memory.forgotten and memory.keep == "most_used":
        return 'the memory keeps the tasks that were "most_used", which is a selection'
    return ""


def _flags(pairs: ArrayLike | None, setting: Setting) -> BoolArray:
    flags = as_array("pairs", np.ones(_size(setting), dtype=bool) if pairs is None else pairs)
    if flags.dtype != np.bool_ or flags.shape != _size(setting) or not flags.any():
        raise InvalidArgument(
            f"pairs is {shown(pairs)}: expected booleans [s, a] of shape {_size(setting)}, some of "
            "them True"
        )
    return flags


def _group_numbers(name: str, alike: ArrayLike | None, setting: Setting) -> IntArray:
    """Return the group of each pair, counted from 0, or -1."""
    if alike is None:
        return np.full(setting.n_pairs, -1)
    given = as_array(name, alike)
    if given.dtype.kind not in "iu" or given.shape != _size(setting):
        raise InvalidArgument(
            f"{name} is {shown(alike)}: expected integers [s, a] of shape {_size(setting)}: the "
            "same number for pairs that are alike, and -1 for the others"
        )
    found, group = np.unique(
        np.maximum(given.reshape(-1).astype(np.int64), -1), return_inverse=True
    )
    return group - int(found[0] < 0)


class _Groups(NamedTuple):
    """Which pairs are alike: the group of each pair, or -1; and the kinds of outcomes."""

    rewards: IntArray
    transitions: IntArray
    kind: Kind | None


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


class _Comparison:
    """The differences between the tasks of a memory, with their limits.

    Pairs and groups of pairs are *sets* of pairs: the first ones are single pairs.
    """

    def __init__(
        self,
        sources: Sequence[Source],
        setting: Setting,
        accuracy: Accuracy,
        outcomes: IntArray,
        groups: _Groups,
        names: Names,
    ) -> None:
        self.setting, self.accuracy, self.names = setting, accuracy, names
        self.outcomes, self.groups = outcomes, groups
        self.tasks = [source.task for source in sources]
        seen = [_seen_in(source) for source in sources]
        *over_pairs, keys, p = zip(*seen, strict=True)
        self.exists, self.has_row, self.n, self.R, self.n_whole = map(np.array, over_pairs)
        self.task = np.repeat(np.arange(len(seen)), [x.size for x in keys])
        self.pair, self.outcome = np.divmod(np.concatenate(keys), setting.n_states + 1)
        self.p = np.concatenate(p)
        self.contradictions: list[str] = []

    def limits(self) -> dict[str, Limits]:
        """Return the limits of each part."""
        return {"rewards": self._rewards(), "transitions": self._transitions()}

    def _set_of(self, name: str) -> IntArray:
        """Return the largest set that each pair is in."""
        group = getattr(self.groups, name)
        return np.where(group >= 0, group.size + group, np.arange(group.size))

    def _visits_over_sets(self, group: IntArray) -> tuple[IntArray, BoolArray, BoolArray]:
        """Return the visits of sets, whether they have a row, and whether they exist."""
        n = _over_sets(self.n, self.n_whole, group, np.add, 0)
        has_row = _over_sets(self.has_row, self.n_whole > 0, group, np.logical_or, 0)
        return n, has_row, _over_sets(self.exists, self.exists, group, np.logical_or, 0)

    def _radii(self, name: str, n: IntArray, has_row: BoolArray) -> FloatArray:
        """Return the radii of sets in each task; infinite for those without a row.

        A group is exact if all its pairs are.
        """
        group, setting, flags = getattr(self.groups, name), self.setting, self._exact(name)
        outcomes = self._outcomes_of_sets(name)
        exact = getattr(self.accuracy.exact_radii(setting, outcomes), name)
        shares = [self.accuracy.share(task) for task in self.tasks]
        found = [
            getattr(radii_for(share, setting, outcomes).at(row), name)
            for share, row in zip(shares, n, strict=True)
        ]
        is_exact = _over_sets(flags, flags, group, np.logical_and, 1)
        return np.where(has_row, np.where(is_exact, exact, found), np.inf)

    def _outcomes_of_sets(self, name: str) -> Any:
        """Return the number of outcomes of each set: of a group, the most of its pairs."""
        group = getattr(self.groups, name)
        return _over_sets(self.outcomes, self.outcomes, group, np.maximum, 1)

    def _exact(self, name: str) -> BoolArray:
        flags: BoolArray = getattr(self.accuracy.parts, name)
        return flags

    def _rewards(self) -> Limits:
        (lo, hi), group = self.setting.reward_range, self.groups.rewards
        n, has_row, _ = self._visits_over_sets(group)
        R = _over_sets(self.R, self.n_whole * self.R, group, np.add, 0.0)
        R[:, group.size :] /= np.maximum(n[:, group.size :], 1)
        R = np.clip(R, lo, hi)  # rounding
        eta = self._radii("rewards", n, has_row)
        its_set, exists, single = self._set_of("rewards"), self.exists, slice(group.size)
        low, high = np.maximum(R - eta, lo), np.minimum(R + eta, hi)
        low = np.maximum(low[:, single], low[:, its_set])
        high = np.minimum(high[:, single], high[:, its_set])
        lower = low.max(axis=0, where=exists, initial=lo)
        lower -= high.min(axis=0, where=exists, initial=hi)
        low[~exists], high[~exists] = np.inf, -np.inf  # such tasks determine no limit
        lowest, highest, upper = low[0], high[0], np.zeros(group.size)
        for one_low, one_high in zip(low[1:], high[1:], strict=True):
            upper = np.maximum(upper, np.maximum(one_high - lowest, highest - one_low))
            lowest, highest = np.minimum(lowest, one_low), np.maximum(highest, one_high)
        seen = np.where(has_row[:, its_set] & exists, R[:, its_set], np.nan)
        estimate = np.fmax.reduce(seen) - np.fmin.reduce(seen)
        estimate[np.isfinite(seen).sum(axis=0) < 2] = np.nan
        apart = np.abs(R[:, single] - R[:, its_set])
        limits = estimate, np.maximum(lower, 0.0), upper
        return self._by_pair("rewards", limits, n, eta, apart, hi - lo)

    def _transitions(self) -> Limits:
        group, m = self.groups.transitions, len(self.tasks)
        n, has_row, exists = self._visits_over_sets(group)
        tau = self._radii("transitions", n, has_row)
        # Groups have the frequencies of kinds, over all visits of their pairs.
        inside = np.flatnonzero((group[self.pair] >= 0) & (self.n_whole > 0)[self.task, self.pair])
        task, pair = self.task[inside], self.pair[inside]
        its_set = group.size + group[pair]
        kind_of = self.groups.kind
        kinds = self.outcome[inside] if kind_of is None else self._kinds(kind_of, inside)
        size = max(self.setting.n_states, int(kinds.max(initial=0))) + 1
        keys, place = np.unique((its_set * m + task) * size + kinds, return_inverse=True)
        mass = np.bincount(place, self.p[inside] * self.n[task, pair], minlength=keys.size)
        row, kind = np.divmod(keys, size)
        q = mass / n.T.reshape(-1)[row]
        # The total variation between a pair and its group, which has also other kinds.
        own, excess = task * group.size + pair, np.abs(self.p[inside] - q[place]) - q[place]
        sums = np.bincount(own, excess, minlength=m * group.size).astype(np.float64)
        apart = (1 + sums.reshape(m, -1)) / 2
        # The rows of sets, ordered by set and task, as compiled code reads them.
        row = np.append(self.pair * m + self.task, row)
        kind, p = np.append(self.outcome, kind), np.append(self.p, q)
        order = np.lexsort((kind, row))
        rows = np.flatnonzero(has_row.T)
        blank = np.zeros(rows.size)
        found, tasks = np.zeros((3, n.shape[1])), np.empty((3, n.shape[1], 2), dtype=np.int64)
        compared = ComparedRows(
            start=np.searchsorted(rows, np.arange(n.shape[1] + 1) * m),
            source=rows % m,
            R=blank,
            ends=blank,
            first=np.searchsorted(row[order], rows),
            last=np.searchsorted(row[order], rows, side="right"),
            successors=kind[order].astype(np.int32),
            p=p[order],
            eta=blank,
            tau=np.minimum(tau.T[has_row.T], 1.0),
        )
        kernels.compare_transitions(compared, size, found, tasks)
        n_rows, n_exist = has_row.sum(axis=0), exists.sum(axis=0)
        found[SEEN, n_rows < 2] = np.nan
        upper = np.where((n_rows < n_exist) & (n_exist > 1), 1.0, np.minimum(found[MOST], 1.0))
        its_set, single = self._set_of("transitions"), slice(group.size)
        limits = (
            found[SEEN, its_set],
            np.maximum(found[SURE, single], found[SURE, its_set]),
            np.minimum(upper[single], upper[its_set]),
        )
        return self._by_pair("transitions", limits, n, tau, apart, 1.0)

    def _kinds(self, kind: Kind, places: IntArray) -> IntArray:
        """Return the number of the kind of each of these outcomes."""
        n_states = self.setting.n_states
        numbers: dict[Any, int] = {}
        found: dict[tuple[int, int], None] = {}  # pairs and kinds, in order
        keys = self.pair[places] * (n_states + 1) + self.outcome[places]
        keys, place = np.unique(keys, return_inverse=True)
        for k, outcome in zip(*(x.tolist() for x in np.divmod(keys, n_states + 1)), strict=True):
            s, a = divmod(k, self.setting.n_actions)
            label = kind(s, a, None if outcome == n_states else outcome)
            try:
                key = k, numbers.setdefault(label, len(numbers))
            except TypeError:
                raise InvalidArgument(
                    f"kind returned {shown(label)}: expected a number, a text or a tuple of these"
                ) from None
            if key in found:
                raise InvalidArgument(
                    f"kind returned {shown(label)} for two outcomes of {self._name(k)}: expected "
                    "different kinds for different outcomes of a pair"
                )
            found[key] = None
        return np.array([number for _, number in found], dtype=np.int64)[place]

    def _by_pair(
        self,
        name: str,
        limits: tuple[FloatArray, FloatArray, FloatArray],
        n: IntArray,
        radii: FloatArray,
        apart: FloatArray,
        widest: float,
    ) -> Limits:
        """Return the limits of pairs, and take note of pairs that are surely not like their group.

        `apart` is the difference between each pair and its group in each task.
        """
        its_set, n_pairs = self._set_of(name), self.setting.n_pairs
        excess = (apart - radii[:, :n_pairs] - radii[:, its_set]).max(axis=0)
        excess[its_set < n_pairs] = 0.0
        if (excess > 0).any():
            k, unlike = int(excess.argmax()), counted(int((excess > 0).sum()), "pair")
            self.contradictions.append(
                f"{name}_alike: {unlike} and their groups differ in a task, {self._name(k)} by at "
                f"least {excess[k]:.4g}"
            )
        estimate, lower, upper = limits
        most = np.iinfo(np.int64).max
        fewest = n[:, its_set].min(axis=0, where=self.exists, initial=most)
        visits = np.where(self.exists.any(axis=0), fewest, 0)
        shape = _size(self.setting)
        return Limits(
            estimate=frozen(estimate.reshape(shape)),
            lower=frozen(lower.reshape(shape)),
            upper=frozen(upper.reshape(shape)),
            widest=widest,
            visits=frozen(visits.reshape(shape)),
        )

    def estimate(
        self,
        memory: TaskMemory,
        confidence: float,
        parts: Sequence[str],
        shape: Nearness | None,
        chosen: BoolArray,
    ) -> NearnessEstimate:
        limits = self.limits()
        claims = {name: np.full(chosen.shape, x.widest) for name, x in limits.items()}
        estimated = {name: x for name, x in limits.items() if name in parts and x.widest > 0}
        scale: float | None = None
        declared: dict[str, Any] = {}
        if shape is None:
            for name, x in estimated.items():
                claims[name][chosen] = x.upper[chosen].max()
        else:
            self._check_possible(shape)
            scale = self._scale(estimated, shape, chosen, claims)
            names = ("successors", "terminates", "highest_rewards")
            declared = {name: getattr(shape, name) for name in names}
        is_exact = all(self._exact(name)[chosen.reshape(-1)].all() for name in parts)
        return NearnessEstimate(
            confidence=confidence,
            doubt=0.0 if is_exact else 1 - confidence,
            n_tasks=len(self.tasks),
            n_seen=memory.n_tasks,
            rewards=limits["rewards"],
            transitions=limits["transitions"],
            pairs=frozen(chosen),
            nearness=Nearness(**claims, **declared),
            parts=tuple(parts),
            scale=scale,
            n_scales=len(estimated) if shape is None else 1,
            obstacle=_obstacle(memory),
            contradictions=tuple(self.contradictions),
            visits_needed={name: self._visits_needed(name, chosen) for name in PARTS},
        )

    def _scale(
        self,
        limits: dict[str, Limits],
        shape: Nearness,
        chosen: BoolArray,
        claims: dict[str, FloatArray],
    ) -> float:
        """Set `claims` to the smallest multiple of a shape above all limits; return its factor."""
        units = {name: shape._per_pair(name, chosen.size).reshape(chosen.shape) for name in limits}
        scale = 0.0
        for name, x in limits.items():
            zero, positive = chosen & (units[name] == 0), chosen & (units[name] > 0)
            with np.errstate(over="ignore"):
                ratios = x.upper[positive] / units[name][positive]
            scale = max(scale, float(ratios.max(initial=0.0)))
            if (x.lower[zero] > 0).any():
                k = int(np.where(zero, x.lower, -1.0).argmax())
                self.contradictions.append(
                    f"the shape says that tasks do not differ in {name} at {self._name(k)}, but "
                    f"two of them do by at least {x.lower.flat[k]:.4g}"
                )
        for name, x in limits.items():
            unit = units[name][chosen]
            with np.errstate(over="ignore", invalid="ignore"):
                claims[name][chosen] = np.where(unit > 0, np.minimum(scale * unit, x.widest), 0.0)
        return scale

    def _check_possible(self, shape: Nearness) -> None:
        """Take note of an outcome that a shape says is impossible."""
        n_states, n_pairs = self.setting.n_states, self.setting.n_pairs
        keys = np.unique(self.pair * (n_states + 1) + self.outcome)
        owner, outcome = np.divmod(keys, n_states + 1)
        at_end, excluded = outcome == n_states, np.zeros(keys.size, dtype=bool)
        if shape.terminates is not None:
            excluded |= at_end & ~shape._per_pair("terminates", n_pairs)[owner]
        if shape.successors is not None:
            first, states = shape.successors
            allowed = np.repeat(np.arange(n_pairs), np.diff(first)) * (n_states + 1) + states
            excluded |= ~at_end & ~np.isin(keys, allowed)
        if excluded.any():
            k, s_next = int(owner[excluded.argmax()]), int(outcome[excluded.argmax()])
            what = "the end" if s_next == n_states else f"state {s_next}"
            self.contradictions.append(
                f"{counted(int(excluded.sum()), 'outcome')} that the shape excludes were seen, "
                f"such as {what} after {self._name(k)}"
            )

    def _name(self, k: int) -> str:
        return self.names.pair(*divmod(k, self.setting.n_actions))

    def _visits_needed(self, name: str, chosen: BoolArray) -> int | None:
        """Return the visits in every task that make limits close to estimates.

        They are the visits of each pair, together with those of pairs that are alike.
        """
        lo, hi = self.setting.reward_range
        widest = hi - lo if name == "rewards" else 1.0
        outcomes = self._outcomes_of_sets(name)
        radii = radii_for(self.accuracy.share(max(self.tasks)), self.setting, outcomes)
        needed = self._set_of(name)[chosen.reshape(-1) & ~self._exact(name)]

        def is_enough(n: int) -> bool:
            found = getattr(radii.at(np.full(outcomes.size, n)), name)
            return bool(2 * found[needed].max(initial=0.0) <= CLOSE * widest)

        return fewest_visits(is_enough)


def _over_sets(
    values: np.ndarray, pooled: np.ndarray, group: IntArray, join: np.ufunc, start: float
) -> Any:
    """Return values over sets: those of pairs, and for each group the `pooled` ones, joined."""
    n_groups, inside = int(group.max(initial=-1)) + 1, group >= 0
    grouped = np.full((*pooled.shape[:-1], n_groups), start, dtype=values.dtype)
    join.at(grouped.T, group[inside], pooled.T[inside])
    return np.append(values, grouped, axis=-1)


def _largest(array: FloatArray) -> float:
    """Return the largest number, NaN if there is none."""
    return float(np.nanmax(array)) if np.isfinite(array).any() else math.nan
