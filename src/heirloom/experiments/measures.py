"""Measures of bounds and policies that a run can record while an agent learns.

An observer declares the variables that a run records for it, and whether it is called after updates
and after episodes. A spec names a built-in one by its key in `OBSERVERS`, and one of the user's own
as `package.module:Name`.
"""

from math import prod
from typing import Any, ClassVar

import numpy as np

from heirloom.agents.certificate import certificate_apart
from heirloom.agents.optimistic import OptimisticAgent
from heirloom.agents.own_bounds import sources_used
from heirloom.arrays import BoolArray, FloatArray
from heirloom.errors import InvalidArgument
from heirloom.experiments.registry import import_callable, is_user_defined
from heirloom.experiments.variables import TASK, Variable
from heirloom.learning.lifetime import Observer as Observer
from heirloom.learning.plan import sizes_of_task
from heirloom.mdp.tabular import TabularMDP
from heirloom.planning.solve import solve
from heirloom.transfer.lipschitz.all_sources import (
    ROUNDING,
    OneSource,
    dissimilarity_by_sweeps,
)
from heirloom.validation import shown

KINDS = ("v_max", "Lipschitz", "MaxQ", "NearModels", "Envelope", "another bound")
"""What may decide the bound `U` of a pair, in the order of the dimension `kind`."""
N_SOURCES = 5
"""The number of sources of a task that are recorded: those that decide most pairs."""
NOT_RECORDED = -1


def n_pairs_of(task: Any) -> int:
    """Return the number of state-action pairs of a task or environment."""
    return prod(sizes_of_task(task))


class Transfer(Observer):
    """Number of pairs per task whose bound came from each kind of bound and each source task.

    Everything is measured once, at the end of a task, so it does not slow learning. A pair that is
    known counts for the bound that it had when it became known. A bound that follows from several
    tasks together counts for no source task. A refutation that is found when a task is stored
    counts in the next task. Agents without bounds, such as Q-learning, have -1 everywhere. Actions
    that are missing are not counted.
    """

    variables: ClassVar = {
        "bound_pairs": Variable(
            (*TASK, "kind"),
            "pairs",
            "number of pairs whose bound U was decided by each kind: " + ", ".join(KINDS),
            "i8",
        ),
        "source_task": Variable(
            (*TASK, "rank"), "1", "task that decided most pairs, second most, ...; 0 for none", "i8"
        ),
        "source_pairs": Variable(
            (*TASK, "rank"), "pairs", "number of pairs whose bound U that task decided", "i8"
        ),
        "dropped_sources": Variable(
            TASK, "tasks", "number of sources that were dropped in a task", "i8"
        ),
        "refutations": Variable(
            TASK, "refutations", "number of refutations of claims in a task", "i8"
        ),
    }
    own_dimension: ClassVar = {
        "kind": ("what decided a bound: " + ", ".join(KINDS), lambda m: len(KINDS)),
        "rank": ("rank of a source task by the number of pairs", lambda m: N_SOURCES),
    }

    def __init__(self) -> None:
        super().__init__()
        self._counted = 0  # refutations in earlier tasks

    def begin(self) -> None:
        """Do nothing: all is counted at the end of the task."""

    def result(self) -> dict[str, Any]:
        """Count the pairs of each kind and of each source."""
        agent = self.agent
        if not hasattr(agent, "bounds"):
            sizes = {"bound_pairs": len(KINDS), "source_task": N_SOURCES, "source_pairs": N_SOURCES}
            nothing = {name: np.full(n, NOT_RECORDED) for name, n in sizes.items()}
            return nothing | {"dropped_sources": NOT_RECORDED, "refutations": NOT_RECORDED}
        kinds = np.array([0, *(_kind(bound) for bound in agent.bounds)])
        decider = agent.decider.reshape(-1)
        task, n_pairs = _by_source(agent, decider)
        exists = ~np.isneginf(agent.U.reshape(-1))  # an action that is missing has no bound
        dropped = [len(bound.details().dropped) for bound in agent.bounds]
        refuted, self._counted = self._refutations() - self._counted, self._refutations()
        return {
            "bound_pairs": np.bincount(kinds[decider[exists]], minlength=len(KINDS)),
            "source_task": task,
            "source_pairs": n_pairs,
            "dropped_sources": sum(dropped),
            "refutations": refuted,
        }

    def _refutations(self) -> int:
        """How often the agent has warned of a refutation, or widened its knowledge."""
        refutation = getattr(self.agent, "refutation", None)
        return 0 if refutation is None else int(refutation.warned) + int(refutation.n_widened)


def _kind(bound: Any) -> int:
    name = type(bound).__name__
    return KINDS.index(name) if name in KINDS else len(KINDS) - 1


def _by_source(agent: OptimisticAgent, decider: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the sources that decided most pairs, and how many; 0 where there are fewer."""
    source = np.zeros(decider.size, dtype=np.int64)
    for i, bound in enumerate(agent.bounds):
        is_minimum = decider == i + 1
        source[is_minimum] = sources_used(bound, decider.size)[is_minimum]
    tasks, counts = np.unique(source[source > 0], return_counts=True)
    order = np.argsort(-counts, kind="stable")[:N_SOURCES]
    found = np.zeros((2, N_SOURCES), dtype=np.int64)
    found[:, : order.size] = tasks[order], counts[order]
    return found[0], found[1]


class LipschitzObserver(Observer):
    """Base of observers that measure after each computation of the Lipschitz bound.

    The first computation is at the beginning of the task. The bound keeps sources that it would
    otherwise drop because they no longer matter; this does not change the agent's behaviour.
    """

    looks_at_updates = True

    def begin_task(self, agent: Any, task: Any) -> None:
        """Measure the bound at the beginning of the task, which counts as a computation."""
        super().begin_task(agent, task)
        self._bounds = [b for b in getattr(agent, "bounds", []) if hasattr(b, "drops")]
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
                known = self.agent.model._arrays.known | transfer.source.known
                U = transfer.source.completed_Q + self._distance(transfer)
                self._n_tighter += int((U[known] <= transfer.setting.v_max + ROUNDING).sum())
                self._n_bounds += int(known.sum())

    def result(self) -> dict[str, Any]:
        """Return the fraction, NaN if no bound was computed."""
        fraction = self._n_tighter / self._n_bounds if self._n_bounds else np.nan
        return {"lipschitz_use": fraction}

    def _distance(self, transfer: OneSource) -> FloatArray:
        """min(d̂(M ‖ M̄), d̂(M̄ ‖ M)) at all pairs, known or not."""
        D, model = transfer.to_source.D, self.agent.model
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
            "fraction of pairs where the prior is below the distance D",
        )
    }
    own_dimension: ClassVar = {
        "computation": (
            "index of the computation of the bound within its task",
            lambda task: n_pairs_of(task) + 1,
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
        fractions = np.full(n_pairs_of(self.task) + 1, last)
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
        if not isinstance(self.task, TabularMDP):
            raise InvalidArgument(
                "measure is 'optimal_after', which needs the optimal policy of an exact task, but "
                "the task is an environment: leave measure out, or draw a TabularMDP"
            )
        if not hasattr(self.agent, "greedy"):
            raise InvalidArgument(
                "measure is 'optimal_after', but the agent has no attribute `greedy`: expected a "
                "boolean array [s, a] of the actions that it may choose"
            )
        sol = solve(self.task)
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
        m, greedy = self.task, self.agent.greedy
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


class Certified(Observer):
    """Bounds on the value of a certified policy and on the optimum, at the end of each task.

    They are those of `agent.certificate(delta=0.05)` for the first states of the task, from what
    the agent was created with: declare `successors` and `rewards` of each agent, or a nearness. All
    bounds of an agent in a repetition hold together with probability 0.95, if this is true. Values
    are expected discounted returns of episodes that go on until they terminate. Agents that keep no
    visits, such as Q-learning, have NaN.
    """

    variables: ClassVar = {
        "certified_lower": Variable(
            TASK, "reward", "lower bound on the value of the certified policy at the end of a task"
        ),
        "optimum_at_most": Variable(
            TASK, "reward", "upper bound on the value of every policy at the end of a task"
        ),
    }

    def begin(self) -> None:
        """Do nothing: the certificate is computed at the end of the task."""

    def result(self) -> dict[str, Any]:
        """Return the bounds of the certificate."""
        if not isinstance(self.agent, OptimisticAgent):
            return dict.fromkeys(self.variables, np.nan)
        start = self.task.start if isinstance(self.task, TabularMDP) else None
        found = certificate_apart(self.agent, start=start)
        return {"certified_lower": found.lower, "optimum_at_most": found.optimum_at_most}


OBSERVERS: dict[str, type[Observer]] = {
    "lipschitz_use": LipschitzUse,
    "prior_use": PriorUse,
    "optimal_after": OptimalAfter,
    "transfer": Transfer,
    "certificate": Certified,
}
"""The measures that an experiment can record in addition to returns, by name."""


def measure_class(name: str) -> type[Observer]:
    """Return the class of a measure: a built-in one, or `package.module:Name`, which is imported.

    Raises `InvalidArgument` unless it is a class derived from `Observer`.
    """
    if not is_user_defined(name):
        return OBSERVERS[name]
    found = import_callable("measure", name)
    if not isinstance(found, type) or not issubclass(found, Observer):
        raise InvalidArgument(
            f"measure is {shown(name)}, which is {shown(found)}: expected a class derived from "
            "heirloom.experiments.measures.Observer"
        )
    return found


def declaration(name: str) -> dict[str, Any]:
    """Return the variables that a measure declares, in the form of the key `measured` of a spec."""
    measure = measure_class(name)
    declared: dict[str, Any] = {}
    for variable, given in measure.variables.items():
        own = given.dimensions[len(TASK) :]
        if given.dimensions[: len(TASK)] != TASK or not {*own} <= {*measure.own_dimension}:
            raise InvalidArgument(
                f"{variable} of measure {shown(name)} has the dimensions {given.dimensions}: "
                f"expected {', '.join(TASK)}, and further ones that own_dimension declares"
            )
        declared[variable] = {
            "dimensions": {dimension: measure.own_dimension[dimension][0] for dimension in own},
            "units": given.units,
            "meaning": given.meaning,
            "dtype": given.dtype,
        }
    return declared
