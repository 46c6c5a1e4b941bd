"""`Certificate`: how good a policy is at least, and any policy at most, with a probability."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from heirloom.agents.optimistic import OptimisticAgent
from heirloom.arrays import BoolArray, FloatArray, IntArray, frozen
from heirloom.errors import InvalidArgument
from heirloom.kernels import certificates as kernels
from heirloom.kernels import counting
from heirloom.kernels.confidence import kl_radius
from heirloom.mdp.from_arrays import read_start
from heirloom.mdp.learned import LearnedModel
from heirloom.mdp.tabular import reward_scale, value_range
from heirloom.transfer.nearness.successors import Successors, no_successors, read_successors
from heirloom.transfer.setting import Setting
from heirloom.validation import numbers, positive_probability, shown
from heirloom.wording import counted

ACCURACY = 1e-4  # of bounds, in the range of rewards; they are valid at any accuracy
MOST_SWEEPS = 20_000
N_LIMITS = 10  # pairs that are named
Rewards = Literal["per transition"] | ArrayLike | None


class Limit(NamedTuple):
    """A pair whose uncertainty makes the bound on the optimum larger than it need be."""

    s: int
    a: int
    cost: float
    """By how much, at the start, up to the uncertainty of other pairs."""
    visits: int
    """Its visits so far."""
    more_visits: int
    """About how many more would halve the cost."""


@dataclass(frozen=True)
class Certificate:
    """Bounds that hold together with probability 1 - δ, if what was declared is true.

    They are about expected discounted returns from the start, in tasks that go on until they
    terminate: an episode that is cut after a number of steps earns less if rewards are positive.
    """

    delta: float
    """δ, for all certificates of a life with this δ together."""
    optimum_at_most: float
    """An upper bound on the value of every policy."""
    lower: float
    """A lower bound on the value of `policy`."""
    policy: IntArray
    """The policy with the largest lower bounds, [s]."""
    V_upper: FloatArray
    """Upper bounds on the optimal values, [s]."""
    V_lower: FloatArray
    """Lower bounds on the values of `policy`, [s]."""
    v_min: float
    """The smallest possible value."""
    limits: tuple[Limit, ...]
    """The pairs whose uncertainty costs most, at most ten."""
    advice: tuple[str, ...]
    """What could be declared, in words."""

    @property
    def gap(self) -> float:
        """By how much the policy can be worse than the best one."""
        return self.optimum_at_most - self.lower

    @property
    def relative_gap(self) -> float:
        """The gap, as a share of what the best policy can be worth above `v_min`."""
        most = self.optimum_at_most - self.v_min
        return self.gap / most if most > 0 else 0.0

    def __str__(self) -> str:
        probability = f"with probability {1 - self.delta:g}"
        if self.lower <= self.v_min:
            first = f"no certificate {probability}: nothing is known of what any policy earns"
        else:
            first = (
                f"{probability}, the policy is worth at least {self.lower:.4g}, and no policy more "
                f"than {self.optimum_at_most:.4g}: a gap of {self.relative_gap:.1%}"
            )
        names = [
            f"({one.s}, {one.a}): {counted(one.visits, 'visit')}, {one.more_visits:,} more halve it"
            for one in self.limits[:3]
        ]
        second = (
            f"the most uncertain pairs: {'; '.join(names)}" if names else "no pair is uncertain"
        )
        third = f"it would help to declare {' and '.join(self.advice)}" if self.advice else ""
        return "\n".join(line for line in (first, second, third) if line)


class _Declared(NamedTuple):
    """What is known before the first step."""

    successors: Successors | None
    may_end: BoolArray
    rewards: FloatArray | None
    per_transition: bool

    @property
    def advice(self) -> tuple[str, ...]:
        advice: tuple[str, ...] = (
            () if self.successors is not None else ("the possible successors",)
        )
        if self.rewards is None and not self.per_transition:
            advice += ('rewards ("per transition", if they are the same at every visit of one)',)
        return advice


def certify(
    agent: OptimisticAgent,
    *,
    start: int | ArrayLike | None,
    delta: float,
    successors: Any,
    terminates: Any,
    rewards: Rewards,
) -> Certificate:
    """Return a certificate from the visits of an agent in its current task, or the last one."""
    setting, model = agent.setting, agent.model
    delta = positive_probability("delta", delta)
    p_start = read_start(start, setting.n_states)
    declared = _declared(setting, successors, terminates, rewards)
    missing = model._availability.missing
    _check_possible(declared, missing, setting)
    # The number of the task in the life of the agent, dropped ones counted.
    number = max(1, agent.memory.n_tasks + agent.memory.n_dropped + agent.in_task)
    of_task = 6 * delta / (math.pi * number) ** 2
    sets = _sets(model, setting, declared, math.log(setting.n_pairs / of_task))
    v_min, _ = value_range(setting.reward_range, setting.gamma, terminating=setting.terminating)
    width, gamma = reward_scale(setting.reward_range), setting.gamma
    tol, W = ACCURACY * width * (1 - gamma), np.empty(int(np.diff(sets.first).max(initial=0)))
    upper = np.full(setting.n_pairs, setting.v_max), np.full(setting.n_states, setting.v_max)
    if missing is not None:
        sets = sets._replace(exists=~missing)
        upper[0][missing] = -np.inf
    kernels.sweep(tuple(sets), gamma, 1.0, *upper, W, tol, MOST_SWEEPS)
    sure = model._availability.sure  # actions that may not exist promise nothing
    below = sets if sure is None else sets._replace(exists=sure)
    lower = np.full(setting.n_pairs, v_min), np.full(setting.n_states, v_min)
    kernels.sweep(tuple(below), gamma, -1.0, *lower, W, tol, MOST_SWEEPS)
    Q = np.where(below.exists, lower[0], -np.inf).reshape(setting.n_states, -1)
    return Certificate(
        delta=delta,
        optimum_at_most=float(p_start @ upper[1]),
        lower=float(p_start @ lower[1]),
        policy=frozen(Q.argmax(axis=1)),
        V_upper=frozen(upper[1]),
        V_lower=frozen(lower[1]),
        v_min=v_min,
        limits=_limits(sets, setting, upper, p_start, model._own.counts),
        advice=declared.advice,
    )


def _declared(setting: Setting, successors: Any, terminates: Any, rewards: Rewards) -> _Declared:
    """Return what is declared; raise `InvalidArgument` unless it fits the setting."""
    n_states, n_actions, n_pairs = setting.n_states, setting.n_actions, setting.n_pairs
    possible = None if successors is None else read_successors(successors)
    if possible is not None and (
        possible.first.size != n_pairs + 1 or possible.states.max(initial=0) >= n_states
    ):
        raise InvalidArgument(
            f"successors has {possible.first.size - 1} pairs: expected {n_pairs} pairs and "
            f"{n_states} states"
        )
    may_end = np.full(n_pairs, setting.terminating)
    if terminates is not None:
        flags = np.asarray(terminates)
        if flags.dtype != np.bool_ or flags.shape != (n_states, n_actions):
            raise InvalidArgument(
                f"terminates is {shown(terminates)}: expected booleans of shape "
                f"({n_states}, {n_actions})"
            )
        may_end &= flags.reshape(-1)
    lo, hi = setting.reward_range
    if rewards is None and lo == hi:
        rewards = np.full((n_states, n_actions), lo)
    if rewards is None or (isinstance(rewards, str) and rewards == "per transition"):
        return _Declared(possible, may_end, None, per_transition=rewards is not None)
    given = numbers("rewards", rewards)
    if given.shape != (n_states, n_actions) or not ((given >= lo) & (given <= hi)).all():
        raise InvalidArgument(
            f'rewards is {shown(rewards)}: expected "per transition", or mean rewards [s, a] in '
            f"({lo:g}, {hi:g}), or None"
        )
    return _Declared(possible, may_end, given.reshape(-1).astype(np.float64), per_transition=False)


def _check_possible(declared: _Declared, missing: BoolArray | None, setting: Setting) -> None:
    """Raise `InvalidArgument` if an action has no possible outcome, so that no model is left."""
    if declared.successors is None:
        return
    impossible = (np.diff(declared.successors.first) == 0) & ~declared.may_end
    if missing is not None:
        impossible &= ~missing
    if impossible.any():
        s, a = divmod(int(impossible.argmax()), setting.n_actions)
        raise InvalidArgument(
            f"successors has no state for state {s} and action {a}, where episodes cannot end: "
            "declare at least one, or True there in terminates"
        )


def _sets(
    model: LearnedModel, setting: Setting, declared: _Declared, log_inverse: float
) -> kernels.Sets:
    """Return the confidence sets of all pairs after the visits in this task."""
    pairs, keys, times, R = _seen(model, setting, declared)
    (lo, hi), n_pairs, n_states = setting.reward_range, setting.n_pairs, setting.n_states
    states = np.where(keys < 0, -1, keys)
    n_possible = np.full(n_pairs, n_states)
    if declared.successors is not None:
        n_possible = np.diff(declared.successors.first)
    n_outcomes = np.maximum(n_possible + np.where(declared.may_end, n_states, 0), 1)
    if declared.rewards is None and not declared.per_transition:
        # A reward r counts as the share x of `hi`, and 1 - x of `lo`: each outcome is two.
        x = np.clip((R - lo) / (hi - lo), 0.0, 1.0)
        pairs, states = (np.concatenate([one, one]) for one in (pairs, states))
        times = np.concatenate([times * x, times * (1 - x)])
        R = np.repeat([hi, lo], x.size)
        n_outcomes = 2 * n_outcomes
    order = np.argsort(pairs, kind="stable")
    order = order[times[order] > 0]
    pairs, states, times, R = pairs[order], states[order], times[order], R[order]
    first = np.searchsorted(pairs, np.arange(n_pairs + 1))
    n = np.bincount(pairs, times, minlength=n_pairs)
    beta = np.array(
        [
            kl_radius(times[first[k] : first[k + 1]], n_outcomes[k], log_inverse)
            for k in range(n_pairs)
        ]
    )
    low, high = np.full(n_pairs, lo), np.full(n_pairs, hi)
    if declared.rewards is not None:
        low = high = declared.rewards
    listed = _unseen(declared, pairs, states, n_states)
    return kernels.Sets(
        first=first,
        p=times / n[pairs],
        r=R,
        states=states.astype(np.int64),
        beta=beta,
        low=low,
        high=high,
        is_listed=declared.successors is not None,
        unseen_first=listed.first,
        unseen=listed.states,
        may_end=declared.may_end,
        exists=np.ones(n_pairs, dtype=bool),
    )


def _unseen(declared: _Declared, pairs: IntArray, states: IntArray, n_states: int) -> Successors:
    """Return the declared successors that were not seen, where a reward is known once it is seen.

    Otherwise a successor that was seen can still have another reward.
    """
    n_pairs = declared.may_end.size
    if declared.successors is None:
        return no_successors(n_pairs)
    if not declared.per_transition:
        return declared.successors
    first, possible = declared.successors
    owner = np.repeat(np.arange(n_pairs), np.diff(first))
    inner = states >= 0
    seen = np.isin(owner * n_states + possible, pairs[inner] * n_states + states[inner])
    counts = np.bincount(owner[~seen], minlength=n_pairs)
    return Successors(np.append(0, np.cumsum(counts)), possible[~seen])


def _seen(
    model: LearnedModel, setting: Setting, declared: _Declared
) -> tuple[IntArray, IntArray, FloatArray, FloatArray]:
    """Return the pair, the outcome (-1 - s for an end), the times and the reward of each entry.

    Raises `InvalidArgument` if one contradicts what is declared.
    """
    arrays = model._own
    n = int(arrays.sizes[counting.N_ENTRIES])
    pairs, outcomes = np.empty(n, dtype=np.int64), arrays.outcomes[:n].astype(np.int64)
    counting.entry_pairs(arrays.head, arrays.next_entry, pairs)
    seen = arrays.times[:n] > 0
    pairs, outcomes, times = pairs[seen], outcomes[seen], arrays.times[:n][seen].astype(np.float64)
    excess = arrays.excess[:n][seen].sum(axis=1)
    R = arrays.rewards[:n][seen] + excess / times
    is_wrong = np.zeros(pairs.size, dtype=bool)
    if declared.rewards is not None:
        R = declared.rewards[pairs]
    elif declared.per_transition:
        if model.has_borrowed:
            raise InvalidArgument(
                'rewards is "per transition", which cannot be checked, because the agent has '
                "borrowed visits of other tasks: give mean rewards, or None"
            )
        is_wrong = excess != 0.0
        _refuse(is_wrong, pairs, outcomes, setting, "rewards that differ between visits")
    is_wrong = (outcomes < 0) & ~declared.may_end[pairs]
    _refuse(is_wrong, pairs, outcomes, setting, "an end that was declared to be impossible")
    if declared.successors is not None:
        first, states = declared.successors
        possible = np.repeat(np.arange(setting.n_pairs), np.diff(first)) * setting.n_states + states
        is_wrong = (outcomes >= 0) & ~np.isin(pairs * setting.n_states + outcomes, possible)
        _refuse(is_wrong, pairs, outcomes, setting, "a successor that was declared impossible")
    return pairs, outcomes, times, R


def _refuse(
    is_wrong: BoolArray, pairs: IntArray, outcomes: IntArray, setting: Setting, what: str
) -> None:
    """Raise `InvalidArgument` if an outcome contradicts what is declared."""
    if is_wrong.any():
        i = int(is_wrong.argmax())
        s, a = divmod(int(pairs[i]), setting.n_actions)
        state = outcomes[i] if outcomes[i] >= 0 else -1 - outcomes[i]
        raise InvalidArgument(
            f"state {s} and action {a} had {what} (successor {state}): declare only what is true "
            "of every task"
        )


def _limits(
    sets: kernels.Sets,
    setting: Setting,
    upper: Sequence[FloatArray],
    p_start: FloatArray,
    counts: IntArray,
) -> tuple[Limit, ...]:
    """Return the pairs of the most favourable policy whose uncertainty costs most."""
    n_states, n_actions, gamma = setting.n_states, setting.n_actions, setting.gamma
    (Q, V), W = upper, np.empty(int(np.diff(sets.first).max(initial=0)))
    greedy = np.arange(n_states) * n_actions + Q.reshape(n_states, -1).argmax(axis=1)
    exact = sets._replace(beta=np.where(np.isinf(sets.beta), np.inf, 0.0))
    T = np.zeros((n_states, n_states))
    cost = np.zeros(n_states)
    for s, k in enumerate(greedy):
        row = slice(sets.first[k], sets.first[k + 1])
        inner = sets.states[row] >= 0
        np.add.at(T[s], sets.states[row][inner], sets.p[row][inner])
        estimate = kernels.backup(exact, gamma, 1.0, V, W, float(V.max()), k)
        lowest = sets.low[k] + gamma * min(0.0, float(V.min()))
        cost[s] = Q[k] - (lowest if np.isinf(sets.beta[k]) else estimate)
    visits = np.linalg.solve(np.eye(n_states) - gamma * T.T, p_start)  # expected, discounted
    cost *= np.maximum(visits, 0.0)
    order = np.argsort(-cost, kind="stable")[:N_LIMITS]
    return tuple(
        Limit(
            *divmod(int(greedy[s]), n_actions),
            float(cost[s]),
            n := int(counts[greedy[s]]),
            max(1, 3 * n),
        )
        for s in order
        if cost[s] > ACCURACY * reward_scale(setting.reward_range)
    )
