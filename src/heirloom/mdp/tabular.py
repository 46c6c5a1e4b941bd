"""`TabularMDP`: a task with an exact, known model."""

import os
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from heirloom.arrays import BoolArray, FloatArray, frozen, read_only
from heirloom.errors import InvalidArgument, InvalidTask
from heirloom.mdp.available import read_available
from heirloom.mdp.from_arrays import (
    range_around,
    read_start,
    read_transitions,
    rewards_of,
)
from heirloom.mdp.from_rows import Row, collect_rows
from heirloom.mdp.scene import Scene, scene_of
from heirloom.mdp.transitions import Transitions, check_transitions
from heirloom.naming import NamesLike, checked_names
from heirloom.storage import archive
from heirloom.validation import Range, check_gamma, instance, shown, sizes, truth
from heirloom.wording import counted, counted_of

if TYPE_CHECKING:
    import gymnasium as gym

EQUAL = 1e-14  # a range is one number if it is narrower than this, relative to its largest limit
NO_REWARD = 1e-250  # rounding errors of smaller numbers would not be relative


class TabularMDP:
    """A finite MDP: rewards, sparse transitions, discount factor and start distribution.

    A task is immutable, and validated when it is created. Termination is a property of transitions:
    the value of a terminal transition is its reward, whatever state it enters.

    Args:
        R: rewards per pair, [s, a], or per transition, in the shape of T.
        T: transition probabilities, [s, a, s'], or sparse of shape (S·A, S), row s * A + a.
        gamma: the discount factor, in [0, 1).
        start: the first state, or a distribution over first states; uniform by default.
        terminates: the terminal states (their numbers, or a boolean mask), so that every transition
            into them terminates; or the terminal transitions (booleans in the shape of T). None by
            default.
        reward_range: an interval (lo, hi) that contains the rewards of this and all related tasks.
            None stands for the smallest range that contains the rewards of this task.
        available: the actions that exist, booleans [s, a], at least one per state; all by default.
            R and T are ignored where an action does not exist.
        state_names: one name per state, in order, or a function from numbers to names.
        action_names: one name per action, likewise.

    Example:
        >>> stay_or_go = TabularMDP(
        ...     R=[[0.0, 0.0], [1.0, 1.0]],
        ...     T=[[[1, 0], [0, 1]], [[0, 1], [1, 0]]],
        ...     gamma=0.9,
        ... )
        >>> stay_or_go
        TabularMDP(2 states, 2 actions, 4 transitions, gamma=0.9, rewards 0 to 1 in (0, 1))
    """

    def __init__(
        self,
        R: ArrayLike | sparse.sparray | sparse.spmatrix,
        T: ArrayLike | sparse.sparray | sparse.spmatrix,
        *,
        gamma: float,
        start: int | ArrayLike | None = None,
        terminates: ArrayLike | sparse.sparray | sparse.spmatrix | None = None,
        reward_range: Range | None = (0.0, 1.0),
        available: ArrayLike | None = None,
        state_names: NamesLike = None,
        action_names: NamesLike = None,
    ) -> None:
        self._set(
            read_transitions(R, T, terminates, available),
            gamma=gamma,
            start=start,
            reward_range=reward_range,
            state_names=state_names,
            action_names=action_names,
        )

    @classmethod
    def from_transitions(cls, transitions: Transitions, **options: Any) -> Self:
        """Create a task from `Transitions`; options are those of the constructor.

        Raises `InvalidTask` unless the transitions describe a task.
        """
        check_transitions(transitions)
        m = cls.__new__(cls)
        m._set(transitions, **options)
        return m

    @classmethod
    def from_gymnasium(
        cls,
        env: "gym.Env[Any, Any]",
        *,
        gamma: float,
        start: int | ArrayLike | None = None,
        reward_range: Range | None = None,
        masks: bool = False,
        state_names: NamesLike = None,
        action_names: NamesLike = None,
    ) -> Self:
        """Read the exact model of an environment that has a transition table `P`.

        Outcomes with the same successor are merged, terminal ones separately from the others. The
        start distribution is the environment's `initial_state_distrib` unless one is given, and
        names are its `state_names` and `action_names`, if it has them. Wrappers, including time
        limits, are ignored. A pair without outcomes is an action that is not available; with
        `masks`, so are those that the method `action_mask(s)` of the environment excludes. Without
        `masks`, a notice that it excludes actions is logged once. Raises `UnsupportedEnvironment`
        if there is no table, or with `masks` no such method.
        """
        from heirloom.mdp.gymnasium import read_names, read_start_of, read_table

        states, actions = read_names(env)
        return cls.from_transitions(
            read_table(env, masks=truth("masks", masks)),
            gamma=gamma,
            start=read_start_of(env) if start is None else start,
            reward_range=reward_range,
            state_names=states if state_names is None else state_names,
            action_names=actions if action_names is None else action_names,
            scene=scene_of(env),
        )

    @classmethod
    def from_callable(cls, row: Row, n_states: int, n_actions: int, **options: Any) -> Self:
        """Create a task from a function that returns the outcomes of one pair, without a dense T.

        Args:
            row: returns the outcomes of (s, a), each (probability, successor, reward, terminated);
                None or an empty list if the action does not exist.
            n_states: the number of states, S.
            n_actions: the number of actions, A.
            options: `gamma` and the other options of the constructor except `terminates`. With
                `available`, `row` is called only where an action is available.
        """
        if not callable(row):
            raise InvalidArgument(f"row is {shown(row)}: expected a function of a state and action")
        n_states, n_actions = sizes(n_states, n_actions)
        available = options.pop("available", None)
        mask = read_available(available, n_states, n_actions)
        if available is not None and mask is None:
            mask = np.ones(n_states * n_actions, dtype=bool)
        where = "row({s}, {a})"
        transitions = collect_rows(row, n_states, n_actions, where=where, available=mask)
        return cls.from_transitions(transitions, **options)

    @classmethod
    def from_npz(cls, path: str | os.PathLike[str], **options: Any) -> Self:
        """Create a task from an `.npz` file with the arrays `R` and `T` of the constructor.

        The file may also hold `gamma`, `start`, `terminates`, `available`, `reward_range`,
        `state_names` and `action_names`; other arrays are ignored. A sparse T is given by the
        arrays `T_data`, `T_indices` and `T_indptr` of a csr_array of shape (S·A, S). Options are
        those of the constructor, and replace what is in the file. A file that `save` has written
        is read, too; options can then be `gamma`, `start`, `reward_range` and names. Raises
        `InvalidFile` unless the file can be read without unpickling.
        """
        from heirloom.mdp.task_file import read_npz, saved_task

        if (saved := saved_task(path)) is not None:
            transitions, given = saved
            return cls.from_transitions(transitions, **{**given, **options})
        given = {**read_npz(path), **options}
        if "gamma" not in given:
            raise InvalidArgument("gamma is not in the file: give gamma, the discount factor")
        return cls(given.pop("R"), given.pop("T"), **given)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "TabularMDP":
        """Load the task that was saved in a file; raise `InvalidFile` if the file is damaged."""
        from heirloom.mdp.task_file import unpacked

        return unpacked(archive.read(path, "task"), str(path))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the task to one file atomically; `numpy.load` opens it without Heirloom.

        It is an `.npz` file, with the arrays that docs/files.md describes.
        """
        from heirloom.mdp.task_file import packed

        archive.write(path, "task", packed(self))

    def to_gymnasium(self, *, max_episode_steps: int | None = None) -> "gym.Env[Any, Any]":
        """Return a Gymnasium environment that simulates this task, with its table `P`.

        A step returns the reward of the transition that was drawn. With `max_episode_steps` the
        environment is wrapped in Gymnasium's `TimeLimit`, which truncates episodes.
        """
        from heirloom.mdp.gymnasium import make_env

        return make_env(self, max_episode_steps=max_episode_steps)

    def _set(
        self,
        transitions: Transitions,
        *,
        gamma: float,
        start: int | ArrayLike | None = None,
        reward_range: Range | None = (0.0, 1.0),
        state_names: NamesLike = None,
        action_names: NamesLike = None,
        scene: Scene | None = None,
    ) -> None:
        n_states, n_actions = transitions.n_states, transitions.n_actions
        gamma = check_gamma(gamma)
        if scene is not None:
            instance("scene", scene, Scene, "or None for a task without a map")
        self.__dict__.update(
            transitions=transitions,
            gamma=gamma,
            start=frozen(read_start(start, n_states)),
            reward_range=range_around(transitions, reward_range, gamma),
            state_names=checked_names(state_names, n_states, "state", InvalidTask),
            action_names=checked_names(action_names, n_actions, "action", InvalidTask),
            scene=scene,
        )

    transitions: Transitions
    """All possible transitions, each with its reward and whether it terminates."""
    gamma: float
    """The discount factor."""
    start: FloatArray
    """The distribution of the first state, [s]."""
    reward_range: Range
    """An interval (lo, hi) that contains every reward of this and of related tasks."""
    state_names: tuple[str, ...] | None
    action_names: tuple[str, ...] | None
    scene: Scene | None
    """The map on which the states lie, for pictures; None if there is none."""

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a TabularMDP is immutable: create a new one to change `{name}`")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a TabularMDP is immutable: `{name}` cannot be deleted")

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name in ("ends", "available"):
            state.pop(name, None)  # cached; unpickling makes it writable, so compute it again
        self.__dict__.update(state)
        frozen(self.start)

    @property
    def n_states(self) -> int:
        """The number of states, S."""
        return self.transitions.n_states

    @property
    def n_actions(self) -> int:
        """The number of actions, A."""
        return self.transitions.n_actions

    @property
    def R(self) -> FloatArray:
        """Mean rewards, [s, a], rounded to float64; `transitions.R_error` bounds the error.

        They are 0 where an action is not available.
        """
        return self.transitions.R.reshape(self.n_states, self.n_actions)

    @property
    def T(self) -> sparse.csr_array:
        """Successor probabilities of terminal and other transitions: rows s * A + a, with sum 1.

        The row of an action that is not available is empty.
        """
        t = self.transitions
        # A new matrix each time: a caller can replace the arrays of a matrix, although these are
        # read-only.
        arrays, shape = (t.p, t.successors, t.indptr), (t.indptr.size - 1, t.n_states)
        if t.ends is None:
            return sparse.csr_array(arrays, shape=shape)
        T = sparse.csr_array(arrays, shape=shape, copy=True)
        T.sum_duplicates()  # a successor may occur twice, with and without termination
        for array in (T.data, T.indices, T.indptr):
            frozen(array)
        return T

    @cached_property
    def available(self) -> BoolArray:
        """The actions that exist, [s, a]."""
        t = self.transitions
        mask = np.ones(t.R.size, dtype=bool) if t.available is None else t.available
        return read_only(mask.reshape(self.n_states, self.n_actions))

    @cached_property
    def ends(self) -> FloatArray:
        """The probability of termination, [s, a]: that of entering the absorbing state ⊥."""
        return self.transitions.end_probability.reshape(self.n_states, self.n_actions)

    @property
    def terminating(self) -> bool:
        """Whether any transition terminates."""
        return self.transitions.ends is not None

    @property
    def v_max(self) -> float:
        """An upper bound on every value of every task in this reward range."""
        return value_range(self.reward_range, self.gamma, terminating=self.terminating)[1]

    @property
    def v_min(self) -> float:
        """A lower bound on every value of every task in this reward range."""
        return value_range(self.reward_range, self.gamma, terminating=self.terminating)[0]

    def __repr__(self) -> str:
        t = self.transitions
        rewards = rewards_of(t)[0]
        lo, hi = self.reward_range
        parts = [
            counted(self.n_states, "state"),
            counted(self.n_actions, "action"),
            counted(t.p.size, "transition"),
            f"gamma={self.gamma}",
            f"rewards {rewards.min():g} to {rewards.max():g} in ({lo:g}, {hi:g})",
        ]
        if t.ends is not None:
            parts.insert(3, f"{t.ends.sum():,} terminating")
        if t.available is not None:
            parts.insert(2, f"{counted_of(t.available.sum(), t.R.size, 'pair')} available")
        return f"TabularMDP({', '.join(parts)})"


def check_task(m: object, name: str = "the task") -> None:
    """Raise `InvalidArgument` unless `m` is a `TabularMDP`."""
    if not isinstance(m, TabularMDP):
        raise InvalidArgument(
            f"{name} is {shown(m)}, a {type(m).__name__}, not a TabularMDP: build one from arrays, "
            "or with TabularMDP.from_gymnasium(env, gamma=...)"
        )


def reward_scale(reward_range: Range) -> float:
    """Return the unit of differences between rewards: hi - lo, which tolerances are multiples of.

    It is max(|lo|, |hi|) if lo and hi are equal, up to rounding, and 1 if both are 0.
    """
    lo, hi = reward_range
    largest = max(abs(lo), abs(hi))
    if largest < NO_REWARD:
        return 1.0
    return hi - lo if hi - lo > EQUAL * largest else largest


def value_range(reward_range: Range, gamma: float, *, terminating: bool) -> Range:
    """Return (v_min, v_max), the range of values if rewards lie in `reward_range`.

    If episodes may terminate, an episode may consist of a single reward: a positive `lo` is then
    the least possible value, and a negative `hi` the largest.
    """
    lo, hi = reward_range
    v_min = lo if terminating and lo > 0 else lo / (1 - gamma)
    v_max = hi if terminating and hi < 0 else hi / (1 - gamma)
    return v_min, v_max
