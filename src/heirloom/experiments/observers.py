"""Measures of bounds and policies that a run can record while an agent learns.

An observer declares the variables that a run records for it, and whether it is called after updates
and after episodes. To add one, write a class in this package and enter it in `OBSERVERS`.
"""

from typing import Any, ClassVar

import numpy as np

from heirloom.arrays import BoolArray, FloatArray
from heirloom.errors import InvalidArgument
from heirloom.experiments.measured_transfer import Transfer
from heirloom.experiments.observer import Observer
from heirloom.experiments.variables import TASK, Variable
from heirloom.planning.solve import solve
from heirloom.transfer.lipschitz.all_sources import (
    ROUNDING,
    OneSource,
    dissimilarity_by_sweeps,
)
from heirloom.transfer.lipschitz.bound import Lipschitz


class LipschitzObserver(Observer):
    """Base of observers that measure after each computation of the Lipschitz bound.

    The first computation is at the beginning of the task. The bound keeps sources that it would
    otherwise drop because they no longer matter; this does not change the agent's behaviour.
    """

    looks_at_updates = True

    def begin_task(self, agent: Any, task: Any) -> None:
        """Measure the bound at the beginning of the task, which counts as a computation."""
        super().begin_task(agent, task)
        self._bounds = [b for b in getattr(agent, "bounds", []) if isinstance(b, Lipschitz)]
        for bound in self._bounds:
            bound.drops = False
        self.after_update()


class LipschitzUse(LipschitzObserver):
    """Fraction of computed Lipschitz bounds that are at most `v_max` (ρ_Lip of the paper).

    The fraction is over all computations of the bound in a task, all sources, and all pairs that
    are known in the task or in the source. Pairs that are known in the task are included although
    the agent needs no bound there. NaN in tasks without a source.
    """

    variables: ClassVar = {
        "lipschitz_use": Variable(
            TASK, "1", "fraction of computed Lipschitz bounds that are at most v_max"
        )
    }

    def begin(self) -> None:
        """Set the counts to 0."""
        self._n_tighter = self._n_bounds = 0

    def after_update(self) -> None:
        """Count the bounds of all sources, and those that are at most `v_max`."""
        for bound in self._bounds:
            for transfer in bound.transfers:
                known = self._agent.model._arrays.known | transfer.source.known
                U = transfer.source.completed_Q + self._distance(transfer)
                self._n_tighter += int((U[known] <= transfer.setting.v_max + ROUNDING).sum())
                self._n_bounds += int(known.sum())

    def result(self) -> dict[str, Any]:
        """Return the fraction, NaN if no bound was computed."""
        fraction = self._n_tighter / self._n_bounds if self._n_bounds else np.nan
        return {"lipschitz_use": fraction}

    def _distance(self, transfer: OneSource) -> FloatArray:
        """min(d̂(M ‖ M̄), d̂(M̄ ‖ M)) at all pairs, known or not."""
        D, model = transfer.to_source.D, self._agent.model
        to_source = dissimilarity_by_sweeps(D, model, transfer.setting)
        return np.minimum(to_source, transfer.from_source.d)


class PriorUse(LipschitzObserver):
    """Fraction of pairs where the prior is below D̂(M ‖ M̄), after each computation of the bound.

    M̄ is the last source in memory. Entries after the last computation repeat its fraction. NaN in
    tasks without a source.
    """

    variables: ClassVar = {
        "prior_use": Variable(
            (*TASK, "computation"),
            "1",
            "fraction of pairs where the prior d_max is below the distance D",
        )
    }
    own_dimension: ClassVar = {
        "computation": (
            "index of the computation of the bound within its task",
            lambda m: m.R.size + 1,
        )
    }

    def begin(self) -> None:
        """Clear the list of fractions."""
        self._fractions: list[float] = []

    def after_update(self) -> None:
        """Append the fraction of pairs where the prior is below D̂."""
        for bound in self._bounds:
            prior_used = list(bound.prior_used().values())
            if prior_used:
                self._fractions.append(float(prior_used[-1].mean()))

    def result(self) -> dict[str, Any]:
        """Return the fractions in the order of computations."""
        last = self._fractions[-1] if self._fractions else np.nan
        fractions = np.full(self._task.R.size + 1, last)
        fractions[: len(self._fractions)] = self._fractions
        return {"prior_use": fractions}


class OptimalAfter(Observer):
    """Number of episodes after which the greedy policy is optimal for the rest of a task.

    The policy counts as optimal if every greedy action is optimal in every state that greedy
    actions can reach from the start. NaN if it is not optimal at the end of the task.
    """

    variables: ClassVar = {
        "optimal_after": Variable(
            TASK,
            "episodes",
            "episodes after which the greedy policy is optimal for the rest of a task",
        )
    }
    looks_at_episodes = True

    def begin(self) -> None:
        """Solve the task."""
        if not hasattr(self._agent, "greedy"):
            raise InvalidArgument(
                "measure is 'optimal_after', but the agent has no attribute `greedy`: expected a "
                "boolean array [s, a] of the actions that it may choose"
            )
        sol = solve(self._task)
        # Each value is exact up to `sol.error`: a gap of at most twice that may be an error.
        self._optimal: BoolArray = sol.Q >= sol.Q.max(axis=1, keepdims=True) - 2 * sol.error
        self._after = np.nan

    def after_episode(self, done: int) -> None:
        """Check whether the policy is optimal now."""
        if not self._is_optimal():
            self._after = np.nan
        elif np.isnan(self._after):
            self._after = done

    def result(self) -> dict[str, Any]:
        """Return the number of episodes."""
        return {"optimal_after": self._after}

    def _is_optimal(self) -> bool:
        """Return whether all greedy actions are optimal in the states that they reach."""
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
    "transfer": Transfer,
}
"""The measures that an experiment can record in addition to returns, by name."""
