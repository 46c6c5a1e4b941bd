"""`Declared`: what a user knows of all tasks before any data, besides a nearness."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypedDict

import numpy as np
from numpy.typing import ArrayLike

from heirloom.arrays import BoolArray, FloatArray, frozen
from heirloom.errors import InvalidArgument
from heirloom.mdp.from_arrays import read_start
from heirloom.options import Option
from heirloom.transfer.memory import TaskMemory
from heirloom.transfer.nearness.successors import Successors, read_successors
from heirloom.transfer.setting import Setting
from heirloom.validation import numbers, shown

Rewards = Literal["per transition"] | ArrayLike | None


class DeclaredOptions(TypedDict, total=False):
    """What is known of all tasks of an agent before any data, for its certificates."""

    successors: Annotated[
        Any,
        Option(
            "the successors that are possible in any task: booleans [s, a, s'], or sparse of "
            "shape (S·A, S); by default all states, and certificates are then wide.",
            None,
            spec=Literal["family"] | None,
        ),
    ]
    terminates: Annotated[
        Any,
        Option(
            "the pairs at which a transition can terminate, booleans [s, a]; by default all.",
            None,
            spec=None,
        ),
    ]
    rewards: Annotated[
        Any,
        Option(
            '"per transition" if the reward is the same at every visit of a transition; or the '
            "mean rewards, [s, a]; by default any in the reward range.",
            None,
            spec=Literal["per transition"] | None,
        ),
    ]
    start: Annotated[
        Any,
        Option(
            "the first state of episodes, or a distribution over first states; by default "
            "certificates rest on those that were observed.",
            None,
            spec=None,
        ),
    ]


@dataclass(frozen=True, eq=False)
class Declared:
    """What is known of all tasks; None for nothing. All arrays are over pairs and read-only."""

    successors: Successors | None = None
    terminates: BoolArray | None = None
    rewards: FloatArray | Literal["per transition"] | None = None
    start: FloatArray | None = None

    @classmethod
    def read(
        cls,
        setting: Setting,
        *,
        successors: Any = None,
        terminates: ArrayLike | None = None,
        rewards: Rewards = None,
        start: int | ArrayLike | None = None,
    ) -> "Declared":
        """Return what is declared; raise `InvalidArgument` unless it fits the setting."""
        return cls(
            None if successors is None else _read_successors(setting, successors),
            None if terminates is None else _read_flags(setting, terminates),
            _read_rewards(setting, rewards),
            None if start is None else frozen(read_start(start, setting.n_states)),
        )


def _read_successors(setting: Setting, given: Any) -> Successors:
    possible = read_successors(given)
    n_pairs, n_states = setting.n_pairs, setting.n_states
    if possible.first.size != n_pairs + 1 or possible.states.max(initial=0) >= n_states:
        raise InvalidArgument(
            f"successors has {possible.first.size - 1} pairs: expected {n_pairs} pairs and "
            f"{n_states} states"
        )
    return possible


def _read_flags(setting: Setting, given: ArrayLike) -> BoolArray:
    flags, shape = np.asarray(given), (setting.n_states, setting.n_actions)
    if flags.dtype != np.bool_ or flags.shape not in ((), shape):
        raise InvalidArgument(
            f"terminates is {shown(given)}: expected a boolean, or booleans of shape {shape}"
        )
    return frozen(np.broadcast_to(flags, shape).reshape(-1).copy())


def _read_rewards(
    setting: Setting, given: Rewards
) -> FloatArray | Literal["per transition"] | None:
    (lo, hi), shape = setting.reward_range, (setting.n_states, setting.n_actions)
    if given is None:
        return frozen(np.full(setting.n_pairs, lo)) if lo == hi else None
    if isinstance(given, str) and given == "per transition":
        return "per transition"
    means = np.empty(0) if isinstance(given, str) else numbers("rewards", given)
    if means.shape != shape or not ((means >= lo) & (means <= hi)).all():
        raise InvalidArgument(
            f'rewards is {shown(given)}: expected "per transition", or mean rewards [s, a] in '
            f"({lo:g}, {hi:g}), or None"
        )
    return frozen(means.reshape(-1).astype(np.float64))


def as_options(declared: Declared) -> dict[str, Any]:
    """Return what is declared as texts and arrays of a file."""
    found = {name: value for name, value in vars(declared).items() if value is not None}
    if declared.successors is not None:
        first, states = found.pop("successors")
        found |= {"successors_first": first, "successors_states": states}
    return found


def from_options(options: dict[str, Any], memory: TaskMemory) -> dict[str, Any]:
    """Return the options of an agent from those of a file."""
    found, shape = dict(options), (memory.n_states, memory.n_actions)
    if "successors_first" in found:
        arrays = found.pop("successors_first"), found.pop("successors_states")
        found["successors"] = Successors(*arrays)
    for name in ("terminates", "rewards"):
        if isinstance(found.get(name), np.ndarray):
            found[name] = found[name].reshape(shape)
    return found
