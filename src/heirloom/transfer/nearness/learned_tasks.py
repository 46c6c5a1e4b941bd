"""Nearness of learned tasks: by how much their models differ where both are known."""

from collections.abc import Iterable

import numpy as np

from heirloom.arrays import BoolArray
from heirloom.errors import IncompatibleTasks, InvalidArgument
from heirloom.mdp.learned import LearnedModel
from heirloom.mdp.rows import Rows, compact
from heirloom.transfer.different_tasks import total_variation
from heirloom.transfer.memory import TaskMemory
from heirloom.transfer.nearness.exact import ROUNDING
from heirloom.transfer.nearness.knowledge import Nearness
from heirloom.transfer.source import Source
from heirloom.validation import Range, check_range, real_number, shown
from heirloom.wording import counted, size_of_task


def learned_nearness(
    models: Iterable[LearnedModel | Source] | TaskMemory,
    *,
    reward_range: Range = (0.0, 1.0),
    epsilon: float = 0.0,
) -> Nearness:
    """Return the smallest nearness that agrees with any two of these learned models.

    At a pair that one of two tasks does not know, they may differ by the whole reward range, and by
    a total variation of 1. Where both know the pair, their models differ by the difference of the
    means that they have learned, and of the frequencies.

    The result describes the learned models. It is true for the tasks themselves if known pairs are
    `epsilon`-accurate, in mean reward and in L1 norm of transitions; with `epsilon` = 0 (the
    default), if they are exact.

    Args:
        models: learned models (`agent.model`) or sources, of tasks of the same size; or a memory,
            for all its sources.
        reward_range: the range of rewards of all tasks.
        epsilon: the accuracy of known pairs.
    """
    lo, hi = check_range(reward_range)
    epsilon = real_number("epsilon", epsilon, "expected a number, 0 or more", least=0)
    tasks = [_read(i, model) for i, model in enumerate(_listed(models))]
    shape = tasks[0][1]
    for _, other, _ in tasks[1:]:
        if other != shape:
            raise IncompatibleTasks(
                f"a model has {size_of_task(other[0], other[1])}, and another one {shape[0]} and "
                f"{shape[1]}: compare tasks of the same size"
            )
    r, t = np.zeros(shape[0] * shape[1]), np.zeros(shape[0] * shape[1])
    for i, (rows, _, missing) in enumerate(tasks):
        for other_rows, _, other_missing in tasks[:i]:
            both = rows.known & other_rows.known
            limits = np.where(missing | other_missing, 0.0, 1.0)  # a nearness says nothing there
            difference = np.abs(rows.R - other_rows.R) * ROUNDING + 2 * epsilon
            widest = (hi - lo) * limits
            np.maximum(r, np.where(both, np.minimum(difference, hi - lo), widest), out=r)
            variation = total_variation(rows, other_rows, shape[0]) * ROUNDING + epsilon
            np.maximum(t, np.where(both, np.minimum(variation, 1.0), limits), out=t)
    return Nearness(rewards=r.reshape(shape), transitions=t.reshape(shape))


def _listed(
    models: Iterable[LearnedModel | Source] | TaskMemory,
) -> list[LearnedModel | Source]:
    if isinstance(models, TaskMemory):
        models = models.sources
    listed = list(models) if isinstance(models, Iterable) else []
    if len(listed) < 2:
        raise InvalidArgument(
            f"models has {counted(len(listed), 'entry')}: give two or more learned models"
        )
    return listed


def _read(i: int, model: object) -> tuple[Rows, tuple[int, int], BoolArray]:
    """Return the rows of a model, its numbers of states and actions, and its missing pairs."""
    if isinstance(model, LearnedModel):
        missing = ~model.available.reshape(-1)
        return compact(model.rows), (model.n_states, model.n_actions), missing
    if isinstance(model, Source):
        return model.rows, (model.V.size, model.Q.size // model.V.size), model.missing
    raise InvalidArgument(
        f"models[{i}] is {shown(model)}: expected a LearnedModel, such as agent.model, or a Source"
    )
