"""Wrappers that number the observations and actions of Gymnasium environments, as agents need.

`Numbered` numbers observations in one of two ways, and actions always in the first:

- *By position in the space*, if the space has finitely many values: `Discrete` with another start,
  `MultiDiscrete`, `MultiBinary`, and `Tuple` and `Dict` of these. The last component varies
  fastest, as in a C-ordered array. Every value has its number before it is observed; `state_of` and
  `observation_of` convert.
- *In order of appearance*, if `n_states` is given: the first observation is 0, the next different
  one is 1, and so on. This suits spaces with more values than ever occur, such as images. All tasks
  of an agent must share their numbers. Its memory keeps them, and files of agents and memories
  contain them: construct each environment with `numbers=agent.memory.numbers`, which is None at
  first. For an agent without a memory, use `numbers=first.numbers`, `save_numbers` and
  `load_numbers`.

Transfer needs states that mean the same in all tasks. If an observation contains more than the
state (for example a whole map), give a `key` function that extracts the state from it.

`Binned` turns observations of real numbers into numbered bins. Each dimension of a `Box` is cut at
given edges, and a state is one combination of bins. The last dimension varies fastest, as in a
C-ordered array. The numbering depends on the edges alone: tasks with the same edges share it. An
agent keeps the edges in its memory, and saves them with itself: `Binned(env,
edges=agent.memory.edges)` numbers observations as before. It refuses an environment with other
edges.

Binning voids the guarantees: what follows depends on where in its bin the environment is, so
neither bounds nor certificates hold for the environment, however fine the bins are. Measured
returns of a fixed policy, with their confidence interval, remain those in the environment itself.
"""

import os
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike

from heirloom.arrays import FloatArray
from heirloom.envs.spaces import (
    MOST_NAMED,
    NumberingWrapper,
    names_of_bins,
    names_of_seen,
    names_of_values,
    number_of,
    size_of_space,
    value_of,
)
from heirloom.errors import InvalidArgument, UnsupportedEnvironment
from heirloom.mdp.gymnasium import check_environment
from heirloom.storage import archive
from heirloom.transfer.bins import Numbers, as_texts, checked_edges, from_texts, n_bins
from heirloom.validation import LARGEST_SIZE, index, numbers, shown, whole_number
from heirloom.wording import are, counted


class Numbered(NumberingWrapper):
    """A wrapper whose observations and actions are whole numbers from 0 up.

    Args:
        env: the environment.
        n_states: the maximum number of different observations, which are then numbered in order of
            appearance; by default they are numbered by position in the space.
        key: a function that extracts from an observation what identifies the state; by default the
            whole observation does. Only with `n_states`.
        numbers: the numbers of earlier tasks, such as `agent.memory.numbers`; None for none. Only
            with `n_states`.

    Example:
        >>> env = Numbered(gym.make("Blackjack-v1"))
        >>> env.observation_space, env.state_of((12, 10, 0))
        (Discrete(704), 284)
        >>> env.observation_of(284)
        (12, 10, 0)
    """

    def __init__(
        self,
        env: gym.Env[Any, Any],
        *,
        n_states: int | None = None,
        key: Callable[[Any], Any] | None = None,
        numbers: Numbers | None = None,
    ) -> None:
        check_environment(env)
        if n_states is None and not (key is None and numbers is None):
            raise InvalidArgument(
                "key and numbers apply only to numbering in order of appearance: give n_states too"
            )
        self.as_seen = n_states is not None
        self.key = key
        if numbers is not None and not isinstance(numbers, dict):
            raise InvalidArgument(
                f"numbers is a {type(numbers).__name__}: expected those of another task, such as "
                "agent.memory.numbers"
            )
        self.numbers: Numbers = {} if numbers is None else numbers
        """The number of each observation that has been seen."""
        n = (
            size_of_space(env.observation_space, "observation", env)
            if n_states is None
            else whole_number("n_states", n_states, most=LARGEST_SIZE)
        )
        if len(self.numbers) > n:
            raise InvalidArgument(
                f"n_states is {n}, but {counted(len(self.numbers), 'state')} "
                f"{are(len(self.numbers))} numbered already: give the same n_states for all tasks "
                "of a family"
            )
        super().__init__(env, n, n_states=n_states, key=key, numbers=numbers)

    def state_of(self, observation: Any) -> int:
        """Return the number of an observation; in order of appearance, it may be a new number."""
        try:
            seen = _hashable(observation if self.key is None else self.key(observation))
            number = self.numbers.get(seen)
        except TypeError as error:
            raise UnsupportedEnvironment(
                f"the observation {shown(observation)} cannot be compared with others ({error}): "
                "give a key that extracts numbers, strings or arrays of numbers from it"
            ) from None
        if number is None:
            number = self.numbers[seen] = self._new_number(observation)
        if number >= self.n_states:  # assigned by a task that shares `numbers` and has more states
            raise self._too_many()
        return number

    def _new_number(self, observation: Any) -> int:
        if not self.as_seen:
            return number_of(self.env.observation_space, observation)
        if len(self.numbers) >= self.n_states:
            raise self._too_many()
        return len(self.numbers)

    def _too_many(self) -> UnsupportedEnvironment:
        return UnsupportedEnvironment(
            f"{self.env} returned more than {counted(self.n_states, 'different observation')}: "
            "give a larger n_states, or a key that distinguishes fewer states"
        )

    @property
    def state_names(self) -> tuple[str, ...] | None:
        """The observations, in the order of their numbers, as names; None for very many states."""
        if self.as_seen:
            return names_of_seen(self.numbers, self.n_states)
        return names_of_values(self.env.observation_space, self.n_states)

    def save_numbers(self, path: str | os.PathLike[str]) -> None:
        """Write the numbers of all observations seen so far to a file."""
        archive.write(path, "numbers", archive.Content(as_texts(self.numbers), {}))

    @staticmethod
    def load_numbers(path: str | os.PathLike[str]) -> Numbers:
        """Read numbers from a file, to be given as `numbers` to new environments."""
        content = archive.read(path, "numbers")
        with archive.parsing(str(path), "numbering"):
            return from_texts(content.header)

    def observation_of(self, state: int) -> Any:
        """Return the observation with this number; only if numbered by position in the space."""
        if self.as_seen:
            raise InvalidArgument(
                "observations are numbered in order of appearance: look them up in `numbers`"
            )
        return value_of(self.env.observation_space, index("state", state, self.n_states))


def _hashable(observation: Any) -> Hashable:
    """Return a hashable form of an observation; equal observations have equal forms."""
    if isinstance(observation, np.ndarray):
        kind = observation.dtype.kind
        if kind == "f":
            # One float type, and + 0.0 turns -0.0 into 0.0: equal values get equal bytes. NaN is
            # rejected because it is not equal to itself.
            observation = observation.astype(np.float64) + 0.0
            if np.isnan(observation).any():
                raise TypeError("it contains NaN")
        elif kind not in "biu":
            raise TypeError(f"its dtype is {observation.dtype}")
        return observation.shape, kind, observation.tobytes()
    if isinstance(observation, dict):
        return tuple((name, _hashable(part)) for name, part in sorted(observation.items()))
    if isinstance(observation, tuple | list):
        return tuple(_hashable(part) for part in observation)
    if observation != observation:
        raise TypeError("it contains NaN")
    return observation.item() if isinstance(observation, np.generic) else observation


class Binned(NumberingWrapper):
    """A wrapper whose observations are the numbers of bins, and whose actions are numbers from 0.

    Args:
        env: an environment whose observations are arrays of real numbers, a `Box`.
        edges: for each dimension, the numbers at which it is cut, in increasing order. n edges make
            n + 1 bins; a number equal to an edge is in the bin above it, and the outer bins have
            no limit. A dimension without edges is ignored.

    Example:
        >>> env = Binned(gym.make("MountainCar-v0"), edges=[[-0.9, -0.5, 0.0], [0.0]])
        >>> env.observation_space, env.state_of([-0.6, 0.01])
        (Discrete(8), 3)
        >>> env.bin_of(3)
        [(-0.9, -0.5), (0.0, inf)]
    """

    def __init__(self, env: gym.Env[Any, Any], *, edges: Sequence[ArrayLike]) -> None:
        check_environment(env)
        space = env.observation_space
        if not isinstance(space, spaces.Box):
            raise UnsupportedEnvironment(
                f"the observation space of {env} is {space}, not a Box of real numbers: "
                "heirloom.wrappers.Numbered(env) numbers discrete observations"
            )
        self.edges: tuple[FloatArray, ...] = checked_edges(edges)
        """The edges of each dimension."""
        n_dimensions = int(np.prod(space.shape))
        if len(self.edges) != n_dimensions:
            raise InvalidArgument(
                f"edges has {counted(len(self.edges), 'entry')}: expected one for each of the "
                f"{n_dimensions} dimensions of the observations; an empty one ignores its dimension"
            )
        self._sizes = [row.size + 1 for row in self.edges]
        n_states = n_bins(self.edges)
        if n_states > LARGEST_SIZE:
            raise InvalidArgument(
                f"edges make {n_states:,} bins: expected at most {LARGEST_SIZE:,}"
            )
        super().__init__(env, n_states, edges=[row.tolist() for row in self.edges])

    def state_of(self, observation: Any) -> int:
        """Return the number of the bin of an observation."""
        values = numbers("observation", observation, UnsupportedEnvironment).ravel()
        if values.size != len(self.edges) or np.isnan(values).any():
            raise UnsupportedEnvironment(
                f"the observation is {shown(observation)}: expected "
                f"{counted(len(self.edges), 'number')}, none of them NaN"
            )
        state = 0
        for value, row in zip(values.tolist(), self.edges, strict=True):
            state = state * (row.size + 1) + int(row.searchsorted(value, side="right"))
        return state

    def bin_of(self, state: int) -> list[tuple[float, float]]:
        """Return the lower and the upper edge of a bin in each dimension, infinite outside."""
        places = np.unravel_index(index("state", state, self.n_states), self._sizes)
        ends = [np.concatenate([[-np.inf], row, [np.inf]]) for row in self.edges]
        return [
            (float(row[place]), float(row[place + 1]))
            for row, place in zip(ends, places, strict=True)
        ]

    @property
    def state_names(self) -> tuple[str, ...] | None:
        """The bins as names of their numbers; None for a very large number of bins."""
        if self.n_states > MOST_NAMED:
            return None
        return names_of_bins([self.bin_of(state) for state in range(self.n_states)])
