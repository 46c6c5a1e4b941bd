"""What the paper measures of bounds, and of policies, while an agent learns."""

from typing import Any, Protocol

import numpy as np

from heirloom.arrays import BoolArray, FloatArray, IntArray
from heirloom.mdp.learned import LearnedModel
from heirloom.mdp.tabular import TabularMDP
from heirloom.planning.solve import solve
from heirloom.transfer.bound import Change
from heirloom.transfer.lipschitz.bound import Lipschitz
from heirloom.transfer.lipschitz.source_bound import Distances, SourceBound
from heirloom.transfer.memory import Source, TaskMemory
from heirloom.transfer.setting import Setting

ROUNDING = 1e-9


class MeasuredUse(Lipschitz):
    """A Lipschitz bound that is looked at whenever it was computed, in the beginning too.

    No source is dropped. What the agent acts on is the same as without measuring.
    """

    drops = False
    measured: list[Any]
    """What was measured, one entry a task."""

    def begin_task(self, setting: Setting, model: LearnedModel, memory: TaskMemory) -> bool:
        """The bound at the beginning counts as a computation."""
        refined = super().begin_task(setting, model, memory)
        if memory.n_tasks == 0:
            self.measured = []
        self._begin()
        self._look()
        return refined

    def refine(self, change: Change) -> IntArray:
        """Refine, and look."""
        lowered = super().refine(change)
        self._look()
        return lowered

    def end_task(self, source: Source, memory: TaskMemory) -> None:
        """What was measured in this task is complete."""
        super().end_task(source, memory)
        self.measured.append(self._result())

    def _begin(self) -> None:
        raise NotImplementedError

    def _look(self) -> None:
        raise NotImplementedError

    def _result(self) -> Any:
        raise NotImplementedError


class LipschitzUse(MeasuredUse):
    """How often the bound is at most `v_max` (ρ_Lip of the paper), NaN where there is no source.

    Over all computations of the bound in a task and all pairs that are known in the task or in the
    source, known pairs of the task too, where the agent itself needs no bound.
    """

    def _begin(self) -> None:
        self._tighter = self._all = 0

    def _look(self) -> None:
        for transfer in self.transfers:
            known = self.model.arrays.known | transfer.source.known
            bound = transfer.source.Q + self._distance(transfer)
            self._tighter += int((bound[known] <= self.setting.v_max + ROUNDING).sum())
            self._all += int(known.sum())

    def _result(self) -> float:
        return self._tighter / self._all if self._all else np.nan

    def _distance(self, transfer: SourceBound) -> FloatArray:
        """min(d̂(M ‖ M̄), d̂(M̄ ‖ M)) at all pairs, known or not."""
        there = Distances(transfer.there.D, self.setting)
        there.lower(self.model.rows)
        return np.minimum(there.d, transfer.back.d)


class PriorUse(MeasuredUse):
    """At what part of the pairs the prior is below D̂(M ‖ M̄), computation by computation.

    Of the last source. When no more is computed it stays as it is; NaN where there is no source.
    """

    def _begin(self) -> None:
        self._parts: list[float] = []

    def _look(self) -> None:
        decides = list(self.prior_decides().values())
        if decides:
            self._parts.append(float(decides[-1].mean()))

    def _result(self) -> FloatArray:
        parts = np.full(self.setting.n_pairs + 1, self._parts[-1] if self._parts else np.nan)
        parts[: len(self._parts)] = self._parts
        return parts


MEASURED: dict[str | None, type[MeasuredUse]] = {
    "lipschitz_use": LipschitzUse,
    "prior_use": PriorUse,
}


class HasGreedyActions(Protocol):
    """An agent whose greedy actions can be read."""

    @property
    def greedy(self) -> BoolArray:
        """The actions that it may choose when it does not explore, [s, a]."""


class OptimalAfter:
    """After how many episodes the greedy policy is optimal, for the rest of a task.

    That is: whatever equal greedy action is chosen, it is an optimal one, in every state that such
    actions lead to from the start.
    """

    after: list[float]
    """One number a task; NaN where the policy is not optimal in the end."""

    def __init__(self) -> None:
        self.after = []

    def begin(self, agent: Any, task: Any) -> None:
        """A task begins."""
        self._agent: HasGreedyActions = agent
        self._task: TabularMDP = task
        sol = solve(task)
        # Two actions whose values are within their errors of each other may both be optimal.
        self._optimal = sol.Q >= sol.Q.max(axis=1, keepdims=True) - 2 * sol.error
        self.after.append(np.nan)

    def __call__(self, done: int, episodes: int) -> None:
        """Look at the policy after an episode."""
        if not self._is_optimal():
            self.after[-1] = np.nan
        elif np.isnan(self.after[-1]):
            self.after[-1] = done

    def _is_optimal(self) -> bool:
        m, greedy = self._task, self._agent.greedy
        t = m.transitions
        to_visit = np.flatnonzero(m.start).tolist()
        seen = set(to_visit)
        while to_visit:
            s = to_visit.pop()
            for a in np.flatnonzero(greedy[s]):
                if not self._optimal[s, a]:
                    return False
                row = slice(t.indptr[s * m.n_actions + a], t.indptr[s * m.n_actions + a + 1])
                ends = np.zeros(t.p[row].size, dtype=bool) if t.ends is None else t.ends[row]
                for successor in t.successors[row][~ends].tolist():
                    if successor not in seen:
                        seen.add(successor)
                        to_visit.append(successor)
        return True
