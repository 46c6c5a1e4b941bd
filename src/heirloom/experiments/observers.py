"""What the paper measures of bounds, and of policies, while an agent learns.

An observer declares the variable that a run records for it, and what it looks at. A new one is a
class here and an entry in `OBSERVERS`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from heirloom.arrays import BoolArray, FloatArray
from heirloom.errors import InvalidArgument
from heirloom.experiments.variables import TASK, Variable
from heirloom.learning import lifetime
from heirloom.mdp.tabular import TabularMDP
from heirloom.planning.solve import solve
from heirloom.transfer.lipschitz.all_sources import (
    ROUNDING,
    OneSource,
    dissimilarity_by_sweeps,
)
from heirloom.transfer.lipschitz.bound import Lipschitz


class Observer(lifetime.Observer, ABC):
    """Measures one thing in each task; entries of `measured` are over tasks."""

    variable: ClassVar[Variable]
    """What a run records: over agents, repetitions and tasks, and over a dimension of its own."""
    own_dimension: ClassVar[dict[str, tuple[str, Callable[[TabularMDP], int]]]] = {}
    """By the name of that dimension: its meaning, and its size for a task of the family."""
    looks_at_updates = False
    looks_at_episodes = False

    def __init__(self) -> None:
        self.measured: list[Any] = []

    def begin_task(self, agent: Any, task: Any) -> None:
        """The agent has begun a task."""
        self._agent, self._task = agent, task
        self.begin()

    def after_update(self) -> None:
        """Look at what the update did."""

    def after_episode(self, done: int) -> None:
        """Look at what the episode did."""

    def end_task(self) -> None:
        """What was measured in this task is complete."""
        self.measured.append(self.result())

    @abstractmethod
    def begin(self) -> None:
        """Begin to measure a task."""

    @abstractmethod
    def result(self) -> float | FloatArray:
        """What was measured in the task that ends."""


class LipschitzObserver(Observer):
    """Looks at the Lipschitz bound whenever it was computed, at the beginning too.

    No source is dropped meanwhile, which changes nothing that the agent does.
    """

    looks_at_updates = True

    def begin_task(self, agent: Any, task: Any) -> None:
        """The bound at the beginning counts as a computation."""
        super().begin_task(agent, task)
        self._bounds = [one for one in getattr(agent, "bounds", []) if isinstance(one, Lipschitz)]
        for bound in self._bounds:
            bound.drops = False
        self.after_update()


class LipschitzUse(LipschitzObserver):
    """How often the bound is at most `v_max` (ρ_Lip of the paper), NaN where there is no source.

    Over all computations of the bound in a task and all pairs that are known in the task or in the
    source, known pairs of the task too, where the agent itself needs no bound.
    """

    variable = Variable(
        TASK, "1", "part of bound computations where the Lipschitz bound is at most v_max"
    )

    def begin(self) -> None:
        """Nothing was computed yet."""
        self._tighter = self._all = 0

    def after_update(self) -> None:
        """Count pairs."""
        for bound in self._bounds:
            for transfer in bound.transfers:
                known = self._agent.model.arrays.known | transfer.source.known
                U = transfer.source.Q + self._distance(transfer)
                self._tighter += int((U[known] <= transfer.setting.v_max + ROUNDING).sum())
                self._all += int(known.sum())

    def result(self) -> float:
        """The part of all pairs."""
        return self._tighter / self._all if self._all else np.nan

    def _distance(self, transfer: OneSource) -> FloatArray:
        """min(d̂(M ‖ M̄), d̂(M̄ ‖ M)) at all pairs, known or not."""
        D, model = transfer.to_source.D, self._agent.model
        to_source = dissimilarity_by_sweeps(D, model, transfer.setting)
        return np.minimum(to_source, transfer.from_source.d)


class PriorUse(LipschitzObserver):
    """At what part of the pairs the prior is below D̂(M ‖ M̄), computation by computation.

    Of the last source. When no more is computed it stays as it is; NaN where there is no source.
    """

    variable = Variable(
        (*TASK, "computation"), "1", "part of the pairs where the prior is below the distance"
    )
    own_dimension: ClassVar = {
        "computation": (
            "number of the computation of the bound in its task",
            lambda m: m.R.size + 1,
        )
    }

    def begin(self) -> None:
        """Nothing was computed yet."""
        self._parts: list[float] = []

    def after_update(self) -> None:
        """Look where the prior decides."""
        for bound in self._bounds:
            decides = list(bound.prior_used().values())
            if decides:
                self._parts.append(float(decides[-1].mean()))

    def result(self) -> FloatArray:
        """The parts, in the order of computations."""
        parts = np.full(self._task.R.size + 1, self._parts[-1] if self._parts else np.nan)
        parts[: len(self._parts)] = self._parts
        return parts


class OptimalAfter(Observer):
    """After how many episodes the greedy policy is optimal, for the rest of a task.

    That is: whatever equal greedy action is chosen, it is an optimal one, in every state that such
    actions lead to from the start. NaN where the policy is not optimal in the end.
    """

    variable = Variable(
        TASK, "episodes", "episodes until the greedy policy is optimal for the rest of a task"
    )
    looks_at_episodes = True

    def begin(self) -> None:
        """Solve the task."""
        if not hasattr(self._agent, "greedy"):
            raise InvalidArgument(
                "measure is 'optimal_after', and the agent has no `greedy`: the actions [s, a] "
                "that it may choose"
            )
        sol = solve(self._task)
        # Two actions whose values are within their errors of each other may both be optimal.
        self._optimal: BoolArray = sol.Q >= sol.Q.max(axis=1, keepdims=True) - 2 * sol.error
        self._after = np.nan

    def after_episode(self, done: int) -> None:
        """Look at the policy."""
        if not self._is_optimal():
            self._after = np.nan
        elif np.isnan(self._after):
            self._after = done

    def result(self) -> float:
        """The number of episodes."""
        return self._after

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


OBSERVERS: dict[str, type[Observer]] = {
    "lipschitz_use": LipschitzUse,
    "prior_use": PriorUse,
    "optimal_after": OptimalAfter,
}
"""What an experiment can measure beside returns."""
