"""What an agent carries from task to task."""

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

    All arrays are over pairs k = s * A + a, `V` over states, and read-only.
    """

    rows: Known
    Q: FloatArray
    V: FloatArray
    task: int = 0
    """Its number among all tasks that its memory has seen, from 1 on; 0 if it is in none."""

    @classmethod
    def of(cls, model: LearnedModel, Q: FloatArray) -> "Source":
        """What is kept of a model: exactly its known pairs, in the order of pairs."""
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
        """The length of the longest row."""
        return int((self.rows.last - self.rows.first).max())

    @property
    def known(self) -> BoolArray:
        """The known set of the task."""
        return self.rows.known


class TaskMemory:
    """Sources, and what holds of all tasks seen: their number, the maximum of `Q`, of distances.

    Args:
        n_states: the number of states, S.
        n_actions: the number of actions, A.
        capacity: how many sources are kept; all by default. What holds of all tasks seen does not
            depend on it, and is kept beside the sources.
        keep: which sources a full memory keeps: the "first" ones, the "latest", or the "most_used",
            those that decided the bounds of the most pairs, and in any case the last one.
    """

    def __init__(
        self, n_states: int, n_actions: int, *, capacity: int | None = None, keep: Keep = "latest"
    ) -> None:
        self.n_states = whole_number("n_states", n_states)
        self.n_actions = whole_number("n_actions", n_actions)
        self.capacity = None if capacity is None else whole_number("capacity", capacity)
        if keep not in get_args(Keep):
            raise InvalidArgument(f"keep is {keep!r}: it is one of {', '.join(get_args(Keep))}")
        self.keep = keep
        self.sources: list[Source] = []
        self.n_tasks = 0
        """How many tasks were seen."""
        self.max_Q: FloatArray | None = None
        """The largest Q of all tasks seen, over pairs; None before the first."""
        self.learned: dict[str, tuple[FloatArray, int]] = {}
        """By the name of a model distance: its maximum over the first tasks, and their number."""
        self.uses: dict[int, int] = {}
        """By the number of a task that is kept: how many pairs it decided, in all later tasks."""
        self.setting: Setting | None = None
        """What all tasks have in common; that of the first agent that uses this memory."""
        self.n_first = 0
        """So many first tasks are compared with each other, whether they are kept or not."""
        self._first: list[Source] = []  # those of them that must be kept for that

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """The memory that was saved in a file; raises `InvalidFile` if it is not intact."""
        from heirloom.transfer.memory_file import unpacked

        content = archive.read(path, "memory")
        return unpacked(cls, content, str(path))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the memory to one file, whole or not at all; others may read it meanwhile."""
        from heirloom.transfer.memory_file import packed

        archive.write(path, "memory", packed(self))

    @property
    def n_pairs(self) -> int:
        """The number of pairs, S·A."""
        return self.n_states * self.n_actions

    def first_tasks(self) -> list[Source]:
        """The first tasks seen, one after the other, as far as they are all still there."""
        there = {source.task: source for source in (*self.sources, *self._first)}
        n = 0
        while n + 1 in there:
            n += 1
        return [there[task] for task in range(1, n + 1)]

    @property
    def forgotten(self) -> list[int]:
        """The numbers of the tasks that were seen and are not among the sources."""
        kept = {source.task for source in self.sources}
        return [task for task in range(1, self.n_tasks + 1) if task not in kept]

    def bind(self, setting: Setting) -> None:
        """Raise `IncompatibleTasks` unless what was stored under another setting holds in this."""
        if (setting.n_states, setting.n_actions) != (self.n_states, self.n_actions):
            raise IncompatibleTasks(
                f"{self!r} does not fit an agent of {setting.n_states} states and "
                f"{setting.n_actions} actions: use another memory"
            )
        before = setting if self.setting is None or self.n_tasks == 0 else self.setting
        for what in ("gamma", "reward_range", "terminating", "epsilon"):
            here, there = getattr(setting, what), getattr(before, what)
            if here != there:
                raise IncompatibleTasks(
                    f"{what} is {here} for the agent, and {there} for the tasks in its memory: "
                    "bounds do not carry over; use another memory"
                )
        self.setting = setting

    def compare_first(self, n_tasks: int) -> None:
        """Keep the first tasks, beside the sources, until so many were compared."""
        self.n_first = max(self.n_first, n_tasks)

    def add(self, source: Source) -> None:
        """Keep a task that ended, and forget another if the memory is full."""
        if source.V.size != self.n_states or source.Q.size != self.n_pairs:
            raise IncompatibleTasks(
                f"the task has {source.V.size} states and {source.Q.size} pairs, the memory holds "
                f"tasks of {self.n_states} states and {self.n_actions} actions: use another memory"
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
            forgotten = self.sources.pop(self._least_wanted())
            del self.uses[forgotten.task]

    def use(self, task: int) -> None:
        """A source decides the bound at a pair of the task that ends."""
        if task in self.uses:
            self.uses[task] += 1

    def _least_wanted(self) -> int:
        """Which of too many sources to forget."""
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
