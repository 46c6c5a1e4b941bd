"""What all sources say of the task at hand, at once.

For each source M̄ and pair k:

    there   d̂(M ‖ M̄) = D̂(M ‖ M̄) + γ max d̂, at pairs that are unknown in M: only those need a
            bound, and from there M may lead anywhere, also to the pair itself. So
            max d̂ = max D̂ / (1-γ) while an unknown pair attains max D̂; then d̂ is solved for.
    back    d̂(M̄ ‖ M) = D̂(M̄ ‖ M) + γ × the worst case of max_a d̂ over the model of M̄,
            or max d̂ where M̄ is unknown
    U       the least of Q̄ + min(there, back) over sources

A pair that becomes known lowers D̂ (`measuring`) at pairs whose models or values changed. From there
d̂ falls along what leads to those pairs, from its last solution downwards: the operator is monotone
and below the last one, so every iterate is a bound. It stops within the tolerance (`kernels`).
"""

from typing import Any

import numpy as np

from heirloom.arrays import BoolArray, FloatArray, IntArray
from heirloom.kernels import dissimilarity, learning
from heirloom.mdp.learned import LearnedModel
from heirloom.transfer.bound import Change
from heirloom.transfer.lipschitz.distance import ModelDistance, WeightedL1
from heirloom.transfer.lipschitz.known_rows import KnownRows, plain
from heirloom.transfer.lipschitz.measuring import ByCall, ByKernel
from heirloom.transfer.memory import Source
from heirloom.transfer.setting import Setting

ROUNDING = 1e-9


class AllSources:
    """D̂ and d̂ of all sources, and the bound that they imply.

    Begins a task: `U` and `decider`, over pairs, are lowered to what the sources say, then and in
    `refine`.
    """

    def __init__(
        self,
        sources: list[Source],
        prior: FloatArray,
        distance: ModelDistance,
        model: LearnedModel,
        setting: Setting,
        bound: tuple[FloatArray, IntArray],
    ) -> None:
        self.sources, self.prior, self.distance = sources, prior, distance
        self.model, self.setting = model, setting
        n, n_pairs = len(sources), setting.n_pairs
        known = KnownRows.of_sources(sources, setting.n_states, n_pairs)
        self.measured: ByKernel | ByCall
        if type(distance) is WeightedL1:  # a class derived from it may measure otherwise
            self.measured = ByKernel(sources, known, prior, model, setting)
        else:
            self.measured = ByCall(sources, distance, prior, model, setting)
        self.back, self.there = _solved(n, setting), _there(n, setting)
        U, decider = bound
        tasks, Q = np.array([one.task for one in sources]), np.array([one.Q for one in sources])
        self._found = dissimilarity.Found(
            *_marked_pairs(n_pairs), np.ones(n, dtype=bool), np.zeros(n, dtype=np.int64)
        )
        passing = setting.gamma, setting.epsilon, setting.slack, distance.both_ways
        solving = dissimilarity.Solving(
            distances=self.measured.D,
            there=self.there,
            back=self.back,
            passing=dissimilarity.Passing(*passing),
            bound=dissimilarity.Bound(U, decider, tasks, Q),
            work=dissimilarity.Worklist(*_marked_pairs(n_pairs), *_marked_pairs(n_pairs)),
        )
        self._graph, self._solving = plain(known.graph), plain(solving)
        dissimilarity.begin_sources(self._graph, self._solving)
        self._found_arrays = tuple(self._found)
        self._index = np.full(n_pairs, -1)
        self._arrays: learning.Model | None = None
        self._task: Any = None

    def refine(self, change: Change, active: IntArray) -> tuple[IntArray, BoolArray]:
        """Follow a change; returns where the bound fell, and which sources still matter.

        Sources that are not `active` are left as they are.
        """
        arrays, pair = self.model.arrays, change.pair
        if self._arrays is not arrays:  # the model has grown
            task = plain(KnownRows.of_task(arrays, self._index))
            self._task, self._arrays = task, arrays  # last: an interruption may come before
        if self._index[pair] < 0:  # an update that was interrupted may come again
            self.measured.add(pair)
            self._index[pair] = pair
        linked, graph = self._task
        self.measured.follow(change, linked, active)
        n_lowered = dissimilarity.update_sources(
            pair,
            arrays.known,
            change.U,
            active,
            graph,
            self._graph,
            self._solving,
            self._found_arrays,
        )
        return self._found.lowered[:n_lowered].copy(), self._found.useful


class OneSource:
    """What one of all sources says of the task at hand."""

    def __init__(self, all_sources: AllSources, place: int) -> None:
        self.place, self.source = place, all_sources.sources[place]
        self.prior, self.distance = all_sources.prior, all_sources.distance
        self.model, self.setting = all_sources.model, all_sources.setting
        D = all_sources.measured.D
        self.there = OneWay(D.there[place], all_sources.there.solved, place)
        self.back = OneWay(D.back[place], all_sources.back, place)

    @property
    def U(self) -> FloatArray:
        """The bound on Q* at pairs that are unknown in the task, over all pairs."""
        there = self.there.D + self.setting.gamma * self.there.largest
        return self.source.Q + np.minimum(there, self.back.d)

    def prior_used(self) -> BoolArray:
        """Where the prior is below D̂(M ‖ M̄), strictly and beyond rounding, over pairs."""
        widest = max(self.source.widest, self.model.arrays.widest)
        weights = self.distance.weigh(self.source.V, widest, self.setting)
        rows, pairs = (self.model.rows, self.source.rows), np.arange(self.setting.n_pairs)
        D = self.distance.between(*rows, weights, pairs, self.setting)
        return self.prior < D - ROUNDING * np.maximum(1.0, D)


class OneWay:
    """D̂ and d̂ of one source, in one direction."""

    def __init__(self, D: FloatArray, solved: dissimilarity.Solved, place: int) -> None:
        self.D, self.d, self._solved, self._place = D, solved.d[place], solved, place

    @property
    def largest(self) -> float:
        """The largest d̂."""
        return float(self._solved.largest[self._place])


def dissimilarity_by_sweeps(D: FloatArray, model: LearnedModel, setting: Setting) -> FloatArray:
    """d̂ of one source at all pairs, known ones too, passed on through the model of the task."""
    largest = float(D.max()) / (1 - setting.gamma)
    d, worst = np.full(setting.n_pairs, largest), np.full(setting.n_states, largest)
    numbers = setting.gamma, setting.epsilon, setting.slack
    dissimilarity.lower_dissimilarity(model.rows, D, *numbers, d, worst)
    return d


def _solved(n: int, setting: Setting) -> dissimilarity.Solved:
    """Room for d̂ of n sources; memory that is never used is none."""
    return dissimilarity.Solved(
        d=np.empty((n, setting.n_pairs)),
        worst=np.empty((n, setting.n_states)),
        pending=np.zeros((n, setting.n_pairs)),
        largest=np.empty(n),
        undone=np.zeros(n),
        at_largest=np.zeros(n, dtype=np.int64),
    )


def _there(n: int, setting: Setting) -> dissimilarity.There:
    """The same from the task to n sources, of which nothing was solved yet."""
    return dissimilarity.There(
        solved=_solved(n, setting),
        state=np.full(n, dissimilarity.NEVER),
        unknown=np.zeros(n, dtype=np.int64),
        unknown_of=np.full(n, -1.0),
    )


def _marked_pairs(n_pairs: int) -> tuple[IntArray, BoolArray]:
    """Room for pairs, and whether each is among them."""
    return np.empty(n_pairs, dtype=np.int64), np.zeros(n_pairs, dtype=bool)
