"""Bounds on the current task from all sources at once.

For each source M̄, the bound combines two distances over pairs:

    to_source     d̂(M ‖ M̄) = D̂(M ‖ M̄) + γ max d̂ at pairs that are unknown in M. Only those need a
                  bound, and an unknown pair may lead to any state, including its own. So
                  max d̂ = max D̂ / (1-γ) while an unknown pair attains max D̂; after that d̂ is
                  solved for.
    from_source   d̂(M̄ ‖ M) = D̂(M̄ ‖ M) + γ × the worst case of max_a d̂ over the model of M̄,
                  or max d̂ where M̄ is unknown
    U             the minimum of Q̄ + min(to_source, from_source) over sources

When a pair becomes known, D̂ decreases at pairs whose models or values changed (`measuring`). Then
d̂ is lowered from its last solution, at those pairs and at pairs that lead to them. The operator is
monotone and below the previous one, so every iterate is an upper bound. The iteration stops within
the tolerance (`kernels`). A solution that takes long is completed by `solutions`.

If γ is close to 1, sources would cost more than all else: a decrease of D̂ at one pair lowers d̂ at
nearly all pairs, by little. So d̂ begins at the largest possible difference of values, which is
often below max D̂ / (1-γ), and updates wait until the number of known pairs has grown by a share of
1 / `WAITING`. The bound is then that of a slightly smaller known set, so it is still a bound.
"""

from typing import Any

import numpy as np

from heirloom.arrays import BoolArray, FloatArray, IntArray, frozen, read_only
from heirloom.kernels import counting, dissimilarity
from heirloom.mdp.learned import LearnedModel
from heirloom.mdp.tabular import reward_scale
from heirloom.transfer.bound import NO_PAIRS, Change
from heirloom.transfer.lipschitz.distance import ModelDistance, WeightedL1, measure
from heirloom.transfer.lipschitz.known_rows import KnownRows, plain_tuples
from heirloom.transfer.lipschitz.measuring import ByCall, ByKernel
from heirloom.transfer.lipschitz.missing_actions import Priors
from heirloom.transfer.lipschitz.solutions import (
    Solutions,
    budgets,
    cap,
    is_long,
    lower_by_sweeps,
)
from heirloom.transfer.setting import Setting
from heirloom.transfer.source import Source

ROUNDING = 1e-9
WAITING = 50  # known pairs per pair that waits for the next update, if γ is close to 1


class AllSources:
    """D̂ and d̂ of all sources, and the bound that follows from them.

    `priors` are upper bounds on the distance to each source, in both directions. The arrays
    `bound` = (`U`, `decider`) over pairs are updated in place, at the beginning of a task and in
    `refine`.
    """

    def __init__(
        self,
        sources: list[Source],
        priors: Priors,
        distance: ModelDistance,
        model: LearnedModel,
        setting: Setting,
        bound: tuple[FloatArray, IntArray],
    ) -> None:
        self.sources, self.priors, self.distance = sources, priors, distance
        self.model, self.setting = model, setting
        n, n_pairs = len(sources), setting.n_pairs
        known = KnownRows.of_sources(sources, setting.n_states, n_pairs)
        self.measured: ByKernel | ByCall
        if type(distance) is WeightedL1:  # a derived class may compute another distance
            self.measured = ByKernel(sources, known, priors, model, setting)
        else:
            self.measured = ByCall(sources, distance, priors, model, setting)
        self.to_source, self.from_source = _to_source(n, setting), _solved(n, setting)
        self.bound = bound
        U, decider = bound
        tasks = np.array([source.task for source in sources])
        Q = self._Q = np.array([source.completed_Q for source in sources])
        self._result = dissimilarity.UpdateResult(
            *_marked_pairs(n_pairs), np.ones(n, dtype=bool), np.zeros(n, dtype=np.int64)
        )
        solver = dissimilarity.Solver(
            distances=self.measured.D,
            to_source=self.to_source,
            from_source=self.from_source,
            parameters=dissimilarity.Parameters(
                setting.gamma,
                setting.epsilon,
                setting.slack,
                bool(distance.both_ways),
                cap(setting) if type(distance) is WeightedL1 else np.inf,
            ),
            bound=dissimilarity.Bound(U, decider, tasks, Q),
            work=_worklist(setting, max(model.widest, *(source.widest for source in sources))),
        )
        self._graph, self._solver = plain_tuples(known.graph), plain_tuples(solver)
        dissimilarity.begin_sources(self._graph, self._solver)
        self._result_arrays = tuple(self._result)
        self._index, self._n_known = np.full(n_pairs, -1), 0
        self._waiting: list[int] = []  # pairs that became known since the last update
        self._model_arrays: counting.Model | None = None
        self._task_rows: Any = None
        self._solutions, self._limits = Solutions(solver, setting), solver.work.limits
        if self._limits[dissimilarity.N_UNFINISHED]:
            self._finish(np.arange(n))

    def refine(self, change: Change, active: IntArray) -> tuple[IntArray, BoolArray]:
        """Update the `active` sources after a change.

        Returns the pairs where the bound decreased, and a mask of the sources that may still lower
        a bound.
        """
        arrays, pair = self.model._arrays, change.pair
        if self._model_arrays is not arrays:  # the model has allocated larger arrays
            self._read_task()
        if self._index[pair] < 0:  # false if an interrupted update is repeated
            self.measured.add(pair)
            self._index[pair] = pair
            self._waiting.append(pair)
            self._n_known += 1
        if is_long(self.setting) and WAITING * len(self._waiting) < self._n_known:
            self.measured.wait()
            return NO_PAIRS, self._result.useful
        linked, graph = self._task_rows
        pairs = np.array(self._waiting, dtype=np.int64)
        self.measured.update(change, pairs, linked, active)
        n_lowered = dissimilarity.update_sources(
            pairs,
            arrays.known,
            change.U,
            active,
            graph,
            self._graph,
            self._solver,
            self._result_arrays,
        )
        lowered = self._result.lowered[:n_lowered].copy()
        if self._limits[dissimilarity.N_UNFINISHED]:
            lowered = np.union1d(lowered, self._finish(active))
        self._waiting.clear()
        return lowered, self._result.useful

    def exclude(self, pairs: IntArray) -> None:
        """Take note that the actions of `pairs` do not exist in the task.

        The next call of `refine` lowers d̂ accordingly.
        """
        self.measured.exclude(pairs)
        status = self.to_source.status
        np.minimum(status, dissimilarity.OUTDATED, out=status)

    def _read_task(self) -> None:
        """Find the arrays of the model of the task."""
        arrays = self.model._arrays
        task_rows = plain_tuples(KnownRows.of_task(arrays, self._index))
        # Assigned last, so that an interruption before leaves both attributes consistent.
        self._task_rows, self._model_arrays = task_rows, arrays

    def _finish(self, active: IntArray) -> IntArray:
        """Complete the solutions whose budget was used up; return the pairs where U decreased.

        Raises `NotConverged` if this takes too long. The bound is then still valid.
        """
        self._read_task()
        U, decider = self.bound
        unknown, before = ~self.model._arrays.known, U.copy()
        largest, d = self.to_source.solved.largest, self.from_source.d
        for i, direction in self._solutions.unfinished(active):
            try:
                self._solutions.finish(i, direction, self._task_rows[1], self._graph)
            finally:
                to_source = self.measured.D.to_source[i] + self.setting.gamma * largest[i]
                value = self._Q[i] + np.minimum(to_source, d[i])
                lower = unknown & (value < U)
                U[lower], decider[lower] = value[lower], self.sources[i].task
        return np.flatnonzero(U < before)


class OneSource:
    """The bound on the current task from one of all sources."""

    def __init__(self, all_sources: AllSources, index: int) -> None:
        self.index, self.source = index, all_sources.sources[index]
        self.prior, self.distance = all_sources.priors.to_source[index], all_sources.distance
        self.model, self.setting = all_sources.model, all_sources.setting
        D = all_sources.measured.D
        self.to_source = OneDirection(D.to_source[index], all_sources.to_source.solved, index)
        self.from_source = SolvedDirection(D.from_source[index], all_sources.from_source, index)

    @property
    def U(self) -> FloatArray:
        """The bound on Q* over all pairs; it is valid at pairs that are unknown in the task."""
        to_source = self.to_source.D + self.setting.gamma * self.to_source.largest
        return self.source.completed_Q + np.minimum(to_source, self.from_source.d)

    def prior_used(self) -> BoolArray:
        """Return the pairs where the prior is below D̂(M ‖ M̄), by more than rounding."""
        widest = max(self.source.widest, self.model.widest)
        weights = self.distance.weigh(self.source.V, widest, self.setting)
        rows, pairs = (
            (self.model.first_rows, self.source.rows),
            frozen(np.arange(self.setting.n_pairs)),
        )
        D = measure(self.distance, *rows, weights, pairs, self.setting)
        scale = np.maximum(reward_scale(self.setting.reward_range), D)
        used = self.prior < D - ROUNDING * scale
        if self.source.available is not None:
            used &= self.source.available
        return used & ~np.isneginf(self.prior)


class OneDirection:
    """D̂ of one source over pairs and the largest d̂, in one direction."""

    def __init__(self, D: FloatArray, solved: dissimilarity.Solved, index: int) -> None:
        self.D, self._solved, self._index = D, solved, index

    @property
    def largest(self) -> float:
        """The largest d̂; infinite for a direction that is not used."""
        return float(self._solved.largest[self._index])


class SolvedDirection(OneDirection):
    """The direction in which d̂ is solved from the beginning; in the other, it seldom is."""

    @property
    def d(self) -> FloatArray:
        """The d̂ of the source over pairs; infinite for a direction that is not used."""
        return read_only(self._solved.d[self._index])


def dissimilarity_by_sweeps(D: FloatArray, model: LearnedModel, setting: Setting) -> FloatArray:
    """Return d̂(M ‖ M̄) at all pairs, known ones too, for D̂(M ‖ M̄) and the model of the task."""
    largest = float(D.max()) / (1 - setting.gamma)
    d, d_state = np.full(setting.n_pairs, largest), np.full(setting.n_states, largest)
    lower_by_sweeps(D, model.first_rows, setting, d, d_state)
    return d


def _solved(n: int, setting: Setting) -> dissimilarity.Solved:
    """Allocate d̂ of n sources; the system provides memory only for pages that are written to."""
    return dissimilarity.Solved(
        d=np.empty((n, setting.n_pairs)),
        d_state=np.empty((n, setting.n_states)),
        pending=np.zeros((n, setting.n_pairs)),
        largest=np.empty(n),
        pending_all=np.zeros(n),
        n_at_largest=np.zeros(n, dtype=np.int64),
    )


def _to_source(n: int, setting: Setting) -> dissimilarity.ToSource:
    """Allocate d̂ from the task to n sources; none of them is solved yet."""
    return dissimilarity.ToSource(
        solved=_solved(n, setting),
        status=np.full(n, dissimilarity.NEVER_SOLVED),
        candidate=np.zeros(n, dtype=np.int64),
        candidate_value=np.full(n, -1.0),
    )


def _worklist(setting: Setting, widest: int) -> dissimilarity.Worklist:
    n_pairs, limits = setting.n_pairs, np.zeros(4, dtype=np.int64)
    limits[[dissimilarity.BUDGET, dissimilarity.MAX_BACKUPS]] = budgets(setting, widest)
    return dissimilarity.Worklist(*_marked_pairs(n_pairs), *_marked_pairs(n_pairs), limits)


def _marked_pairs(n_pairs: int) -> tuple[IntArray, BoolArray]:
    """Allocate a list of pairs, and marks of the pairs in it."""
    return np.empty(n_pairs, dtype=np.int64), np.zeros(n_pairs, dtype=bool)
