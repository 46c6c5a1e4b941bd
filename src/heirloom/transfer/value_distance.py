"""`ValueDistance`: values of earlier tasks, and how far optimal values of two tasks can differ."""

from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field

from heirloom.arrays import IntArray
from heirloom.mdp.learned import LearnedModel
from heirloom.options import Option, declared
from heirloom.transfer.bound import Constant, Details, check_begun, check_per_pair, read_per_pair
from heirloom.transfer.memory import TaskMemory
from heirloom.transfer.setting import Setting

Beta = Annotated[
    float | ArrayLike,
    Option(
        "β, by how much the optimal value of a pair can differ between two tasks: a number or an "
        "array [s, a]. In a spec, a number.",
        spec=Annotated[float, Field(ge=0)],
    ),
]


@declared
class ValueDistance(Constant):
    """The values of earlier tasks plus β, `U = min over sources of Q̄ + β` (Cutler et al., 2014).

    It is an upper bound at the pairs that a source has, if `Q*_M <= Q*_M̄ + β` for the current task
    M and every source M̄, and if each Q̄ is an upper bound on Q*_M̄. The second is true where models
    are exact; estimated Q̄ can be too small, as for `MaxQ`. What is learned is not compared with β.
    """

    def __init__(self, *, beta: Beta) -> None:
        self.beta = read_per_pair("beta", beta, "difference")

    def check(self, setting: Setting) -> None:
        """Raise `InvalidArgument` unless `beta` has the right shape."""
        check_per_pair("beta", self.beta, setting)

    def begin_task(self, setting: Setting, model: LearnedModel, memory: TaskMemory) -> bool:
        """Set `U` from all sources; it is not refined."""
        super().begin_task(setting, model, memory)
        self.check(setting)
        self._decider = np.zeros(setting.n_pairs, dtype=np.int64)
        for source in memory.sources:
            bound = np.nextafter(source.Q + self.beta.reshape(-1), np.inf)  # rounded up
            # A source says nothing about an action that it lacks, or was not observed to have.
            said = True if source.available is None else source.available
            lower = (bound < self.U) & said
            self.U[lower], self._decider[lower] = bound[lower], source.task
        return False

    def sources_used(self) -> IntArray:
        """Return the number of the task that determines `U` at each pair; 0 where `v_max` does."""
        check_begun(self)
        return self._decider

    def details(self) -> Details:
        """Return the tasks that determine `U`, and when it is valid."""
        used = np.unique(self.sources_used())
        note = "valid if optimal values of two tasks differ by at most beta, which is not checked."
        return Details(tuple(int(task) for task in used if task), notes=(note,))

    def options(self) -> dict[str, Any] | None:
        """Return `beta`."""
        return {"beta": self.beta}
