"""All sources of a task at once, for the paper's distance: what `Transfer` says, compiled.

A source's D̂ and d̂ follow what is learned pair by pair: measured anew only where the models or the
values of states they lead to have changed, and solved from the last solution downwards.
"""

from typing import Any, NamedTuple

import numpy as np

from heirloom.arrays import BoolArray, FloatArray, IntArray, StateArray
from heirloom.kernels import dissimilarity, distances, learning
from heirloom.mdp.learned import LearnedModel
from heirloom.transfer.bound import Change
from heirloom.transfer.lipschitz.distance import WeightedL1
from heirloom.transfer.lipschitz.source_bound import SourceBound
from heirloom.transfer.memory import Source
from heirloom.transfer.setting import Setting

RESERVE = 64  # heavy states more than are needed, to be used when others become lighter
ROOM = 4096  # changes of D̂ that are listed; where there are more, all pairs are looked at


class Rows(NamedTuple):
    """Known rows of one model, or one after the other those of several.

    The pair k of model i has the row `row_of[i, k]`, or -1; `start[i]` is its first row, and row
    j belongs to the pair `of_row[j]`. A row is `successors[first[j]:last[j]]` and `p`. What leads
    to a state is linked as in the model of a task, from `into[i, s]` on.
    """

    row_of: IntArray
    start: IntArray
    of_row: IntArray
    R: FloatArray
    ends: FloatArray
    first: IntArray
    last: IntArray
    successors: StateArray
    p: FloatArray
    owner: IntArray
    into: IntArray
    next_into: IntArray

    @classmethod
    def of(cls, sources: list[Source], n_states: int, n_pairs: int) -> "Rows":
        """The known rows of sources."""
        pairs = [np.flatnonzero(source.known) for source in sources]
        lengths = [len(known) for known in pairs]
        widths = [source.rows.p.size for source in sources]
        offsets = np.cumsum([0, *widths])

        def joined(name: str) -> Any:
            return np.concatenate(
                [getattr(s.rows, name)[k] for s, k in zip(sources, pairs, strict=True)]
            )

        shift = np.repeat(offsets[:-1], lengths)
        rows = cls(
            row_of=np.full((len(sources), n_pairs), -1),
            start=np.cumsum([0, *lengths]),
            of_row=np.concatenate(pairs),
            R=joined("R"),
            ends=joined("ends"),
            first=joined("first") + shift,
            last=joined("last") + shift,
            successors=np.concatenate([source.rows.successors for source in sources]),
            p=np.concatenate([source.rows.p for source in sources]),
            owner=np.empty(offsets[-1], dtype=np.int64),
            into=np.full((len(sources), n_states), -1),
            next_into=np.empty(offsets[-1], dtype=np.int64),
        )
        dissimilarity.link(*rows)
        return rows


class Solved(NamedTuple):
    """d̂ of each source, in one direction."""

    d: FloatArray
    worst: FloatArray
    pending: FloatArray
    largest: FloatArray
    undone: FloatArray
    at_largest: IntArray

    @classmethod
    def of(cls, n: int, setting: Setting) -> "Solved":
        """Room for n sources; memory that is never used is none."""
        n_states, n_pairs = setting.n_states, setting.n_pairs
        return cls(
            d=np.empty((n, n_pairs)),
            worst=np.empty((n, n_states)),
            pending=np.zeros((n, n_pairs)),
            largest=np.empty(n),
            undone=np.zeros(n),
            at_largest=np.zeros(n, dtype=np.int64),
        )


class There(NamedTuple):
    """d̂ from the task to each source, which is solved for only where there is no closed form."""

    solved: Solved
    state: IntArray
    unknown: IntArray
    """An unknown pair that may attain the largest D̂; none before it does."""
    unknown_of: FloatArray


class Stack:
    """D̂ and d̂ of all sources, and the bound that they imply.

    Begins a task: `U` and `decider`, over pairs, are lowered to what the sources say, then and in
    `refine`.
    """

    def __init__(
        self,
        sources: list[Source],
        prior: FloatArray,
        model: LearnedModel,
        setting: Setting,
        U: FloatArray,
        decider: IntArray,
    ) -> None:
        self.sources, self.model, self.setting = sources, model, setting
        n, n_states, n_pairs = len(sources), setting.n_states, setting.n_pairs
        lo, hi = setting.reward_range
        gamma, floor = setting.gamma, setting.floor
        self._floor, self._distance = floor, WeightedL1()
        self._model: learning.Model | None = None
        # Plain tuples, for numba takes twice as long to look into those with names.
        self._rows = tuple(Rows.of(sources, n_states, n_pairs))
        self._index = np.full(n_pairs, -1)
        Q = np.array([source.Q for source in sources])
        n_ranks = min(max(model.arrays.widest, *(s.widest for s in sources)) + 1, n_states)
        W_bar = np.maximum(np.array([source.V for source in sources]) - floor, 0.0)
        weights = W_bar, np.empty((n, n_ranks), dtype=np.int64), np.empty(n), np.empty(n)
        self._own = _own_weights(setting, n_ranks)
        self.D_there, self.D_back = np.tile(prior, (n, 1)), np.tile(prior, (n, 1))
        D = self.D_there, self.D_back, np.empty((n, 2))
        at_top = np.empty((n, 2), dtype=np.int64)
        numbers = -floor, setting.terminating, lo, hi, gamma, setting.epsilon
        distances.measure_sources(self._rows, weights, self._own, numbers, *D, at_top)
        changes = np.empty(ROOM, dtype=np.int64), np.zeros(1, dtype=np.int64), np.zeros(n, bool)
        listed, some = np.zeros(n_pairs, dtype=bool), np.empty(n_pairs, dtype=np.int64)
        self._told, self._n_told = np.empty(n_pairs, dtype=np.int64), 0
        measured = (*D, at_top, *changes, listed, some)
        self._measuring = weights, self._own, numbers, floor, measured
        self._there_stays = bool((D[2][:, 0] <= weights[2]).all())
        self._highest, self._looked = float(D[2][:, 1].max()), False
        self.back = Solved.of(n, setting)
        self.there = There(
            solved=Solved.of(n, setting),
            state=np.full(n, dissimilarity.NEVER),
            unknown=np.zeros(n, dtype=np.int64),
            unknown_of=np.full(n, -1.0),
        )
        there, back = (tuple(self.there.solved), *self.there[1:]), tuple(self.back)
        bound = U, decider, np.array([source.task for source in sources])
        work = _scratch(n_pairs) + _scratch(n_pairs)
        self._lowered, is_lowered = _scratch(n_pairs)
        self._useful = np.ones(n, dtype=bool)
        found = self._lowered, is_lowered, self._useful, np.zeros(n, dtype=np.int64)
        passing = gamma, setting.epsilon, setting.slack
        dissimilarity.begin_sources(self._rows, Q, *D, there, back, passing, bound, work)
        self._solving = Q, (*D, *changes), there, back, passing, bound, work, found

    def refine(self, change: Change, active: IntArray) -> tuple[IntArray, BoolArray]:
        """Follow a change; returns where the bound fell, and which sources still matter.

        Sources that are not `active` are left as they are.
        """
        pair, U, V, fallen = change
        a = self.model.arrays
        if self._model is not a:  # it has grown
            self._model = a
            links = a.successors, a.p, a.owner, a.into, a.next_into
            unused = self._rows[1:3]
            self._model_rows = (self._index, *unused, a.R, a.ends, a.first, a.last, *links)
        if self._index[pair] < 0:
            self._index[pair] = self._told[self._n_told] = pair
            self._n_told += 1
        if self._all_stays(V):
            self._looked = False
        else:
            if not self._looked:
                fallen = np.flatnonzero(np.maximum(V - self._floor, 0.0) != self._own[0])
            self._highest = distances.remeasure_sources(
                pair,
                self._told[: self._n_told],
                V,
                fallen,
                active,
                self._model_rows,
                self._rows,
                *self._measuring,
            )
            self._looked = True
        n_lowered = dissimilarity.settle_sources(
            pair, a.known, U, active, self._model_rows, self._rows, *self._solving
        )
        return self._lowered[:n_lowered].copy(), self._useful

    def _all_stays(self, V: FloatArray) -> bool:
        """Whether no D̂ can fall: all are as small as any, as long as one state is worth so much."""
        if not self._there_stays:
            return False
        return self._highest <= self._distance.least(float(V[self._own[1][0]]), self.setting)


class StackedTransfer(SourceBound):
    """What one source of a stack says."""

    def __init__(self, stack: Stack, place: int, prior: FloatArray) -> None:
        super().__init__(stack.sources[place], prior, stack.model, stack.setting, WeightedL1())
        self.place = place
        self.there = View(stack.D_there[place], stack.there.solved, place)
        self.back = View(stack.D_back[place], stack.back, place)


class View:
    """D̂ and d̂ of one source in a stack, in one direction."""

    def __init__(self, D: FloatArray, solved: Solved, place: int) -> None:
        self.D, self.d, self._solved, self._place = D, solved.d[place], solved, place

    @property
    def largest(self) -> float:
        """The largest d̂."""
        return float(self._solved.largest[self._place])


def _own_weights(setting: Setting, n_ranks: int) -> tuple[np.ndarray, ...]:
    """W of the task at hand, before anything is known of it, and its heaviest states."""
    W = np.full(setting.n_states, max(setting.v_max - setting.floor, 0.0))
    heavy = np.arange(min(n_ranks + RESERVE, setting.n_states))
    is_heavy = np.zeros(setting.n_states, dtype=bool)
    is_heavy[heavy] = True
    bar = W[:1].copy() if heavy.size < W.size else np.array([-np.inf])
    return W, heavy, is_heavy, bar, W[:n_ranks].copy()


def _scratch(n_pairs: int) -> tuple[IntArray, BoolArray]:
    """Pairs, and whether each is among them."""
    return np.empty(n_pairs, dtype=np.int64), np.zeros(n_pairs, dtype=bool)
