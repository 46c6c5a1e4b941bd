"""A learned model as an exact task, with values for what is not known."""

from typing import Any, Literal, get_args

import numpy as np

from heirloom.arrays import BoolArray, ranges
from heirloom.errors import InvalidArgument
from heirloom.mdp.rows import Rows, rewards_outside
from heirloom.mdp.tabular import TabularMDP, value_range
from heirloom.mdp.transitions import Entries, collect, pair_text
from heirloom.validation import Range, check_gamma, check_range, one_of, truth

Unknown = Literal["optimistic", "pessimistic", "absent"]


def mdp_of(
    rows: Rows,
    n_states: int,
    *,
    gamma: float,
    unknown: Unknown,
    reward_range: Range = (0.0, 1.0),
    terminating: bool = True,
    missing: BoolArray | None = None,
    **options: Any,
) -> TabularMDP:
    """Return the task with the models of the known pairs; options are those of `TabularMDP`.

    An unknown pair ends the episode with the largest value of any task as its reward if `unknown`
    is "optimistic", and with the smallest if it is "pessimistic". So the reward range of the result
    is the range of values. The result lacks the pairs that are `missing`. If `unknown` is "absent",
    the result also lacks the unknown actions of states that have a known one; in the others, where
    an action must remain, they are as if pessimistic.
    """
    one_of("unknown", unknown, get_args(Unknown))
    gamma = check_gamma(gamma)
    reward_range = check_range(reward_range, gamma)
    lo, hi = value_range(reward_range, gamma, terminating=truth("terminating", terminating))
    value = hi if unknown == "optimistic" else lo
    known: BoolArray = rows.known
    n_actions = known.size // n_states
    pairs = np.flatnonzero(known)
    outside = rewards_outside(rows, reward_range)
    outside = outside[known[outside]]
    if outside.size:
        raise InvalidArgument(
            f"the learned mean reward of {pair_text(int(outside[0]), n_actions)} is "
            f"{rows.R[outside[0]]:g}, outside reward_range {reward_range}: give the reward_range "
            "of the agent, such as agent.setting.reward_range"
        )
    R = np.clip(rows.R, *reward_range)  # a mean may exceed the range by a rounding error
    lengths = rows.lengths[pairs]
    taken = ranges(rows.first[pairs], lengths)
    owner = np.repeat(pairs, lengths)
    ending = pairs[rows.ends[pairs] > 0]
    others = np.flatnonzero(~known if missing is None else ~(known | missing))
    available = None if missing is None else ~missing
    if unknown == "absent":
        has_known = known.reshape(n_states, n_actions).any(axis=1)
        kept = known | np.repeat(~has_known, n_actions)
        available = kept if available is None else kept & available
    outcomes = Entries(
        pairs=np.concatenate([owner, ending, others]),
        # The successor of a terminal transition has no effect; it is the state itself.
        successors=np.concatenate(
            [rows.successors[taken], ending // n_actions, others // n_actions]
        ).astype(np.int64),
        p=np.concatenate([rows.p[taken], rows.ends[ending], np.ones(others.size)]),
        rewards=np.concatenate([R[owner], R[ending], np.full(others.size, value)]),
        ends=np.concatenate(
            [np.zeros(owner.size, dtype=bool), np.ones(ending.size + others.size, dtype=bool)]
        ),
    )
    return TabularMDP.from_transitions(
        collect(outcomes, n_states, n_actions, available=available),
        gamma=gamma,
        reward_range=(min(lo, reward_range[0]), max(hi, reward_range[1])),
        **options,
    )
