"""Transfer by states that behave alike (Song et al., 2016), to be compared with."""

import numpy as np
from numpy.typing import ArrayLike

from heirloom.agents.qlearning import QLearning
from heirloom.arguments import numbers
from heirloom.errors import IncompatibleTasks, InvalidArgument
from heirloom.mdp.exact import TabularMDP, check_task
from heirloom.mdp.solving import solve
from heirloom.transfer.bisimulation import Ground, bisimulation_metric, closest_states


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
    closest = closest_states(bisimulation_metric(target, source, ground=ground, c=c))
    return QLearning(
        n_states=target.n_states,
        n_actions=target.n_actions,
        gamma=target.gamma,
        learning_rate=learning_rate,
        exploration=exploration,
        initial_Q=values[closest],
        seed=seed,
    )
