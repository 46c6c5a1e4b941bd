"""What the optimistic learner computes in one task: the model, the bounds and the values.

    Q = U outside K,    Q = min(U, R̂ + γ Σ T̂ V) on K,    V = max_a Q

`U` is the minimum of `v_max` and of all bounds, and K is the known set. When a pair becomes known,
the bounds are refined first, and then `Q` is brought to its new fixed point. When a known pair is
looked at again, only its model changes.
"""

import math
from collections.abc import Sequence

import numpy as np

from heirloom.agents.candidates import Candidate
from heirloom.agents.own_bounds import (
    begun,
    check_array,
    check_numbers,
    checked_pairs,
    is_user_defined,
    sources_used,
)
from heirloom.agents.refutation import Refutation
from heirloom.agents.task_log import EPISODE, EXPECTED, TaskLog
from heirloom.arrays import BoolArray, FloatArray, IntArray, read_only
from heirloom.errors import InvalidArgument
from heirloom.kernels import checking, evidence, solving
from heirloom.mdp.learned import LearnedModel
from heirloom.transfer import program
from heirloom.transfer.bound import Bound, Change
from heirloom.transfer.certified import CertifiedValues, Place
from heirloom.transfer.certified_sets import GROWTH as PLAN_GROWTH
from heirloom.transfer.certified_sets import CertifiedSets
from heirloom.transfer.memory import TaskMemory
from heirloom.transfer.model_sets import ModelSets, check_sets, combined, smallest_rewards
from heirloom.transfer.setting import Setting
from heirloom.transfer.source import Source
from heirloom.validation import index, instance

GROWTH = 1.5  # of visits between two plans, if an agent estimates models only once


class TaskLearner:
    """The model, the bounds and the values of one task.

    Args:
        setting: what the agent knows before its first task.
        n_known: the number of visits after which a pair is known.
        refresh: the factor by which its visits grow until the next look; None for one look.
        bounds: upper bounds on `Q*`; the constructor calls `begin_task` of each.
        memory: the earlier tasks.
        refutation: how pairs that become known are compared with the claims; None if
            they are not.
        available: the pairs of actions that exist; None for all, as long as no mask is observed.
        rng: the generator of a bound that makes the values itself (`Bound.plans`).
    """

    def __init__(
        self,
        setting: Setting,
        n_known: int,
        refresh: float | None,
        bounds: Sequence[Bound],
        memory: TaskMemory,
        refutation: Refutation | None = None,
        available: BoolArray | None = None,
        rng: np.random.Generator | None = None,
    ) -> None:
        self.setting, self.bounds, self.memory = setting, bounds, memory
        self.refutation, self._rng = refutation, rng
        self.planner = next((one for one in bounds if getattr(one, "plans", None)), None)
        """The bound that makes the values on which the agent acts; None for the solver."""
        self.plans_episodes = self.planner is not None and self.planner.plans == "episode"
        self.n_steps = 0
        """The steps of the task, if plans follow them."""
        self.next_plan: int | None = None
        """The step after which there is a plan; None if plans do not follow steps."""
        if self.planner is not None and self.planner.plans == "steps":
            self.next_plan = 1
        reads_visits = self.plans_episodes or self.next_plan is not None
        self._n_known, sizes = n_known, (setting.n_states, setting.n_actions)
        if self.planner is not None:  # plans follow looks from the first visit on, and all visits
            n_known, refresh = n_known if reads_visits else 1, refresh or GROWTH
        self.model = LearnedModel(*sizes, n_known=n_known, refresh=refresh)
        self.model._start_log()
        self.log = TaskLog(self.model)
        """What happens in the task, for files."""
        if available is not None:
            self.model._availability.give(available)
        if reads_visits:  # plans read all visits: a look makes a pair known, no more
            self.model._arrays = self.model._arrays._replace(growth=np.inf)
        self.place = Place(memory.n_tasks + 1, memory.n_dropped)
        """Which task it is in the life of the agent."""
        self.starts: IntArray = np.zeros(setting.n_states, dtype=np.int64)
        """How many episodes that `learn` ran began in each state."""
        self.certified: list[CertifiedValues] = []
        """The bounds of certificates that were asked for, on which the agent does not act."""
        self.texts: dict[str, str] = {}
        """The label and the time of the task, if they are known before it ends."""
        self.is_dropped = False
        self.candidates: list[Candidate] = []
        """The policies that were rolled out in this task, with their returns."""
        self._is_restarted = self._is_restarting = False
        self._begin()
        if self._known.any():  # from visits that a bound borrowed
            self._look_at_all()
            self._update_values(np.flatnonzero(self._known))

    def _begin(self) -> None:
        """Begin the task with all bounds, which transfer from the memory."""
        setting, bounds, memory = self.setting, self.bounds, self.memory
        n_pairs = setting.n_pairs
        self._refined = [
            i for i, bound in enumerate(bounds) if begun(bound, setting, self.model, memory)
        ]
        # U of each user-defined bound when it was last checked; the other bounds are Heirloom's.
        self._checked_U = {
            i: bounds[i].U.copy() for i in self._refined if is_user_defined(bounds[i])
        }
        self._is_updated = np.zeros(n_pairs, dtype=bool)
        U, decider = np.full(n_pairs, setting.v_max), np.zeros(n_pairs, dtype=np.int64)
        for i in range(len(bounds)):
            self._lower(U, decider, i, np.arange(U.size))
        self.missing = self.model._availability.missing
        """The pairs of actions that do not exist, which have U = Q = -infinity; None for none."""
        if self.missing is not None:
            U[self.missing], decider[self.missing] = -np.inf, 0
        self._sets = self._model_sets()
        own = next((one for _, one in self._sets if one.is_own), None)
        if own is not None:
            slots = {} if own.radius is None else {"radius": own.radius}
            self.model._use_slots(**(own.rule.slots(n_pairs) if own.rule else slots))
        self._own = own
        self.follows = self.planner is not None or any(one.follows for _, one in self._sets)
        """Whether evidence must look at each pair that the model looks at for the first time."""
        later = any(one.follows is True for _, one in self._sets)
        self.follows_later = self.planner is not None or later
        """Whether evidence must look at each pair whenever the model does."""
        falls = self.model.refresh is None and own is None and not self.follows
        self._values = program.initial_values(setting, U, decider, falls=falls)
        self._known = self.model._arrays.known
        self._V = self._values.V.copy()
        """The smallest values so far, with which bounds are refined, over states."""
        for bound in bounds:
            bound.join(bounds, restarted=self._is_restarted)
        self._near = self._solved_sets()  # solved for together with `Q`; None if there are none
        self.greedy: dict[int, list[int]] = {}
        """Cache of greedy actions by state; it must be cleared whenever `Q` changes."""
        self.watch = None if self.refutation is None else self.refutation.begin_task(self)
        """What the task is compared with as its pairs become known; None for nothing."""
        if isinstance(self.planner, CertifiedSets):
            self.planner.starts = self.starts
        self._plan(self._rng)

    def start_at(self, s: int) -> None:
        """Take note that an episode that `learn` runs begins in state s."""
        self.starts[s] += 1
        if self.model._is_logged:
            self.model._log(-1 - s)

    @property
    def n_episodes(self) -> int:
        """The number of episodes that were begun, rollouts of candidates included."""
        return int(self.starts.sum()) + sum(len(one.returns) for one in self.candidates)

    def begin_episode(self) -> None:
        """Make new values, if a bound makes them before each episode."""
        if self.plans_episodes:
            self.log.add(EPISODE)
            self._plan(self._rng)
            if self.refutation is not None and isinstance(self.planner, CertifiedSets):
                self.refutation.check_evidence(self, 0)

    def count_steps(self, n_steps: int) -> None:
        """Take note of the number of steps in the task, and make new values if they are due."""
        self.n_steps = n_steps
        if self.next_plan is not None and n_steps >= self.next_plan:
            self._plan(self._rng)
            self.next_plan = max(n_steps + 1, math.ceil(PLAN_GROWTH * n_steps))
            if self.refutation is not None:
                self.refutation.check_evidence(self, 0)

    def _plan(self, rng: np.random.Generator | None) -> None:
        """Let a bound make the values; if `rng` is None, only missing actions have changed."""
        if self.planner is None:
            return
        Q = self._values.Q
        self.planner.plan(Q, self._values.V, rng)
        self.greedy.clear()
        if is_user_defined(self.planner):  # compiled code relies on this
            is_wrong = np.isfinite(Q) == (False if self.missing is None else self.missing)
            is_wrong |= Q == np.inf
            if is_wrong.any():
                k, name = int(is_wrong.argmax()), type(self.planner).__name__
                raise InvalidArgument(
                    f"plan of the bound {name} set Q to {Q[k]:g} at pair {k}: expected a number, "
                    "and -infinity where the action is not available"
                )

    def restart(self) -> None:
        """Compute all bounds and values again, after the knowledge or the memory has changed.

        Values may increase. The model of the task is kept.
        """
        self._is_restarted = self._is_restarting = True
        try:
            self._begin()
            for pair in np.flatnonzero(self._known):
                self._update(int(pair))
        finally:
            self._is_restarting = False

    def check(self, pair: int) -> None:
        """React if `pair`, which became known, contradicts a claim."""
        if self.watch is None or self.watch.check is None or self.refutation is None:
            return
        arrays = tuple(self.model._arrays), tuple(self.watch.check)
        if checking.contradicts(*arrays, pair):
            self.refutation.react(self, pair)

    def look(self, pair: int) -> bool:
        """Look at a pair that is due, and update all values; return whether it became known."""
        is_first = self.model._look(pair)
        self._looked(pair, is_first=is_first)
        if self.watch is not None:
            self.check(pair)
        return is_first

    def observe_mask(self, s: int, flags: BoolArray) -> IntArray:
        """Take note of the actions that are available in state s, none of the others visited.

        Returns the pairs that turn out to be missing.
        """
        availability = self.model._availability
        if not availability.is_known(s):
            self.log.add_mask(s, flags)
        new = availability.observe(s, flags)
        if not self.place.is_over:  # then values stay as they are
            self.exclude(new)
        return new

    def expect_masks(self) -> None:
        """Take note that masks will be observed: no action is certain before."""
        if not self.model._availability.is_expected:
            self.log.add(EXPECTED)
            self.model._availability.is_expected = True

    def exclude(self, pairs: IntArray) -> None:
        """Take note that the actions of `pairs`, none of which was visited, do not exist."""
        self.missing = self.model._availability.missing
        if not pairs.size:
            return
        for bound in self.bounds:
            bound.exclude(pairs)
        self._exclude(pairs)
        self._plan(None)
        if self.planner is None:
            self._update_values(pairs)

    def _exclude(self, pairs: IntArray | BoolArray) -> None:
        values = self._values
        values.base[pairs], values.base_decider[pairs] = -np.inf, 0
        values.U[pairs], values.decider[pairs] = -np.inf, 0
        if self.planner is not None:
            values.Q[pairs] = -np.inf

    def _model_sets(self) -> list[tuple[int, ModelSets]]:
        """Return the sets of models that bounds give, with the number of each bound."""
        given = [(i + 1, bound.model_sets()) for i, bound in enumerate(self.bounds)]
        sets = [(i, one) for i, one in given if one is not None]
        for i, one in sets:
            if is_user_defined(self.bounds[i - 1]):
                check_sets(type(self.bounds[i - 1]).__name__, one, self.setting)
        if sum(one.is_own for _, one in sets) > 1:
            raise InvalidArgument(
                "several bounds say how far estimates can be from the truth (bonus, radius): "
                "expected one of them at most"
            )
        return sets

    def _solved_sets(self) -> solving.Near | None:
        """Begin to solve for what follows from the sets of models of all bounds."""
        available = None if self.missing is None else ~self.missing
        near = combined(self._sets, self.setting, self._values, available) if self._sets else None
        if near is None:
            return None
        has_radii = self._own is not None and self._own.has_radii
        self._values = program.with_near(self._values, near, has_radii=has_radii)
        for i, one in self._sets:
            if one.reward is not None:
                self.bounds[i - 1].solved_with(near)
        program.update(self.model._arrays, self._values, near, near.pairs)
        return near

    def _look_at_all(self) -> None:
        """Let evidence look at all known pairs."""
        pairs = np.flatnonzero(self._known)
        if self._own is not None and self._own.rule is not None:
            evidence.describe_all(tuple(self.model._arrays), self._values.V, pairs)
        for pair in pairs if self.follows_later else ():
            self._look(int(pair))

    def _look(self, pair: int) -> IntArray:
        """Let evidence look at a pair; return all pairs whose sets of models changed."""
        changed, V = [np.array([pair])], read_only(self._values.V)
        for i, one in self._sets:
            if one.follows:
                changed.append(
                    checked_pairs(
                        self.bounds[i - 1],
                        "look",
                        self.bounds[i - 1].look(pair, V),
                        self.setting.n_pairs,
                    )
                )
        pairs = np.concatenate(changed)
        if self._own is not None:
            bonus, arrays = self._own.bonus, self.model._arrays
            if self._own.rule is not None:
                evidence.describe_all(tuple(arrays), self._values.V, pairs)
            else:
                arrays.high[pairs] = arrays.R[pairs] + (0.0 if bonus is None else bonus[pairs])
        if self._near is not None and self.follows:
            self._near.reward[pairs] = smallest_rewards(self._sets, self.setting, pairs)
        return pairs

    @property
    def refines(self) -> bool:
        """Whether at least one bound is refined when a pair becomes known."""
        return bool(self._refined)

    def greedy_actions(self, s: int) -> list[int]:
        """Compute and cache the actions of `s` with the largest `Q`, up to ties."""
        n_actions = self.setting.n_actions
        s = index("state", s, self.setting.n_states)
        row = self._values.Q[s * n_actions : (s + 1) * n_actions]
        actions: list[int] = np.flatnonzero(row >= row.max() - self.setting.tie).tolist()
        self.greedy[s] = actions
        return actions

    def _looked(self, pair: int, *, is_first: bool) -> None:
        """Update the values after a look at a pair, which became known if it was the first."""
        if is_first:
            self._update(pair)
        else:
            self._update_values(self._look(pair))
            self._check_evidence(pair)

    def _update(self, pair: int) -> None:
        """Update as `update` does, without checks."""
        values, changed = self._values, [self._look(pair)]
        if self._refined:
            change = self._change(pair)
        for i in self._refined:
            lowered = self.bounds[i].refine(change)
            if i in self._checked_U:
                self._check_refined(i, lowered)
            if lowered.size:
                lowered = lowered[~self._known[lowered]]  # U does not change at known pairs
                changed.append(self._lower(values.base, values.base_decider, i, lowered))
        self._update_values(np.concatenate(changed) if len(changed) > 1 else changed[0])
        self._is_updated[pair] = True
        self._check_evidence(pair)

    def _change(self, pair: int) -> Change:
        """Describe that a pair became known, with arrays that bounds cannot write to."""
        decreased = np.flatnonzero(self._values.V < self._V)
        self._V[decreased] = self._values.V[decreased]
        return Change(pair, read_only(self._values.U), read_only(self._V), read_only(decreased))

    def _check_evidence(self, pair: int) -> None:
        """React if the evidence contradicts itself at a pair; not while the task begins again."""
        if self.follows and self.refutation is not None and not self._is_restarting:
            self.refutation.check_evidence(self, pair)

    def _check_refined(self, i: int, lowered: object) -> None:
        """Raise `InvalidArgument` unless the user-defined bound i was only lowered, at `lowered`.

        `U` is checked at these pairs only, so that the cost does not depend on the number of pairs.
        """
        bound, before = self.bounds[i], self._checked_U[i]
        name, n_pairs = type(bound).__name__, before.size
        lowered = checked_pairs(bound, "refine", lowered, n_pairs)
        if lowered.size == 0:
            return
        check_array(bound, "refine", n_pairs)
        check_numbers(bound, "refine", lowered, self.setting)
        raised = lowered[bound.U[lowered] > before[lowered]]
        if raised.size:
            k = int(raised[0])
            raise InvalidArgument(
                f"refine of the bound {name} raised U from {before[k]:g} to {bound.U[k]:g} at pair "
                f"{k}: expected it to lower U, because the smaller number was an upper bound too"
            )
        before[lowered] = bound.U[lowered]

    def resume(self) -> None:
        """Complete an update that was interrupted, for example by Ctrl-C."""
        known = self.model._arrays.known
        for pair in np.flatnonzero(known & ~self._is_updated) if self.refines else ():
            self._update(int(pair))
        self.missing = self.model._availability.missing
        if self.missing is not None:
            self._exclude(self.missing)
        unknown = np.flatnonzero(~known)
        for i in self._refined:
            self._lower(self._values.base, self._values.base_decider, i, unknown)
        self._update_values(np.arange(self.setting.n_pairs))

    def end(self, memory: TaskMemory, *, label: str = "", time: str = "") -> None:
        """Store the task as a source, and count the pairs whose bound came from each source."""
        instance("memory", memory, TaskMemory, "such as agent.memory")
        if self.model.refresh is not None:
            self.model._look_at_all()
            self._look_at_all()
        Q = self._values.Q
        if self.planner is None:
            program.complete(self.model._arrays, self._values, self._near, self.setting.slack)
        else:  # other agents may share the memory, which holds upper values
            self.model._know_from(self._n_known)
            Q = program.upper_values(self.model.rows, self.setting, self.U.copy()).Q
        self.greedy.clear()
        source = Source.of(self.model, Q, label=label, time=time)
        memory._check_fit(source)
        for i, bound in enumerate(self.bounds):
            used = sources_used(bound, self.setting.n_pairs)[self.decider == i + 1]
            for task, n_pairs in zip(*np.unique(used, return_counts=True), strict=True):
                memory._use(int(task), int(n_pairs))
            bound.end_task(source, memory)
        self._plan(None)
        memory._add(source)
        self.place = self.place._replace(is_over=True)

    @property
    def Q(self) -> FloatArray:
        """The values `Q` over pairs, backed up at all known pairs."""
        if self._values.margin == np.inf:
            return self._values.Q
        Q = self._values.Q.copy()
        solving.known_backups(self.model._arrays, self._values, Q)
        return Q

    @property
    def U(self) -> FloatArray:
        """The minimum of `v_max` and of all bounds, over pairs."""
        return self._values.U

    def _update_values(self, pairs: IntArray) -> None:
        if self.planner is None:
            program.update(self.model._arrays, self._values, self._near, pairs)
        elif not (self.plans_episodes or self.next_plan is not None or self._is_restarting):
            self._plan(self._rng)
        self.greedy.clear()

    def _finish_update(self) -> None:
        """Complete an update that compiled code began, and whose budget of work is used up."""
        program.finish(self.model._arrays, self._values, self._near)
        self.greedy.clear()

    @property
    def decider(self) -> IntArray:
        """Which bound is the minimum `U` at each pair: 0 for `v_max`, i for `bounds[i - 1]`."""
        return self._values.decider

    def _lower(self, U: FloatArray, decider: IntArray, i: int, pairs: IntArray) -> IntArray:
        """Lower `U` to the bound i at those of `pairs` where the bound is lower; returns them."""
        bound = self.bounds[i].U
        limit = self.setting.v_max - self.setting.same
        pairs = pairs[bound[pairs] < np.minimum(U[pairs], limit)]
        U[pairs] = bound[pairs]
        decider[pairs] = i + 1
        return pairs
