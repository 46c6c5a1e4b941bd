"""Transfer by states that behave alike (Song et al., 2016), to be compared with."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from heirloom.agents.algorithm_options import TaskKnowledge
from heirloom.agents.protocol import Agent
from heirloom.agents.qlearning import QLearning, QLearningOptions
from heirloom.arrays import FloatArray
from heirloom.errors import IncompatibleTasks, InvalidArgument
from heirloom.mdp.tabular import TabularMDP, check_task
from heirloom.metrics.bisimulation import Ground, bisimulation_metric, closest_states
from heirloom.planning.solve import solve
from heirloom.validation import numbers


def BisimulationTransfer(
    source: TabularMDP,
    target: TabularMDP,
    *,
    Q: ArrayLike | None = None,
    ground: Ground = "identity",
    c: float | None = None,
    learning_rate: float = 0.1,
    exploration: float = 0.1,
    seed: int | np.random.Generator | None = None,
) -> QLearning:
    """Q-learning of `target`, where each state begins with the values of its closest source state.

    It is told both models, which is more than other agents are, and promises nothing: values that
    were right in the source may be wrong in the target, and Q-learning must then unlearn them.

    Args:
        source: the task whose values are transferred.
        target: the task that is to be learned.
        Q: the values of the source, [s, a]; the optimal ones by default.
        ground: of `bisimulation_metric`, as is `c`.
        c: of `bisimulation_metric`.
        learning_rate: of `QLearning`, as are the others.
        exploration: of `QLearning`.
        seed: of `QLearning`.
    """
    check_task(source)
    check_task(target)
    values = solve(source).Q if Q is None else numbers("Q", Q)
    if values.shape != source.R.shape:
        raise InvalidArgument(
            f"Q has shape {values.shape}: it has a value for each pair of the source, of shape "
            f"{source.R.shape}"
        )
    if not np.isfinite(values).all():
        raise InvalidArgument("Q is not finite: values are numbers")
    if source.gamma != target.gamma:
        raise IncompatibleTasks(
            f"gamma is {source.gamma} in the source and {target.gamma} in the target: values would "
            "not carry over"
        )
    return QLearning(
        n_states=target.n_states,
        n_actions=target.n_actions,
        gamma=target.gamma,
        learning_rate=learning_rate,
        exploration=exploration,
        initial_Q=_carried_over(values, source, target, ground, c),
        seed=seed,
    )


def _carried_over(
    Q: FloatArray, source: TabularMDP, target: TabularMDP, ground: Ground, c: float | None
) -> FloatArray:
    """For each state of the target the values of its closest state of the source."""
    return Q[closest_states(bisimulation_metric(target, source, ground=ground, c=c))]


class BisimulationLearner(QLearning):
    """Q-learning of tasks in a row, which it is told, each from what was learned of the last one.

    Args:
        tasks: the tasks, in the order in which they will be faced.
        ground: of `bisimulation_metric`.
        c: of `bisimulation_metric`.
        options: those of `QLearning`; the first task begins with `initial_Q`.
    """

    def __init__(
        self,
        tasks: Sequence[TabularMDP],
        *,
        ground: Ground = "identity",
        c: float | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.tasks, self.ground, self.c = list(tasks), ground, c
        self.n_begun = 0

    def begin_task(self) -> None:
        """Each state takes the values of its closest state of the last task."""
        if self.n_begun > 0 and self.n_begun < len(self.tasks):
            source, target = self.tasks[self.n_begun - 1 : self.n_begun + 1]
            self.initial_Q = _carried_over(self.Q, source, target, self.ground, self.c)
        super().begin_task()
        self.n_begun += 1


class BisimulationTransferOptions(QLearningOptions):
    """Q-learning from the values of states that behave alike."""

    ground: Ground = "identity"
    """The ground metric of bisimulation."""

    def make(self, known: TaskKnowledge, seed: np.random.Generator) -> Agent:
        """An agent that is given the models of all tasks."""
        return BisimulationLearner(known.tasks, ground=self.ground, **self.common(known, seed))
