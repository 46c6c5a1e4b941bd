"""`FixedPolicy`: an agent that never learns, such as the rule that is in use today."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from heirloom.arrays import BoolArray
from heirloom.errors import IncompatibleTasks, InvalidArgument
from heirloom.mdp.available import action_text, read_mask
from heirloom.naming import NO_NAMES, Names, number_of
from heirloom.validation import shown, whole_number
from heirloom.wording import counted, size_of_task

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]

Rule = Callable[..., int | str]


class FixedPolicy:
    """An agent that follows a policy and never learns, to compare others with.

    Args:
        policy: the action of each state: an array or list [s]; a dictionary or a pandas series of
            actions by states; a pandas table with the columns `state` and `action`, such as
            `policy_table` returns; or a function of the state that returns an action. A function
            that needs two arguments is also given the mask of available actions, booleans [a].
        state_names: the names of states, in order, if the policy names them; None for those of the
            tasks, if they have names.
        action_names: the names of actions, likewise.

    An agent of this kind has no memory and no values. Before it learns anything, `learn` and
    `compare` check that its states and actions are those of the task. It raises `InvalidArgument`
    in a state for which it has no action, or one that its mask excludes.

    Examples:
        >>> import heirloom as hl
        >>> rule = hl.FixedPolicy({"low": "buy", "high": "sell"},
        ...     state_names=["low", "high"], action_names=["buy", "sell"])
        >>> rule.begin_task()
        >>> rule.act(1)
        1
    """

    def __init__(
        self,
        policy: "ArrayLike | Mapping[int | str, int | str] | pd.DataFrame | Rule",
        *,
        state_names: Sequence[str] | None = None,
        action_names: Sequence[str] | None = None,
    ) -> None:
        self._names = Names(*(None if x is None else tuple(x) for x in (state_names, action_names)))
        self._of_task = NO_NAMES
        self._function: Rule | None = None
        self._n_actions: int | None = None
        self._masks: dict[int, BoolArray] = {}
        if callable(policy):
            self._function, self._takes_mask = policy, _n_required(policy) > 1
            return
        given: Any = policy
        self._is_array = not hasattr(given, "items")
        try:
            if hasattr(given, "columns"):
                self._given = dict(zip(given["state"], given["action"], strict=True))
            else:
                self._given = dict(enumerate(given) if self._is_array else given.items())
        except (TypeError, KeyError):
            raise InvalidArgument(
                f"policy is {shown(policy)}: expected the actions of all states, a dictionary or a "
                "pandas series of actions by states, a pandas table with the columns state and "
                "action, or a function of a state"
            ) from None
        is_named = any(isinstance(x, str) for pair in self._given.items() for x in pair)
        if not is_named or self._names != NO_NAMES:
            self._read()

    def _read(self) -> None:
        """Number the states and actions of a policy that is no function."""
        self._table = {self._state(s): self._action(a) for s, a in self._given.items()}

    def _state(self, s: Any) -> int:
        return _number("a state of the policy", s, self._names.states or self._of_task.states)

    def _action(self, a: Any) -> int:
        return _number("an action of the policy", a, self._names.actions or self._of_task.actions)

    def check_fit(self, n_states: int, n_actions: int, names: Names) -> None:
        """Raise `IncompatibleTasks` unless the states and actions are those of a task."""
        self._n_actions, self._of_task = n_actions, names
        if self._function is not None:
            return
        self._read()
        if self._is_array and len(self._table) != n_states:
            raise IncompatibleTasks(
                f"the policy has {counted(len(self._table), 'action')}, one for each state, but "
                f"the task has {counted(n_states, 'state')}: give one action per state"
            )
        for s, a in self._table.items():
            if s >= n_states or a >= n_actions:
                raise IncompatibleTasks(
                    f"the policy takes action {a} in state {s}, but the task has "
                    f"{size_of_task(n_states, n_actions)}, numbered from 0: correct the policy"
                )

    def begin_task(self, *, available: BoolArray | None = None) -> None:
        """Begin a task; `available` are the actions that exist, [s, a]."""
        self._masks = {} if available is None else dict(enumerate(np.array(available, dtype=bool)))

    def observe_mask(self, s: int, mask: ArrayLike) -> None:
        """Observe which actions are available in state `s`."""
        self._masks[s] = read_mask(mask, np.size(mask), f"the mask of state {s}")

    def act(self, s: int) -> int:
        """Return the action of the policy in state `s`."""
        mask = self._masks.get(s)
        if mask is None and self._n_actions is not None:
            mask = np.ones(self._n_actions, dtype=bool)
        if self._function is not None:
            a = self._action(self._function(s, mask) if self._takes_mask else self._function(s))
        elif s in self._table:
            a = self._table[s]
        else:
            name = Names(self._names.states or self._of_task.states).state(s)
            raise InvalidArgument(
                f"policy has no action for state {name}: give one for every state"
            )
        if mask is not None and (a >= mask.size or not mask[a]):
            raise InvalidArgument(
                f"policy chooses an action that does not exist: {action_text(s, a, mask)}"
            )
        return a

    def observe(self, s: int, a: int, r: float, s_next: int, *, terminated: bool) -> bool:
        """Learn nothing; returns False, as there is no model to update."""
        return False

    def end_task(self, *, label: str | None = None, time: str | date | None = None) -> None:
        """End the task, of which nothing is kept."""

    def __repr__(self) -> str:
        what = "a function" if self._function is not None else counted(len(self._given), "state")
        return f"FixedPolicy({what})"


def _n_required(function: Rule) -> int:
    """Return how many arguments a function needs; a built-in one that does not say it needs one."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:
        return 1
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(p.kind in positional and p.default is p.empty for p in parameters)


def _number(key: str, given: Any, names: tuple[str, ...] | None) -> int:
    """Return the number of a state or action that is given by its number or its name."""
    if not isinstance(given, str):
        return whole_number(key, given, least=0)
    if names is None:
        raise InvalidArgument(
            f"{key} is {given!r}, and the task has no names: expected a number, or give "
            "state_names and action_names"
        )
    return number_of(key, given, len(names), names)
