"""Baseline: transfer of values between states that behave alike (Song et al., 2016)."""

from collections.abc import Sequence
from typing import Annotated, Any, Unpack

import numpy as np
from numpy.typing import ArrayLike

from heirloom.agents.algorithm_options import TaskKnowledge
from heirloom.agents.qlearning import QLearning, QLearningOptions
from heirloom.agents.tables import Rates
from heirloom.arrays import BoolArray, FloatArray
from heirloom.errors import IncompatibleTasks, InvalidArgument
from heirloom.mdp.tabular import TabularMDP, check_task
from heirloom.metrics.bisimulation import Ground, bisimulation_metric, closest_states
from heirloom.options import Option, declared
from heirloom.planning.solve import solve
from heirloom.validation import numbers

GroundOption = Annotated[
    Ground, Option("the ground metric of bisimulation; see `bisimulation_metric`.")
]
WeightOption = Annotated[
    float | None,
    Option("the weight of transitions; see `bisimulation_metric`.", spec=None),
]


@declared
def BisimulationTransfer(
    source: Annotated[TabularMDP, Option("the task whose values are transferred.")],
    target: Annotated[TabularMDP, Option("the task to be learned.")],
    *,
    Q: Annotated[
        ArrayLike | None, Option("the values of the source, [s, a]; by default the optimal ones.")
    ] = None,
    ground: GroundOption = "identity",
    c: WeightOption = None,
    **options: Unpack[Rates],
) -> QLearning:
    """Q-learning of `target` that starts from the values of the closest source state of each state.

    Unlike other agents, it is given the exact models of both tasks. It has no guarantee: values
    that are correct in the source may be wrong in the target, and Q-learning must then unlearn
    them.
    """
    check_task(source, "source")
    check_task(target, "target")
    values = solve(source).Q if Q is None else numbers("Q", Q)
    if values.shape != source.R.shape:
        raise InvalidArgument(
            f"Q has shape {values.shape}: expected one value for each pair of the source, shape "
            f"{source.R.shape}"
        )
    values = np.where(source.available, values, -np.inf)
    if not np.isfinite(values[source.available]).all():
        raise InvalidArgument("Q has values that are not finite: expected finite numbers")
    if source.gamma != target.gamma:
        raise IncompatibleTasks(
            f"gamma is {source.gamma} in the source and {target.gamma} in the target: values "
            "can be transferred only between tasks with the same gamma"
        )
    return QLearning(
        n_states=target.n_states,
        n_actions=target.n_actions,
        gamma=target.gamma,
        initial_Q=_transferred(values, source, target, ground, c),
        **options,
    )


def _transferred(
    Q: FloatArray, source: TabularMDP, target: TabularMDP, ground: Ground, c: float | None
) -> FloatArray:
    """Give each state of the target the values of the closest state of the source.

    An action that the source state lacks gets the value of the state.
    """
    Q = np.where(np.isneginf(Q), Q.max(axis=1, keepdims=True), Q)
    return Q[closest_states(bisimulation_metric(target, source, ground=ground, c=c))]


@declared
class BisimulationLearner(QLearning):
    """Q-learning that begins each task with values of similar states of the last; no guarantee.

    The first task begins with `initial_Q`.
    """

    def __init__(
        self,
        *,
        tasks: Annotated[
            Sequence[TabularMDP],
            Option("the exact models of the tasks, in the order of learning.", spec=None),
        ],
        ground: GroundOption = "identity",
        c: WeightOption = None,
        **options: Unpack[QLearningOptions],
    ) -> None:
        super().__init__(**options)
        self.tasks, self.ground, self.c = list(tasks), ground, c
        self.n_begun = 0

    def _begin(self, available: BoolArray) -> tuple[FloatArray, dict[str, Any]]:
        """Begin a task: each state gets the values of the closest state of the previous task."""
        if self.n_begun > 0 and self.n_begun < len(self.tasks):
            source, target = self.tasks[self.n_begun - 1 : self.n_begun + 1]
            self.initial_Q = _transferred(self.Q, source, target, self.ground, self.c)
        self.n_begun += 1
        return super()._begin(available)


def with_tasks(options: dict[str, Any], known: TaskKnowledge) -> dict[str, Any]:
    """Return the options of a spec with the exact models of all tasks."""
    return {**options, "tasks": known.tasks}
