"""What the optimistic learner computes in one task: the model, the bounds and the values.

    Q = U outside K,    Q = min(U, R̂ + γ Σ T̂ V) on K,    V = max_a Q

`U` is the minimum of `v_max` and of all bounds, and K is the known set. When a pair becomes known,
the bounds are refined first, and then `Q` is lowered to its new fixed point.
"""

from collections.abc import Sequence

import numpy as np

from heirloom.arrays import FloatArray, IntArray
from heirloom.errors import InvalidArgument
from heirloom.kernels import learning
from heirloom.mdp.learned import LearnedModel
from heirloom.transfer.bound import Bound, Change
from heirloom.transfer.memory import Source, TaskMemory
from heirloom.transfer.nearness.bound import NearModels
from heirloom.transfer.nearness.rows import LearnerArrays
from heirloom.transfer.program import initial_values
from heirloom.transfer.setting import Setting

SAME = 1e-9  # a bound that is lower than v_max by less than this counts as v_max


class TaskLearner:
    """The model, the bounds and the values of one task.

    Args:
        setting: what the agent knows before its first task.
        n_known: the number of visits after which a pair is known.
        bounds: upper bounds on `Q*`; the constructor calls `begin_task` of each.
        memory: the earlier tasks.
    """

    def __init__(
        self, setting: Setting, n_known: int, bounds: Sequence[Bound], memory: TaskMemory
    ) -> None:
        self.setting, self.bounds = setting, bounds
        n_pairs = setting.n_pairs
        self.model = LearnedModel(setting.n_states, setting.n_actions, n_known=n_known)
        self._refined = [
            i for i, bound in enumerate(bounds) if bound.begin_task(setting, self.model, memory)
        ]
        self._is_updated = np.zeros(n_pairs, dtype=bool)
        U = np.full(n_pairs, setting.v_max)
        self.decider = np.zeros(n_pairs, dtype=np.int64)
        """Which bound is the minimum `U` at each pair: 0 for `v_max`, i for `bounds[i - 1]`."""
        for i, bound in enumerate(bounds):
            _check_bound(bound, n_pairs)
            self._lower(U, i, np.arange(U.size))
        self.values = initial_values(setting, U)
        self.near = self._near_rows()
        """The rows of near sources, which are solved for together with `Q`; None if there are none.
        """
        self.greedy: dict[int, list[int]] = {}
        """Cache of greedy actions by state; it must be cleared whenever `Q` changes."""

    def _near_rows(self) -> learning.Near | None:
        for i, bound in enumerate(self.bounds):
            if isinstance(bound, NearModels):
                near = bound.rows(LearnerArrays(self.values.V, self.decider, i + 1))
                if near is not None:
                    self._solve(near, near.pairs)
                return near
        return None

    @property
    def refines(self) -> bool:
        """Whether at least one bound is refined when a pair becomes known."""
        return bool(self._refined)

    def greedy_actions(self, s: int) -> list[int]:
        """Compute and cache the actions of `s` with the largest `Q`, up to ties."""
        n_actions = self.setting.n_actions
        row = self.values.Q[s * n_actions : (s + 1) * n_actions]
        actions: list[int] = np.flatnonzero(row >= row.max() - self.setting.tie).tolist()
        self.greedy[s] = actions
        return actions

    def update(self, pair: int) -> None:
        """After `pair` became known, refine the bounds and lower `Q` to its new fixed point."""
        values, known = self.values, self.model.arrays.known
        U, n_decreased = values.U, values.n_decreased[0]
        change = Change(pair, U, values.V, values.decreased[:n_decreased])
        changed = [np.array([pair])]
        for i in self._refined:
            lowered = self.bounds[i].refine(change)
            if lowered.size:
                lowered = lowered[~known[lowered]]  # U does not change at known pairs
                changed.append(self._lower(U, i, lowered))
        values.is_decreased[change.decreased] = False
        values.n_decreased[0] = 0
        self._update_values(np.concatenate(changed) if len(changed) > 1 else changed[0])
        self._is_updated[pair] = True

    def resume(self) -> None:
        """Complete an update that was interrupted, for example by Ctrl-C."""
        known = self.model.arrays.known
        for pair in np.flatnonzero(known & ~self._is_updated) if self.refines else ():
            self.update(int(pair))
        unknown = np.flatnonzero(~known)
        for i in self._refined:
            self._lower(self.values.U, i, unknown)
        self._update_values(np.arange(self.setting.n_pairs))

    def end(self, memory: TaskMemory) -> None:
        """Store the task as a source, and count the pairs whose bound came from each source."""
        source = Source.of(self.model, self.values.Q)
        for i, bound in enumerate(self.bounds):
            for task in bound.sources_used()[self.decider == i + 1].tolist():
                memory.use(task)
            bound.end_task(source, memory)
        memory.add(source)

    def _update_values(self, pairs: IntArray) -> None:
        self._solve(self.near, pairs)
        self.greedy.clear()

    def _solve(self, near: learning.Near | None, pairs: IntArray) -> None:
        rows = None if near is None else tuple(near)
        learning.update_values(tuple(self.model.arrays), tuple(self.values), rows, pairs)

    def _lower(self, U: FloatArray, i: int, pairs: IntArray) -> IntArray:
        """Lower `U` to the bound i at those of `pairs` where the bound is lower; returns them."""
        bound = self.bounds[i].U
        pairs = pairs[bound[pairs] < np.minimum(U[pairs], self.setting.v_max - SAME)]
        U[pairs] = bound[pairs]
        self.decider[pairs] = i + 1
        return pairs


def _check_bound(bound: Bound, n_pairs: int) -> None:
    """Raise `InvalidArgument` unless `begin_task` of the bound has set a valid `U`."""
    U, name = getattr(bound, "U", None), type(bound).__name__
    if not isinstance(U, np.ndarray) or U.shape != (n_pairs,) or U.dtype != np.float64:
        found = f"{U.dtype} of shape {U.shape}" if isinstance(U, np.ndarray) else type(U).__name__
        raise InvalidArgument(
            f"U of the bound {name} is {found}: begin_task must set it to a float64 array over the "
            f"pairs k = s * A + a, of shape ({n_pairs},)"
        )
    if np.isnan(U).any():
        raise InvalidArgument(
            f"U of the bound {name} is NaN at pair {np.isnan(U).argmax()}: begin_task must set it "
            "to a number at every pair"
        )
