"""`Choice`: which episodes and updates of a task are recorded."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Self

import numpy as np

from heirloom.arrays import IntArray
from heirloom.errors import InvalidArgument
from heirloom.validation import LARGEST_SIZE, shown, whole_number
from heirloom.wording import counted

MOST_STEPS = 10_000
"""Steps of an episode that are recorded; later steps of a longer episode are not."""
MOST_BYTES = 2**28
"""The largest size that the recordings of one job, or of one call of `learn`, may reach."""
BYTES_PER_STEP = 18
BYTES_PER_PAIR = 27  # of a snapshot in which everything changes


@dataclass(frozen=True)
class Choice:
    """Which episodes of a task are recorded, and after which other updates a snapshot is taken.

    Args:
        first: the number of episodes at the beginning of the task.
        last: the number of episodes at its end.
        every: records every k-th episode too: k, 2k, 3k, ....
        updates: takes a snapshot after every k-th update of the agent too. In recorded episodes,
            there is one after every update.
    """

    first: int = 3
    last: int = 1
    every: int | None = None
    updates: int | None = None

    def __post_init__(self) -> None:
        for name in ("first", "last"):
            value = whole_number(f"record.{name}", getattr(self, name), least=0, most=LARGEST_SIZE)
            self.__dict__[name] = value
        for name in ("every", "updates"):
            if getattr(self, name) is not None:
                self.__dict__[name] = whole_number(f"record.{name}", getattr(self, name))

    @classmethod
    def read(cls, given: object) -> "Self | None":
        """Return the choice that the argument `record` of `learn` describes; None for nothing."""
        names = [field.name for field in fields(cls)]
        if given is None or given is False:
            return None
        if given is True:
            return cls()
        if isinstance(given, cls):
            return given
        if not isinstance(given, Mapping) or not all(name in names for name in given):
            raise InvalidArgument(
                f"record is {shown(given)}: expected True, or a dictionary with some of the keys "
                f"{', '.join(names)}, as in {{'first': 3, 'every': 100}}"
            )
        return cls(**given)

    def episodes(self, n: int) -> IntArray:
        """Return the chosen ones of `n` episodes, as increasing indices from 0."""
        chosen = [np.arange(min(self.first, n)), np.arange(max(0, n - self.last), n)]
        if self.every is not None:
            chosen.append(np.arange(self.every - 1, n, self.every))
        return np.unique(np.concatenate(chosen))

    def most_bytes(self, *, episodes: int, steps: int | None, n_pairs: int) -> int:
        """Return a number of bytes that the recording of one task never exceeds."""
        chosen = self._most_episodes(episodes)
        frames = chosen * (1 + min(MOST_STEPS, steps or MOST_STEPS))
        # Each pair becomes known at most once; other agents are recorded before and after episodes.
        snapshots = 2 * chosen + min(n_pairs, frames + (n_pairs // (self.updates or n_pairs + 1)))
        return frames * BYTES_PER_STEP + snapshots * (BYTES_PER_PAIR * n_pairs + 40)

    def check_size(self, *, episodes: int, steps: int | None, n_pairs: int, tasks: int = 1) -> None:
        """Raise `InvalidArgument` if the recordings of `tasks` tasks may become too large."""
        size = tasks * self.most_bytes(episodes=episodes, steps=steps, n_pairs=n_pairs)
        if size > MOST_BYTES:
            raise InvalidArgument(
                f"record may keep up to {size / 1e6:,.0f} MB "
                f"({counted(self._most_episodes(episodes), 'episode')} in each of "
                f"{counted(tasks, 'task')} with {counted(n_pairs, 'pair')}): expected at most "
                f"{MOST_BYTES / 1e6:,.0f} MB; record fewer episodes, updates or tasks"
            )

    def _most_episodes(self, n: int) -> int:
        every = 0 if self.every is None else n // self.every
        return min(n, min(self.first, n) + min(self.last, n) + every)
