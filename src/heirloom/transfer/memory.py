"""`TaskMemory`: the sources and statistics that an agent carries from task to task."""

import math
import os
from copy import copy
from datetime import date
from typing import Annotated, NamedTuple, Self

import numpy as np

from heirloom.arrays import FloatArray, IntArray, frozen
from heirloom.choices import Keep
from heirloom.errors import IncompatibleTasks, InvalidArgument
from heirloom.mdp.learned import LearnedModel
from heirloom.mdp.rows import Rows
from heirloom.naming import Names, NamesLike, checked_label, checked_names
from heirloom.options import Option, declared
from heirloom.storage import archive
from heirloom.transfer.bins import Edges, Numbers, contains, same_edges
from heirloom.transfer.setting import Setting
from heirloom.transfer.source import Source, check_rewards, check_values
from heirloom.transfer.visits import Visits
from heirloom.validation import instance, shown, sizes, whole_number
from heirloom.wording import counted, size_of_task

SHARED = ("gamma", "reward_range", "terminating", "epsilon")  # of the setting, by all tasks
MOST_LINES = 30  # sources that the text of a memory lists
# What determines a bound is a task, or several tasks together, which have negative numbers.
ALL_TASKS, FIRST_TASKS = -1, -2
SEVERAL = {ALL_TASKS: "all earlier tasks", FIRST_TASKS: "the first tasks"}


class EnvelopeState(NamedTuple):
    """What `Envelope` has learned: E, and the scores of the calibration tasks so far."""

    E: FloatArray
    """The largest Q of the tasks that were seen when E was fixed, over pairs."""
    scores: FloatArray
    """The largest Q⁺ - E of each calibration task, in their order."""
    tasks: IntArray
    """The numbers of the calibration tasks in the memory."""


@declared
class TaskMemory:
    """The sources that an agent keeps, and statistics of all tasks that it has seen.

    The statistics are the number of tasks, the maximum of their `Q`, their visits, learned
    distances and learned envelopes.
    """

    def __init__(
        self,
        n_states: Annotated[int, Option("the number of states, S.", spec=None)],
        n_actions: Annotated[int, Option("the number of actions, A.", spec=None)],
        *,
        capacity: Annotated[
            int | None,
            Option(
                "the largest number of sources; by default all are kept. The statistics do not "
                "depend on it.",
                ge=1,
            ),
        ] = None,
        keep: Annotated[
            Keep,
            Option(
                'which sources a full memory keeps: the "first" ones, the "latest" ones, or the '
                '"most_used" ones, which determined the bounds of the most pairs; "most_used" '
                "always keeps the most recent task, too, and forgets the oldest of those that "
                "were used equally often."
            ),
        ] = "latest",
        state_names: Annotated[
            NamesLike,
            Option(
                "one name per state, or a function that returns it; by default, `learn` takes the "
                "names of the tasks.",
                spec=None,
            ),
        ] = None,
        action_names: Annotated[
            NamesLike, Option("one name per action, likewise.", spec=None)
        ] = None,
    ) -> None:
        self._n_states, self._n_actions = sizes(n_states, n_actions)
        self.names = Names()
        """The names of states and actions, which only texts and exports use."""
        self.set_names(state_names=state_names, action_names=action_names)
        self.edges: Edges | None = None
        """The edges of the bins that are the states, if a task was a `Binned` environment."""
        self.numbers: Numbers | None = None
        """The states by observation, if `Numbered` numbered them in order of appearance."""
        self.capacity, self.keep = capacity, keep
        self._sources: list[Source] = []
        self.n_tasks = 0
        """The number of tasks seen."""
        self.n_dropped = 0
        """The number of further tasks that were dropped after their first step, or lost in logs."""
        self.n_candidates = 0
        """The number of policies that were rolled out for certificates, in all tasks together."""
        self.max_Q: FloatArray | None = None
        """The largest Q of all tasks seen, over pairs; None before the first.

        It is -infinity where no task has had the action.
        """
        self.visits = Visits(self.n_states, self.n_actions)
        """The sums over the visits of all tasks, also of those that were forgotten or dropped.

        Of models that are estimated once, they are the visits until a pair became known.
        """
        self.learned: dict[str, tuple[FloatArray, int]] = {}
        """For a name: the largest difference of the first tasks over pairs, and their number.

        It is "WeightedL1" for distances, and "nearness.rewards" and "nearness.transitions".
        """
        self.uses: dict[int, int] = {}
        """For the number of each source: how many bounds it determined, summed over later tasks.

        A bound that follows from all visits of several tasks counts for none of them.
        """
        self.setting: Setting | None = None
        """The setting of the agent that uses the memory, shared by all tasks; None before."""
        self.n_first = 0
        """The number of first tasks that are compared with each other, whether kept or not."""
        self.n_kept_first = 0
        """The number of first tasks that stay stored, whether they are sources or not."""
        self._first: list[Source] = []  # first tasks that are still needed, if there is a capacity
        self.envelopes: dict[str, EnvelopeState] = {}
        """For each choice of numbers of tasks: what `Envelope` has learned with it."""
        # Stored tasks that are all different from each other, among the first `_n_examined`.
        self._different: list[Source] = []
        self._n_examined = 0

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Load the memory in a file, that of a memory or of an agent.

        Raises `InvalidFile` if the file is damaged.
        """
        from heirloom.transfer.memory_file import unpacked

        return unpacked(cls, archive.read(path, "memory", or_kind="agent"), str(path))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the memory to one file atomically, so that others may read the file meanwhile."""
        from heirloom.transfer.memory_file import packed

        archive.write(path, "memory", packed(self))

    # Read-only, because all sources have these sizes.
    @property
    def n_states(self) -> int:
        """The number of states, S."""
        return self._n_states

    @property
    def n_actions(self) -> int:
        """The number of actions, A."""
        return self._n_actions

    @property
    def sources(self) -> tuple[Source, ...]:
        """The sources that are kept, in the order in which their tasks ended."""
        return tuple(self._sources)

    @property
    def pooled(self) -> Rows:
        """The means and frequencies over all visits of all tasks, forgotten and dropped ones too.

        Every pair that was visited in any task is known, from `counts` visits.
        """
        return self.visits.rows

    @property
    def n_pairs(self) -> int:
        """The number of pairs, S·A."""
        return self.n_states * self.n_actions

    @property
    def state_names(self) -> tuple[str, ...] | None:
        """The names of the states; None if they have none."""
        return self.names.states

    @property
    def action_names(self) -> tuple[str, ...] | None:
        """The names of the actions; None if they have none."""
        return self.names.actions

    def set_names(self, *, state_names: NamesLike = None, action_names: NamesLike = None) -> None:
        """Name states and actions; None leaves the names as they are."""
        states = checked_names(state_names, self.n_states, "state")
        actions = checked_names(action_names, self.n_actions, "action")
        self.names = Names(states or self.names.states, actions or self.names.actions)

    def label(self, task: int, label: str | None = None, *, time: str | date | None = None) -> None:
        """Give a stored task a label and a time, which replace those that it has.

        Args:
            task: the number of the task, from 1; `memory.n_tasks` is the last one.
            label: what the task is called; None for no label.
            time: when it took place, such as "week 12" or a date; None for no time.
        """
        texts = {"label": checked_label("label", label), "time": checked_label("time", time)}
        task = whole_number("task", task)
        stored = [one for one in (*self._sources, *self._first) if one.task == task]
        if not stored:
            raise InvalidArgument(
                f"task is {task}, which is not stored: expected one of "
                f"{', '.join(str(source.task) for source in self._sources) or 'no task'}"
            )
        labelled = stored[0]._with(**texts)
        for sources in (self._sources, self._first, self._different):
            sources[:] = [labelled if one.task == task else one for one in sources]

    def task_name(self, task: int) -> str:
        """Return the number of a task, with its label and time if it is stored and has any."""
        task = whole_number("task", task, least=0)
        stored = (one for one in (*self._sources, *self._first) if one.task == task)
        return next((one.name for one in stored), str(task))

    def source_name(self, source: int) -> str:
        """Return "task 3" and its label, or which tasks determine a bound together.

        `source` is an entry of `sources_used` of a bound that is not 0.
        """
        return SEVERAL.get(source) or f"task {self.task_name(source)}"

    @property
    def stored(self) -> list[Source]:
        """All tasks that are stored, sources or first tasks, in their order."""
        stored = {source.task: source for source in (*self._first, *self._sources)}
        return [stored[task] for task in sorted(stored)]

    def first_tasks(self) -> list[Source]:
        """Return tasks 1, 2, ..., up to the first one that is no longer stored."""
        stored = {source.task: source for source in self.stored}
        n = 0
        while n + 1 in stored:
            n += 1
        return [stored[task] for task in range(1, n + 1)]

    @property
    def forgotten(self) -> list[int]:
        """The numbers of the tasks that were seen and are not among the sources."""
        kept = {source.task for source in self._sources}
        return [task for task in range(1, self.n_tasks + 1) if task not in kept]

    def bind(self, setting: Setting) -> None:
        """Adopt `setting`; raise `IncompatibleTasks` if the stored tasks had a different one."""
        instance("setting", setting, Setting, "such as agent.setting")
        if (setting.n_states, setting.n_actions) != (self.n_states, self.n_actions):
            raise IncompatibleTasks(
                f"{self._summary()} does not fit an agent with "
                f"{size_of_task(setting.n_states, setting.n_actions)}: use a memory of the same "
                "size"
            )
        previous = setting if self.setting is None or self.n_tasks == 0 else self.setting
        for name in SHARED:
            new, old = getattr(setting, name), getattr(previous, name)
            if new != old:
                raise IncompatibleTasks(
                    f"{name} is {new} for the agent, and {old} for the tasks in its memory: "
                    "bounds are valid only if both are equal; use another memory"
                )
        if self.setting is None:  # sources that were added before were not compared with a setting
            for source in (*self._sources, *self._first):
                check_values(source.Q, setting)
                check_rewards(source.rows, setting, source.outcomes)
            if self.max_Q is not None:  # of all tasks, also those that are forgotten
                check_values(self.max_Q, setting)
            check_rewards(self.pooled, setting)
        self.setting = setting

    def compare_first(self, n_tasks: int) -> None:
        """Keep the first `n_tasks` tasks, in addition to the sources, until they are compared."""
        self.n_first = max(self.n_first, whole_number("n_tasks", n_tasks, most=math.inf))

    def keep_first(self, n_tasks: int) -> None:
        """Keep the first `n_tasks` tasks, in addition to the sources, for the whole lifetime.

        First tasks that the memory has forgotten already are lost.
        """
        n_tasks = whole_number("n_tasks", n_tasks, most=math.inf)
        if n_tasks > self.n_kept_first:
            self.n_kept_first = n_tasks
            if self.capacity is not None:
                self._first = self.first_tasks()

    def add(self, source: Source) -> None:
        """Add a task that ended, and forget a source if the memory is full."""
        self._check_fit(source)
        self._add(source)

    def _add(self, source: Source) -> None:
        """Add a task that fits."""
        self.visits.add(source.rows)
        self.n_tasks += 1
        self._raise_max_Q(source.Q)
        self._keep(source._with(task=self.n_tasks), 0)

    def _raise_max_Q(self, Q: FloatArray) -> None:
        self.max_Q = frozen(Q if self.max_Q is None else np.maximum(self.max_Q, Q))

    def _keep(self, source: Source, uses: int) -> None:
        """Keep a task that has its number, and forget a source if the memory is full."""
        self._sources.append(source)
        self.uses[source.task] = uses
        if self.capacity is None:
            return
        n_needed = max(self.n_kept_first, self.n_first if self.n_tasks < self.n_first else 0)
        if len(self._first) == source.task - 1:
            self._first.append(source)
        del self._first[n_needed:]
        if len(self._sources) > self.capacity:
            forgotten = self._sources.pop(self._index_to_forget())
            del self.uses[forgotten.task]

    def merge(self, *others: "TaskMemory") -> "TaskMemory":
        """Return a new memory with the tasks of this one and of others, such as those of a fleet.

        Agents that learned in parallel then share what they have learned: give each of them a copy
        of the merged memory. When they have learned further tasks, merge their memories into the
        one that they all began with, `fleet.merge(*memories)`: tasks that they had from there count
        once. The further tasks of `others` follow in the order of arguments, with new numbers.
        Visits of all tasks count, also of those that were forgotten or dropped.

        What the merged memory means: pooled visits and sources are valid as in a single life, if
        the agents learned independently of each other. What was learned from the first tasks
        (distances, a nearness, an envelope) is that of this memory, and stays valid as it was; that
        of others is left out, and if it is not complete, later tasks continue it. The largest Q is
        that of all tasks. Statements that hold with probability 1 - δ in each of n memories hold in
        all of them with probability 1 - n δ; certificates of later tasks and policies have the δ
        that a single life with so many tasks has left.

        Raises `IncompatibleTasks` unless all memories have the same sizes, settings and names, and
        if a task would count twice.
        """
        merged = self._copy()
        for other in others:
            instance("other", other, TaskMemory, "such as agent.memory")
            merged._check_same(other)
            if merged.setting is None and other.setting is not None:
                merged.bind(other.setting)
            first, second = (other, merged) if merged._extends(other) else (merged, other)
            merged.names = Names(
                second.names.states or first.names.states,
                second.names.actions or first.names.actions,
            )
            merged.edges = merged.edges if other.edges is None else other.edges
            merged.numbers = second.numbers or first.numbers
            common = self if other._continues(self) else TaskMemory(self.n_states, self.n_actions)
            new = [source for source in other.stored if source.task > common.n_tasks]
            merged._check_new(new)
            added = merged.n_tasks - common.n_tasks
            merged.n_tasks += other.n_tasks - common.n_tasks
            merged.n_dropped += other.n_dropped - common.n_dropped
            if other.keep == "most_used" != merged.keep:  # those that it keeps are a selection
                merged.n_dropped += sum(task > common.n_tasks for task in other.forgotten)
            merged.n_candidates += other.n_candidates - common.n_candidates
            merged.visits.merge(other.visits, without=common.visits)
            if other.max_Q is not None:
                merged._raise_max_Q(other.max_Q)
            if common is self:
                merged._revise_like(other)
            for task, uses in common.uses.items():
                merged._use(task, other.uses.get(task, uses) - uses)
            for source in new:
                merged._keep(source._with(task=source.task + added), other.uses.get(source.task, 0))
        return merged

    def _continues(self, memory: "TaskMemory") -> bool:
        """Whether this memory began with the tasks of another one."""
        mine = {source.task: source.fingerprint for source in self.stored}
        shared = [source for source in memory.stored if source.task in mine and source.fingerprint]
        return (
            len(shared) > 0
            and all(mine[source.task] == source.fingerprint for source in shared)
            and self.n_tasks >= memory.n_tasks
            and self.visits.contains(memory.visits)
        )

    def _check_new(self, sources: list[Source]) -> None:
        """Raise `IncompatibleTasks` if a source is one of this memory."""
        mine = {source.fingerprint: source.name for source in self.stored if source.fingerprint}
        for source in sources:
            if source.fingerprint in mine:
                raise IncompatibleTasks(
                    f"task {source.name} of a memory is task {mine[source.fingerprint]} of another "
                    "one, and its visits would count twice: call merge of the memory that the "
                    "others began with, or give different tasks different labels"
                )

    def _revise_like(self, other: "TaskMemory") -> None:
        """Give up what another memory, which began with the same tasks, no longer rests on."""
        Q = {source.task: source.Q for source in other.stored}
        for sources in (self._sources, self._first, self._different):
            sources[:] = [
                one
                if one.task not in Q or (one.Q >= Q[one.task]).all()
                else one._raised(Q[one.task])
                for one in sources
            ]
        self.learned = {name: x for name, x in self.learned.items() if name in other.learned}
        self.envelopes = {
            name: state
            for name, state in self.envelopes.items()
            if name in other.envelopes and np.array_equal(state.E, other.envelopes[name].E)
        }

    def _copy(self) -> Self:
        """Return a copy, to which tasks can be added."""
        other = copy(self)
        for name in ("_sources", "_first", "_different", "learned", "uses", "envelopes"):
            setattr(other, name, copy(getattr(self, name)))
        other.visits = self.visits.copy()
        return other

    def _equals(self, other: "TaskMemory") -> bool:
        """Return whether a later state of the memory has the same tasks, with the same values."""
        names = ("uses", "n_tasks", "n_dropped", "n_first", "n_kept_first")
        if any(getattr(self, name) != getattr(other, name) for name in names):
            return False
        kept = [
            [*one._sources, *one._first, one.max_Q, *one.learned.values(), *one.envelopes.values()]
            for one in (self, other)
        ]
        if len(kept[0]) != len(kept[1]):
            return False
        if any(a is not b for a, b in zip(*kept, strict=True)):
            return False
        return np.array_equal(self.visits.counts, other.visits.counts)

    def _extends(self, other: "TaskMemory") -> bool:
        """Whether this memory has all numbers of observations of another one, which has some."""
        return bool(other.numbers and contains(self.numbers or {}, other.numbers))

    def _check_same(self, other: "TaskMemory") -> None:
        """Raise `IncompatibleTasks` unless another memory is about tasks of the same kind."""
        is_seen = self._extends(other) or other._extends(self)
        if self.numbers and other.numbers and not is_seen:
            raise IncompatibleTasks(
                "the memories number observations differently, so that their states are not the "
                "same: let agents that learn in parallel begin with numbers of all observations"
            )
        names = None if is_seen else self.state_names  # one of them has seen more states
        for noun, one, two in (
            ("size", (self.n_states, self.n_actions), (other.n_states, other.n_actions)),
            *(
                (name, getattr(self.setting, name), getattr(other.setting, name))
                for name in SHARED
                if self.setting is not None and other.setting is not None
            ),
            ("state_names", names, other.state_names or names),
            ("action_names", self.action_names, other.action_names or self.action_names),
        ):
            if one is not None and one != two:
                raise IncompatibleTasks(
                    f"the memories have different values of {noun}: {shown(one)} and {shown(two)}; "
                    "merge memories of agents for the same tasks"
                )
        if self.edges is not None and other.edges is not None:
            if not same_edges(self.edges, other.edges):
                raise IncompatibleTasks("the memories have states from different bins")

    def _drop(self, model: LearnedModel) -> None:
        """Count a task that is not stored, but whose visits were compared with the sources."""
        self.visits.add(model.visited_rows if model.refresh is None else model.all_visits)
        self.n_dropped += bool(model.own_counts.any())

    def _check_fit(self, source: Source) -> None:
        """Raise unless a source has the states and actions of the memory, and its value range."""
        instance("source", source, Source, "such as Source.of(agent.model, Q)")
        if source.V.size != self.n_states or source.Q.size != self.n_pairs:
            raise IncompatibleTasks(
                f"the task has {counted(source.V.size, 'state')} and "
                f"{counted(source.Q.size, 'pair')}: expected "
                f"{size_of_task(self.n_states, self.n_actions)}, as in the memory; use another "
                "memory"
            )
        if self.setting is not None:
            check_values(source.Q, self.setting)
            check_rewards(source.rows, self.setting, source.outcomes)

    def use(self, task: int) -> None:
        """Count one pair of the ending task whose bound was determined by the source `task`."""
        self._use(whole_number("task", task, least=0), 1)

    def _use(self, task: int, n_pairs: int) -> None:
        """Count pairs whose bound the source `task` determined; others are ignored."""
        if task in self.uses:
            self.uses[task] += n_pairs

    def _index_to_forget(self) -> int:
        """Return the index of the source to forget when there are too many."""
        if self.keep == "first":
            return len(self._sources) - 1
        if self.keep == "latest":
            return 0
        older = [self.uses[source.task] for source in self._sources[:-1]]
        return older.index(min(older)) if older else 0

    def __repr__(self) -> str:
        listed = self._sources[-MOST_LINES:]
        n_more = len(self._sources) - len(listed)
        lines = [f"  ({n_more:,} earlier sources)"] if n_more else []
        for source in listed:
            lines.append(f"  task {source.name}: {source.known_pairs}")
        return "\n".join([self._summary(), *lines])

    def _summary(self) -> str:
        """Return the numbers of the memory in one line."""
        known = sum(int(source.known.sum()) for source in self._sources)
        full = "" if self.capacity is None else f" of at most {self.capacity} ({self.keep})"
        return (
            f"TaskMemory(n_states={self.n_states}, n_actions={self.n_actions}, tasks seen: "
            f"{self.n_tasks}, kept: {len(self._sources)}{full}, known pairs: {known:,})"
        )
