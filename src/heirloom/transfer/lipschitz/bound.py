"""`Lipschitz`: an upper bound on Q* from the values of earlier tasks and distances to them."""

from collections.abc import Callable
from itertools import compress
from typing import Annotated, Any, Literal, Unpack

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field

from heirloom.arrays import BoolArray, FloatArray, IntArray, frozen
from heirloom.errors import InvalidArgument
from heirloom.mdp.learned import LearnedModel
from heirloom.options import Option, declared
from heirloom.theory import tasks_for_max_q
from heirloom.transfer.bound import (
    NO_PAIRS,
    Bound,
    Change,
    Claims,
    Confidence,
    Details,
    Dropped,
    PMin,
    check_arguments,
    check_begun,
    check_change,
    check_per_pair,
    read_per_pair,
    validity,
)
from heirloom.transfer.different_tasks import check_p_min
from heirloom.transfer.lipschitz.all_sources import AllSources, OneSource
from heirloom.transfer.lipschitz.distance import measure, weigh
from heirloom.transfer.lipschitz.missing_actions import Priors, with_masks
from heirloom.transfer.lipschitz.screening import can_lower
from heirloom.transfer.memory import TaskMemory
from heirloom.transfer.setting import Setting
from heirloom.transfer.source import Source
from heirloom.validation import shown, weights
from heirloom.wording import counted_of

DMax = Annotated[
    float | ArrayLike | None,
    Option(
        "the prior, an upper bound on the distance between the models of two tasks: a number or "
        'an array [s, a]. In a spec, a number, or "family" for what a finite family computes.',
        spec=Annotated[float, Field(ge=0)] | Literal["family"] | None,
    ),
]
"""The type of the option `d_max`."""


DISTANCE = "WeightedL1"  # the name of the learned distance in `TaskMemory.learned`


@declared
class Lipschitz(Bound):
    """The Lipschitz bound, `Û = min over sources of Q̄ + min(d̂(M ‖ M̄), d̂(M̄ ‖ M))`.

    It follows from Propositions 2 to 4. Transfer needs a prior: an upper bound on the distance
    between unknown models. The prior is given as `d_max`, a number or an array [s, a], or learned
    if `p_min`, the smallest probability of a task, is given. Without a prior, sources give no bound
    at unknown pairs and are ignored.

    The learned prior is the largest distance between any two of the first m tasks, at each pair,
    and is used after m tasks (`theory.tasks_for_max_q`). If the current task is one of them, drawn
    again, it bounds the distance to each of them, at all pairs at once; this has probability 1 - δ
    for each task. So only the first m tasks are sources under the learned prior. Later ones would
    not be compared with the current task, and their values may rest on a prior that was not valid.
    If `scope` is "lifetime", m is larger, the first m tasks include all tasks of the family with
    probability 1 - δ, and all sources are used. If `d_max` is given too, each source has the
    smaller of the priors that apply to it. `begin_task` raises `InvalidArgument` if the memory
    holds more different tasks than `p_min` allows, as that of `MaxQ` does.
    """

    drops = True
    """Whether sources that cannot lower the bound (again) are dropped for the rest of a task.

    Sources that cannot lower it at all are dropped at its beginning, before they cost anything.
    """

    def __init__(
        self,
        *,
        d_max: DMax = None,
        p_min: PMin | None = None,
        **options: Unpack[Confidence],
    ) -> None:
        self.d_max = None if d_max is None else _checked_prior(d_max)
        self.p_min, self.delta, self.scope = p_min, options["delta"], options["scope"]
        count = tasks_for_max_q(p_min or 1.0, self.delta, scope=self.scope)
        self.n_tasks = None if self.p_min is None else count

    def check(self, setting: Setting) -> None:
        """Raise `InvalidArgument` unless `d_max` has the right shape."""
        check_per_pair("d_max", np.zeros(()) if self.d_max is None else self.d_max, setting)

    def claims(self) -> Claims:
        """Return the prior that was given."""
        return Claims(d_max=self.d_max)

    def widen_claims(
        self, nearness: Callable[[Any], Any], d_max: Callable[[FloatArray], FloatArray]
    ) -> None:
        """Widen the prior, if it was given."""
        if self.d_max is not None:
            self.d_max = d_max(self.d_max)

    def begin_task(self, setting: Setting, model: LearnedModel, memory: TaskMemory) -> bool:
        """Set `U` from all sources, if there is a prior; return whether sources are used."""
        check_arguments(setting, model, memory)
        self.setting, self.model = setting, model
        self.U = np.full(setting.n_pairs, setting.v_max)
        self.transfers: list[OneSource] = []
        self._decider = np.zeros(setting.n_pairs, dtype=np.int64)
        self._dropped: list[Dropped] = []
        self._all: AllSources | None = None
        self._active = NO_PAIRS
        if self.n_tasks is not None and self.p_min is not None:
            check_p_min(self.p_min, memory, setting)
            memory.compare_first(self.n_tasks)
        sources, given = self._sources_and_priors(setting, memory)
        priors = with_masks(given, sources, model._availability.missing, setting)
        if self.drops:
            sources, priors = self._without_useless(sources, priors)
        if not sources:
            return False
        bound = self.U, self._decider
        self._all = AllSources(sources, priors, model, setting, bound)
        self._active = np.arange(len(sources))
        self.transfers = [OneSource(self._all, i) for i in range(len(sources))]
        return True

    def refine(self, change: Change) -> IntArray:
        """Lower `U` with all sources that are not dropped, and drop those of no further use."""
        check_begun(self)
        check_change(change, self.setting, self.model)
        if self._all is None:
            return NO_PAIRS
        lowered, useful = self._all.refine(change, self._active)
        if self.drops and not useful[self._active].all():
            self._drop(useful)
        return lowered

    def exclude(self, pairs: IntArray) -> None:
        """Leave the actions of `pairs`, which do not exist, out of every maximum."""
        check_begun(self)
        self.U[pairs], self._decider[pairs] = -np.inf, 0
        if self._all is not None:
            self._all.exclude(pairs)

    def sources_used(self) -> IntArray:
        """Return the number of the task that determines `U` at each pair; 0 where `v_max` does."""
        check_begun(self)
        return self._decider

    def details(self) -> Details:
        """Return the sources, the pairs where the prior is used, and the dropped sources."""
        check_begun(self)
        in_use = {transfer.source.task for transfer in self.transfers}
        dropped = tuple(self._dropped)
        sources = tuple(sorted(in_use | {source.task for source in dropped}))
        return Details(sources, self.prior_used(), dropped, notes=self._notes())

    def _notes(self) -> tuple[str, ...]:
        """Say whether there is a prior and, if it is learned, when it is used and valid."""
        if self.p_min is None or self.n_tasks is None:
            missing = "v_max, because there is no prior: give d_max, or p_min to learn it."
            return (missing,) if self.d_max is None else ()
        if self._n_compared < self.n_tasks:
            return (
                f"when this task began, {counted_of(self._n_compared, self.n_tasks, 'task')} had "
                f"been compared; a learned prior is used after {self.n_tasks:,}.",
            )
        return (f"the learned prior is {validity(self.p_min, self.delta, self.scope)}.",)

    def options(self) -> dict[str, Any] | None:
        """Return the options."""
        options = {"p_min": self.p_min, "delta": self.delta, "scope": self.scope}
        return options if self.d_max is None else {**options, "d_max": self.d_max}

    def prior_used(self) -> dict[int, BoolArray]:
        """Return for each source in use the pairs where the prior is below `D̂(M ‖ M̄)`.

        Keys are task numbers. The prior is below by more than rounding; D̂ is computed again from
        the pairs that are known now.
        """
        check_begun(self)
        return {transfer.source.task: transfer.prior_used() for transfer in self.transfers}

    def end_task(self, source: Source, memory: TaskMemory) -> None:
        """Compare the first tasks with each other, until `n_tasks` are compared.

        The task that ended may be one of them.
        """
        check_begun(self)
        check_arguments(self.setting, self.model, memory)
        memory._check_fit(source)
        if self.n_tasks is None:
            return
        tasks = memory.first_tasks()
        if len(tasks) == memory.n_tasks:
            tasks.append(source)
        largest, n_compared = self._learned(memory)
        for j in range(n_compared, min(len(tasks), self.n_tasks)):
            largest = np.maximum(largest, self._largest_distance(tasks[j], tasks[:j]))
            memory.learned[DISTANCE] = frozen(largest), j + 1

    def _largest_distance(self, task: Source, others: list[Source]) -> FloatArray:
        """Return the largest distance between a task and others, in both directions, over pairs."""
        pairs, largest = np.arange(self.setting.n_pairs), np.zeros(self.setting.n_pairs)
        for other in others:
            for m, m_bar in ((task, other), (other, task)):
                widest = max(m.widest, m_bar.widest)
                weights = weigh(m_bar.V, widest, self.setting)
                D = measure(m.rows, m_bar.rows, weights, pairs, self.setting)
                # A prior says nothing about an action that one of the tasks lacks.
                D = np.where(m.missing | m_bar.missing, 0.0, D)
                np.maximum(largest, D, out=largest)
        return largest

    def _without_useless(
        self, sources: list[Source], priors: Priors
    ) -> tuple[list[Source], Priors]:
        """Drop the sources that cannot lower the bound in this task, given their priors."""
        smallest = priors.from_source  # no bound is needed at pairs that the task lacks
        smallest = np.where(np.isneginf(smallest), np.inf, smallest)
        kept = [
            can_lower(source, prior, self.setting)
            for source, prior in zip(sources, smallest, strict=True)
        ]
        self._dropped += [
            Dropped(source.task, 0) for source, keep in zip(sources, kept, strict=True) if not keep
        ]
        return list(compress(sources, kept)), priors.of(np.array(kept, dtype=bool))

    def _drop(self, useful: BoolArray) -> None:
        n_known = int(self.model._arrays.known.sum())
        for transfer in self.transfers:
            if not useful[transfer.index]:
                self._dropped.append(Dropped(transfer.source.task, n_known))
        self.transfers = [transfer for transfer in self.transfers if useful[transfer.index]]
        self._active = np.array([transfer.index for transfer in self.transfers], dtype=np.int64)

    def _learned(self, memory: TaskMemory) -> tuple[FloatArray, int]:
        """Return the largest distance between the first tasks, over pairs, and their number.

        If more tasks were compared than seen, an interruption came before the last one was stored;
        the comparison then starts again from zero.
        """
        initial = np.zeros(self.setting.n_pairs), 0
        largest, n_compared = memory.learned.get(DISTANCE, initial)
        largest = weights("the learned distance", largest, (self.setting.n_pairs,), "one per pair")
        return (largest, n_compared) if n_compared <= memory.n_tasks else initial

    def _sources_and_priors(
        self, setting: Setting, memory: TaskMemory
    ) -> tuple[list[Source], FloatArray]:
        """Return the sources that have a prior, and their priors, [source, pair]."""
        self.check(setting)
        given = np.full(setting.n_pairs, np.inf)
        if self.d_max is not None:
            given[:] = self.d_max.reshape(-1)
        largest, n_compared = self._learned(memory)
        self._n_compared = n_compared
        n_compared = n_compared if self.n_tasks is not None and n_compared >= self.n_tasks else 0
        learned = np.minimum(given, largest)
        sources, priors = [], []
        for source in memory.sources:
            has_learned = n_compared > 0 and (self.scope == "lifetime" or source.task <= n_compared)
            if has_learned or self.d_max is not None:
                sources.append(source)
                priors.append(learned if has_learned else given)
        return sources, np.array(priors)


def _checked_prior(d_max: float | ArrayLike) -> FloatArray:
    if isinstance(d_max, str):
        raise InvalidArgument(
            f"d_max is {shown(d_max)}: expected a number, an array [s, a], or None. Only a spec "
            "may say 'family'; in Python, give family.d_max or hl.metrics.family_distance(tasks)"
        )
    return read_per_pair("d_max", d_max, "distance")
