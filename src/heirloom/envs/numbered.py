"""Environments whose observations and actions are made of parts, as numbers.

Agents of Heirloom take states and actions that are numbered from 0. `Numbered` numbers what is not:

- *by place*, where a space has finitely many values: `Discrete` with another start,
  `MultiDiscrete`, `MultiBinary`, and `Tuple` and `Dict` of these. The last part counts fastest, as
  in an array, and every value has its number before it is seen: `state_of` and `observation_of`
  convert.
- *as seen*, if `n_states` is given: the first observation is 0, the next different one is 1, and so
  on. That suits spaces with more values than ever occur, such as images. Tasks of one family must
  share their numbers: make the others with `numbers=first.numbers`. They last as long as the
  process; what a memory holds is about these numbers, so whoever saves one saves them too, with
  `save_numbers` and `load_numbers`.

Transfer is about states that mean the same in all tasks. Where an observation shows more than that
(a whole map, say), let `key` take from it what a state is.
"""

import ast
import os
from collections.abc import Callable, Hashable
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.utils import RecordConstructorArgs

from heirloom.envs.spaces import LARGEST, number_of, size_of_space, value_of
from heirloom.errors import InvalidArgument, InvalidFile, UnsupportedEnvironment
from heirloom.storage import archive
from heirloom.validation import whole_number


class Numbered(gym.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """An environment with observations and actions from 0 up.

    Args:
        env: the environment.
        n_states: number observations as they are seen, and expect at most so many; by place if
            not given.
        key: what of an observation tells states apart, with `n_states` only; all by default.
        numbers: the numbers of another task of the family, with `n_states` only; they are shared.

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
        numbers: dict[Hashable, int] | None = None,
    ) -> None:
        if not isinstance(env, gym.Env):
            raise UnsupportedEnvironment(
                f"{env!r} is not a Gymnasium environment: gymnasium.make(name) makes one"
            )
        RecordConstructorArgs.__init__(self, n_states=n_states, key=key, numbers=numbers)
        gym.Wrapper.__init__(self, env)
        if n_states is None and not (key is None and numbers is None):
            raise InvalidArgument("key and numbers are for numbering as seen: give n_states too")
        self.as_seen = n_states is not None
        self.key = key
        if numbers is not None and not isinstance(numbers, dict):
            raise InvalidArgument(
                f"numbers is a {type(numbers).__name__}: it is the `numbers` of another task"
            )
        self.numbers: dict[Hashable, int] = {} if numbers is None else numbers
        """Observations that were seen, and their numbers."""
        n = (
            size_of_space(env.observation_space, "observation", env)
            if n_states is None
            else whole_number("n_states", n_states, most=LARGEST)
        )
        if len(self.numbers) > n:
            raise InvalidArgument(
                f"n_states is {n}, and {len(self.numbers)} states are numbered already: it is the "
                "same for all tasks of a family"
            )
        self.n_states, self.n_actions = n, size_of_space(env.action_space, "action", env)
        self.observation_space = spaces.Discrete(self.n_states)
        self.action_space = spaces.Discrete(self.n_actions)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[int, dict[str, Any]]:
        """Begin an episode; returns the number of the first state."""
        observation, info = self.env.reset(seed=seed, options=options)
        return self.state_of(observation), info

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        """Take an action by its number; returns the number of the next state."""
        observation, reward, terminated, truncated, info = self.env.step(self.action_of(action))
        return self.state_of(observation), float(reward), terminated, truncated, info

    def state_of(self, observation: Any) -> int:
        """The number of an observation; if it is numbered as seen, perhaps a new one."""
        try:
            seen = _hashable(observation if self.key is None else self.key(observation))
            number = self.numbers.get(seen)
        except TypeError as error:
            raise UnsupportedEnvironment(
                f"the observation {observation!r} cannot be told from others ({error}): give a key "
                "that takes numbers, strings, or arrays of numbers from it"
            ) from None
        if number is None:
            number = self.numbers[seen] = self._new_number(observation)
        if number >= self.n_states:  # numbers are shared, and another task has room for more
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
            f"more than {self.n_states} different observations of {self.env} were seen: give a "
            "larger n_states, or a key that tells fewer states apart"
        )

    def save_numbers(self, path: str | os.PathLike[str]) -> None:
        """Write the numbers of all observations seen to one file."""
        seen = sorted(self.numbers, key=self.numbers.__getitem__)
        numbers = [self.numbers[observation] for observation in seen]
        header = {"observations": [repr(observation) for observation in seen], "numbers": numbers}
        archive.write(path, "numbers", archive.Content(header, {}))

    @staticmethod
    def load_numbers(path: str | os.PathLike[str]) -> dict[Hashable, int]:
        """The numbers in a file, for `numbers` of new environments."""
        header, _ = archive.read(path, "numbers")
        with archive.parsing(str(path), "numbering"):
            # Literals only: nothing is executed.
            seen = [ast.literal_eval(text) for text in header["observations"]]
            numbers = dict(zip(seen, header["numbers"], strict=True))
            if not all(type(number) is int and number >= 0 for number in numbers.values()):
                raise InvalidFile("a number is no number")
            return numbers

    def observation_of(self, state: int) -> Any:
        """The observation of a number, if it was numbered by place."""
        if self.as_seen:
            raise InvalidArgument("observations were numbered as seen: look them up in `numbers`")
        state = whole_number("state", state, least=0, most=self.n_states - 1)
        return value_of(self.env.observation_space, state)

    def action_of(self, action: int) -> Any:
        """The environment's action of a number."""
        action = whole_number("action", action, least=0, most=self.n_actions - 1)
        return value_of(self.env.action_space, action)


def _hashable(observation: Any) -> Hashable:
    """Equal for equal observations, whatever they are made of."""
    if isinstance(observation, np.ndarray):
        kind = observation.dtype.kind
        if kind == "f":
            # One form for all floats, and one zero; NaN is unlike itself, and no state.
            observation = observation.astype(np.float64) + 0.0
            if np.isnan(observation).any():
                raise TypeError("it holds NaN")
        elif kind not in "biu":
            raise TypeError(f"it holds {observation.dtype}")
        return observation.shape, kind, observation.tobytes()
    if isinstance(observation, dict):
        return tuple((name, _hashable(part)) for name, part in sorted(observation.items()))
    if isinstance(observation, tuple | list):
        return tuple(_hashable(part) for part in observation)
    return observation.item() if isinstance(observation, np.generic) else observation
