"""Transitions from one list of outcomes per pair: a table, or a function that returns them."""

from array import array
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from heirloom.arrays import BoolArray
from heirloom.errors import InvalidArgument, InvalidTask
from heirloom.mdp.transitions import Entries, Transitions, collect
from heirloom.validation import shown, whole_number

Row = Callable[[int, int], Iterable[Any] | None]
"""Returns the outcomes of a pair (s, a), each (probability, successor, reward, terminated)."""


def collect_rows(
    row: Row, n_states: int, n_actions: int, *, where: str, available: BoolArray | None = None
) -> Transitions:
    """Collect the outcomes of all pairs, one pair after the other.

    Args:
        row: returns the outcomes of a pair; None or an empty list if there is no such action.
        n_states: the number of states, S.
        n_actions: the number of actions, A.
        where: the place of a pair in messages, with the fields `s` and `a`: "P[{s}][{a}]".
        available: the pairs that exist, which must have outcomes; None for those that have some.
    """
    given, found = available, np.zeros(n_states * n_actions, dtype=bool)
    pairs, successors, ends = array("q"), array("q"), array("b")
    p, rewards = array("d"), array("d")
    for s in range(n_states):
        for a in range(n_actions):
            if given is not None and not given[s * n_actions + a]:
                continue
            place = where.format(s=s, a=a)
            for outcome in _outcomes(row(s, a), place):
                found[s * n_actions + a] = True
                successor, probability, reward, terminated = _outcome(outcome, place, n_states)
                pairs.append(s * n_actions + a)
                successors.append(successor)
                p.append(probability)
                rewards.append(reward)
                ends.append(terminated)
    outcomes = Entries(
        np.array(pairs, dtype=np.int64),
        np.array(successors, dtype=np.int64),
        np.array(p, dtype=np.float64),
        np.array(rewards, dtype=np.float64),
        np.array(ends, dtype=bool),
    )
    available = found if given is None else given
    stuck = np.flatnonzero(~available.reshape(n_states, n_actions).any(axis=1))
    if stuck.size:
        raise InvalidTask(
            f"{where.format(s=stuck[0], a='a')} has no outcomes for any action a: state {stuck[0]} "
            "has no available action; every state needs at least one"
        )
    return collect(outcomes, n_states, n_actions, available=available)


def _outcomes(given: Any, where: str) -> Iterable[Any]:
    if given is None:
        return ()
    if isinstance(given, Iterable) and not isinstance(given, str | bytes):
        return given
    raise InvalidTask(
        f"{where} is {shown(given)}: expected a list of outcomes (probability, successor, reward, "
        "terminated)"
    )


def _outcome(outcome: Any, where: str, n_states: int) -> tuple[int, float, float, bool]:
    """Return (successor, probability, reward, terminated) of an entry of a table."""
    try:
        p, successor, reward, terminated = outcome
        p, reward = float(p), float(reward)
        if terminated not in (True, False):
            raise ValueError
    except (TypeError, ValueError):
        raise InvalidTask(
            f"{where} contains {shown(outcome)}: expected (probability, successor, reward, "
            "terminated)"
        ) from None
    try:
        successor = whole_number("successor", successor, least=0, most=n_states - 1)
    except InvalidArgument as error:
        raise InvalidTask(f"{where} contains {shown(outcome)}: the {error}") from None
    return successor, p, reward, bool(terminated)
