"""`NearModels`: an upper bound on Q* from the models of earlier tasks that are near to this one."""

from typing import Any

import numpy as np

from heirloom.arrays import IntArray
from heirloom.errors import InvalidArgument
from heirloom.kernels.learning import Near
from heirloom.mdp.learned import LearnedModel
from heirloom.transfer.bound import Bound, Details, check_arguments, check_begun
from heirloom.transfer.memory import TaskMemory
from heirloom.transfer.nearness.knowledge import Nearness, Successors
from heirloom.transfer.nearness.rows import LearnerArrays, near_rows
from heirloom.transfer.setting import Setting
from heirloom.validation import instance

REMEDY = "such as hl.Nearness(rewards=0.1, transitions=0.0)"
BEST_SUCCESSOR = (
    "at pairs in the row without a task, every transition is taken to lead to the best possible "
    "successor, because no source gives a smaller bound."
)


class NearModels(Bound):
    """The optimal values of the most favourable task that is near to all sources.

    With a `Nearness` (r, t, successors) that is true for the family, the mean reward of a pair is
    at most R̄ + r for every source that knows the pair, and its transitions are within total
    variation t of those of the source. So for any upper bound V on V*

        Q*(s, a) <= min R̄ + r  +  γ min max { Σ T V : TV(T, T̄) <= t, T on the successors },

    with minima over the sources that know the pair. The learner solves for this bound together with
    `Q`, for all sources in one dynamic program, and again whenever a value decreases. If known
    models are accurate to ε, r + ε and t + ε/2 are used.
    """

    def __init__(self, nearness: Nearness | None = None, **options: Any) -> None:
        """Take a nearness, or the options of one."""
        if nearness is None and options:
            nearness = _rebuilt(options)
        elif options:
            raise InvalidArgument("give a nearness, or the options of one, but not both")
        nearness = instance("nearness", nearness, Nearness, REMEDY)
        self.nearness = nearness

    def check(self, setting: Setting) -> None:
        """Raise `InvalidArgument` unless the arrays of the nearness have the right shape."""
        instance("setting", setting, Setting, "such as agent.setting")
        self.nearness._check_shape(setting.n_states, setting.n_actions)

    def begin_task(self, setting: Setting, model: LearnedModel, memory: TaskMemory) -> bool:
        """Set `U` to `v_max`; the learner lowers it together with `Q`."""
        check_arguments(setting, model, memory)
        self.check(setting)
        self.setting, self.model, self.sources = setting, model, list(memory.sources)
        self.U = np.full(setting.n_pairs, setting.v_max)
        self._near: Near | None = None
        return False

    def _rows(self, learner: LearnerArrays) -> Near | None:
        """Return what the learner solves for together with `Q`, or None if nothing is bounded."""
        self._near = near_rows(self.sources, self.nearness, self.setting, learner)
        if self._near is not None:
            self.U = self._near.U
        return self._near

    def sources_used(self) -> IntArray:
        """Return the task whose transitions determine `U` at each pair; 0 if no source does."""
        check_begun(self)
        if self._near is None:
            return np.zeros(self.U.size, dtype=np.int64)
        return self._near.source

    def details(self) -> Details:
        """Return the sources whose rows are used, and which part of the nearness is used where."""
        check_begun(self)
        near = self._near
        if near is None:
            return Details()
        lowered = near.U < self.setting.v_max
        from_source = lowered & (near.best >= 0)
        parts = {
            "rewards": lowered & (near.reward < self.setting.reward_range[1]),
            "transitions": from_source,
            "successors": lowered & ~from_source & (not near.any_successor),
        }
        tasks = tuple(np.unique(near.tasks).tolist())
        used = {part: pairs for part, pairs in parts.items() if pairs.any()}
        notes = (BEST_SUCCESSOR,) if (lowered & ~from_source).any() else ()
        return Details(tasks, knowledge_used=used, notes=notes)

    def options(self) -> dict[str, Any] | None:
        """Return the arrays of the nearness."""
        near = self.nearness
        options: dict[str, Any] = {"rewards": near.rewards, "transitions": near.transitions}
        if near.successors is not None:
            first, states = near.successors
            options |= {"successors_first": first, "successors_states": states}
        if near.terminates is not None:
            options["terminates"] = near.terminates
        if near.highest_rewards is not None:
            options["highest_rewards"] = near.highest_rewards
        return options


def _rebuilt(options: dict[str, Any]) -> Nearness:
    options = dict(options)
    if "successors_first" in options:
        first, states = options.pop("successors_first"), options.pop("successors_states")
        options["successors"] = _checked_successors(first, states)
    return Nearness(**options)


def _checked_successors(first: Any, states: Any) -> Successors:
    """Check arrays from a file: they are read by compiled code."""
    first, states = np.asarray(first), np.asarray(states)
    valid = (
        first.ndim == states.ndim == 1
        and first.dtype == np.int64
        and states.dtype == np.int32
        and first.size > 0
        and first[0] == 0
        and first[-1] == states.size
        and (np.diff(first) >= 0).all()
        and (states >= 0).all()
    )
    if not valid:
        raise InvalidArgument("the successors of the nearness are not valid")
    return Successors(first, states)
