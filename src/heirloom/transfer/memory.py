"""`TaskMemory`: the sources and statistics that an agent carries from task to task."""

import os
from dataclasses import dataclass, replace
from typing import Self, get_args

import numpy as np

from heirloom.arrays import BoolArray, FloatArray, frozen
from heirloom.choices import Keep
from heirloom.errors import IncompatibleTasks, InvalidArgument
from heirloom.mdp.learned import Known, LearnedModel
from heirloom.storage import archive
from heirloom.transfer.setting import Setting
from heirloom.validation import whole_number


@dataclass(frozen=True, eq=False)
class Source:
    """A task that ended: its known pairs, and upper bounds `Q` on its optimal values.

    All arrays are read-only and over pairs k = s * A + a, except `V`, which is over states.
    """

    rows: Known
    Q: FloatArray
    V: FloatArray
    task: int = 0
    """The number of the task among all tasks seen by its memory, from 1; 0 outside of a memory."""

    @classmethod
    def of(cls, model: LearnedModel, Q: FloatArray) -> "Source":
        """Make a source from a model; it keeps the known pairs only, in the order of pairs."""
        rows = model.rows
        lengths = np.where(rows.known, rows.last - rows.first, 0)
        last = np.cumsum(lengths)
        first = last - lengths
        taken = np.repeat(rows.first - first, lengths) + np.arange(int(lengths.sum()))
        kept = Known(
            known=rows.known.copy(),
            R=rows.R.copy(),
            ends=rows.ends.copy(),
            first=first,
            last=last,
            successors=rows.successors[taken],
            p=rows.p[taken],
        )
        for array in kept:
            frozen(array)
        Q = frozen(Q.copy())
        return cls(kept, Q, frozen(Q.reshape(model.n_states, -1).max(axis=1)))

    @property
    def widest(self) -> int:
        """The largest number of successors of a known pair."""
        return int((self.rows.last - self.rows.first).max())

    @property
    def known(self) -> BoolArray:
        """The known set of the task."""
        return self.rows.known


class TaskMemory:
    """The sources that an agent keeps, and statistics of all tasks that it has seen.

    The statistics are the number of tasks, the maximum of their `Q`, and learned distances.

    Args:
        n_states: the number of states, S.
        n_actions: the number of actions, A.
        capacity: the maximum number of sources; None (the default) keeps all. The statistics do not
            depend on it.
        keep: which sources a full memory keeps: the "first" ones, the "latest" ones, or the
            "most_used" ones, which determined the bounds of the most pairs; "most_used" always
            keeps the most recent task, too.
    """

    def __init__(
        self, n_states: int, n_actions: int, *, capacity: int | None = None, keep: Keep = "latest"
    ) -> None:
        self.n_states = whole_number("n_states", n_states)
        self.n_actions = whole_number("n_actions", n_actions)
        self.capacity = None if capacity is None else whole_number("capacity", capacity)
        if keep not in get_args(Keep):
            raise InvalidArgument(f"keep is {keep!r}: expected one of {', '.join(get_args(Keep))}")
        self.keep = keep
        self.sources: list[Source] = []
        self.n_tasks = 0
        """The number of tasks seen."""
        self.max_Q: FloatArray | None = None
        """The largest Q of all tasks seen, over pairs; None before the first."""
        self.learned: dict[str, tuple[FloatArray, int]] = {}
        """For the name of a model distance: its maximum over the first tasks, and their number."""
        self.uses: dict[int, int] = {}
        """For the number of each source: how many bounds it determined, summed over later tasks."""
        self.setting: Setting | None = None
        """The setting of the agent that uses the memory, shared by all tasks; None before."""
        self.n_first = 0
        """The number of first tasks that are compared with each other, whether kept or not."""
        self._first: list[Source] = []  # first tasks that are still needed for these comparisons

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Load the memory that was saved in a file; raise `InvalidFile` if the file is damaged."""
        from heirloom.transfer.memory_file import unpacked

        content = archive.read(path, "memory")
        return unpacked(cls, content, str(path))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the memory to one file atomically, so that others may read the file meanwhile."""
        from heirloom.transfer.memory_file import packed

        archive.write(path, "memory", packed(self))

    @property
    def n_pairs(self) -> int:
        """The number of pairs, S·A."""
        return self.n_states * self.n_actions

    def first_tasks(self) -> list[Source]:
        """Return tasks 1, 2, ..., up to the first one that is no longer stored."""
        stored = {source.task: source for source in (*self.sources, *self._first)}
        n = 0
        while n + 1 in stored:
            n += 1
        return [stored[task] for task in range(1, n + 1)]

    @property
    def forgotten(self) -> list[int]:
        """The numbers of the tasks that were seen and are not among the sources."""
        kept = {source.task for source in self.sources}
        return [task for task in range(1, self.n_tasks + 1) if task not in kept]

    def bind(self, setting: Setting) -> None:
        """Adopt `setting`; raise `IncompatibleTasks` if the stored tasks had a different one."""
        if (setting.n_states, setting.n_actions) != (self.n_states, self.n_actions):
            raise IncompatibleTasks(
                f"{self!r} does not fit an agent with {setting.n_states} states and "
                f"{setting.n_actions} actions: use a memory of the same size"
            )
        previous = setting if self.setting is None or self.n_tasks == 0 else self.setting
        for name in ("gamma", "reward_range", "terminating", "epsilon"):
            new, old = getattr(setting, name), getattr(previous, name)
            if new != old:
                raise IncompatibleTasks(
                    f"{name} is {new} for the agent, and {old} for the tasks in its memory: "
                    "bounds are valid only if both are equal; use another memory"
                )
        self.setting = setting

    def compare_first(self, n_tasks: int) -> None:
        """Keep the first `n_tasks` tasks, in addition to the sources, until they are compared."""
        self.n_first = max(self.n_first, n_tasks)

    def add(self, source: Source) -> None:
        """Add a task that ended, and forget a source if the memory is full."""
        if source.V.size != self.n_states or source.Q.size != self.n_pairs:
            raise IncompatibleTasks(
                f"the task has {source.V.size} states and {source.Q.size} pairs: expected "
                f"{self.n_states} states and {self.n_actions} actions, as in the memory; use "
                "a memory of the same size"
            )
        self.n_tasks += 1
        largest = source.Q if self.max_Q is None else np.maximum(self.max_Q, source.Q)
        self.max_Q = frozen(largest)
        source = replace(source, task=self.n_tasks)
        self.sources.append(source)
        self.uses[source.task] = 0
        if self.capacity is None:
            return
        if self.n_tasks >= self.n_first:
            self._first = []
        elif len(self._first) == self.n_tasks - 1:
            self._first.append(source)
        if len(self.sources) > self.capacity:
            forgotten = self.sources.pop(self._index_to_forget())
            del self.uses[forgotten.task]

    def use(self, task: int) -> None:
        """Count one pair of the ending task whose bound was determined by the source `task`."""
        if task in self.uses:
            self.uses[task] += 1

    def _index_to_forget(self) -> int:
        """Return the index of the source to forget when there are too many."""
        if self.keep == "first":
            return len(self.sources) - 1
        if self.keep == "latest":
            return 0
        older = [self.uses[source.task] for source in self.sources[:-1]]
        return older.index(min(older)) if older else 0

    def __repr__(self) -> str:
        known = sum(int(source.known.sum()) for source in self.sources)
        full = "" if self.capacity is None else f" of at most {self.capacity} ({self.keep})"
        return (
            f"TaskMemory(n_states={self.n_states}, n_actions={self.n_actions}, tasks seen: "
            f"{self.n_tasks}, kept: {len(self.sources)}{full}, known pairs: {known:,})"
        )
