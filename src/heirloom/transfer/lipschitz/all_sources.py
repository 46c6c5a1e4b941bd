"""Bounds on the current task from all sources at once.

For each source M̄, the bound combines two distances over pairs:

    to_source     d̂(M ‖ M̄) = D̂(M ‖ M̄) + γ max d̂ at pairs that are unknown in M. Only those need a
                  bound, and an unknown pair may lead to any state, including its own. So
                  max d̂ = max D̂ / (1-γ) while an unknown pair attains max D̂; after that d̂ is
                  solved for.
    from_source   d̂(M̄ ‖ M) = D̂(M̄ ‖ M) + γ × the worst case of max_a d̂ over the model of M̄,
                  or max d̂ where M̄ is unknown
    U             the minimum of Q̄ + min(to_source, from_source) over sources

When a pair becomes known, D̂ decreases at pairs whose models or values changed. Then d̂ is lowered
from its last solution, at those pairs and at pairs that lead to them (`kernels.sources`). The
operator is monotone and below the previous one, so every iterate is an upper bound. The iteration
stops within the tolerance. A solution that takes long is completed by `solutions`.

If γ is close to 1, sources would cost more than all else: a decrease of D̂ at one pair lowers d̂ at
nearly all pairs, by little. So d̂ begins at the largest possible difference of values, which is
often below max D̂ / (1-γ), and updates wait until the number of known pairs has grown by a share of
1 / `WAITING`. The bound is then that of a slightly smaller known set, so it is still a bound.
"""

from typing import Any

import numpy as np

from heirloom.arrays import BoolArray, FloatArray, IntArray, frozen, read_only
from heirloom.kernels import counting
from heirloom.kernels import sources as kernels
from heirloom.kernels.distances import lower_dissimilarity
from heirloom.mdp.learned import LearnedModel
from heirloom.mdp.tabular import reward_scale
from heirloom.transfer.bound import NO_PAIRS, Change
from heirloom.transfer.lipschitz.distance import heaviest_of, measure, parameters_of, weigh
from heirloom.transfer.lipschitz.missing_actions import Priors
from heirloom.transfer.lipschitz.solutions import (
    budgets,
    cap,
    finish,
    is_long,
    unfinished,
    upper_bounds,
)
from heirloom.transfer.setting import Setting
from heirloom.transfer.source import Source

ROUNDING = 1e-9
WAITING = 50  # known pairs per pair that waits for the next update, if γ is close to 1
MAX_SWEEPS = 1000  # of one call of compiled code
# Lists of pairs for compiled code, and the marks of their members.
LISTS = {
    "queue": "queued",
    "decreased": "is_decreased",
    "lowered": "is_lowered",
    "listed": "is_listed",
}
RESERVE = 64  # additional heavy states, which take over when others become lighter


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
        model: LearnedModel,
        setting: Setting,
        bound: tuple[FloatArray, IntArray],
    ) -> None:
        self.sources, self.priors = sources, priors
        self.model, self.setting, self.bound = model, setting, bound
        n_pairs = setting.n_pairs
        self.state = state = self._begun()
        self._plain = plain_tuples(state)
        kernels.begin_sources(self._plain)
        self._known_pairs, self._index = np.empty(n_pairs, dtype=np.int64), np.full(n_pairs, -1)
        self._n_known = 0
        self._waiting: list[int] = []  # pairs that became known since the last update
        self._weights_are_current = False
        self._model_arrays: counting.Model | None = None
        self._task: Any = None
        if state.limits[kernels.N_UNFINISHED]:
            self._finish(np.arange(len(sources)))

    def _begun(self) -> kernels.Sources:
        """Return the arrays of a task in which no pair is known; D̂ are the priors."""
        sources, setting, model = self.sources, self.setting, self.model
        n, n_pairs, n_states = len(sources), setting.n_pairs, setting.n_states
        widest = max(model.widest, *(source.widest for source in sources))
        n_ranks, floor = min(widest + 1, n_states), setting.floor
        W = np.full(n_states, max(setting.v_max - floor, 0.0))
        W_bar = np.maximum(np.array([source.V for source in sources]) - floor, 0.0)
        heavy = np.arange(min(n_ranks + RESERVE, n_states))
        limits = np.zeros(4, dtype=np.int64)
        limits[[kernels.BUDGET, kernels.MAX_BACKUPS]] = budgets(setting, widest)
        U, decider = self.bound
        return kernels.Sources(
            models=_models_of(sources, n_states, n_pairs),
            parameters=parameters_of(setting),
            to_source=_solved(n, setting),
            from_source=_solved(n, setting),
            slack=setting.slack,
            cap=cap(setting),
            floor=floor,
            D_to=self.priors.to_source.copy(),
            D_from=self.priors.from_source.copy(),
            largest=np.empty((n, 2)),
            n_at_largest=np.empty((n, 2), dtype=np.int64),
            is_outdated=np.zeros(n, dtype=bool),
            status=np.full(n, kernels.NEVER_SOLVED),
            candidate=np.zeros(n, dtype=np.int64),
            W_bar=W_bar,
            heaviest=heaviest_of(W_bar, n_ranks),
            least=np.empty(n),
            W=W,
            heavy=heavy,
            is_heavy=np.isin(np.arange(n_states), heavy),
            outside_bound=W[:1].copy() if heavy.size < n_states else np.array([-np.inf]),
            top_weights=W[:n_ranks].copy(),
            U=U,
            decider=decider,
            tasks=np.array([source.task for source in sources]),
            Q=np.array([source.completed_Q for source in sources]),
            useful=np.ones(n, dtype=bool),
            useful_pair=np.zeros(n, dtype=np.int64),
            **_lists_of(n_pairs),
            limits=limits,
        )

    def refine(self, change: Change, active: IntArray) -> tuple[IntArray, BoolArray]:
        """Update the `active` sources after a change.

        Returns the pairs where the bound decreased, and a mask of the sources that may still lower
        a bound.
        """
        arrays, pair, state, n = self.model._arrays, change.pair, self.state, self._n_known
        if self._model_arrays is not arrays:  # the model has allocated larger arrays
            self._read_task()
        if self._index[pair] < 0:  # false if an interrupted update is repeated
            self._known_pairs[n] = self._index[pair] = pair
            self._waiting.append(pair)
            self._n_known = n = n + 1
        if is_long(self.setting) and WAITING * len(self._waiting) < n:
            self._weights_are_current = False
            return NO_PAIRS, state.useful
        decreased = change.decreased
        if not self._weights_are_current:  # values at other states decreased before, too
            # Read-only like `change.decreased`: otherwise the kernel would be compiled twice.
            lighter = np.maximum(change.V - state.floor, 0.0) != state.W
            decreased = frozen(np.flatnonzero(lighter))
        pairs = np.array(self._waiting, dtype=np.int64)
        values = arrays.known, change.U, change.V, decreased, active
        n_lowered = kernels.update_sources(
            pairs, self._known_pairs[:n], *values, self._task, self._plain
        )
        lowered = state.lowered[:n_lowered].copy()
        if state.limits[kernels.N_UNFINISHED]:
            lowered = np.union1d(lowered, self._finish(active))
        self._weights_are_current = True
        self._waiting.clear()
        return lowered, state.useful

    def exclude(self, pairs: IntArray) -> None:
        """Take note that the actions of `pairs` do not exist in the task.

        D̂ is -infinity there, so that d̂ is no part of a maximum. The next call of `refine` lowers d̂
        accordingly.
        """
        state = self.state
        state.D_to[:, pairs] = state.D_from[:, pairs] = -np.inf
        self._find_largest()
        state.is_outdated[:] = True
        np.minimum(state.status, kernels.OUTDATED, out=state.status)

    def _find_largest(self) -> None:
        """Find the largest D̂ of each source, and how many pairs attain it."""
        state = self.state
        for direction, D in ((kernels.TO_SOURCE, state.D_to), (kernels.FROM_SOURCE, state.D_from)):
            state.largest[:, direction] = largest = D.max(axis=1)
            state.n_at_largest[:, direction] = (D == largest[:, None]).sum(axis=1)
        state.candidate[:] = 0

    def _read_task(self) -> None:
        """Find the arrays of the model of the task."""
        arrays = self.model._arrays
        task = plain_tuples(_models_of_task(arrays, self._index))
        # Assigned last, so that an interruption before leaves both attributes consistent.
        self._task, self._model_arrays = task, arrays

    def _finish(self, active: IntArray) -> IntArray:
        """Complete the solutions whose budget was used up; return the pairs where U decreased.

        Raises `NotConverged` if this takes too long. The bound is then still valid.
        """
        self._read_task()
        U, decider = self.bound
        state, unknown, before = self.state, ~self.model._arrays.known, U.copy()
        largest, d = state.to_source.largest, state.from_source.d
        for i, direction in unfinished(state, active):
            try:
                finish(i, direction, self._task, state, self._plain, self.setting)
            finally:
                to_source = state.D_to[i] + self.setting.gamma * largest[i]
                value = state.Q[i] + np.minimum(to_source, d[i])
                lower = unknown & (value < U)
                U[lower], decider[lower] = value[lower], self.sources[i].task
        return np.flatnonzero(U < before)


class OneSource:
    """The bound on the current task from one of all sources."""

    def __init__(self, all_sources: AllSources, index: int) -> None:
        self.index, self.source = index, all_sources.sources[index]
        self.prior = all_sources.priors.to_source[index]
        self.model, self.setting = all_sources.model, all_sources.setting
        state = all_sources.state
        of_task = state.D_to[index], state.to_source, index, state.status, self.setting.gamma
        self.to_source = OneDirection(*of_task)
        self.from_source = OneDirection(state.D_from[index], state.from_source, index)

    @property
    def U(self) -> FloatArray:
        """The bound on Q* over all pairs; it is valid at pairs that are unknown in the task."""
        to_source = self.to_source.D + self.setting.gamma * self.to_source.largest
        return self.source.completed_Q + np.minimum(to_source, self.from_source.d)

    def prior_used(self) -> BoolArray:
        """Return the pairs where the prior is below D̂(M ‖ M̄), by more than rounding."""
        widest = max(self.source.widest, self.model.widest)
        weights, pairs = weigh(self.source.V, widest, self.setting), np.arange(self.prior.size)
        D = measure(self.model.first_rows, self.source.rows, weights, pairs, self.setting)
        scale = np.maximum(reward_scale(self.setting.reward_range), D)
        used = self.prior < D - ROUNDING * scale
        if self.source.available is not None:
            used &= self.source.available
        return used & ~np.isneginf(self.prior)


class OneDirection:
    """D̂ and d̂ of one source over pairs, in one direction."""

    def __init__(
        self,
        D: FloatArray,
        solved: kernels.Solved,
        index: int,
        status: IntArray | None = None,
        gamma: float = 0.0,
    ) -> None:
        self.D, self._solved, self._index = D, solved, index
        self._status, self._gamma = status, gamma

    @property
    def largest(self) -> float:
        """The largest d̂."""
        return float(self._solved.largest[self._index])

    @property
    def d(self) -> FloatArray:
        """The d̂ over pairs, or while it has a closed form, D̂ + γ max d̂."""
        if self._status is not None and self._status[self._index] == kernels.NEVER_SOLVED:
            return self.D + self._gamma * self.largest
        return read_only(self._solved.d[self._index])


def dissimilarity_by_sweeps(D: FloatArray, model: LearnedModel, setting: Setting) -> FloatArray:
    """Return d̂(M ‖ M̄) at all pairs, known ones too, for D̂(M ‖ M̄) and the model of the task."""
    rows, largest = model.first_rows, float(D.max()) / (1 - setting.gamma)
    d, d_state = np.full(setting.n_pairs, largest), np.full(setting.n_states, largest)
    if is_long(setting):
        index = np.where(rows.known, np.arange(d.size), -1)
        return np.minimum(d, upper_bounds(D, index, rows, setting, d_state).bounds)
    parameters = setting.gamma, setting.epsilon, setting.slack
    while not lower_dissimilarity(rows, D, *parameters, d, d_state, MAX_SWEEPS)[1]:
        pass  # Ctrl-C is handled between calls
    return d


def _solved(n: int, setting: Setting) -> kernels.Solved:
    """Allocate d̂ of n sources; the system provides memory only for pages that are written to."""
    return kernels.Solved(
        d=np.empty((n, setting.n_pairs)),
        d_state=np.empty((n, setting.n_states)),
        pending=np.zeros((n, setting.n_pairs)),
        largest=np.empty(n),
        pending_all=np.zeros(n),
        n_at_largest=np.zeros(n, dtype=np.int64),
    )


def _lists_of(n_pairs: int) -> dict[str, np.ndarray]:
    """Allocate the lists of pairs of `kernels.Sources`, and the marks of the pairs in them."""
    lists = {name: np.empty(n_pairs, dtype=np.int64) for name in LISTS}
    return lists | {marks: np.zeros(n_pairs, dtype=bool) for marks in LISTS.values()}


def _models_of(sources: list[Source], n_states: int, n_pairs: int) -> kernels.Models:
    """Join the known rows of all sources, one source after the other."""
    pairs = [np.flatnonzero(source.known) for source in sources]
    lengths = [len(known) for known in pairs]
    offsets = np.cumsum([0, *(source.rows.p.size for source in sources)])

    def joined(name: str) -> Any:
        return np.concatenate(
            [getattr(s.rows, name)[k] for s, k in zip(sources, pairs, strict=True)]
        )

    row_offsets = np.repeat(offsets[:-1], lengths)
    models = kernels.Models(
        index=np.full((len(sources), n_pairs), -1),
        start=np.cumsum([0, *lengths]),
        row_pair=np.concatenate(pairs),
        R=joined("R"),
        ends=joined("ends"),
        first=joined("first") + row_offsets,
        last=joined("last") + row_offsets,
        successors=np.concatenate([source.rows.successors for source in sources]),
        p=np.concatenate([source.rows.p for source in sources]),
        owner=np.empty(offsets[-1], dtype=np.int64),
        into=np.full((len(sources), n_states), -1),
        next_into=np.empty(offsets[-1], dtype=np.int64),
    )
    kernels.link_transitions(tuple(models))
    return models


def _models_of_task(model: counting.Model, index: IntArray) -> kernels.Models:
    """Wrap the first looks at the current task: `index[k]` is k if known, else -1."""
    unused = np.empty(0, dtype=np.int64)
    return kernels.Models(
        index=index[None],
        start=unused,
        row_pair=unused,
        R=model.R_1,
        ends=model.ends_1,
        first=model.first_1,
        last=model.last_1,
        successors=model.successors,
        p=model.p,
        owner=model.owner,
        into=model.into_1[None],
        next_into=model.next_into_1,
    )


def plain_tuples(value: Any) -> Any:
    """Convert named tuples, nested ones too, to plain tuples."""
    return tuple(plain_tuples(item) for item in value) if isinstance(value, tuple) else value
