"""`Source`: a task that ended, from which values are transferred."""

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from heirloom.arrays import BoolArray, FloatArray, frozen
from heirloom.errors import InvalidArgument
from heirloom.mdp.from_learned import mdp_of
from heirloom.mdp.learned import LearnedModel
from heirloom.mdp.rows import (
    RELATIVE,
    Outcomes,
    Rows,
    is_outside,
    read_outcomes,
    read_rows,
    rewards_outside,
    values,
)
from heirloom.mdp.tabular import TabularMDP, value_range
from heirloom.mdp.transitions import pair_text
from heirloom.naming import checked_label, with_name
from heirloom.transfer.setting import Setting
from heirloom.validation import instance, shown, whole_number
from heirloom.wording import counted, counted_of


@dataclass(frozen=True, eq=False, repr=False)
class Source:
    """A task that ended: what was observed of its pairs, and upper bounds `Q` on optimal values.

    All arrays are read-only and over pairs k = s * A + a, except `V`, which is over states. Every
    pair that was visited has a row, whether it became known or not. Rows follow each other in the
    order of pairs. A source is checked when it is created.
    """

    rows: Rows
    Q: FloatArray
    V: FloatArray
    task: int = 0
    """The number of the task among all tasks seen by its memory, from 1; 0 outside of a memory."""
    n_known: int = 0
    """The number of visits after which its pairs were known; 0 if it is not recorded."""
    available: BoolArray | None = None
    """True where the action is known to exist; None if all actions exist.

    Where it is False, the action is missing (then Q is -infinity), or was not observed to exist.
    """
    label: str = ""
    """What the task is called; empty if it has no label."""
    time: str = ""
    """When the task took place, such as "week 12"; empty if that is not recorded."""
    outcomes: Outcomes | None = None
    """How often each outcome of each pair was seen; None if that is not recorded.

    These are all visits, also those after the one at which the row of a pair was estimated last.
    """

    def __post_init__(self) -> None:
        Q, V = values("Q", self.Q, missing=True), values("V", self.V)
        if V.size == 0 or Q.size == 0 or Q.size % V.size:
            raise InvalidArgument(
                f"Q has {Q.size} entries and V has {V.size}: expected one entry of V for each "
                "state, and one entry of Q for each state and action"
            )
        rows = read_rows(self.rows, Q.size, V.size)
        self.__dict__.update(
            rows=rows,
            Q=Q,
            V=V,
            task=whole_number("task", self.task, least=0),
            n_known=whole_number("n_known", self.n_known, least=0),
            available=_checked_mask(self.available, self.rows, Q),
            label=checked_label("label", self.label),
            time=checked_label("time", self.time),
        )
        if self.outcomes is not None:
            self.__dict__["outcomes"] = read_outcomes(self.outcomes, rows, V.size)

    @classmethod
    def of(cls, model: LearnedModel, Q: FloatArray, *, label: str = "", time: str = "") -> "Source":
        """Make a source from a model; it keeps every visited pair, in the order of pairs."""
        instance("model", model, LearnedModel, "such as agent.model")
        Q = values("Q", Q, missing=True)
        n_pairs = model.n_states * model.n_actions
        if Q.size != n_pairs:
            raise InvalidArgument(
                f"Q has {counted(Q.size, 'entry')}: expected one for each of the {n_pairs} pairs "
                "of the model"
            )
        V = frozen(Q.reshape(model.n_states, -1).max(axis=1))
        outcomes, sure = model.outcomes, model._availability.sure
        rows = model._visited_rows(outcomes)
        if sure is not None:  # a pair that was visited exists, also if no mask was observed there
            sure = frozen(sure | rows.exist)
        source = cls._of_valid(rows, Q, V, 0, model.n_known, sure, outcomes)
        return source._with(label=checked_label("label", label), time=checked_label("time", time))

    @classmethod
    def _of_valid(
        cls,
        rows: Rows,
        Q: FloatArray,
        V: FloatArray,
        task: int = 0,
        n_known: int = 0,
        available: BoolArray | None = None,
        outcomes: Outcomes | None = None,
    ) -> "Source":
        """Make a source from read-only arrays that are known to be valid."""
        source = cls.__new__(cls)
        source.__dict__.update(rows=rows, Q=Q, V=V, task=task, n_known=n_known, label="", time="")
        source.__dict__.update(available=available, outcomes=outcomes)
        return source

    def _with(self, **changed: Any) -> "Source":
        """Return a copy with other attributes, which are known to be valid."""
        source = type(self).__new__(type(self))
        source.__dict__.update({**self.__dict__, **changed})
        return source

    def _raised(self, Q: FloatArray) -> "Source":
        """Return a copy whose values are not below other ones of the same task."""
        Q = frozen(np.maximum(self.Q, Q))
        return self._with(Q=Q, V=frozen(Q.reshape(self.V.size, -1).max(axis=1)))

    @property
    def fingerprint(self) -> tuple[str, ...]:
        """What tells the task from others: its label, its time and its visits; empty without."""
        if not self.rows.counts.any():
            return ()
        arrays = (self.rows.counts, self.rows.R, self.rows.successors, self.rows.p)
        visits = hashlib.blake2b(b"".join(np.ascontiguousarray(x).tobytes() for x in arrays))
        return self.label, self.time, visits.hexdigest()

    @property
    def name(self) -> str:
        """The number of the task with its label and time, such as "3 (Lyon, week 12)"."""
        return with_name(self.task, ", ".join(text for text in (self.label, self.time) if text))

    @property
    def known_pairs(self) -> str:
        """How many pairs are known, of those that are not missing, such as "3 of 4 pairs known"."""
        n_pairs = self.Q.size - int(self.missing.sum())
        return f"{counted_of(int(self.known.sum()), n_pairs, 'pair')} known"

    def __repr__(self) -> str:
        visits = f", n_known={self.n_known}" if self.n_known else ""
        return f"Source(task {self.name}: {self.known_pairs}{visits})"

    @property
    def missing(self) -> BoolArray:
        """The pairs whose action does not exist."""
        return np.isneginf(self.Q)

    @property
    def completed_Q(self) -> FloatArray:
        """Upper bounds on Q* of the task in which missing actions are copies of the best ones.

        Actions that were not observed to exist have the value of the best one, too.
        """
        if self.available is None:
            return self.Q
        return np.where(self.available, self.Q, np.repeat(self.V, self.Q.size // self.V.size))

    @property
    def widest(self) -> int:
        """The largest number of successors of a known pair."""
        return self.rows.widest

    @property
    def known(self) -> BoolArray:
        """The known set of the task."""
        return self.rows.known

    # A source serves many tasks: what each of them asks for is computed once.
    @cached_property
    def most_visits(self) -> int:
        """The largest number of visits of a known pair."""
        return int(self.rows.counts.max(initial=0, where=self.known))

    @cached_property
    def has_given_rows(self) -> bool:
        """Whether a known row was given instead of estimated: it has no visits."""
        return bool((self.known & (self.rows.counts == 0)).any())

    def to_mdp(self, **options: Any) -> TabularMDP:
        """Return the stored model as a task; the arguments are those of `LearnedModel.to_mdp`."""
        missing = None if self.available is None else self.missing
        return mdp_of(self.rows, self.V.size, missing=missing, **options)


def _checked_mask(available: object, rows: Rows, Q: FloatArray) -> BoolArray | None:
    """Return which pairs surely exist; raise `InvalidArgument` unless it agrees with a source."""
    missing = np.isneginf(Q)
    if available is None:
        if missing.any():
            raise InvalidArgument(
                f"Q is -infinity at {counted(int(missing.sum()), 'pair')}, but available is None: "
                "give available, booleans that are False at missing actions"
            )
        return None
    if (
        not isinstance(available, np.ndarray)
        or available.dtype != np.bool_
        or available.shape != Q.shape
    ):
        raise InvalidArgument(
            f"available is {shown(available)}: expected booleans of shape {Q.shape}, the pairs "
            "that surely exist, or None for all"
        )
    mask = np.array(available)
    if (mask & missing).any() or (rows.exist & ~mask).any():
        raise InvalidArgument(
            "available contradicts Q or the rows: expected True where a pair was visited, and "
            "False where Q is -infinity"
        )
    return frozen(mask)


def check_values(Q: FloatArray, setting: Setting) -> None:
    """Raise `InvalidArgument` unless Q is in the range of values of a setting, up to rounding."""
    low, high = value_range(setting.reward_range, setting.gamma, terminating=setting.terminating)
    tol = RELATIVE * max(abs(low), abs(high))
    least = Q.min(initial=np.inf, where=~np.isneginf(Q))  # -infinity stands for no action
    if Q.size and not (least >= low - tol and Q.max() <= high + tol):
        worst = least if least < low - tol else Q.max()
        raise InvalidArgument(
            f"Q contains {worst:g}, outside ({low:g}, {high:g}), the range of values for rewards "
            f"in {setting.reward_range} and gamma={setting.gamma}: expected upper bounds on Q*"
        )


def check_rewards(rows: Rows, setting: Setting, outcomes: Outcomes | None = None) -> None:
    """Raise `InvalidArgument` unless mean rewards are in the range of a setting."""
    pairs = rewards_outside(rows, setting.reward_range)
    R = rows.R[pairs]
    if outcomes is not None:
        outside = is_outside(outcomes.R, setting.reward_range)
        pairs, R = np.append(pairs, outcomes.pairs[outside]), np.append(R, outcomes.R[outside])
    if pairs.size:
        k, (lo, hi) = int(pairs[0]), setting.reward_range
        raise InvalidArgument(
            f"the mean reward of {pair_text(k, setting.n_actions)} is {R[0]:g}, outside "
            f"({lo:g}, {hi:g}), the reward_range of the memory: expected the rewards of a task "
            "with the same setting"
        )
