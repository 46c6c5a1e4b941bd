"""`TabularMDP`: a task whose model is known."""

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn, Self

from numpy.typing import ArrayLike
from scipy import sparse

from heirloom.arrays import FloatArray, frozen
from heirloom.errors import InvalidArgument
from heirloom.mdp.from_arrays import checked_names, range_around, read_start, read_transitions
from heirloom.mdp.transitions import Transitions
from heirloom.validation import Range, check_gamma

if TYPE_CHECKING:
    import gymnasium as gym


class TabularMDP:
    """A finite decision problem: rewards, sparse transitions, discount, start, ends.

    Immutable, and valid from birth. Ends belong to transitions: one that terminates is worth its
    reward and nothing after it, whatever state it enters.

    Args:
        R: rewards, [s, a], or per transition in the shape of T.
        T: transition probabilities, [s, a, s'], or sparse of shape (S·A, S), row s * A + a.
        gamma: the discount factor, in [0, 1).
        start: the first state, or a distribution over first states; uniform by default.
        terminates: the states that end an episode when they are entered (numbers, or a boolean
            mask), or the transitions that do (booleans in the shape of T).
        reward_range: what is known of the rewards of all related tasks, (lo, hi). None takes
            (0, 1), widened as far as the rewards of this task require.
        state_names: one name a state.
        action_names: one name an action.

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
        state_names: Sequence[str] | None = None,
        action_names: Sequence[str] | None = None,
    ) -> None:
        self._set(
            read_transitions(R, T, terminates),
            gamma=gamma,
            start=start,
            reward_range=reward_range,
            state_names=state_names,
            action_names=action_names,
        )

    @classmethod
    def from_transitions(cls, transitions: Transitions, **options: Any) -> Self:
        """A task over transitions that are built already; options as of the constructor."""
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
        state_names: Sequence[str] | None = None,
        action_names: Sequence[str] | None = None,
    ) -> Self:
        """The exact model of an environment that carries its transition table `P`.

        Outcomes with the same successor are merged, terminating ones apart from the others. The
        start distribution is the environment's `initial_state_distrib` unless one is given.
        Wrappers are not looked at, and time limits are no part of a model. Raises
        `UnsupportedEnvironment` if there is no table.
        """
        from heirloom.mdp.gymnasium import read_start_of, read_table

        return cls.from_transitions(
            read_table(env),
            gamma=gamma,
            start=read_start_of(env) if start is None else start,
            reward_range=reward_range,
            state_names=state_names,
            action_names=action_names,
        )

    def to_gymnasium(self, *, max_episode_steps: int | None = None) -> "gym.Env[Any, Any]":
        """A Gymnasium environment over this task, with its table `P`.

        A step pays the reward of the transition that was drawn. With `max_episode_steps` it is
        wrapped in Gymnasium's `TimeLimit`, which truncates and does not terminate.
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
        state_names: Sequence[str] | None = None,
        action_names: Sequence[str] | None = None,
    ) -> None:
        n_states, n_actions = transitions.n_states, transitions.n_actions
        self.__dict__.update(
            transitions=transitions,
            gamma=check_gamma(gamma),
            start=frozen(read_start(start, n_states)),
            reward_range=range_around(transitions, reward_range, gamma),
            state_names=checked_names(state_names, n_states, "state"),
            action_names=checked_names(action_names, n_actions, "action"),
        )

    transitions: Transitions
    """Every possible transition, with its own reward and end."""
    gamma: float
    """The discount factor."""
    start: FloatArray
    """The distribution of the first state, [s]."""
    reward_range: Range
    """(lo, hi): what every reward of this and of related tasks lies in."""
    state_names: tuple[str, ...] | None
    action_names: tuple[str, ...] | None

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a TabularMDP is immutable: build a new one to change `{name}`")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a TabularMDP is immutable: `{name}` cannot be deleted")

    def __setstate__(self, state: dict[str, Any]) -> None:
        state.pop("ends", None)  # derived, and writable when it comes from another process
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
        """Mean rewards, [s, a]."""
        return self.transitions.R.reshape(self.n_states, self.n_actions)

    @property
    def T(self) -> sparse.csr_array:
        """Probabilities of successors, ending or not: rows s * A + a that sum to 1."""
        t = self.transitions
        # Made anew each time: its arrays are read-only, but a sparse matrix can replace them.
        arrays, shape = (t.p, t.successors, t.indptr), (t.indptr.size - 1, t.n_states)
        if t.ends is None:
            return sparse.csr_array(arrays, shape=shape)
        T = sparse.csr_array(arrays, shape=shape, copy=True)
        T.sum_duplicates()  # a successor may stand twice, once ending and once not
        for array in (T.data, T.indices, T.indptr):
            frozen(array)
        return T

    @cached_property
    def ends(self) -> FloatArray:
        """The probability that the episode ends, [s, a]: the mass of the sink ⊥."""
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
        def count(number: int, noun: str) -> str:
            return f"{number:,} {noun}" + ("" if number == 1 else "s")

        t = self.transitions
        rewards = t.R if t.rewards is None else t.rewards
        lo, hi = self.reward_range
        parts = [
            count(self.n_states, "state"),
            count(self.n_actions, "action"),
            count(t.p.size, "transition"),
            f"gamma={self.gamma}",
            f"rewards {rewards.min():g} to {rewards.max():g} in ({lo:g}, {hi:g})",
        ]
        if t.ends is not None:
            parts.insert(3, f"{t.ends.sum():,} terminating")
        return f"TabularMDP({', '.join(parts)})"


def check_task(m: object) -> None:
    """Raise `InvalidArgument` unless `m` is a task."""
    if not isinstance(m, TabularMDP):
        raise InvalidArgument(
            f"{m!r} is a {type(m).__name__}, not a TabularMDP: build one from arrays, or with "
            "TabularMDP.from_gymnasium(env, gamma=...)"
        )


def value_range(reward_range: Range, gamma: float, *, terminating: bool) -> Range:
    """(v_min, v_max): the range of values if rewards lie in `reward_range`.

    Where episodes may terminate, the sum of rewards of one sign may stop after the first.
    """
    lo, hi = reward_range
    v_min = lo if terminating and lo > 0 else lo / (1 - gamma)
    v_max = hi if terminating and hi < 0 else hi / (1 - gamma)
    return v_min, v_max
