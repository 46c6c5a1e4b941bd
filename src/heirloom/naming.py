"""Names of states, actions and tasks, and how texts show them beside their numbers.

Names are for people: nothing that is learned or computed depends on them. Texts escape them.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import date
from typing import Any, NamedTuple

import numpy as np

from heirloom.errors import InvalidArgument
from heirloom.validation import shown, whole_number
from heirloom.wording import counted, printable

NamesLike = Sequence[str] | Callable[[int], str] | None
"""Names in order, or a function that returns the name of each number; None for no names."""
LONGEST_SHOWN = 60  # characters of a name in a text
LONGEST_LABEL = 200  # characters


def checked_names(
    names: NamesLike, number: int, noun: str, error: type[Exception] = InvalidArgument
) -> tuple[str, ...] | None:
    """Return the names of states or actions; raise `error` unless each has one, all different."""
    if names is None:
        return None
    if callable(names):
        names = [names(i) for i in range(number)]
    elif isinstance(names, np.ndarray):
        names = names.tolist()
    if not isinstance(names, Sequence) or isinstance(names, bytes | str):
        raise error(
            f"{noun}_names is {shown(names)}: expected a list of names, one per {noun}, in order, "
            f"or a function that returns the name of a {noun}"
        )
    if any(name is None for name in names):
        raise error(f"{noun}_names has None as a name: give each {noun} a name")
    names = tuple(str(name) for name in names)
    if len(names) != number:
        raise error(
            f"{noun}_names has {counted(len(names), 'name')} for {counted(number, noun)}: give one "
            f"per {noun}"
        )
    if len(set(names)) < number:
        twice = Counter(names).most_common(1)[0][0]
        raise error(f"{noun}_names has the name {twice!r} twice: give each {noun} a different name")
    return names


def all_different(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names, with the number appended to each name that occurs more than once."""
    counts = Counter(names)
    marked = tuple(f"{name} [{i}]" if counts[name] > 1 else name for i, name in enumerate(names))
    if len(set(marked)) == len(marked):
        return marked
    return tuple(f"{name} [{i}]" for i, name in enumerate(names))  # the numbers differ


def checked_label(name: str, label: object) -> str:
    """Return a label or a time as text, empty for None; raise `InvalidArgument` unless it is one.

    A date is written as in ISO 8601.
    """
    if label is None:
        return ""
    if isinstance(label, date):
        return label.isoformat()
    if not isinstance(label, str) or len(label) > LONGEST_LABEL:
        raise InvalidArgument(
            f"{name} is {shown(label)}: expected a text of at most {LONGEST_LABEL} characters"
            f"{', or a date' if name == 'time' else ''}"
        )
    return label


def number_of(key: str, given: object, number: int, names: tuple[str, ...] | None) -> int:
    """Return the number of a state or action that is given by its number or its name."""
    if isinstance(given, str) and names is not None:
        if given not in names:
            raise InvalidArgument(
                f"{key} is {shown(given)}: expected one of the names, such as {names[0]!r}, or a "
                f"number from 0 to {number - 1}"
            )
        return names.index(given)
    return whole_number(key, given, least=0, most=number - 1)


def shortened(name: str, longest: int = LONGEST_SHOWN) -> str:
    """Return a name on one line, escaped, and cut if it has more than `longest` characters."""
    text = printable(name)
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def with_name(number: int, name: str | None) -> str:
    """Return a number with its name in brackets, if there is one: "3" or "3 (wear 3)"."""
    return f"{number} ({shortened(name)})" if name else str(number)


class Names(NamedTuple):
    """The names of states and actions, as far as there are any."""

    states: tuple[str, ...] | None = None
    actions: tuple[str, ...] | None = None

    def state(self, s: int) -> str:
        """Return the number of a state, with its name if it has one."""
        return with_name(s, None if self.states is None else self.states[s])

    def action(self, a: int) -> str:
        """Return the number of an action, with its name if it has one."""
        return with_name(a, None if self.actions is None else self.actions[a])

    def pair(self, s: int, a: int) -> str:
        """Return a pair as text, such as "state 3 (wear 3), action 2 (repair)"."""
        return f"state {self.state(s)}, action {self.action(a)}"

    def coordinates(self) -> dict[str, Any]:
        """Return the names as coordinates of an xarray dataset over `state` and `action`."""
        found = {"state": self.states, "action": self.actions}
        return {
            f"{dimension}_name": (dimension, [printable(name) for name in names])
            for dimension, names in found.items()
            if names is not None
        }


NO_NAMES = Names()
