"""Actions that are not available in every state.

A task may lack actions in some states. Its mask is a flat array of booleans over pairs
k = s * A + a, or None if all actions are available everywhere. A missing pair has no transitions,
and 0 as its mean reward.

Solvers use a task in which every missing action is a copy of the first available action of its
state. This task has the same optimal values of states, and kernels need no masks.
"""

import contextlib
import logging
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from heirloom.arrays import BoolArray, FloatArray, IntArray, StateArray, frozen, ranges
from heirloom.errors import InvalidArgument, InvalidTask
from heirloom.validation import shown
from heirloom.wording import counted

if TYPE_CHECKING:
    import gymnasium as gym


class SparseRows(NamedTuple):
    """A sparse matrix with one row per pair, in the layout of the kernels."""

    indptr: IntArray
    successors: StateArray
    p: FloatArray


def read_available(available: Any, n_states: int, n_actions: int) -> BoolArray | None:
    """Return a mask over pairs, or None if every action is available.

    Raises `InvalidTask` unless `available` has booleans [s, a], and an action for each state.
    """
    if available is None:
        return None
    try:
        given = np.asarray(available)
    except (TypeError, ValueError) as error:
        raise InvalidTask(
            f"available is not an array of booleans [s, a] ({error}): give one row per state, with "
            "True for each action that exists"
        ) from None
    if given.shape != (n_states, n_actions) or given.dtype != np.bool_:
        cast = ""
        if given.dtype.kind in "iu":
            cast = "; convert a mask of 0 and 1 with np.asarray(mask, dtype=bool)"
        raise InvalidTask(
            f"available has shape {given.shape} and type {given.dtype}: expected booleans [s, a] "
            f"of shape ({n_states}, {n_actions}){cast}"
        )
    return checked_available(given.reshape(-1), n_states, n_actions)


def checked_available(mask: BoolArray, n_states: int, n_actions: int) -> BoolArray | None:
    """Return a copy of a mask over pairs, or None if it is True everywhere.

    Raises `InvalidTask` if a state has no available action.
    """
    if mask.all():
        return None
    stuck = np.flatnonzero(~mask.reshape(n_states, n_actions).any(axis=1))
    if stuck.size:
        raise InvalidTask(
            f"state {stuck[0]} has no available action: every state needs at least one; give a "
            "terminal state an action that leads back to it"
        )
    return frozen(mask.copy())


def stand_ins(mask: BoolArray, n_actions: int) -> IntArray:
    """Return each available pair itself, and for a missing one the first available of its state."""
    pairs = np.arange(mask.size)
    first = mask.reshape(-1, n_actions).argmax(axis=1) + np.arange(0, mask.size, n_actions)
    return np.where(mask, pairs, np.repeat(first, n_actions))


def rows_of(rows: SparseRows, pairs: IntArray) -> SparseRows:
    """Return the rows of `pairs`, one after the other."""
    lengths = rows.indptr[pairs + 1] - rows.indptr[pairs]
    indptr = np.append(0, np.cumsum(lengths))
    taken = ranges(rows.indptr[pairs], lengths)
    return SparseRows(frozen(indptr), frozen(rows.successors[taken]), frozen(rows.p[taken]))


def row_sums(x: Any, indptr: IntArray, dtype: Any = None) -> Any:
    """Return the sum of each row, which is 0 for an empty row."""
    filled = np.diff(indptr) > 0
    if filled.all():
        return np.add.reduceat(x, indptr[:-1], dtype=dtype)
    sums = np.zeros(filled.size, dtype=x.dtype if dtype is None else dtype)
    if filled.any():
        sums[filled] = np.add.reduceat(x, indptr[:-1][filled], dtype=dtype)
    return sums


def action_text(s: int, a: int, mask: BoolArray) -> str:
    """Return what messages say about an action that is missing; `mask` is that of the state."""
    there = ", ".join(str(i) for i in np.flatnonzero(mask)[:10])
    more = ", ..." if np.count_nonzero(mask) > 10 else ""
    return f"action {a} is not available in state {s}: the available actions are {there}{more}"


def read_mask(mask: Any, n_actions: int, name: str) -> BoolArray:
    """Return a mask over actions as booleans; raise `InvalidArgument` unless it is one.

    At least one action must be available. `name` is the place of the mask in messages.
    """
    try:
        given = np.asarray(mask)
    except (TypeError, ValueError):
        given = np.empty(0)
    flags = given == 1
    is_mask = given.shape == (n_actions,) and given.dtype.kind in "biuf"
    if not (is_mask and (flags | (given == 0)).all()):
        raise InvalidArgument(
            f"{name} is {shown(mask)}: expected {counted(n_actions, 'number')}, 1 for each "
            "available action and 0 for the others"
        )
    if not flags.any():
        raise InvalidArgument(
            f"{name} marks no action as available: every state needs at least one; an environment "
            "should terminate instead"
        )
    return flags


class Availability:
    """Which actions of a task exist, as far as they are known. At first, all do.

    A mask may be given for the whole task, or observed state by state. Until the mask of a state is
    observed, all its actions are assumed to exist, which keeps upper bounds valid.
    """

    def __init__(self, n_states: int, n_actions: int) -> None:
        self._shape = n_states, n_actions
        self.missing: BoolArray | None = None
        """The pairs that are known to be missing; None if there are none."""
        self._observed: BoolArray | None = None  # the states; None if masks are not observed
        self.is_expected = False
        """Whether masks are announced: then no action is certain before the mask of its state."""

    @property
    def sure(self) -> BoolArray | None:
        """The pairs that surely exist; None if all do."""
        if self._observed is None:
            return None if self.missing is None else ~self.missing
        observed = np.repeat(self._observed, self._shape[1])
        return observed if self.missing is None else observed & ~self.missing

    @property
    def certain(self) -> BoolArray | None:
        """The pairs that surely exist, also before the first mask that is announced."""
        if self.is_expected and self._observed is None and self.missing is None:
            return np.zeros(self._shape[0] * self._shape[1], dtype=bool)
        return self.sure

    def is_known(self, s: int) -> bool:
        """Return whether the mask of a state was observed, or given."""
        return self.missing is not None if self._observed is None else bool(self._observed[s])

    def give(self, mask: BoolArray) -> None:
        """Set the mask of the whole task, over pairs."""
        self.missing, self._observed = None if mask.all() else ~mask, None

    def observe(self, s: int, mask: BoolArray) -> IntArray:
        """Record the mask of a state; return the pairs that turn out to be missing.

        Raises `InvalidArgument` if it is not the mask that was observed before.
        """
        n_states, n_actions = self._shape
        first = s * n_actions
        row = slice(first, first + n_actions)
        if self.is_known(s):
            before = np.ones(n_actions, dtype=bool) if self.missing is None else ~self.missing[row]
            if not np.array_equal(before, mask):
                raise InvalidArgument(
                    f"the mask of state {s} is {mask.astype(int).tolist()}, and was "
                    f"{before.astype(int).tolist()} before: the available actions must depend on "
                    "the state only; make what they depend on a part of the state"
                )
            return np.empty(0, dtype=np.int64)
        if self._observed is None:
            self._observed = np.zeros(n_states, dtype=bool)
        self._observed[s] = True
        new = first + np.flatnonzero(~mask)
        if new.size:
            if self.missing is None:
                self.missing = np.zeros(n_states * n_actions, dtype=bool)
            self.missing[new] = True
        return new


class MaskNotice:
    """Log once that an environment gives masks which are not used."""

    announced = False

    @classmethod
    def look(cls, env: "gym.Env[Any, Any]", info: Mapping[str, Any]) -> None:
        """Log the message if a mask of the current state excludes an action.

        The mask is `info["action_mask"]`, or what the method `action_masks()` returns.
        """
        if cls.announced:
            return
        mask = info.get("action_mask")
        if mask is None and callable(ask := getattr(env.unwrapped, "action_masks", None)):
            with contextlib.suppress(Exception):  # a mask that is not used must not be an error
                mask = ask()
        if mask is not None and not np.all(mask):
            cls._announce(env)

    @classmethod
    def look_at_states(cls, env: "gym.Env[Any, Any]", available: BoolArray) -> None:
        """Log the message if `action_mask(s)` of the environment excludes an available action.

        `available` has the actions of the transition table of the environment, [s, a].
        """
        ask = getattr(env.unwrapped, "action_mask", None)
        if cls.announced or not callable(ask):
            return
        with contextlib.suppress(Exception):  # a mask that is not used must not be an error
            if any((np.equal(ask(s), 0) & row).any() for s, row in enumerate(available)):
                cls._announce(env)

    @classmethod
    @contextlib.contextmanager
    def silent(cls) -> Iterator[None]:
        """Log nothing inside of the context: for code that ignores masks knowingly."""
        before, cls.announced = cls.announced, True
        try:
            yield
        finally:
            cls.announced = before

    @classmethod
    def _announce(cls, env: "gym.Env[Any, Any]") -> None:
        cls.announced = True
        logging.getLogger("heirloom").warning(
            "heirloom: %s gives masks of available actions, which are not used: to use them, call "
            "learn, compare or TabularMDP.from_gymnasium with masks=True. In some environments a "
            "mask excludes actions that exist and merely do nothing.",
            env,
        )
