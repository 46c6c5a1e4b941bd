"""Sets of models of the pairs, as evidence gives them: one slot for each pair.

The learner computes with the intersection of all sets: the smallest of their largest values. A slot
may change whenever a pair is looked at.
"""

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import Literal, NamedTuple

import numpy as np

from heirloom.arrays import BoolArray, FloatArray, IntArray, StateArray
from heirloom.errors import InvalidArgument
from heirloom.kernels import nearness as kernels
from heirloom.kernels.counting import NOT_LISTED
from heirloom.kernels.solving import Near, Values
from heirloom.mdp.tabular import value_range
from heirloom.transfer.nearness.successors import (
    Successors,
    common_successors,
    no_successors,
    read_successors,
)
from heirloom.transfer.setting import Setting
from heirloom.validation import shown

ROUNDING = 1e-12  # of the probability of termination


class SourceRows(NamedTuple):
    """What earlier tasks say about each pair: rows near to that of the task, ordered by pair.

    Pair k has the rows `start[k]:start[k + 1]`. `lowest_rewards` is its smallest mean reward in any
    of them before equal rows were dropped, or infinity, and `reward_tasks` says where it is from.
    `tasks` says from where each row is: the number of a task, or what a memory calls several
    tasks (`TaskMemory.source_name`). Each row is within `eta[k]` and `tau[k]` of what the nearness
    speaks about, in mean reward and in total variation.
    """

    start: IntArray
    lowest_rewards: FloatArray
    reward_tasks: IntArray
    first: IntArray
    last: IntArray
    ends: FloatArray
    tasks: IntArray
    successors: StateArray
    p: FloatArray
    eta: FloatArray
    tau: FloatArray


@dataclass(frozen=True)
class Rule:
    """How the models that n visits of a known pair admit follow from n; see `kernels/evidence.py`.

    Compiled code follows a rule, while `Bound.look` of evidence with slots is Python code.
    """

    bonus: float = 0.0
    bonus_log: float = 0.0
    bonus_variance: float = 0.0
    bonus_inverse: float = 0.0
    highest: float = np.inf
    radius: float = 0.0
    radius_log: float = 0.0
    kl_scale: float = 0.0
    kl_outcomes: float = 1.0
    kl_log: float = 0.0
    full: float = 0.0
    step: bool = False
    v_max: float = 0.0

    @property
    def has_radii(self) -> bool:
        """Whether transitions are in sets around the estimates."""
        return self.radius > 0 or self.kl_scale > 0

    def slots(self, n_pairs: int) -> dict[str, FloatArray]:
        """Return the arrays of the model that the rule writes to, and its coefficients."""
        used = {"radius": self.has_radii, "beta": self.kl_scale > 0, "share": self.full > 0}
        arrays = {name: np.zeros(n_pairs) for name, is_used in used.items() if is_used}
        return {**arrays, "rule": np.array(astuple(self), dtype=np.float64)}


@dataclass(eq=False)
class ModelSets:
    """What evidence says of the models of pairs k = s * A + a; None where it says nothing.

    `reward`, `bonus` and `radius` are slots: evidence may write to these arrays when a pair is
    looked at (`Bound.look`).
    """

    reward: FloatArray | None = None
    """The largest mean reward of each pair, known or not."""
    bonus: FloatArray | None = None
    """What is added to the estimated mean reward of a known pair."""
    radius: FloatArray | None = None
    """The largest total variation between the transitions of a known pair and the estimate."""
    rule: Rule | None = None
    """How the models of known pairs that visits admit follow from their number; without slots."""
    t: FloatArray | None = None
    """The largest total variation between the transitions of a pair and each of its `rows`."""
    rows: SourceRows | None = None
    """Transitions of other tasks."""
    successors: Successors | None = None
    """The successors that are possible."""
    may_end: BoolArray | None = None
    """Where transitions may terminate."""
    follows: bool | Literal["first"] = False
    """Whether `look` must be called after each look at a pair, or after the first one only."""

    @property
    def is_own(self) -> bool:
        """Whether it says how far the estimates of known pairs can be from the truth."""
        return any(one is not None for one in (self.bonus, self.radius, self.rule))

    @property
    def has_radii(self) -> bool:
        """Whether the transitions of known pairs are in sets around the estimates."""
        return self.radius is not None or (self.rule is not None and self.rule.has_radii)


def check_sets(name: str, sets: object, setting: Setting) -> None:
    """Raise `InvalidArgument` unless kernels can read the sets of the bound with this name."""
    n_states, n_pairs = setting.n_states, setting.n_pairs

    def check(is_valid: bool, what: str, expected: str) -> None:  # noqa: FBT001
        if not is_valid:
            raise InvalidArgument(f"model_sets of the bound {name} {what}: expected {expected}")

    check(isinstance(sets, ModelSets), f"returned {shown(sets)}", "a ModelSets, or None")
    assert isinstance(sets, ModelSets)
    for slot in ("reward", "bonus", "radius", "t", "may_end"):
        array, dtype = getattr(sets, slot), np.bool_ if slot == "may_end" else np.float64
        is_valid = isinstance(array, np.ndarray) and array.dtype == dtype
        is_valid = is_valid and array.shape == (n_pairs,)
        expected = f"an array of {np.dtype(dtype)} over the pairs k = s * A + a, shape ({n_pairs},)"
        check(array is None or is_valid, f"has {slot} {shown(array)}", expected)
    if sets.successors is not None:
        sets.successors = read_successors(sets.successors)
        first, states = sets.successors
        fits = first.size == n_pairs + 1 and bool((states < n_states).all())
        check(fits, "has successors of another size", f"{n_pairs} pairs and {n_states} states")
    if sets.rows is not None:
        is_whole = isinstance(sets.rows, SourceRows) and sets.t is not None
        fits = is_whole and _fit(sets.rows, n_pairs, n_states)
        check(fits, "has rows that are not valid, or no t", "those that NearModels gives")


def _fit(rows: SourceRows, n_pairs: int, n_states: int) -> bool:
    """Return whether no index in the rows leads beyond an array."""
    start, first, last, states = rows.start, rows.first, rows.last, rows.successors
    sizes = {array.size for array in (first, last, rows.ends, rows.tasks)}
    return bool(
        (start.size, sizes, states.size) == (n_pairs + 1, {first.size}, rows.p.size)
        and (start[0], start[-1]) == (0, first.size)
        and (start[1:] >= start[:-1]).all()
        and ((first >= 0) & (first <= last) & (last <= states.size)).all()
        and ((states >= 0) & (states < n_states)).all()
    )


def combined(
    given: Sequence[tuple[int, ModelSets]],
    setting: Setting,
    values: Values,
    available: BoolArray | None = None,
) -> Near | None:
    """Return the intersection of sets as kernels read it, or None if it says nothing.

    Each set comes with the number of its bound in `values.decider`. `available` marks the pairs of
    actions that exist, None for all.
    """
    n_states, n_pairs = setting.n_states, setting.n_pairs
    with_rows = [(number, one) for number, one in given if one.rows is not None]
    if len(with_rows) > 1:
        raise InvalidArgument(
            "several bounds give rows of other tasks: combine their nearness with &, as in "
            "hl.NearModels(nearness & other)"
        )
    possible, may_end = None, np.full(n_pairs, setting.terminating)
    for _, one in given:
        possible = common_successors(possible, one.successors)
        if one.may_end is not None:
            may_end &= one.may_end
    changes = any(one.has_radii or (one.follows and one.reward is not None) for _, one in given)
    rows, t = _no_rows(n_pairs), np.ones(n_pairs)
    number = next((number for number, one in given if one.reward is not None), 0)
    if with_rows:
        number, one = with_rows[0]
        rows, t = one.rows, one.t.copy()  # type: ignore[assignment, union-attr]
    t[np.diff(rows.start) == 0] = 1.0
    reward = smallest_rewards(given, setting, np.arange(n_pairs))
    useful = _useful(setting, reward, t, may_end, any_successor=possible is None) | changes
    if available is not None:
        useful &= available
    pairs = np.flatnonzero(useful)
    if pairs.size == 0:
        return None
    first, states = possible or no_successors(n_pairs)
    # Mass of ⊥ has to move if the task does not terminate; if it is more than t, the model of the
    # source or the nearness is not accurate.
    pair = np.repeat(np.arange(n_pairs), np.diff(rows.start))
    leaves = ~may_end[pair] & (rows.ends <= t[pair] + ROUNDING)
    whole = any(one.has_radii for _, one in given)
    return Near(
        any_successor=possible is None,
        all_may_end=bool(may_end.all()),
        on_known=not values.falls,
        limit=setting.v_max - setting.same,
        number=number,
        pairs=pairs,
        reward=reward,
        t=t,
        may_end=may_end,
        rows=rows.start,
        first=rows.first,
        last=rows.last,
        ends=np.where(leaves, -rows.ends, rows.ends),
        tasks=rows.tasks,
        successors=rows.successors,
        p=rows.p,
        possible_first=first,
        possible=states,
        best=np.full(n_pairs, -1),
        value=np.full(rows.first.size, -np.inf),
        seen=np.zeros(rows.first.size),
        decrease=np.zeros(n_pairs),
        **_links(pairs, rows, t, possible, n_states, falls=bool(values.falls), whole=whole),
        U=np.full(n_pairs, setting.v_max),
        source=np.zeros(n_pairs, dtype=np.int64),
    )


def smallest_rewards(
    given: Sequence[tuple[int, ModelSets]], setting: Setting, pairs: IntArray
) -> FloatArray:
    """Return the largest mean reward that all sets admit, at each of `pairs`."""
    reward = np.full(pairs.size, setting.reward_range[1])
    for _, one in given:
        if one.reward is not None:
            reward = np.minimum(reward, one.reward[pairs])
    return reward


def _useful(
    setting: Setting, reward: FloatArray, t: FloatArray, may_end: BoolArray, *, any_successor: bool
) -> BoolArray:
    """Return the pairs whose bound can be below `v_max`."""
    hi, gamma = setting.reward_range[1], setting.gamma
    useful = (reward < hi) | (t < 1.0) | (not any_successor) | continues(may_end, setting)
    # No expected value is below that of the task of which all rewards are the smallest possible.
    lowest = value_range(setting.reward_range, gamma, terminating=setting.terminating)[0]
    return useful & (reward + gamma * min(lowest, 0.0) < setting.v_max)


def continues(may_end: BoolArray, setting: Setting) -> BoolArray:
    """Return where an episode cannot end at once, and has a smaller value because of that.

    That is so if all rewards are negative.
    """
    continued = setting.reward_range[1] + setting.gamma * setting.v_max
    return ~may_end & (continued < setting.v_max - setting.same)


def _no_rows(n_pairs: int) -> SourceRows:
    whole, real, states = (np.empty(0, dtype=dtype) for dtype in (np.int64, float, np.int32))
    start, zeros = np.zeros(n_pairs + 1, dtype=np.int64), np.zeros(n_pairs)
    rows = start[1:], whole, whole, real, whole, states, real
    return SourceRows(start, np.full(n_pairs, np.inf), *rows, zeros, zeros)


def _links(
    pairs: IntArray,
    rows: SourceRows,
    t: FloatArray,
    possible: Successors | None,
    n_states: int,
    *,
    falls: bool,
    whole: bool,
) -> dict[str, np.ndarray]:
    """Return those fields of `Near` that say on which states the bound of each pair depends."""
    first, states = possible or no_successors(t.size)
    arguments = (
        *(pairs, rows.start, rows.first, rows.last, rows.successors, rows.p, t),
        *(first, states, possible is None, not falls, whole, n_states),
    )
    n_pairs = t.size
    links, witness_weight = np.zeros(n_pairs + 1, dtype=np.int64), np.zeros(n_pairs)
    # Updates read links in no order, so that small numbers save time.
    small: type = np.int32
    kernels.link(*arguments, links, np.empty(0, dtype=small), np.empty(0), witness_weight)
    np.cumsum(links, out=links)
    if max(int(links[-1]), n_pairs) > np.iinfo(small).max:
        small = np.int64
    link_state: np.ndarray = np.empty(int(links[-1]), dtype=small)
    link_weight = np.empty(link_state.size)
    if link_state.size:
        kernels.link(*arguments, links, link_state, link_weight, witness_weight)
    n_witnesses = n_pairs if falls and possible is not None else 0
    return {
        "links": links,
        "link_state": link_state,
        "link_weight": link_weight,
        "link_pair": np.repeat(np.arange(n_pairs, dtype=small), np.diff(links)),
        "next_link": np.full(link_state.size, NOT_LISTED, dtype=small),
        "into": np.full(n_states, -1),
        "listed": np.zeros(n_pairs, dtype=bool),
        "witness_weight": witness_weight,
        "witness": np.full(n_witnesses, -1),
        "next_witness": np.full(n_witnesses, -1),
        "last_witness": np.full(n_witnesses, -1),
        "witness_into": np.full(n_states, -1),
    }
