"""`LearnedModel`: the empirical model that an agent learns of the current task.

Every visit is counted. A pair is known after `n_known` visits: its mean reward and transitions are
then estimated, and again whenever its visits have grown by the factor `refresh`. Memory use is a
few numbers per pair and per distinct outcome.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from heirloom.arrays import BoolArray, FloatArray, IntArray, frozen, read_only
from heirloom.errors import InvalidArgument
from heirloom.kernels import counting
from heirloom.mdp.available import Availability
from heirloom.mdp.rows import MOST_VISITS, Outcomes, Rows, collected
from heirloom.validation import (
    Range,
    check_refresh,
    index,
    reward,
    shown,
    sizes,
    truth,
    whole_number,
)
from heirloom.wording import counted_of

if TYPE_CHECKING:
    from heirloom.mdp.from_learned import Unknown
    from heirloom.mdp.tabular import TabularMDP

INITIAL_CAPACITY = 256  # transitions, and outcomes, for which a new model has room
MOST_LOGGED = 2**24  # steps of a task that are logged, in 64 MB, or 192 MB if rewards vary
OF_TRANSITIONS = "successors", "p", "owner", "next_into", "next_into_1"
OF_ENTRIES = "outcomes", "times", "rewards", "excess", "place", "next_entry"


class LearnedModel:
    """Visit counts, the known set and the empirical model of a task.

    Args:
        n_states: the number of states, S.
        n_actions: the number of actions, A.
        n_known: the number of visits after which a pair is known; see `theory.n_known_for`.
        refresh: the factor by which the visits of a known pair grow until it is estimated again;
            None if it never is.
    """

    def __init__(
        self, n_states: int, n_actions: int, *, n_known: int, refresh: float | None = None
    ) -> None:
        self._n_states, self._n_actions = sizes(n_states, n_actions)
        n_known = whole_number("n_known", n_known)
        self._refresh = check_refresh(refresh)
        n_pairs = self.n_states * self.n_actions
        self._availability = Availability(self.n_states, self.n_actions)
        self._entries: dict[tuple[int, int], int] = {}
        """The entry of each pair and outcome that was counted step by step."""
        self._is_logged = False
        self._borrowed: list[tuple[IntArray, IntArray, IntArray, FloatArray]] = []
        """The pairs, entries, times and excess of visits that were borrowed from other tasks."""
        widest = min(n_known, self.n_states) if refresh is None else self.n_states
        capacity = max(INITIAL_CAPACITY, widest)

        def per_pair(dtype: type, value: float = 0) -> np.ndarray:
            return np.full(n_pairs, value, dtype=dtype)

        def per_entry(dtype: type) -> np.ndarray:
            return np.empty(capacity, dtype=dtype)

        estimates = {
            "R": per_pair(np.float64),
            "ends": per_pair(np.float64),
            "first": per_pair(np.int64),
            "last": per_pair(np.int64),
        }
        # Without further looks, the first look is the last one.
        copied = {name: value.copy() if refresh else value for name, value in estimates.items()}
        self._arrays = counting.Model(
            n_known=n_known,
            growth=np.inf if self._refresh is None else self._refresh,
            widest=widest,
            counts=per_pair(np.int64),
            known=per_pair(np.bool_),
            due=per_pair(np.float64),
            next_look=per_pair(np.int64, n_known),
            looked=per_pair(np.int64),
            high=estimates["R"],
            radius=np.empty(0),
            beta=np.empty(0),
            share=np.empty(0),
            rule=np.empty(0),
            **estimates,
            **{f"{name}_1": value for name, value in copied.items()},
            listed=per_pair(np.bool_),
            successors=per_entry(np.int32),
            p=per_entry(np.float64),
            owner=per_entry(np.int64),
            next_into=per_entry(np.int64),
            into=np.full(self.n_states, -1),
            next_into_1=per_entry(np.int64),
            into_1=np.full(self.n_states, -1),
            head=per_pair(np.int64, -1),
            outcomes=per_entry(np.int32),
            times=per_entry(np.int64),
            rewards=per_entry(np.float64),
            excess=np.empty((capacity, 2)),
            place=per_entry(np.int64),
            next_entry=per_entry(np.int64),
            log=np.empty(0, dtype=np.int32),
            other_rewards=np.empty(0),
            sizes=np.array([0, 0, -1, -1]),
        )

    # Read-only, because the sizes of the arrays follow from them.
    @property
    def n_states(self) -> int:
        """The number of states, S."""
        return self._n_states

    @property
    def n_actions(self) -> int:
        """The number of actions, A."""
        return self._n_actions

    @property
    def n_known(self) -> int:
        """The number of visits after which a pair is known."""
        return int(self._arrays.n_known)

    @property
    def refresh(self) -> float | None:
        """The factor by which visits grow between two estimates of a known pair; None for one."""
        return self._refresh

    @property
    def counts(self) -> IntArray:
        """All visits, [s, a]; those that were borrowed from other tasks, too."""
        return self._by_pair(self._arrays.counts)

    @property
    def own_counts(self) -> IntArray:
        """The visits in this task, [s, a]."""
        return self._by_pair(self._own.counts)

    @property
    def known(self) -> BoolArray:
        """The known set K, [s, a]."""
        return self._by_pair(self._arrays.known)

    @property
    def R(self) -> FloatArray:
        """Empirical mean rewards, [s, a]; 0 where unknown."""
        return self._by_pair(self._arrays.R)

    @property
    def ends(self) -> FloatArray:
        """Empirical probabilities of termination, [s, a]; 0 where unknown."""
        return self._by_pair(self._arrays.ends)

    @property
    def available(self) -> BoolArray:
        """The actions that exist, [s, a], as far as is known: all if no mask was given."""
        missing = self._availability.missing
        available = np.ones(self._arrays.known.size, dtype=bool) if missing is None else ~missing
        return self._by_pair(available)

    @property
    def reached(self) -> BoolArray:
        """The states that were visited, or were the successor of a transition, [s]."""
        reached = self.counts.sum(axis=1) > 0
        outcomes = self._arrays.outcomes[: self._arrays.sizes[counting.N_ENTRIES]]
        reached[outcomes[outcomes >= 0]] = True
        return reached

    @property
    def rows(self) -> Rows:
        """The known pairs as the last look found them; their `counts` are the visits until then."""
        a = self._arrays
        return self._known_rows(a.looked, a.R, a.ends, a.first, a.last)

    @property
    def first_rows(self) -> Rows:
        """The known pairs as the first look found them, as read-only views."""
        a = self._arrays
        counts = np.where(a.known, a.n_known, 0)
        return self._known_rows(counts, a.R_1, a.ends_1, a.first_1, a.last_1)

    def _known_rows(self, *arrays: np.ndarray) -> Rows:
        a = self._arrays
        n = a.sizes[counting.N_TRANSITIONS]  # nothing was written to the entries from n on
        views = (a.known, *arrays, a.successors[:n], a.p[:n])
        return Rows(*(read_only(array) for array in views))

    @property
    def visited_rows(self) -> Rows:
        """The rows of all visited pairs: of known ones as in `rows`, of others from all visits.

        If visits were borrowed, these are the rows of the visits in this task only.
        """
        return self._visited_rows(self.outcomes)

    def _visited_rows(self, seen: Outcomes) -> Rows:
        """Return `visited_rows`; `seen` are the outcomes so far."""
        if self._borrowed:
            rows = self.all_visits
            return rows._replace(known=frozen(rows.counts >= self.n_known))
        a, rows = self._arrays, self.rows
        pairs, keys, times = self._merged(seen)
        is_open = ~a.known[pairs]
        pairs, keys, times = pairs[is_open], keys[is_open], times[is_open]
        known_keys, p = rows.outcomes(self.n_states)
        both = np.concatenate([known_keys, keys]), np.concatenate([p, times / a.counts[pairs]])
        counts, R = np.where(a.known, rows.counts, a.counts), self.mean_rewards
        R[a.known] = rows.R[a.known]
        return collected(a.known.copy(), counts, R, both, self.n_states)

    @property
    def all_visits(self) -> Rows:
        """The rows of all visited pairs, from all visits in this task so far."""
        a = self._own
        pairs, keys, times = self._merged(self.outcomes)
        p = times / a.counts[pairs]
        copies = a.known.copy(), a.counts.copy(), self.mean_rewards
        return collected(*copies, (keys, p), self.n_states)

    @property
    def outcomes(self) -> Outcomes:
        """How often each outcome of each pair was seen in this task so far, and its rewards."""
        a, n = self._own, int(self._arrays.sizes[counting.N_ENTRIES])
        pairs, is_borrowed = np.empty(n, dtype=np.int64), np.zeros(n, dtype=bool)
        counting.entry_pairs(a.head, a.next_entry, pairs)
        for _, entries, *_ in self._borrowed:
            is_borrowed[entries] = True
        order = np.argsort(pairs * (2 * self.n_states) + a.outcomes[:n])
        order = order[a.times[order] > 0]  # without those that were only borrowed
        times, excess = a.times[order], a.excess[order]
        differs = (excess != 0.0).any(axis=1) | np.signbit(excess[:, 1])
        seen = Outcomes(
            first=np.searchsorted(pairs[order], np.arange(a.counts.size + 1)),
            states=a.outcomes[order],
            times=times,
            R=a.rewards[order] + excess.sum(axis=1) / times,
            varies=differs | is_borrowed[order],
        )
        for array in seen:
            frozen(array)
        return seen

    @property
    def has_borrowed(self) -> bool:
        """Whether visits of other tasks were counted."""
        return bool(self._borrowed)

    @property
    def _own(self) -> counting.Model:
        """The arrays without the visits that were borrowed."""
        a = self._arrays
        if not self._borrowed:
            return a
        a = a._replace(counts=a.counts.copy(), times=a.times.copy(), excess=a.excess.copy())
        for pairs, entries, times, excess in self._borrowed:
            np.subtract.at(a.counts, pairs, times)
            np.subtract.at(a.times, entries, times)
            np.subtract.at(a.excess[:, 0], entries, excess)
        return a

    @property
    def mean_rewards(self) -> FloatArray:
        """The mean of all rewards of each pair so far, over pairs; 0 where it was not visited."""
        R = np.zeros(self._arrays.counts.size)
        counting.mean_rewards(self._own, R)
        return R

    def _merged(self, seen: Outcomes) -> tuple[IntArray, IntArray, IntArray]:
        """Return the pair k of each outcome, k * (S + 1) + successor or S for ⊥, and its times."""
        states = np.where(seen.states < 0, self.n_states, seen.states)
        keys = seen.pairs * (self.n_states + 1) + states
        keys, inverse = np.unique(keys, return_inverse=True)  # terminal transitions are one outcome
        times = np.zeros(keys.size, dtype=np.int64)
        np.add.at(times, inverse, seen.times)
        return keys // (self.n_states + 1), keys, times

    @property
    def widest(self) -> int:
        """An upper bound on the number of successors of a known pair."""
        return int(self._arrays.widest)

    def successors(self, s: int, a: int) -> dict[int, float]:
        """Return the empirical probabilities of the nonterminal successors of a known pair.

        The result is empty if the pair is unknown.
        """
        k = self._pair(s, a)
        row = slice(self._arrays.first[k], self._arrays.last[k])
        successors, p = self._arrays.successors[row].tolist(), self._arrays.p[row].tolist()
        return dict(zip(successors, p, strict=True))

    def to_mdp(
        self,
        *,
        gamma: float,
        unknown: "Unknown",
        reward_range: Range = (0.0, 1.0),
        terminating: bool = True,
        **options: Any,
    ) -> "TabularMDP":
        """Return the learned model as a task, which can be solved, compared and saved.

        Args:
            gamma: the discount factor.
            unknown: what an unknown pair is worth: the largest value of any task in the reward
                range ("optimistic"), or the smallest ("pessimistic"). It ends the episode with this
                value as its reward, so the reward range of the result is the range of values. With
                "absent", the action is missing instead; in a state without any known action all
                actions remain, as if pessimistic.
            reward_range: the range of the rewards of the task.
            terminating: whether the task may terminate, which matters for the range of values.
            options: `start`, `state_names` and `action_names` of `TabularMDP`.
        """
        from heirloom.mdp.from_learned import mdp_of

        return mdp_of(
            self.rows,
            self.n_states,
            gamma=gamma,
            unknown=unknown,
            reward_range=reward_range,
            terminating=terminating,
            missing=self._availability.missing,
            **options,
        )

    def observe(self, s: int, a: int, r: float, s_next: int, *, terminated: bool) -> int | None:
        """Count a visit; return the pair k if this visit made it known, otherwise None."""
        k = self._pair(s, a)
        r = reward(s, a, r)
        s_next = index("next state", s_next, self.n_states)
        due = self._count(k, r, -1 - s_next if truth("terminated", terminated) else s_next)
        return k if due is not None and self._look(k) else None

    def _pair(self, s: int, a: int) -> int:
        """Return the pair k = s * A + a; raise `InvalidArgument` unless there is such a pair."""
        return index("state", s, self.n_states) * self.n_actions + index(
            "action", a, self.n_actions
        )

    def _count(self, k: int, r: float, outcome: int) -> int | None:
        """Count a visit as `observe` does; nothing is checked, and `outcome` is -1 - s' for ⊥.

        Returns the pair if it is due to be looked at, which the caller must do.
        """
        arrays = self._arrays
        i = self._entries.get((k, outcome))
        if i is None:
            self._make_room()
            arrays = self._arrays
            i = counting.entry_of(
                *(arrays.head, arrays.next_entry, arrays.outcomes, arrays.times, arrays.rewards),
                *(arrays.excess, arrays.place, arrays.sizes, k, outcome, r),
            )
            self._entries[k, outcome] = i
        is_other = r != arrays.rewards[i]
        if is_other:
            counting.add_excess(arrays.rewards, arrays.excess, i, r)
        if self._is_logged:
            self._log(2 * i + 1 if is_other else 2 * i, r)
        arrays.times[i] += 1
        arrays.counts[k] += 1
        return k if arrays.counts[k] == arrays.next_look[k] else None

    def _start_log(
        self, log: IntArray | None = None, other_rewards: FloatArray | None = None
    ) -> None:
        """Log steps from now on, behind those that are given."""
        if log is None or other_rewards is None:
            log, other_rewards = np.empty(0, dtype=np.int32), np.empty(0)
        self._arrays.sizes[counting.N_LOGGED :] = log.size, other_rewards.size
        capacity = [max(INITIAL_CAPACITY, array.size) for array in (log, other_rewards)]
        room = np.empty(capacity[0], dtype=np.int32), np.empty(capacity[1])
        room[0][: log.size], room[1][: other_rewards.size] = log, other_rewards
        self._arrays = self._arrays._replace(log=room[0], other_rewards=room[1])
        self._is_logged = True

    def _log(self, code: int, r: float = 0.0) -> None:
        """Log a step, or the beginning of an episode, as `counting.Model` describes."""
        arrays, is_other = self._arrays, code > 0 and code % 2 == 1
        n, n_others = arrays.sizes[counting.N_LOGGED :].tolist()
        if n == arrays.log.size or (is_other and n_others == arrays.other_rewards.size):
            self._grow_log()
            if not self._is_logged:
                return
            arrays = self._arrays
        arrays.log[n] = code
        arrays.sizes[counting.N_LOGGED] = n + 1
        if is_other:
            arrays.other_rewards[n_others] = r
            arrays.sizes[counting.N_OTHERS] = n_others + 1

    @property
    def _log_is_full(self) -> bool:
        a = self._arrays
        sizes = a.log.size, a.other_rewards.size
        return any(a.sizes[counting.N_LOGGED + i] == size for i, size in enumerate(sizes))

    def _grow_log(self) -> None:
        """Double the room for steps, or end the log if it is as long as it may be."""
        a = self._arrays
        for name, size in (("log", counting.N_LOGGED), ("other_rewards", counting.N_OTHERS)):
            array = getattr(a, name)
            if a.sizes[size] < array.size:
                continue
            if array.size >= MOST_LOGGED:
                a.sizes[counting.N_LOGGED :] = -1
                none = {"log": a.log[:0].copy(), "other_rewards": a.other_rewards[:0].copy()}
                self._arrays, self._is_logged = a._replace(**none), False
                return
            self._arrays = self._arrays._replace(**{name: _doubled(array)})

    def was_looked_at(self, s: int, a: int) -> bool:
        """Return whether a pair was estimated after its last visit."""
        k = s * self.n_actions + a
        return bool(self._arrays.looked[k] == self._arrays.counts[k])

    def _use_slots(self, **slots: FloatArray) -> None:
        """Let evidence say how far the models of known pairs can be from the estimates."""
        self._arrays = self._arrays._replace(high=self._arrays.R.copy(), **slots)

    def borrow(
        self, pairs: IntArray, states: IntArray, times: IntArray, R: FloatArray
    ) -> list[int]:
        """Count visits of other tasks as if they were of this one; return the pairs looked at.

        They count for estimates and for the known set, but are not stored with the task.

        Args:
            pairs: the pairs k = s * A + a.
            states: the successor of each pair, S for the end of the episode.
            times: how often each was seen, 1 or more.
            R: the mean reward of these visits.
        """
        n_states, a = self.n_states, self._arrays
        largest = {"pairs": a.counts.size - 1, "states": n_states, "times": MOST_VISITS}
        for name, array in {"pairs": pairs, "states": states, "times": times}.items():
            # Compiled code uses them as indices.
            is_whole = array.dtype.kind == "i" and array.shape == R.shape == (R.size,)
            least = 1 if name == "times" else 0
            if not (is_whole and ((array >= least) & (array <= largest[name])).all()):
                raise InvalidArgument(
                    f"{name} is {shown(array)}: expected whole numbers from {least} to "
                    f"{largest[name]}, as many as mean rewards R, {R.size}"
                )
        pairs, times = pairs.astype(np.int64), times.astype(np.int64)
        widest = min(n_states, int(a.widest) + int(np.bincount(pairs).max(initial=0)))
        self._arrays = a._replace(widest=widest)
        while self._arrays.sizes[counting.N_ENTRIES] + pairs.size > self._arrays.outcomes.size:
            self._grow(OF_ENTRIES)
        outcomes = np.where(states == n_states, -1, states).astype(np.int64)
        entries, excess = np.empty(pairs.size, dtype=np.int64), np.empty(pairs.size)
        a = self._arrays
        counting.borrow(a, pairs, outcomes, times, R, entries, excess)
        self._borrowed.append((pairs, entries, times, excess))
        due = [int(k) for k in np.unique(pairs) if a.counts[k] >= a.next_look[k]]
        for k in due:
            self._look(k)
        return due

    def _look(self, k: int) -> bool:
        """Estimate pair k from all its visits; return whether it has become known."""
        self._make_room()
        is_first = not self._arrays.known[k]
        counting.look(self._arrays, k)
        return is_first

    def _look_at_all(self) -> None:
        """Estimate all known pairs from all their visits."""
        for k in np.flatnonzero(self._arrays.known & (self._arrays.counts > self._arrays.looked)):
            self._look(int(k))

    def _know_from(self, n_known: int) -> None:
        """Let only pairs with this number of visits be known."""
        a = self._arrays = self._arrays._replace(n_known=n_known)
        fewer = a.counts < n_known
        per_pair = a.known, a.looked, a.R, a.ends, a.first, a.last
        for array in (*per_pair, a.R_1, a.ends_1, a.first_1, a.last_1):
            array[fewer] = 0

    def _make_room(self) -> None:
        """Make room for one more entry and one more row."""
        while not counting.has_room(
            self._arrays.sizes, self._arrays.outcomes, self._arrays.p, self._arrays.widest
        ):
            self._grow()

    def _grow(self, growing: Sequence[str] = ()) -> None:
        """Double the capacity for transitions if it is used up, otherwise that for entries."""
        if not growing and self._log_is_full:
            self._grow_log()
            return
        a = self._arrays
        if not growing:
            has_room = a.sizes[counting.N_TRANSITIONS] + a.widest <= a.p.size
            growing = OF_ENTRIES if has_room else OF_TRANSITIONS
        self._arrays = a._replace(**{name: _doubled(getattr(a, name)) for name in growing})

    def _by_pair(self, array: np.ndarray) -> np.ndarray:
        view = array.reshape(self.n_states, self.n_actions)
        view.flags.writeable = False
        return view

    def __repr__(self) -> str:
        known, pairs = int(self._arrays.known.sum()), self._arrays.known.size
        return (
            f"LearnedModel(n_states={self.n_states}, n_actions={self.n_actions}, "
            f"n_known={self.n_known}, {counted_of(known, pairs, 'pair')} known)"
        )


def _doubled(array: np.ndarray) -> np.ndarray:
    larger = np.empty((2 * len(array), *array.shape[1:]), dtype=array.dtype)
    larger[: len(array)] = array
    return larger
