"""`NearModels`: an upper bound on Q* from the models of earlier tasks that are near to this one."""

from collections.abc import Callable
from typing import Annotated, Any, get_args

import numpy as np

from heirloom.arrays import BoolArray, FloatArray, IntArray
from heirloom.choices import Scope
from heirloom.errors import InvalidArgument
from heirloom.kernels.solving import Near
from heirloom.mdp.learned import LearnedModel
from heirloom.options import Option, checked
from heirloom.transfer import program
from heirloom.transfer.bound import Bound, Claims, Details, check_arguments, check_begun
from heirloom.transfer.memory import FIRST_TASKS, TaskMemory
from heirloom.transfer.model_sets import ModelSets, SourceRows
from heirloom.transfer.nearness.knowledge import Nearness
from heirloom.transfer.nearness.learned import LearnedNearness
from heirloom.transfer.nearness.rows import (
    can_help,
    highest_rewards,
    near_sets,
    pooled_rows,
    rows_of_memory,
    rows_of_sources,
)
from heirloom.transfer.nearness.successors import Successors
from heirloom.transfer.radii import possible_outcomes, radii_for
from heirloom.transfer.setting import Setting
from heirloom.transfer.visits import Visits
from heirloom.validation import instance, one_of, positive_probability, shown

REMEDY = "such as hl.Nearness(rewards=0.1, transitions=0.0); or give p_min, to learn a nearness"
BEST_SUCCESSOR = (
    "where no source gives a bound (pairs counted without a task), it assumes that every "
    "transition leads to the best possible successor."
)

CONFIDENCE = (
    "before the first step, in all tasks of a life together, if the nearness is true. Values of "
    "pairs that are known in this task rest on its own estimates."
)

PooledConfidence = Annotated[
    float | None,
    Option(
        "the probability, such as 0.95, with which bounds of a true nearness allow for the errors "
        "of the models of earlier tasks, in all tasks of a life together; by default they use "
        "these models as they were estimated.",
        None,
        gt=0,
        lt=1,
    ),
]
"""The type of the option `confidence`."""


class NearModels(Bound):
    """The optimal values of the most favourable task that is near to the earlier ones.

    With a `Nearness` (r, t, successors) that is true for the family, the mean reward of a pair is
    at most R̄ + r for the model (R̄, T̄) of every earlier task, and its transitions are within total
    variation t of T̄. The same is true for the mean over several tasks, with any weights. So for any
    upper bound V on V*

        Q*(s, a) <= R̄ + r  +  γ max { Σ T V : TV(T, T̄) <= t, T on the successors }.

    The learner solves for this bound together with `Q`, in one dynamic program.

    *Estimated models* (the default): R̄ and T̄ are the means over all visits of the pair in all
    earlier tasks, also in those where it did not become known, and in those that were forgotten or
    dropped. These are estimates. With `confidence`, r + η and t + τ are used, where η and τ are the
    radii of R̄ and T̄ (`transfer/radii.py`) for the number of all these visits, and for the outcomes
    that the nearness allows. Then, with this probability, the bound that the nearness and the
    models of earlier tasks give is valid at all pairs, in all tasks of a life, and at all times, if
    the nearness is true and every task ends with `end_task` or `drop_task`. It does not cover the
    model of the current task: values of its known pairs are still estimates.

    *Accurate models*, which an agent declares by `exact=True` or by `epsilon`: the bound is the
    minimum over all sources that know the pair, for rewards and for transitions apart. If models
    are accurate to ε, r + ε and t + ε/2 are used. The minimum over many estimated models would be
    too small: it takes the most extreme error of all.

    If `p_min`, the smallest probability of a task, is given instead of a nearness, the nearness is
    learned: it is the largest difference between any two of the first m tasks, at each pair, and is
    used after m tasks (`theory.tasks_for_max_q`), with the visits of these tasks. It is then true
    with probability 1 - δ for each task, or for all tasks of a lifetime together if `scope` is
    "lifetime". `transfer/nearness/learned.py` has the proof. Like that of `MaxQ`, `begin_task`
    raises `InvalidArgument` if the memory holds more different tasks than `p_min` admits.
    """

    def __init__(
        self,
        nearness: Nearness | None = None,
        *,
        p_min: float | None = None,
        delta: float = 0.05,
        scope: Scope = "task",
        confidence: PooledConfidence = None,
        **options: Any,
    ) -> None:
        """Take a nearness, or the options of one; or `p_min`, `delta` and `scope` to learn it."""
        self.confidence = checked("confidence", PooledConfidence, confidence)
        """The probability with which models of earlier tasks are within their radii, or None."""
        self.learned: LearnedNearness | None = None
        """What learns the nearness, if it is not given."""
        self.nearness: Nearness | None
        """The nearness in use; None as long as it is not learned."""
        if p_min is not None:
            if nearness is not None or options:
                raise InvalidArgument(
                    f"p_min is {shown(p_min)}, and a nearness is given too: give a nearness, or "
                    "p_min to learn one, but not both"
                )
            if confidence is not None:
                raise InvalidArgument(
                    f"confidence is {shown(confidence)}, but the nearness is learned from "
                    "estimated models, so that its errors are not covered: give a nearness, or "
                    "leave confidence out"
                )
            self.learned = LearnedNearness(p_min=p_min, delta=delta, scope=scope)
            self.nearness = None
            return
        if nearness is None and options:
            nearness = rebuilt(options)
        elif options:
            raise InvalidArgument("give a nearness, or the options of one, but not both")
        self.nearness = instance("nearness", nearness, Nearness, REMEDY)
        positive_probability("delta", delta)
        one_of("scope", scope, get_args(Scope))

    @property
    def n_tasks(self) -> int | None:
        """The number of tasks after which a learned nearness is used; None if it is given."""
        return None if self.learned is None else self.learned.n_tasks

    def check(self, setting: Setting) -> None:
        """Raise `InvalidArgument` unless tasks of this setting can have the nearness."""
        instance("setting", setting, Setting, "such as agent.setting")
        if self.confidence is not None and setting.is_accurate:
            declared = "exact=True" if setting.exact else f"epsilon={setting.epsilon:g}"
            raise InvalidArgument(
                f"confidence is {self.confidence:g}, but {declared} declares that models are "
                "accurate, so that they have no radii: leave one of the two out"
            )
        if self.nearness is not None:
            self.nearness._check_shape(setting.n_states, setting.n_actions)
            self.nearness._check_possible(setting)

    def begin_task(self, setting: Setting, model: LearnedModel, memory: TaskMemory) -> bool:
        """Set `U` to `v_max`; the learner lowers it together with `Q`."""
        check_arguments(setting, model, memory)
        self.check(setting)
        self.setting, self.model, self.sources = setting, model, list(memory.sources)
        if self.learned is not None:
            self.learned.begin_task(setting, memory)
            self.nearness, self.sources = self.learned.nearness(), self.learned.sources
        self.U = np.full(setting.n_pairs, setting.v_max)
        self._near: Near | None = None
        self._sources: SourceRows | None = None
        if self.nearness is not None and can_help(self.nearness, setting):
            self._sources = self._source_rows(self.nearness, memory)
        return False

    def _source_rows(self, nearness: Nearness, memory: TaskMemory) -> SourceRows:
        """Return what earlier tasks say about each pair; of a learned nearness, the first ones."""
        setting = self.setting
        if self.learned is None:
            radii = None
            if self.confidence is not None:
                outcomes = possible_outcomes(nearness, setting)
                radii = radii_for(1 - self.confidence, setting, outcomes).at(memory.pooled.counts)
            return rows_of_memory(memory, setting, radii)
        if setting.is_accurate:
            return rows_of_sources(self.sources, setting)
        visits = Visits(setting.n_states, setting.n_actions)
        for source in self.sources:
            visits.add(source.rows)
        return pooled_rows(visits.rows, FIRST_TASKS, self.sources, setting, None)

    def model_sets(self) -> ModelSets | None:
        """Return the sets of models near to the sources; None if nothing is bounded."""
        if self._sources is None or self.nearness is None:
            return None
        return near_sets(self._sources, self.nearness, self.setting)

    def lower_values(self, available: BoolArray) -> FloatArray:
        """Return lower bounds on Q* of the task that began, over pairs, as `U` is an upper one.

        They are the values of the least favourable task that is near to the sources, whose mean
        rewards are at least R̄ - r; -infinity where an action is not `available`.
        """
        setting, nearness, rows = self.setting, self.nearness, self._sources
        lowest = np.full(available.size, setting.reward_range[0])
        if rows is not None and nearness is not None:
            k = np.flatnonzero(rows.lowest_rewards < np.inf)  # elsewhere η is infinite, too
            r = nearness._per_pair("rewards", available.size)[k] + rows.eta[k]
            lowest[k] = np.maximum(lowest[k], rows.lowest_rewards[k] - r)
        return program.lower_near_values(
            self.model_sets() or ModelSets(), lowest, setting, available
        )

    def solved_with(self, near: Near) -> None:
        """Take note of the arrays in which the learner keeps the bound."""
        self._near, self.U = near, near.U

    def claims(self) -> Claims:
        """Return the nearness, if it was given."""
        return Claims() if self.learned is not None else Claims(nearness=self.nearness)

    def widen_claims(
        self, nearness: Callable[[Nearness], Nearness], d_max: Callable[[FloatArray], FloatArray]
    ) -> None:
        """Widen the nearness, if it was given."""
        if self.learned is None and self.nearness is not None:
            self.nearness = nearness(self.nearness)

    def sources_used(self) -> IntArray:
        """Return what determines `U` at each pair: a task, several together, or 0 for none.

        It is what transitions come from, or where they are not used, what the reward comes from.
        """
        check_begun(self)
        if self._near is None:
            return np.zeros(self.U.size, dtype=np.int64)
        near, source = self._near, self._near.source.copy()
        by_rewards = np.flatnonzero((source == 0) & self._bounded_by_reward(near))
        if by_rewards.size:
            source[by_rewards] = self._reward_tasks()[by_rewards]
        return source

    def details(self) -> Details:
        """Return the sources whose models are used, and which part of the nearness is used where.

        `highest_rewards` is named where it is below the rewards of all sources.
        """
        check_begun(self)
        near, notes = self._near, () if self.learned is None else self.learned.report()
        if self.confidence is not None:
            notes = (f"valid with probability {self.confidence:g} {CONFIDENCE}",)
        if near is None:
            return Details(notes=notes)
        lowered, of_reward = near.U < self.setting.v_max, self._reward_tasks()
        hi = self.setting.reward_range[1]
        parts = {
            "rewards": self._bounded_by_reward(near) & (of_reward != 0),
            "highest_rewards": self._bounded_by_reward(near) & (of_reward == 0),
            "transitions": lowered & (near.source != 0),
            "successors": lowered & (near.source == 0) & (not near.any_successor),
            "terminates": lowered & (near.source == 0) & near.any_successor & (near.reward == hi),
        }
        of_reward = of_reward[near.pairs]
        tasks = np.union1d(near.tasks, of_reward[of_reward != 0])
        if (lowered & (self.sources_used() == 0)).any():
            notes += (BEST_SUCCESSOR,)
        used = {part: pairs for part, pairs in parts.items() if pairs.any()}
        return Details(tuple(tasks.tolist()), knowledge_used=used, notes=notes)

    def _bounded_by_reward(self, near: Near) -> BoolArray:
        """Return the pairs whose bound uses a reward below the upper end of the range."""
        setting = self.setting
        return (near.U < setting.v_max) & (near.reward < setting.reward_range[1])

    def _reward_tasks(self) -> IntArray:
        """Return what the bound on the reward of each pair comes from; 0 if from no source."""
        near, rows, nearness = self._near, self._sources, self.nearness
        if near is None or rows is None or nearness is None:
            return np.zeros(self.U.size, dtype=np.int64)
        from_sources = near.reward < highest_rewards(nearness, self.setting)
        return np.where(from_sources, rows.reward_tasks, 0)

    def options(self) -> dict[str, Any] | None:
        """Return the arrays of the nearness, or what it is learned with."""
        if self.learned is not None:
            return {name: getattr(self.learned, name) for name in ("p_min", "delta", "scope")}
        options = arrays_of(instance("nearness", self.nearness, Nearness, REMEDY))
        return options if self.confidence is None else {**options, "confidence": self.confidence}


def arrays_of(near: Nearness) -> dict[str, Any]:
    """Return a nearness as options of a bound in a file."""
    options: dict[str, Any] = {"rewards": near.rewards, "transitions": near.transitions}
    if near.successors is not None:
        first, states = near.successors
        options |= {"successors_first": first, "successors_states": states}
    if near.terminates is not None:
        options["terminates"] = near.terminates
    if near.highest_rewards is not None:
        options["highest_rewards"] = near.highest_rewards
    return options


def rebuilt(options: dict[str, Any]) -> Nearness:
    """Return the nearness whose `arrays_of`, or arguments, are given."""
    options = dict(options)
    if "successors_first" in options:
        arrays = options.pop("successors_first"), options.pop("successors_states")
        options["successors"] = Successors(*arrays)
    return Nearness(**options)
