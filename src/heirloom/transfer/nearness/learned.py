"""A nearness that is learned: the largest differences between the first tasks of a lifetime.

The bound needs, for the current task M and every source M̄ in use, at every pair that M̄ knows,

    |R - R̄̂| <= r + ε,    TV(T, T̄̂) <= t + ε/2,

where R̄̂ and T̄̂ are what was learned of M̄. Let r and t be, at each pair, the largest |R̂_i - R̂_j| and
TV(T̂_i, T̂_j) over all tasks i and j among the first m, or hi - lo and 1 if one of them does not know
the pair. Let the sources be the first m tasks.

**Each task.** If M is one of the first m tasks i, drawn again, both inequalities hold at all pairs
and for all sources at once. Proof: let source j know the pair. If task i does not know it, then
r = hi - lo and t = 1, and there is nothing to show. Otherwise R = R_i, because M and task i are the
same task, and |R - R̄̂| = |R_i - R̂_j| <= |R_i - R̂_i| + |R̂_i - R̂_j| <= ε + r, if the model of task i
is ε-accurate. The same is true for T, with ε/2, because an L1 norm of ε is a total variation of
ε/2. So the accuracy of one model is added, not that of two: the source is compared as it was
learned. The current task, drawn independently, is among the first m with probability at least
1 - (1 - p_min)^m. That is at least 1 - δ after m = `tasks_for_max_q(p_min, δ)` tasks.

**A lifetime.** With probability at least 1 - (1 - p_min)^m / p_min the first m tasks include every
task of the family. Then the above is true for all later tasks together.

What must be counted, and what need not be:

- A first task that does not know a pair counts there as hi - lo and 1. To leave it out would be a
  selection: tasks in which a pair is visited often differ from the others.
- A later task may be a source only if it was compared with all of the first m tasks. With r and t
  frozen and later tasks as sources nothing is guaranteed: the bound at M fails as soon as one task
  that is not among the first m becomes a source. Heirloom uses no later tasks, because they cannot
  help. If they equal a first task, they say nothing new. Otherwise, min R̄̂ + r, which is the largest
  reward among the first tasks, stays as it is or increases when r includes the later task.
- The values Q of sources are not used. So it does not matter on which knowledge they rest.

Where models are estimates, the bound uses the mean over all visits of the first m tasks, a mixture
Σ w_j R̂_j and Σ w_j T̂_j of what was learned of them. At a pair that all of them know, it satisfies
the same inequalities, because |·| and the total variation are convex; at other pairs there is
nothing to show.

`successors` are learned only from models that are declared exact (`exact=True` and `epsilon=0`,
deterministic tasks): there the current task leads to a successor of one of the first m tasks. In
all other cases a successor that was not seen is not impossible.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from heirloom.arrays import BoolArray, FloatArray, frozen
from heirloom.choices import Scope
from heirloom.errors import IncompatibleTasks, InvalidArgument
from heirloom.mdp.learned import LearnedModel
from heirloom.mdp.rows import Rows, compact
from heirloom.theory import tasks_for_max_q
from heirloom.transfer.different_tasks import check_p_min, total_variation
from heirloom.transfer.memory import TaskMemory
from heirloom.transfer.nearness.knowledge import Nearness
from heirloom.transfer.nearness.successors import Successors
from heirloom.transfer.setting import Setting
from heirloom.transfer.source import Source
from heirloom.validation import (
    Range,
    check_range,
    positive_probability,
    real_number,
    shown,
    weights,
)
from heirloom.wording import are, counted, counted_of, size_of_task

REWARDS, TRANSITIONS = "nearness.rewards", "nearness.transitions"  # names in `TaskMemory.learned`
# A computed difference is enlarged by this factor, so that rounding does not make it too small.
ROUNDING = 1 + 2.0**-40
MOST_SUCCESSORS = 10_000_000  # successors of all pairs together; more are not listed


class Differences(NamedTuple):
    """The largest differences between the first tasks, over pairs, and their number."""

    rewards: FloatArray
    transitions: FloatArray
    n_compared: int


class LearnedNearness:
    """Learns a nearness from the first tasks; see the text of this module for what is guaranteed.

    Args:
        p_min: the smallest probability of a task.
        delta: δ; the nearness is true with probability 1 - δ.
        scope: whether that is for each "task" on its own, or for all tasks of a "lifetime".
    """

    def __init__(self, *, p_min: float, delta: float, scope: Scope) -> None:
        self.p_min = positive_probability("p_min", p_min)
        self.delta = positive_probability("delta", delta)
        self.n_tasks = tasks_for_max_q(self.p_min, self.delta, scope=scope)
        self.scope = scope
        self._nearness: tuple[list[Source], Nearness] | None = None  # the last one, and its sources

    def begin_task(self, setting: Setting, memory: TaskMemory) -> None:
        """Compare the first tasks that were not compared yet, and keep them in the memory."""
        check_p_min(self.p_min, memory, setting)
        memory.keep_first(self.n_tasks)
        self.setting = setting
        self.differences = self._compared(memory)
        self.sources = [one for one in memory.stored if one.task <= self.differences.n_compared]
        """The compared tasks that are stored: all of them, unless some were forgotten before."""
        self.n_forgotten = self.differences.n_compared - len(self.sources)

    @property
    def is_used(self) -> bool:
        """Whether enough tasks were compared for the nearness to be used."""
        return self.differences.n_compared >= self.n_tasks

    def nearness(self) -> Nearness | None:
        """Return the learned nearness, or None if not enough tasks were compared."""
        if not self.is_used:
            return None
        if self._nearness is not None:
            of_sources, nearness = self._nearness
            if list(map(id, of_sources)) == list(map(id, self.sources)):
                return nearness
        shape = self.setting.n_states, self.setting.n_actions
        successors, terminates = self._successors()
        nearness = Nearness(
            rewards=(self.differences.rewards * ROUNDING).reshape(shape),
            transitions=np.minimum(1.0, self.differences.transitions * ROUNDING).reshape(shape),
            successors=successors,
            terminates=terminates,
        )
        self._nearness = self.sources, nearness
        return nearness

    def report(self) -> tuple[str, ...]:
        """Describe what was learned before the current task, in sentences for an explanation."""
        n, n_pairs = self.differences.n_compared, self.setting.n_pairs
        whose = "for each task" if self.scope == "task" else "for all tasks of a lifetime together"
        use = (
            f"It is used, and true with probability {1 - self.delta:g} {whose}, if every task has "
            f"probability {self.p_min:g} or more."
            if self.is_used
            else "It is not used in this task."
        )
        lines = [
            f"when this task began, {counted_of(n, self.n_tasks, 'task')} had been compared to "
            f"learn the nearness. {use}"
        ]
        if n > 0:
            lines += [self._report_of_differences(), self._report_of_help(n_pairs)]
        return tuple(lines)

    def _report_of_differences(self) -> str:
        known, (rewards, transitions, n) = self.known_in_all, self.differences
        if n == 1:
            return "only one task was learned before this one, so that there is no difference yet."
        tasks = f"in all of the {n} tasks"
        if not known.any():
            return f"no pair is known {tasks}, so that nothing is known yet."
        return (
            f"at the {counted(known.sum(), 'pair')} that {are(known.sum())} known {tasks}, mean "
            f"rewards differ by up to {rewards[known].max():.4g} and transitions by up to "
            f"{transitions[known].max():.4g}."
        )

    def _report_of_help(self, n_pairs: int) -> str:
        n_helped = int(self._can_help().sum())
        if n_helped == 0:
            return (
                "it cannot lower a bound, now or later: at every pair, differences are as large as "
                "they can be, or a task that was compared does not know the pair."
            )
        return f"it can lower bounds at up to {counted_of(n_helped, n_pairs, 'pair')}."

    def _can_help(self) -> BoolArray:
        """Return the pairs where the differences so far allow a bound below the trivial one."""
        epsilon, hi = self.setting.epsilon, self.setting.reward_range[1]
        lowest = np.min(
            [np.where(source.known, source.rows.R, np.inf) for source in self.sources],
            axis=0,
            initial=np.inf,
        )
        less_reward = lowest + self.differences.rewards + epsilon < hi
        near = self.differences.transitions + epsilon / 2 < 1
        return (lowest < np.inf) & (less_reward | near)

    def _compared(self, memory: TaskMemory) -> Differences:
        """Return the largest differences of the first tasks, after comparing further ones."""
        rewards, transitions, n_compared = self._stored(memory)
        (lo, hi), n_states = self.setting.reward_range, self.setting.n_states
        tasks = memory.first_tasks()
        for j in range(n_compared, min(len(tasks), self.n_tasks)):
            for other in tasks[:j]:
                gone = tasks[j].missing | other.missing
                r, t = model_differences(tasks[j].rows, other.rows, gone, hi - lo, n_states)
                rewards, transitions = np.maximum(rewards, r), np.maximum(transitions, t)
            memory.learned[REWARDS] = frozen(rewards), j + 1
            memory.learned[TRANSITIONS] = frozen(transitions), j + 1
            n_compared = j + 1
        return Differences(rewards, transitions, n_compared)

    def _stored(self, memory: TaskMemory) -> Differences:
        """Return what the memory has; a task that only one part counts is compared again."""
        initial = np.zeros(self.setting.n_pairs), 0
        (r, n_rewards), (t, n_transitions) = (
            memory.learned.get(name, initial) for name in (REWARDS, TRANSITIONS)
        )
        shape = (self.setting.n_pairs,)
        return Differences(
            weights("the learned difference of rewards", r, shape, "one per pair"),
            weights("the learned difference of transitions", t, shape, "one per pair"),
            min(n_rewards, n_transitions, memory.n_tasks),
        )

    @property
    def known_in_all(self) -> BoolArray:
        """The pairs that all compared tasks know, if all of them are stored; otherwise none."""
        if self.n_forgotten or not self.sources:
            return np.zeros(self.setting.n_pairs, dtype=bool)
        return np.all([source.known for source in self.sources], axis=0)

    def _successors(self) -> tuple[Successors | None, BoolArray | None]:
        """Return the successors of the first tasks and where they terminate, if models are exact.

        At pairs that a first task does not know, every successor is possible.
        """
        known = self.known_in_all
        exact = self.setting.exact and self.setting.epsilon == 0
        n_states, n_pairs = self.setting.n_states, self.setting.n_pairs
        n_entries = known.sum() * len(self.sources) + (~known).sum() * n_states
        if not exact or not known.any() or n_entries > MOST_SUCCESSORS:
            return None, None
        pairs = [np.repeat(np.flatnonzero(~known), n_states)]
        states = [np.tile(np.arange(n_states), int((~known).sum()))]
        ends = ~known
        for source in self.sources:
            rows = source.rows
            owner = np.repeat(np.arange(n_pairs), rows.last - rows.first)
            taken = known[owner] & (rows.p > 0)
            pairs.append(owner[taken])
            states.append(rows.successors[taken].astype(np.int64))
            ends |= rows.ends > 0
        flat = np.unique(np.concatenate(pairs) * n_states + np.concatenate(states))
        counts = np.bincount(flat // n_states, minlength=n_pairs)
        first = np.append(0, np.cumsum(counts)).astype(np.int64)
        terminates = ends.reshape(n_states, -1)
        return Successors(first, (flat % n_states).astype(np.int32)), terminates


def model_differences(
    rows: Rows, others: Rows, missing: BoolArray, width: float, n_states: int
) -> tuple[FloatArray, FloatArray]:
    """Return |R̂ - R̄̂| and TV(T̂, T̄̂) over pairs; `width`, of the rewards, and 1 where one is unknown.

    A nearness says nothing about an action that is `missing` in one of them: both are then 0.
    """
    both, limits = rows.known & others.known, np.where(missing, 0.0, 1.0)
    variation = np.minimum(1.0, total_variation(rows, others, n_states))
    difference = np.where(both, np.abs(rows.R - others.R), width * limits)
    return difference, np.where(both, variation, limits)


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
        for others, _, others_missing in tasks[:i]:
            gone = missing | others_missing
            difference, variation = model_differences(rows, others, gone, hi - lo, shape[0])
            error = np.where(gone, 0.0, epsilon)
            np.maximum(r, np.minimum(difference * ROUNDING + 2 * error, hi - lo), out=r)
            np.maximum(t, np.minimum(variation * ROUNDING + error, 1.0), out=t)
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
