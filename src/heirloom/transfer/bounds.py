"""Upper bounds on `Q*` of the task at hand, each refined as the task is learned.

The pointwise minimum of bounds is a bound, so an agent takes a list of them.
"""

from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from heirloom.arguments import numbers, weights
from heirloom.arrays import FloatArray, IntArray, frozen
from heirloom.errors import InvalidArgument
from heirloom.kernels import distances
from heirloom.mdp.learned import Known, LearnedModel
from heirloom.transfer.confidence import tasks_for_distance, tasks_for_max_q
from heirloom.transfer.distance import ModelDistance, WeightedL1
from heirloom.transfer.memory import Source, TaskMemory
from heirloom.transfer.setting import Setting

NOTHING = frozen(np.empty(0, dtype=np.int64))


class Bound(Protocol):
    """An upper bound on Q* of the task at hand. It has state: one serves one agent."""

    U: FloatArray
    """The bound as it is now, over pairs k = s * A + a."""

    def begin_task(self, setting: Setting, model: LearnedModel, memory: TaskMemory) -> bool:
        """Set `U` for a new task; returns whether it may be refined as the task is learned."""

    def refine(self, pair: int, U: FloatArray, V: FloatArray) -> IntArray:
        """The pair became known: lower `U`, and return the unknown pairs where it was lowered.

        The agent's own bound is `U`, and its values, as of the last update, are `V`.
        """

    def end_task(self, source: Source, memory: TaskMemory) -> None:
        """The task ended as `source`, which is not in the memory yet."""


class Constant:
    """No value is above `v_max`: all that RMax knows."""

    def begin_task(self, setting: Setting, model: LearnedModel, memory: TaskMemory) -> bool:
        """The same for every task."""
        self.U = np.full(setting.n_pairs, setting.v_max)
        return False

    def refine(self, pair: int, U: FloatArray, V: FloatArray) -> IntArray:
        """Nothing is refined."""
        return NOTHING

    def end_task(self, source: Source, memory: TaskMemory) -> None:
        """Nothing is kept."""


class MaxQ(Constant):
    """The largest Q of all tasks seen, once enough were (Abel et al., 2018).

    Holds with probability 1 - δ over the draw of tasks, each of probability `p_min` or more.
    """

    def __init__(self, *, p_min: float, delta: float = 0.05) -> None:
        self.n_tasks = tasks_for_max_q(p_min, delta)

    def begin_task(self, setting: Setting, model: LearnedModel, memory: TaskMemory) -> bool:
        """Fixed for the task."""
        super().begin_task(setting, model, memory)
        if memory.max_Q is not None and memory.n_tasks >= self.n_tasks:
            self.U = np.minimum(self.U, memory.max_Q)
        return False


class Lipschitz:
    """Û = min over sources of Q̄ + min(d̂(M ‖ M̄), d̂(M̄ ‖ M)) (Propositions 2 to 4).

    Transfer needs a bound on the distance of models that are not known: `d_max`, given as a number
    or as an array [s, a], or learned from the first tasks if `p_min` is given, the least
    probability of a task; then it holds with probability 1 - δ. Without one no source can say
    anything of an unknown pair, and none is looked at.
    """

    def __init__(
        self,
        *,
        d_max: float | ArrayLike | None = None,
        p_min: float | None = None,
        delta: float = 0.05,
        distance: ModelDistance | None = None,
    ) -> None:
        self.d_max = None if d_max is None else _checked_prior(d_max)
        self.n_tasks = None if p_min is None else tasks_for_distance(p_min, delta)
        self.distance: ModelDistance = WeightedL1() if distance is None else distance

    def begin_task(self, setting: Setting, model: LearnedModel, memory: TaskMemory) -> bool:
        """Bounds from all sources that may lower `v_max` somewhere."""
        self.setting, self.model = setting, model
        self.U = np.full(setting.n_pairs, setting.v_max)
        self.transfers: list[Transfer] = []
        prior = self._prior(setting, memory)
        if prior is None:
            return False
        V = np.full(setting.n_states, setting.v_max)
        for source in memory.sources:
            transfer = Transfer(source, prior, model, V, setting, self.distance)
            np.minimum(self.U, transfer.U, out=self.U)
            self.transfers.append(transfer)
        return bool(self.transfers)

    def refine(self, pair: int, U: FloatArray, V: FloatArray) -> IntArray:
        """Refine every source that can still matter, and drop those that cannot."""
        known = self.model.arrays.known
        lowered = []
        for transfer in self.transfers:
            if transfer.refine(pair, V):
                bound = transfer.U
                pairs = np.flatnonzero(~known & (bound < self.U))
                self.U[pairs] = bound[pairs]
                lowered.append(pairs)
        self.transfers = [transfer for transfer in self.transfers if transfer.matters(U, self.U)]
        return np.concatenate(lowered) if lowered else NOTHING

    def end_task(self, source: Source, memory: TaskMemory) -> None:
        """Compare the task with the first ones, until enough were compared."""
        largest, n_compared = self._learned(memory)
        # A task counts once, and only if all before it were compared as well.
        if self.n_tasks is None or n_compared >= self.n_tasks or n_compared != memory.n_tasks:
            return
        pairs = np.arange(self.setting.n_pairs)
        largest = largest.copy()
        for other in memory.sources:
            for m, m_bar in ((source, other), (other, source)):
                widest = max(m.widest, m_bar.widest)
                weights = self.distance.weigh(m_bar.V, widest, self.setting)
                D = self.distance.between(m.rows, m_bar.rows, weights, pairs, self.setting)
                np.maximum(largest, D, out=largest)
        memory.learned[type(self.distance).__name__] = frozen(largest), n_compared + 1

    def _learned(self, memory: TaskMemory) -> tuple[FloatArray, int]:
        """The largest distance of the first tasks, over pairs, and how many they are."""
        nothing = np.zeros(self.setting.n_pairs), 0
        return memory.learned.get(type(self.distance).__name__, nothing)

    def _prior(self, setting: Setting, memory: TaskMemory) -> FloatArray | None:
        """The bound on distances of unknown models, over pairs, if there is one."""
        priors = []
        if self.d_max is not None:
            if self.d_max.shape not in ((), (setting.n_states, setting.n_actions)):
                raise InvalidArgument(
                    f"d_max has shape {self.d_max.shape}: it is a number, or an array of shape "
                    f"({setting.n_states}, {setting.n_actions})"
                )
            priors.append(np.broadcast_to(self.d_max.reshape(-1), setting.n_pairs))
        largest, n_compared = self._learned(memory)
        if self.n_tasks is not None and n_compared >= self.n_tasks:
            priors.append(largest)
        return np.min(priors, axis=0) if priors else None


class Transfer:
    """What one source says of the task at hand: Q̄ + min(d̂(M ‖ M̄), d̂(M̄ ‖ M)).

    D̂ and d̂ only ever fall: `there` from M to M̄, `back` from M̄ to M. Only pairs that are unknown in
    M need a bound, and from there M may lead anywhere: d̂(M ‖ M̄) = D̂ + γ max d̂.
    """

    def __init__(
        self,
        source: Source,
        prior: FloatArray,
        model: LearnedModel,
        V: FloatArray,
        setting: Setting,
        distance: ModelDistance,
    ) -> None:
        self.source, self.model, self.setting, self.distance = source, model, setting, distance
        self.widest = max(source.widest, model.arrays.widest)
        self.pairs = np.arange(setting.n_pairs)
        self.weights = distance.weigh(source.V, self.widest, setting)
        self.least = distance.least(float(source.V.max()), setting)
        self.there = Distances(prior, setting)
        self.unknown_top = 0  # an unknown pair that attains the largest D̂, until it is known
        self.useful_pair = 0  # an unknown pair where Q̄ is below the bound, until it is not
        self._measure(self.there, model.rows, source.rows, self.weights, self.pairs)
        self._solve_there()
        if distance.both_ways:
            self.V = V.copy()
            self.back = Distances(prior, setting)
            weights = distance.weigh(V, self.widest, setting)
            self._measure(self.back, source.rows, model.rows, weights, self.pairs)
            self.back.lower(source.rows)

    @property
    def U(self) -> FloatArray:
        """The bound on Q* at pairs that are unknown in M, over all pairs."""
        d = self.there.D + self.setting.gamma * self.there.largest
        if self.distance.both_ways:
            np.minimum(d, self.back.d, out=d)
        return self.source.Q + d

    def refine(self, pair: int, V: FloatArray) -> bool:
        """The pair became known; returns whether `U` may have changed."""
        largest = self.there.largest
        here = self.pairs[pair : pair + 1]
        if self.there.D[pair] > self.least:
            self._measure(self.there, self.model.rows, self.source.rows, self.weights, here)
        self._solve_there()
        changed = self.there.largest < largest
        if not self.distance.both_ways:
            return changed
        if self.back.top <= self.distance.least(float(V.max()), self.setting):
            return changed
        if not np.array_equal(V, self.V):
            here, self.V = self.pairs, V.copy()
        weights = self.distance.weigh(V, self.widest, self.setting)
        if self._measure(self.back, self.source.rows, self.model.rows, weights, here):
            self.back.lower(self.source.rows)
            return True
        return changed

    def matters(self, U: FloatArray, own_U: FloatArray) -> bool:
        """Whether the source may still lower a bound: d̂ >= 0, so only where Q̄ is below it."""
        known, Q, j = self.model.arrays.known, self.source.Q, self.useful_pair
        if not known[j] and Q[j] < U[j] and Q[j] < own_U[j]:
            return True
        useful = ~known & (Q < U) & (Q < own_U)
        self.useful_pair = int(useful.argmax())
        return bool(useful[self.useful_pair])

    def _measure(
        self, distances: "Distances", m: Known, m_bar: Known, weights: Any, pairs: IntArray
    ) -> bool:
        """Lower D̂ at `pairs`, if what is known by now lowers it."""
        D = self.distance.between(m, m_bar, weights, pairs, self.setting)
        lower = D < distances.D[pairs]
        if not lower.any():
            return False
        distances.D[pairs[lower]] = D[lower]
        distances.top = float(distances.D.max())
        return True

    def _solve_there(self) -> None:
        """The largest d̂(M ‖ M̄): in closed form where an unknown pair attains the largest D̂.

        For such a pair may lead to itself, and then d̂ = D̂ / (1-γ).
        """
        there, known = self.there, self.model.arrays.known
        if known[self.unknown_top] or there.D[self.unknown_top] < there.top:
            self.unknown_top = int(np.where(known, -1.0, there.D).argmax())
        if not known[self.unknown_top] and there.D[self.unknown_top] == there.top:
            there.largest = min(there.largest, there.top / (1 - self.setting.gamma))
        else:
            there.lower(self.model.rows)


class Distances:
    """D̂ over pairs, and d̂ solved for it from above."""

    def __init__(self, prior: FloatArray, setting: Setting) -> None:
        self.setting = setting
        self.D = prior.copy()
        self.top = float(prior.max())
        """The largest D̂."""
        self.largest = self.top / (1 - setting.gamma)
        """The largest d̂."""
        self.d = np.full(setting.n_pairs, self.largest)
        self.worst = np.full(setting.n_states, self.largest)

    def lower(self, rows: Known) -> None:
        """Lower d̂ to its fixed point through the model `rows`, within the tolerance."""
        setting = self.setting
        largest = distances.lower_dissimilarity(
            rows, self.D, setting.gamma, setting.epsilon, setting.slack, self.d, self.worst
        )
        self.largest = min(self.largest, largest)


def _checked_prior(d_max: float | ArrayLike) -> FloatArray:
    prior = numbers("d_max", d_max).copy()
    return weights("d_max", prior, prior.shape, "a distance, for all pairs or for each [s, a]")
