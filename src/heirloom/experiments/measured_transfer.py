"""The measure "transfer": which bounds and which earlier tasks decided the values of each task."""

from typing import Any, ClassVar

import numpy as np

from heirloom.agents.optimistic import OptimisticAgent
from heirloom.agents.task_learner import sources_used
from heirloom.experiments.observer import Observer
from heirloom.experiments.variables import TASK, Variable

KINDS = ("v_max", "Lipschitz", "MaxQ", "NearModels", "Envelope", "another bound")
"""What may decide the bound `U` of a pair, in the order of the dimension `kind`."""
N_SOURCES = 5
"""The number of sources of a task that are recorded: those that decide most pairs."""
NOT_RECORDED = -1


class Transfer(Observer):
    """Number of pairs per task whose bound came from each kind of bound and each source task.

    Everything is measured once, at the end of a task, so it does not slow learning. A pair that is
    known counts for the bound that it had when it became known. A refutation that is found when a
    task is stored counts in the next task. Agents without bounds, such as Q-learning, have -1
    everywhere. Actions that are missing are not counted.
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
            TASK, "refutations", "number of refutations of prior knowledge in a task", "i8"
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
        agent = self._agent
        if not isinstance(agent, OptimisticAgent):
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
        refutation = getattr(self._agent, "refutation", None)
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
