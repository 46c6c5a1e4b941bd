"""What the paper measures of bounds while an agent learns."""

import numpy as np

from heirloom.arrays import FloatArray, IntArray
from heirloom.mdp.learned import LearnedModel
from heirloom.transfer.bounds import Lipschitz
from heirloom.transfer.memory import Source, TaskMemory
from heirloom.transfer.setting import Setting
from heirloom.transfer.source_bound import Distances, Transfer

ROUNDING = 1e-9


class MeasuredLipschitz(Lipschitz):
    """A Lipschitz bound that counts how often it is at most `v_max` (ρ_Lip of the paper).

    Over all computations of the bound in a task and all pairs that are known in the task or in the
    source, known pairs of the task too, where the agent itself needs no bound. No source is
    dropped. What the agent acts on is the same as without measuring.
    """

    fractions: list[float]
    """For each task, NaN where there was no source."""

    def begin_task(self, setting: Setting, model: LearnedModel, memory: TaskMemory) -> bool:
        """The bound at the beginning counts as a computation."""
        refined = super().begin_task(setting, model, memory)
        if memory.n_tasks == 0:
            self.fractions = []
        self._tighter = self._all = 0
        self._count()
        return refined

    def refine(self, pair: int, U: FloatArray, V: FloatArray) -> IntArray:
        """Refine, and count."""
        lowered = super().refine(pair, U, V)
        self._count()
        return lowered

    def end_task(self, source: Source, memory: TaskMemory) -> None:
        """The fraction of this task is known."""
        super().end_task(source, memory)
        self.fractions.append(self._tighter / self._all if self._all else np.nan)

    def _drop(self, useful: list[bool]) -> None:
        """Keep all."""

    def _count(self) -> None:
        for transfer in self.transfers:
            known = self.model.arrays.known | transfer.source.known
            bound = transfer.source.Q + self._distance(transfer)
            self._tighter += int((bound[known] <= self.setting.v_max + ROUNDING).sum())
            self._all += int(known.sum())

    def _distance(self, transfer: Transfer) -> FloatArray:
        """min(d̂(M ‖ M̄), d̂(M̄ ‖ M)) at all pairs, known or not."""
        there = Distances(transfer.there.D, self.setting)
        there.lower(self.model.rows)
        return np.minimum(there.d, transfer.back.d)
