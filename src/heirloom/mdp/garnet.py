"""Garnet: random tasks of a given size and branching (Archibald, McKinnon and Thomas, 1995)."""

import numpy as np

from heirloom.arrays import FloatArray, IntArray
from heirloom.mdp.tabular import TabularMDP
from heirloom.mdp.transitions import Entries, collect
from heirloom.validation import (
    Range,
    check_gamma,
    check_range,
    generator,
    probability,
    sizes,
    whole_number,
)


def garnet(
    n_states: int,
    n_actions: int,
    *,
    branching: int,
    gamma: float,
    seed: int | np.random.Generator,
    terminating: float = 0.0,
    reward_range: Range = (0.0, 1.0),
) -> TabularMDP:
    """Draw a random task with `branching` successors and one fixed reward per pair.

    Successors are drawn without replacement, their probabilities uniformly from the simplex, and
    rewards uniformly from `reward_range`; with `branching=1` the task is deterministic. Each
    transition is terminal with probability `terminating`. The start distribution is uniform.
    """
    n_states, n_actions = sizes(n_states, n_actions)
    branching = whole_number("branching", branching, most=n_states)
    terminating = probability("terminating", terminating)
    rng = generator(seed)
    gamma = check_gamma(gamma)
    lo, hi = check_range(reward_range, gamma)
    n_pairs = n_states * n_actions
    successors = _subsets(n_states, branching, n_pairs, rng)
    outcomes = Entries(
        pairs=np.repeat(np.arange(n_pairs), branching),
        successors=successors.reshape(-1),
        p=_distributions(branching, n_pairs, rng).reshape(-1),
        rewards=np.repeat(lo + (hi - lo) * rng.random(n_pairs), branching),
        ends=rng.random(successors.size) < terminating,
    )
    transitions = collect(outcomes, n_states, n_actions)
    return TabularMDP.from_transitions(transitions, gamma=gamma, reward_range=reward_range)


def _subsets(n: int, size: int, number: int, rng: np.random.Generator) -> IntArray:
    """Draw `number` subsets of range(n) with `size` elements, uniform and sorted (Floyd, 1987)."""
    subsets = np.empty((number, size), dtype=np.int64)
    for i, newest in enumerate(range(n - size, n)):
        drawn = rng.integers(0, newest + 1, number)
        taken = (subsets[:, :i] == drawn[:, None]).any(axis=1)
        subsets[:, i] = np.where(taken, newest, drawn)
    subsets.sort(axis=1)
    return subsets


def _distributions(size: int, number: int, rng: np.random.Generator) -> FloatArray:
    """Draw `number` distributions over `size` outcomes, uniformly from the simplex."""
    weights = rng.exponential(size=(number, size))
    return weights / weights.sum(axis=1, keepdims=True)
