"""`LearnedModel`: the empirical model that an agent learns of the current task.

A pair is known after `n_known` visits. Its empirical mean reward and transitions are then final,
and further visits are ignored. Memory use is a few numbers per pair, plus room for its distinct
outcomes, and for up to twice as many while it is unknown.
"""

from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import ArrayLike

from heirloom.arrays import BoolArray, FloatArray, IntArray, read_only
from heirloom.kernels import learning
from heirloom.mdp.available import Availability
from heirloom.mdp.rows import Rows, collected
from heirloom.naming import NamesLike
from heirloom.theory import n_known_for
from heirloom.validation import Range, index, reward, sizes, truth, whole_number
from heirloom.wording import counted_of

if TYPE_CHECKING:
    from heirloom.mdp.from_learned import Unknown
    from heirloom.mdp.tabular import TabularMDP

INITIAL_CAPACITY = 256  # transitions, and outcomes, for which a new model has room


class LearnedModel:
    """Visit counts, the known set and the empirical model of a task.

    Args:
        n_states: the number of states, S.
        n_actions: the number of actions, A.
        n_known: the number of visits after which a pair is known; see also `with_accuracy`.
    """

    def __init__(self, n_states: int, n_actions: int, *, n_known: int) -> None:
        self._n_states, self._n_actions = sizes(n_states, n_actions)
        n_known = whole_number("n_known", n_known)
        n_pairs = self.n_states * self.n_actions
        self._availability = Availability(self.n_states, self.n_actions)
        widest = min(n_known, self.n_states)
        self._largest_block = learning.largest_block(widest)
        capacity = max(INITIAL_CAPACITY, self._largest_block)

        def per_pair(dtype: type, value: float = 0) -> np.ndarray:
            return np.full(n_pairs, value, dtype=dtype)

        def per_entry(dtype: type) -> np.ndarray:
            return np.empty(capacity, dtype=dtype)

        self._arrays = learning.Model(
            n_known=n_known,
            widest=widest,
            counts=per_pair(np.int64),
            known=per_pair(np.bool_),
            reward_sums=np.zeros((n_pairs, 2)),
            R=per_pair(np.float64),
            ends=per_pair(np.float64),
            first=per_pair(np.int64),
            last=per_pair(np.int64),
            successors=per_entry(np.int32),
            p=per_entry(np.float64),
            owner=per_entry(np.int64),
            next_into=per_entry(np.int64),
            into=np.full(self.n_states, -1),
            next_active=per_entry(np.int64),
            into_active=np.full(self.n_states, -1),
            outcomes=per_entry(np.int32),
            times=per_entry(np.int64),
            head=per_pair(np.int64, -1),
            sizes=np.array([0, 0] + [-1] * learning.N_SIZE_CLASSES),
        )

    @classmethod
    def with_accuracy(
        cls,
        n_states: int,
        n_actions: int,
        *,
        epsilon: float,
        delta: float,
        n_sources: int = 0,
        reward_range: Range = (0.0, 1.0),
        terminating: bool = True,
    ) -> Self:
        """Create a model whose known pairs are all ε-accurate with probability 1 - δ.

        The arguments are those of `n_known_for`.
        """
        n_known = n_known_for(
            n_states,
            n_actions,
            epsilon=epsilon,
            delta=delta,
            n_sources=n_sources,
            reward_range=reward_range,
            terminating=terminating,
        )
        return cls(n_states, n_actions, n_known=n_known)

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
    def counts(self) -> IntArray:
        """Visits, [s, a], up to `n_known`."""
        return self._by_pair(self._arrays.counts)

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
        arrays = self._arrays
        reached[arrays.successors[: arrays.sizes[learning.N_TRANSITIONS]]] = True
        _, outcomes, _ = self._open_outcomes()
        reached[outcomes[outcomes >= 0]] = True
        return reached

    def _open_outcomes(self) -> tuple[IntArray, IntArray, IntArray]:
        """Return the outcomes of pairs that are not known yet: their pairs, and how often."""
        arrays = self._arrays
        pairs = np.flatnonzero(arrays.head >= 0)
        blocks = arrays.head[pairs]
        n = arrays.outcomes[blocks].astype(np.int64)
        before = np.cumsum(n) - n
        at = np.repeat(blocks + 1 - before, n) + np.arange(n.sum())
        return np.repeat(pairs, n), arrays.outcomes[at], arrays.times[at]

    @property
    def rows(self) -> Rows:
        """The known pairs, in the layout of the kernels; read-only views, except for `counts`."""
        a = self._arrays
        n = a.sizes[learning.N_TRANSITIONS]  # nothing was written to the entries from n on
        counts = np.where(a.known, a.counts, 0)
        arrays = (a.known, counts, a.R, a.ends, a.first, a.last, a.successors[:n], a.p[:n])
        return Rows(*(read_only(array) for array in arrays))

    @property
    def visited_rows(self) -> Rows:
        """A copy of the rows of all pairs that were visited, known or not, in the order of pairs.

        They include every visit that was counted.
        """
        a, n_outcomes = self._arrays, self.n_states + 1
        pairs, outcomes, times = self._open_outcomes()
        open_pairs = np.flatnonzero(a.head >= 0)
        R = a.R.copy()
        R[open_pairs] = learning.mean(*a.reward_sums[open_pairs].T.copy(), a.counts[open_pairs])
        open_keys = pairs * n_outcomes + np.where(outcomes < 0, self.n_states, outcomes)
        keys, p = self.rows.outcomes(self.n_states)
        both = np.concatenate([keys, open_keys]), np.concatenate([p, times / a.counts[pairs]])
        return collected(a.known.copy(), a.counts.copy(), R, both, self.n_states)

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
        start: int | ArrayLike | None = None,
        state_names: NamesLike = None,
        action_names: NamesLike = None,
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
            start: the first state, or a distribution over first states; uniform by default.
            state_names: one name per state, such as `agent.memory.state_names`.
            action_names: one name per action.
        """
        from heirloom.mdp.from_learned import mdp_of

        return mdp_of(
            self.rows,
            self.n_states,
            gamma=gamma,
            unknown=unknown,
            reward_range=reward_range,
            terminating=terminating,
            start=start,
            missing=self._availability.missing,
            state_names=state_names,
            action_names=action_names,
        )

    def observe(self, s: int, a: int, r: float, s_next: int, *, terminated: bool) -> int | None:
        """Count a visit; return the pair k if this visit made it known, otherwise None."""
        k = self._pair(s, a)
        r = reward(s, a, r)
        s_next = index("next state", s_next, self.n_states)
        return self._count(k, r, -1 if truth("terminated", terminated) else s_next)

    def _pair(self, s: int, a: int) -> int:
        """Return the pair k = s * A + a; raise `InvalidArgument` unless there is such a pair."""
        return index("state", s, self.n_states) * self.n_actions + index(
            "action", a, self.n_actions
        )

    def _count(self, k: int, r: float, outcome: int) -> int | None:
        """Count a visit as `observe` does; nothing is checked, and `outcome` is -1 for ⊥."""
        arrays = self._arrays
        if arrays.known[k]:
            return None
        if not self._has_room():
            self._grow()
            arrays = self._arrays
        # This repeats the kernels `has_room` and `record`: calling compiled code would take longer.
        block, seen = arrays.head.item(k), []
        if block >= 0:
            seen = arrays.outcomes[block + 1 : block + 1 + arrays.outcomes.item(block)].tolist()
        if outcome in seen:
            i = block + 1 + seen.index(outcome)
        else:
            blocks = arrays.outcomes, arrays.times, arrays.head, arrays.sizes
            i = learning.add_outcome(*blocks, k, outcome)
        arrays.times[i] += 1
        sums = arrays.reward_sums
        r, before = float(r), sums.item(k, 0)
        total = before + r
        added = total - before
        sums[k, 0] = total
        lost = (before - (total - added)) + (r - added)
        if lost != 0.0:
            sums[k, 1] += lost
        count = arrays.counts[k] + 1
        arrays.counts[k] = count
        if count < arrays.n_known:
            return None
        learning.make_known(arrays, k)
        return k

    def _has_room(self) -> bool:
        arrays = self._arrays
        if arrays.sizes[learning.N_OUTCOMES] + self._largest_block > arrays.outcomes.size:
            return False
        return bool(arrays.sizes[learning.N_TRANSITIONS] + arrays.widest <= arrays.p.size)

    def _grow(self) -> None:
        """Double the capacity for transitions if it is used up, otherwise that for outcomes."""
        growing = ["successors", "p", "owner", "next_into", "next_active"]
        if self._arrays.sizes[learning.N_TRANSITIONS] + self._arrays.widest <= self._arrays.p.size:
            growing = ["outcomes", "times"]
        self._arrays = self._arrays._replace(
            **{name: _doubled(getattr(self._arrays, name)) for name in growing},
        )

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
    larger = np.empty(2 * array.size, dtype=array.dtype)
    larger[: array.size] = array
    return larger
