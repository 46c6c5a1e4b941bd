"""`Binned`: a wrapper that turns observations of real numbers into numbered bins.

Each dimension of a `Box` is cut at given edges, and a state is one combination of bins. The last
dimension varies fastest, as in a C-ordered array. The numbering depends on the edges alone: tasks
with the same edges share it. An agent keeps the edges in its memory, and saves them with itself:
`Binned(env, edges=agent.memory.edges)` numbers observations as before. It refuses an environment
with other edges.

Binning voids the guarantees. Agents assume that the next state depends on the current state and the
action only. Observations in one bin differ, and what follows depends on where in the bin the
environment is, and thus on the way there. An agent learns averages over its own visits, so neither
bounds nor certificates hold for the environment, and finer bins make the error smaller without
removing it. What remains true is what is measured: the returns of a fixed policy over independent
episodes, with their confidence interval, are those of the policy in the environment itself.
"""

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike

from heirloom.arrays import FloatArray
from heirloom.envs.spaces import (
    LARGEST,
    MOST_NAMED,
    NumberingWrapper,
    check_environment,
    names_of_bins,
)
from heirloom.errors import InvalidArgument, UnsupportedEnvironment
from heirloom.transfer.bins import checked_edges, n_bins
from heirloom.validation import index, numbers, shown
from heirloom.wording import counted


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
        if n_states > LARGEST:
            raise InvalidArgument(f"edges make {n_states:,} bins: expected at most {LARGEST:,}")
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
