"""What an agent carries from task to task."""

from dataclasses import dataclass, field

import numpy as np

from heirloom.arrays import BoolArray, FloatArray, frozen
from heirloom.errors import IncompatibleTasks
from heirloom.mdp.learned import Known, LearnedModel
from heirloom.transfer.setting import Setting


@dataclass(frozen=True, eq=False)
class Source:
    """A task that ended: its known pairs, and upper bounds `Q` on its optimal values.

    All arrays are over pairs k = s * A + a, `V` over states, and read-only.
    """

    rows: Known
    Q: FloatArray
    V: FloatArray

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


@dataclass(eq=False)
class TaskMemory:
    """Sources, and what holds of all tasks seen: their number, the maximum of `Q`, of distances."""

    n_states: int
    n_actions: int
    sources: list[Source] = field(default_factory=list)
    n_tasks: int = 0
    max_Q: FloatArray | None = None  # noqa: N815 -- the letter of the paper
    """The largest Q of all tasks seen, over pairs; None before the first."""
    learned: dict[str, tuple[FloatArray, int]] = field(default_factory=dict)
    """By the name of a model distance: its maximum over the first tasks, and how many they are."""
    setting: Setting | None = None
    """What all tasks in this memory have in common; that of the first agent that uses it."""

    def bind(self, setting: Setting) -> None:
        """Raise `IncompatibleTasks` unless what was stored under another setting holds in this."""
        if (setting.n_states, setting.n_actions) != (self.n_states, self.n_actions):
            raise IncompatibleTasks(
                f"{self!r} does not fit an agent of {setting.n_states} states and "
                f"{setting.n_actions} actions: use another memory"
            )
        for what in ("gamma", "reward_range", "terminating", "epsilon"):
            here, there = getattr(setting, what), getattr(self.setting or setting, what)
            if here != there:
                raise IncompatibleTasks(
                    f"{what} is {here} for the agent, and {there} for the tasks in its memory: "
                    "bounds do not carry over; use another memory"
                )
        self.setting = setting

    def add(self, source: Source) -> None:
        """Keep a task that ended."""
        if source.V.size != self.n_states or source.Q.size != self.n_states * self.n_actions:
            raise IncompatibleTasks(
                f"the task has {source.V.size} states and {source.Q.size} pairs, the memory holds "
                f"tasks of {self.n_states} states and {self.n_actions} actions: use another memory"
            )
        self.sources.append(source)
        self.n_tasks += 1
        self.max_Q = source.Q if self.max_Q is None else np.maximum(self.max_Q, source.Q)

    def __repr__(self) -> str:
        known = sum(int(source.known.sum()) for source in self.sources)
        return (
            f"TaskMemory(n_states={self.n_states}, n_actions={self.n_actions}, tasks seen: "
            f"{self.n_tasks}, kept: {len(self.sources)}, known pairs: {known:,})"
        )
