"""A wrapper that numbers composite observations and actions from 0, as Heirloom's agents need.

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
"""

import os
from collections.abc import Callable, Hashable
from typing import Any

import gymnasium as gym
import numpy as np

from heirloom.envs.spaces import (
    LARGEST,
    NumberingWrapper,
    check_environment,
    names_of_seen,
    names_of_values,
    number_of,
    size_of_space,
    value_of,
)
from heirloom.errors import InvalidArgument, UnsupportedEnvironment
from heirloom.storage import archive
from heirloom.transfer.bins import Numbers, as_texts, from_texts
from heirloom.validation import index, shown, whole_number
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
        if key is not None and not callable(key):
            raise InvalidArgument(f"key is {shown(key)}: expected a function of observations")
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
            else whole_number("n_states", n_states, most=LARGEST)
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
