"""`CertifiedValues`: upper and lower bounds on values that hold with a stated probability.

Of the probability δ that a bound fails, half is for models, and half for rollouts. The sets of
models of a task, one for each pair and one for its first states, fail with probability δ_j / 2 at
most, where δ_j = 6 δ / (π² j²) for the number j of the task (`transfer/radii.py`), at all numbers
of visits at once. So the sets of earlier tasks hold together with those of this one. Where all
tasks have the same transitions and prices are known, the visits of a pair in all tasks together are
one sequence, whose set is paid for once in a life.
"""

import math
from typing import NamedTuple

import numpy as np

from heirloom.arrays import BoolArray, FloatArray, IntArray, joined, ranges
from heirloom.errors import InvalidArgument
from heirloom.kernels import certificates as kernels
from heirloom.kernels.confidence import kl_radius, largest_mean
from heirloom.mdp.learned import LearnedModel
from heirloom.mdp.rows import Outcomes, Rows
from heirloom.mdp.tabular import reward_scale, value_range
from heirloom.transfer.declared import Declared
from heirloom.transfer.memory import TaskMemory
from heirloom.transfer.nearness.knowledge import Nearness
from heirloom.transfer.nearness.rows import highest_rewards
from heirloom.transfer.nearness.successors import Successors, common_successors, no_successors
from heirloom.transfer.setting import Setting
from heirloom.transfer.source import Source

ACCURACY = 1e-4  # of bounds, in the range of rewards; they are valid at any accuracy
ROUNDING = 1e-9  # by which a lower bound may be above an upper one, relative to the range of values
MOST_WORK = 2_000_000.0  # backups in one call of compiled code, so that Python can handle Ctrl-C
MOST_CALLS = 500
MOST_ROUNDS = 20
FAULTS = {
    kernels.NEW_SUCCESSOR: "a successor that was declared impossible",
    kernels.NEW_END: "an end that was declared to be impossible",
    kernels.OTHER_REWARD: "rewards that differ between visits, or are not known of each",
}
BORROWED = (
    'rewards is "per transition", which cannot be checked, because the agent has borrowed visits '
    "of other tasks: give mean rewards, or None"
)


class Place(NamedTuple):
    """The place of a task in the life of an agent."""

    number: int
    """Its number, from 1; dropped tasks are not counted."""
    n_dropped: int
    """The number of tasks that were dropped before."""
    is_over: bool = False
    """Whether it was stored or dropped: its visits are then among those of the memory."""


class CertifiedValues:
    """Upper and lower bounds on the values of a task, from its visits and from earlier tasks.

    Args:
        setting: what the agent knows before its first task.
        model: the visits of the task.
        memory: the earlier tasks.
        place: which task it is.
        declared: what is known of all tasks.
        nearness: by how much they can differ; None if nothing is known.
        delta: δ, the probability that a bound fails, in all tasks of a life together.
    """

    def __init__(
        self,
        setting: Setting,
        model: LearnedModel,
        memory: TaskMemory,
        place: Place,
        declared: Declared,
        nearness: Nearness | None,
        delta: float,
    ) -> None:
        n_later = memory.n_tasks + memory.n_dropped - (place.number - 1 + place.n_dropped)
        if n_later > place.is_over:
            raise InvalidArgument(
                "another agent has used the memory since the task began: certificates need a "
                "memory of the agent's own, or one that agents use one after the other"
            )
        self.setting, self.model, self.delta = setting, model, delta
        self.declared, self.nearness = declared, nearness
        n_pairs, n_states, (lo, hi) = setting.n_pairs, setting.n_states, setting.reward_range
        self.v_min, _ = value_range((lo, hi), setting.gamma, terminating=setting.terminating)
        self.prices = declared.rewards if isinstance(declared.rewards, np.ndarray) else None
        if model.has_borrowed and isinstance(declared.rewards, str):
            raise InvalidArgument(BORROWED)
        successors = declared.successors
        may_end = np.full(n_pairs, setting.terminating)
        if declared.terminates is not None:
            may_end &= declared.terminates
        if nearness is not None:
            successors = common_successors(successors, nearness.successors)
            if nearness.terminates is not None:
                may_end &= nearness._per_pair("terminates", n_pairs)
        self.successors = successors
        self._check_possible(successors, may_end)
        n_outcomes = self._n_outcomes(successors, may_end)
        share = delta / 2 / (n_pairs + 1)
        self._log_task = _log_inverse(share, place.number + place.n_dropped)
        log_inverse, base = np.full(n_pairs, self._log_task), _no_base(n_pairs)
        # A model that is estimated once stores only some of its visits, which are no such sequence.
        self._is_pooled = np.zeros(n_pairs, dtype=bool)
        if self.prices is not None and nearness is not None and model.refresh is not None:
            self._is_pooled = nearness._per_pair("transitions", n_pairs) == 0.0
            log_inverse[self._is_pooled] = -math.log(share)
            rows = [(memory.pooled, 1)] + ([(model.all_visits, -1)] if place.is_over else [])
            base = _base(rows, self._is_pooled, n_states)
        possible = no_successors(n_pairs) if successors is None else successors
        into_first, into = _inverse(possible, n_states)
        highest = np.full(n_pairs, hi)
        if nearness is not None:
            highest = highest_rewards(nearness, setting)
        kind = kernels.SHARES if self.prices is None else kernels.PRICES
        if declared.rewards is not None and self.prices is None:
            kind = kernels.PER_TRANSITION
        self._known = kernels.Knowledge(
            gamma=setting.gamma,
            lo=lo,
            hi=hi,
            kind=kind,
            prices=np.empty(0) if self.prices is None else self.prices,
            highest=highest,
            is_listed=successors is not None,
            first=possible.first,
            states=possible.states,
            may_end=may_end,
            n_outcomes=n_outcomes,
            log_inverse=log_inverse,
            base_first=base[0],
            base_states=base[1],
            base_times=base[2],
            into_first=into_first,
            into=into,
        )
        pairs = np.repeat(np.arange(n_pairs), np.diff(base[0]))
        self._check_visits(pairs, base[1], np.zeros(pairs.size, dtype=bool), "an earlier task")
        self._sources = self._source_sets(memory, place, share)
        most = 4 * n_states + 4
        self._own = kernels.Own(
            beta=np.full(n_pairs, np.inf),
            seen=np.full(n_pairs, -1),
            mark=np.zeros(n_states, dtype=np.int64),
            place=np.zeros(n_states, dtype=np.int64),
            p=np.zeros(most),
            r=np.zeros(most),
            v=np.zeros(most),
            w=np.zeros(most),
            s=np.zeros(most, dtype=np.int64),
            stamp=np.ones(1, dtype=np.int64),
        )
        self._upper, self._lower = self._bounds(1.0, setting.v_max), self._bounds(-1.0, self.v_min)
        self._has_sources = np.flatnonzero(np.diff(self._sources.start))

    def _bounds(self, sense: float, value: float) -> kernels.Bounds:
        n_pairs, n_states = self.setting.n_pairs, self.setting.n_states
        return kernels.Bounds(
            sense=sense,
            exists=np.ones(n_pairs, dtype=bool),
            Q=np.full(n_pairs, value),
            V=np.full(n_states, value),
            told=np.full(n_states, value),
            stale=np.ones(n_pairs, dtype=bool),
            unsure=np.ones(n_pairs, dtype=bool),
            queue=np.arange(n_states),
            is_queued=np.ones(n_states, dtype=bool),
            ring=np.array([0, n_states]),
        )

    def _n_outcomes(self, successors: Successors | None, may_end: BoolArray) -> IntArray:
        """Return the number of possible outcomes of each pair."""
        n_states = self.setting.n_states
        inner = np.full(may_end.size, n_states)
        if successors is not None:
            inner = np.diff(successors.first)
        if self.prices is not None:
            return np.maximum(inner + may_end, 1)
        # An end at each state is an outcome of its own, because its reward may be.
        n_outcomes = np.maximum(inner + np.where(may_end, n_states, 0), 1)
        return n_outcomes if self.declared.rewards is not None else 2 * n_outcomes

    def _check_possible(self, successors: Successors | None, may_end: BoolArray) -> None:
        """Raise `InvalidArgument` if an action has no possible outcome: no model is left."""
        if successors is None:
            return
        impossible = (np.diff(successors.first) == 0) & ~may_end
        certain = self.model._availability.certain
        if certain is not None:
            impossible &= certain
        if impossible.any():
            s, a = divmod(int(impossible.argmax()), self.setting.n_actions)
            raise InvalidArgument(
                f"successors has no state for state {s} and action {a}, where episodes cannot "
                "end: declare at least one, or True there in terminates"
            )

    def _source_sets(self, memory: TaskMemory, place: Place, share: float) -> kernels.Sources:
        """Return the confidence sets of earlier tasks at pairs where the nearness helps."""
        setting, nearness, prices = self.setting, self.nearness, self.prices
        n_pairs, (lo, hi) = setting.n_pairs, setting.reward_range
        t = np.ones(n_pairs) if nearness is None else nearness._per_pair("transitions", n_pairs)
        margin = np.zeros(n_pairs)
        if nearness is not None and prices is None:
            margin = nearness._per_pair("rewards", n_pairs)
        helps = (t < 1.0) | ((margin < hi - lo) & (prices is None))
        helps &= ~self._is_pooled
        parts = []
        for source in memory.sources if nearness is not None and helps.any() else ():
            if source.task < place.number and source.outcomes is not None:
                log = _log_inverse(share, source.task + place.n_dropped)
                parts.append(self._of_source(source, source.outcomes, helps, log))
        owner = joined([part.owner for part in parts], np.int64)
        order = np.argsort(owner, kind="stable")
        lengths = joined([np.diff(part.first) for part in parts], np.int64)
        begins = np.cumsum(lengths) - lengths
        lengths = lengths[order]
        taken = ranges(begins[order], lengths)
        return kernels.Sources(
            start=np.searchsorted(owner[order], np.arange(n_pairs + 1)),
            first=np.append(0, np.cumsum(lengths)),
            p=joined([part.p for part in parts], np.float64)[taken],
            r=joined([part.r for part in parts], np.float64)[taken],
            states=joined([part.states for part in parts], np.int64)[taken],
            beta=joined([part.beta for part in parts], np.float64)[order],
            t=np.array(t),
            margin=np.array(margin),
            at=np.full((2, order.size), -1.0),
        )

    def _of_source(
        self, source: Source, outcomes: Outcomes, helps: BoolArray, log_inverse: float
    ) -> "_SourceSets":
        """Return the confidence sets of one earlier task."""
        (lo, hi), n_pairs = self.setting.reward_range, self.setting.n_pairs
        pairs = np.repeat(np.arange(n_pairs), np.diff(outcomes.first))
        states, times = outcomes.states.astype(np.int64), outcomes.times.astype(np.float64)
        R, varies = outcomes.R, outcomes.varies
        self._check_visits(pairs, states, varies, f"task {source.name}")
        kept = helps[pairs]
        pairs, states, times, R = pairs[kept], states[kept], times[kept], R[kept]
        states = np.where(states < 0, -1, states)
        if self.prices is not None:  # all ends of a pair are one outcome
            keys = pairs * (self.setting.n_states + 1) + states + 1
            keys, inverse = np.unique(keys, return_inverse=True)
            times = np.bincount(inverse, times, minlength=keys.size).astype(np.float64)
            pairs, states = np.divmod(keys, self.setting.n_states + 1)
            states, R = states - 1, self.prices[pairs]
        elif self.declared.rewards is None:
            x = np.clip((R - lo) / (hi - lo), 0.0, 1.0)
            pairs, states = (np.repeat(one, 2) for one in (pairs, states))
            times = np.column_stack([times * x, times * (1 - x)]).reshape(-1)
            R = np.tile([hi, lo], x.size)
            seen = times > 0
            pairs, states, times, R = pairs[seen], states[seen], times[seen], R[seen]
        owner, first = np.unique(pairs, return_index=True)
        first = np.append(first, pairs.size).astype(np.int64)
        n = np.bincount(pairs, times, minlength=n_pairs)
        beta = np.empty(owner.size)
        logs = np.full(owner.size, log_inverse)
        kernels.radii(first, times, self._known.n_outcomes[owner], logs, beta)
        return _SourceSets(owner, first, times / n[pairs], R, states, beta)

    def _check_visits(
        self, pairs: IntArray, states: IntArray, varies: BoolArray, where: str
    ) -> None:
        """Raise `InvalidArgument` if an earlier task contradicts what is declared."""
        known = self._known
        fault, at = kernels.NO_FAULT, 0
        if self._known.kind == kernels.PER_TRANSITION and varies.any():
            fault, at = kernels.OTHER_REWARD, int(varies.argmax())
        is_wrong = (states < 0) & ~known.may_end[pairs]
        if is_wrong.any():
            fault, at = kernels.NEW_END, int(is_wrong.argmax())
        if known.is_listed:
            n_states = self.setting.n_states
            owner = np.repeat(np.arange(known.first.size - 1), np.diff(known.first))
            possible = owner * n_states + known.states
            is_wrong = (states >= 0) & ~np.isin(pairs * n_states + states, possible)
            if is_wrong.any():
                fault, at = kernels.NEW_SUCCESSOR, int(is_wrong.argmax())
        if fault != kernels.NO_FAULT:
            self._refuse(int(pairs[at]), fault, f" in {where}")

    def _refuse(self, pair: int, fault: int, where: str = "") -> None:
        s, a = divmod(pair, self.setting.n_actions)
        raise InvalidArgument(
            f"state {s} and action {a} had {FAULTS[fault]}{where}: declare only what is true of "
            "every task"
        )

    @property
    def _entries(self) -> kernels.Entries:
        a = self.model._own
        return kernels.Entries(
            a.counts, a.head, a.next_entry, a.outcomes, a.times, a.rewards, a.excess
        )

    def count(self) -> None:
        """Take note of all visits so far, and of actions that do not exist.

        Raises `InvalidArgument` if a visit contradicts what is declared.
        """
        availability = self.model._availability
        if availability.missing is not None:
            gone = np.flatnonzero(availability.missing & self._upper.exists)
            self._upper.exists[gone], self._upper.Q[gone] = False, -np.inf
            kernels.make_stale(tuple(self._upper), gone)
        certain = availability.certain  # other actions promise nothing
        if certain is not None:
            if (self._lower.exists & ~certain).any():  # what rested on them is void
                self._lower = self._bounds(-1.0, self.v_min)
                self._lower.exists[:] = False
            new = np.flatnonzero(certain & ~self._lower.exists)
            self._lower.exists[new] = True
            kernels.make_stale(tuple(self._lower), new)
        arrays = tuple(self._known), tuple(self._entries), tuple(self._own)
        pair, fault = kernels.count(*arrays, tuple(self._upper), tuple(self._lower))
        if fault != kernels.NO_FAULT:
            self._refuse(pair, fault)

    def upper(self, *, accuracy: float = ACCURACY, search: bool = True) -> kernels.Bounds:
        """Return upper bounds on Q* and V* after the visits that were counted.

        Without `search` the bounds of earlier tasks are not made as small as they can be.
        """
        self._solve(self._upper, accuracy, search=search)
        return self._upper

    def lower(self, *, accuracy: float = ACCURACY, search: bool = True) -> kernels.Bounds:
        """Return lower bounds on Q and V of the policy that is greedy on them, as `upper` does."""
        self._solve(self._lower, accuracy, search=search)
        return self._lower

    def crossing(self) -> int | None:
        """Return the pair whose lower bound is the furthest above its upper bound; None if none is.

        If what is known is true, there is one with probability δ at most in a life.
        """
        lower, upper = self._lower, self._upper
        excess = np.where(lower.exists & upper.exists, lower.Q - upper.Q, -np.inf)
        k = int(excess.argmax())
        return k if self.is_excess(float(excess[k])) else None

    def is_excess(self, difference: float) -> bool:
        """Return whether a difference of values is above 0, beyond rounding."""
        scale = reward_scale(self.setting.reward_range)
        return difference > ROUNDING * max(abs(self.setting.v_max), abs(self.v_min), scale)

    def _solve(self, bounds: kernels.Bounds, accuracy: float, *, search: bool) -> None:
        setting = self.setting
        tol = accuracy * reward_scale(setting.reward_range) * (1 - setting.gamma)
        arrays = tuple(self._known), tuple(self._entries), tuple(self._own), tuple(self._sources)
        for _ in range(MOST_ROUNDS):
            before = bounds.V.copy()
            for _ in range(MOST_CALLS):
                kernels.solve(*arrays, tuple(bounds), tol, MOST_WORK)
                if bounds.ring[kernels.LENGTH] == 0:
                    break
            if not (search and self._has_sources.size):
                return
            if np.abs(bounds.V - before).max() <= tol / (1 - setting.gamma):
                return
            pairs = self._has_sources[bounds.exists[self._has_sources]]
            kernels.make_stale(tuple(bounds), pairs)

    def lower_of(self, policy: IntArray) -> FloatArray:
        """Return lower bounds on the values of a policy, over states."""
        n_states, n_actions = self.setting.n_states, self.setting.n_actions
        bounds, exists = self._bounds(-1.0, self.v_min), np.zeros(self.setting.n_pairs, dtype=bool)
        exists[np.arange(n_states) * n_actions + policy] = True
        bounds.exists[:] = exists & self._lower.exists
        self._solve(bounds, ACCURACY, search=True)
        return bounds.V

    def at_frequencies(self, pairs: IntArray) -> tuple[FloatArray, IntArray, IntArray, FloatArray]:
        """Return values of pairs with upper bounds V and the frequencies of visits as a model.

        They are NaN without visits. Then the rows (indices of pairs), successors and frequencies.
        """
        arrays = tuple(self._known), tuple(self._entries), tuple(self._own)
        Q, first, room = np.empty(pairs.size), np.empty(pairs.size + 1, dtype=np.int64), 0
        while True:
            states, p = np.empty(room, dtype=np.int64), np.empty(room)
            needed = kernels.at_frequencies(*arrays, self._upper.V, pairs, Q, first, states, p)
            if needed <= room:
                rows = np.repeat(np.arange(pairs.size), np.diff(first))
                return Q, rows, states[:needed], p[:needed]
            room = needed

    def of_start(self, V: FloatArray, starts: IntArray, sense: float) -> float:
        """Return the mean of V at the first state: declared, or in the set of those observed."""
        if self.declared.start is not None:
            return float(self.declared.start @ V)
        seen = np.flatnonzero(starts)
        if not seen.size:
            return float(sense * (sense * V).max())
        n_states, n = self.setting.n_states, starts[seen]
        beta = kl_radius(n.astype(np.float64), n_states, self._log_task)
        unseen = np.delete(sense * V, seen).max(initial=-np.inf)
        return float(sense * largest_mean(n / n.sum(), V[seen], sense, unseen, beta))


class _SourceSets(NamedTuple):
    """The confidence sets of one earlier task, as in `kernels.Sources`, of pairs `owner`."""

    owner: IntArray
    first: IntArray
    p: FloatArray
    r: FloatArray
    states: IntArray
    beta: FloatArray


Base = tuple[IntArray, IntArray, IntArray]


def _no_base(n_pairs: int) -> Base:
    nothing = np.empty(0, dtype=np.int64)
    return np.zeros(n_pairs + 1, dtype=np.int64), nothing, nothing


def _base(rows: list[tuple[Rows, int]], is_pooled: BoolArray, n_states: int) -> Base:
    """Return visits of earlier tasks of the pairs that are pooled, by pair.

    They are a sum of rows with the signs that are given.
    """
    keys, times = [np.empty(0, dtype=np.int64)], [np.empty(0)]
    for one, sign in rows:
        outcomes, p = one.outcomes(n_states)
        keys.append(outcomes)
        times.append(sign * np.rint(p * one.counts[outcomes // (n_states + 1)]))
    found, inverse = np.unique(np.concatenate(keys), return_inverse=True)
    total = np.bincount(inverse, np.concatenate(times), minlength=found.size).astype(np.int64)
    kept = (total > 0) & is_pooled[found // (n_states + 1)]
    pairs, states = np.divmod(found[kept], n_states + 1)
    first = np.searchsorted(pairs, np.arange(is_pooled.size + 1))
    return first, np.where(states == n_states, -1, states), total[kept]


def _inverse(possible: Successors, n_states: int) -> tuple[IntArray, IntArray]:
    """Return the pairs that can lead to each state."""
    owner = np.repeat(np.arange(possible.first.size - 1), np.diff(possible.first))
    order = np.argsort(possible.states, kind="stable")
    first = np.searchsorted(possible.states[order], np.arange(n_states + 1))
    return first, owner[order]


def _log_inverse(share: float, number: int) -> float:
    """Return ln(1 / ε) of a set of the task with this number."""
    return 2 * math.log(math.pi * number) - math.log(6 * share)
