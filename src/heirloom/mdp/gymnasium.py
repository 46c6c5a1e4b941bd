"""Conversion between tasks and Gymnasium environments that have a transition table `P`."""

from functools import cached_property
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Discrete
from gymnasium.wrappers import TimeLimit
from numpy.typing import NDArray

from heirloom.arrays import BoolArray, FloatArray
from heirloom.errors import InvalidArgument, InvalidTask, UnsupportedEnvironment
from heirloom.mdp.available import MaskNotice, action_text, read_mask
from heirloom.mdp.from_rows import collect_rows
from heirloom.mdp.transitions import Transitions
from heirloom.naming import Names
from heirloom.validation import index, numbers, shown, whole_number

if TYPE_CHECKING:
    from heirloom.mdp.tabular import TabularMDP

TOY_TEXT = "gymnasium.envs.toy_text"
TOY_TEXT_ACTIONS = {
    "FrozenLakeEnv": ("left", "down", "right", "up"),
    "CliffWalkingEnv": ("up", "right", "down", "left"),
    "TaxiEnv": ("south", "north", "east", "west", "pick up", "drop off"),
    "BlackjackEnv": ("stick", "hit"),
}

Table = dict[int, dict[int, list[tuple[float, int, float, bool]]]]


class TabularEnv(gym.Env[Any, Any]):
    """An environment that simulates a task, with one uniform random number per step and reset.

    `P[s][a]` lists the outcomes (probability, successor, reward, terminated); there is no entry for
    an action that is not available. If there are such actions, `info["action_mask"]` of resets and
    steps marks the available ones.
    """

    metadata = {"render_modes": []}  # noqa: RUF012 -- Gymnasium defines this attribute

    def __init__(self, task: "TabularMDP") -> None:
        self.task = task
        self.observation_space: gym.Space[Any] = Discrete(task.n_states)
        self.action_space: gym.Space[Any] = Discrete(task.n_actions)
        self.initial_state_distrib = task.start
        self.s: int | None = None
        self._first_states = np.flatnonzero(task.start)
        self._start_sums = np.cumsum(task.start[self._first_states])

    @property
    def state_names(self) -> tuple[str, ...] | None:
        """The names of the states of the task; None if it has none."""
        return self.task.state_names

    @property
    def action_names(self) -> tuple[str, ...] | None:
        """The names of the actions of the task; None if it has none."""
        return self.task.action_names

    @cached_property
    def P(self) -> Table:
        """The transition table, as in Gymnasium's toy-text environments."""
        t = self.task.transitions
        rewards = t.R[t.pairs] if t.rewards is None else t.rewards
        ends = np.zeros(t.p.size, dtype=bool) if t.ends is None else t.ends
        outcomes = list(
            zip(t.p.tolist(), t.successors.tolist(), rewards.tolist(), ends.tolist(), strict=True)
        )
        starts = t.indptr.tolist()

        def outcomes_of(pair: int) -> list[tuple[float, int, float, bool]]:
            return outcomes[starts[pair] : starts[pair + 1]]

        return {
            s: {
                a: outcomes_of(s * t.n_actions + a)
                for a in range(t.n_actions)
                if starts[s * t.n_actions + a] < starts[s * t.n_actions + a + 1]
            }
            for s in range(t.n_states)
        }

    def action_mask(self, state: int) -> NDArray[np.int8]:
        """Return 1 for each action that is available in a state, and 0 for the others."""
        return self.task.available[state].astype(np.int8)

    def action_masks(self) -> BoolArray:
        """Return whether each action is available in the current state."""
        if self.s is None:
            raise gym.error.ResetNeeded("call reset() before action_masks()")
        return self.task.available[self.s].copy()

    def _info(self, probability: float) -> dict[str, Any]:
        info: dict[str, Any] = {"prob": float(probability)}
        if self.task.transitions.available is not None and self.s is not None:
            info["action_mask"] = self.action_mask(self.s)
        return info

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[int, dict[str, Any]]:
        """Draw a first state."""
        super().reset(seed=seed)
        self.s = int(self._first_states[_sampled(self._start_sums, self.np_random.random())])
        return self.s, self._info(self.task.start[self.s])

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        """Draw a transition from the current state and `action`; return its reward."""
        if self.s is None:
            raise gym.error.ResetNeeded("call reset() before step()")
        t = self.task.transitions
        pair = self.s * t.n_actions + index("action", action, t.n_actions)
        first, last = t.indptr[pair], t.indptr[pair + 1]
        if first == last:
            text = action_text(*divmod(int(pair), t.n_actions), self.task.available[self.s])
            raise InvalidArgument(f"{text}; info['action_mask'] marks them")
        j = first + _sampled(np.cumsum(t.p[first:last]), self.np_random.random())
        self.s = int(t.successors[j])
        reward = t.R[pair] if t.rewards is None else t.rewards[j]
        terminated = t.ends is not None and bool(t.ends[j])
        return self.s, float(reward), terminated, False, self._info(t.p[j])


def make_env(task: "TabularMDP", *, max_episode_steps: int | None) -> gym.Env[Any, Any]:
    """Return an environment that simulates `task`, truncated after `max_episode_steps` if given."""
    env = TabularEnv(task)
    if max_episode_steps is None:
        return env
    return TimeLimit(env, whole_number("max_episode_steps", max_episode_steps))


def check_environment(env: object, name: str = "env") -> None:
    """Raise `UnsupportedEnvironment` unless `env` is a Gymnasium environment."""
    if not isinstance(env, gym.Env):
        raise UnsupportedEnvironment(
            f"{name} is {shown(env)}, which is not a Gymnasium environment: make one with "
            "gymnasium.make(name)"
        )


def sizes_of(env: gym.Env[Any, Any], name: str = "env") -> tuple[int, int]:
    """Return the numbers of states and actions of a discrete environment."""
    check_environment(env, name)
    return (
        _size_of(env.observation_space, env, "observation"),
        _size_of(env.action_space, env, "action"),
    )


def has_time_limit(env: gym.Env[Any, Any]) -> bool:
    """Whether an environment declares after how many steps it truncates an episode."""
    if getattr(env.spec, "max_episode_steps", None) is not None:
        return True
    while isinstance(env, gym.Wrapper) and not isinstance(env, TimeLimit):
        env = env.env
    return isinstance(env, TimeLimit)  # the spec of an environment that was not registered is None


def read_table(env: gym.Env[Any, Any], *, masks: bool = False) -> Transitions:
    """Return the transitions in the table `P` of a discrete environment.

    Pairs that the table lacks, and with `masks` those that `action_mask(s)` of the environment
    excludes, are actions that are not available.
    """
    n_states, n_actions = sizes_of(env)
    table = getattr(env.unwrapped, "P", None)
    if table is None:
        raise UnsupportedEnvironment(
            f"{env} has no transition table `P` to read its model from: "
            "let an agent learn in it, or build a TabularMDP from arrays"
        )

    available = _masks_of(env, n_states, n_actions) if masks else None

    def row(s: int, a: int) -> Any:
        if available is not None and not available[s, a]:
            return None
        try:
            return table[s][a]
        except (KeyError, IndexError):
            return None
        except TypeError:
            raise InvalidTask(
                f"P[{s}][{a}] cannot be read: expected a list of outcomes for each pair"
            ) from None

    transitions = collect_rows(row, n_states, n_actions, where="P[{s}][{a}]")
    if not masks and not isinstance(env.unwrapped, TabularEnv):
        there = np.diff(transitions.indptr).reshape(n_states, n_actions) > 0
        MaskNotice.look_at_states(env, there)
    return transitions


def _masks_of(env: gym.Env[Any, Any], n_states: int, n_actions: int) -> BoolArray:
    """Return what the method `action_mask(s)` of an environment says of all states, [s, a]."""
    ask = getattr(env.unwrapped, "action_mask", None)
    if not callable(ask):
        raise UnsupportedEnvironment(
            f"masks=True, but {env} has no method action_mask(s) that gives the mask of a state: "
            "leave missing actions out of its table `P`, or build a TabularMDP with `available`"
        )
    given = []
    for s in range(n_states):
        try:
            given.append(ask(s))
        except Exception as error:
            raise UnsupportedEnvironment(
                f"action_mask({s}) of {env} raised {type(error).__name__}: {error}. Expected a "
                "method that returns the mask of any state"
            ) from error
    return np.array([read_mask(m, n_actions, f"action_mask({s})") for s, m in enumerate(given)])


def read_names(env: gym.Env[Any, Any]) -> Names:
    """Return the attributes `state_names` and `action_names` of an environment or its wrappers.

    The outermost wrapper that has the attribute decides. What is not a list of different texts, one
    per state or action, is ignored. The names of Gymnasium's toy-text actions are known.
    """
    n_states, n_actions = sizes_of(env)
    return Names(_names_of(env, "state_names", n_states), named_actions(env, n_actions))


def named_actions(env: gym.Env[Any, Any], number: int) -> tuple[str, ...] | None:
    """Return the names of actions that an environment or Gymnasium's documentation gives."""
    names = _names_of(env, "action_names", number)
    if names is None and type(env.unwrapped).__module__.startswith(TOY_TEXT):
        names = TOY_TEXT_ACTIONS.get(type(env.unwrapped).__name__)
    return names if names is not None and len(names) == number else None


def _names_of(env: gym.Env[Any, Any], attribute: str, number: int) -> tuple[str, ...] | None:
    try:
        names = env.get_wrapper_attr(attribute)
    except AttributeError:
        return None
    is_list = isinstance(names, list | tuple) and all(isinstance(name, str) for name in names)
    return tuple(names) if is_list and len(names) == len(set(names)) == number else None


def read_start_of(env: gym.Env[Any, Any]) -> FloatArray:
    """Return the attribute `initial_state_distrib`, which toy-text environments have."""
    start = getattr(env.unwrapped, "initial_state_distrib", None)
    if start is None:
        raise UnsupportedEnvironment(
            f"{env} has no `initial_state_distrib`: give `start`, a state or a distribution"
        )
    return numbers("initial_state_distrib", start, InvalidTask)


def _size_of(space: gym.Space[Any], env: gym.Env[Any, Any], kind: str) -> int:
    if not isinstance(space, Discrete) or space.start != 0:
        remedy = "heirloom.wrappers.Numbered(env) converts other discrete spaces"
        if kind == "observation" and isinstance(space, Box) and space.dtype.kind == "f":
            remedy = "heirloom.wrappers.Binned(env, edges=[...]) cuts real numbers into bins"
        raise UnsupportedEnvironment(
            f"the {kind} space of {env} is {space}: expected Discrete(n), numbered from 0; {remedy}"
        )
    return int(space.n)


def _sampled(sums: FloatArray, u: float) -> int:
    """Return the index of the outcome for the uniform number `u`, given cumulative sums."""
    return min(int(sums.searchsorted(u, side="right")), sums.size - 1)
