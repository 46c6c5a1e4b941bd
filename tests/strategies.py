"""Random tasks, pairs of tasks and policies, drawn from a generator or by hypothesis."""

import os
from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st

from heirloom import TabularMDP, garnet
from heirloom.mdp.transitions import Entries, collect

RANGES = ((0.0, 1.0), (-1.0, 1.0), (-2.0, -0.5), (0.25, 0.5), (-1.0, 0.0))
DISCOUNTS = (0.0, 0.3, 0.9, 0.99)
KINDS = ("independent", "equal", "other rewards", "other transitions", "close")
THOROUGH = "HEIRLOOM_EXAMPLES" in os.environ  # as in `make test-full`


def seeds(n: int, *, least: int = 4) -> range:
    """Return the seeds of a sweep: `n` in `make test-full`, a fifth of them in `make test`."""
    return range(n if THOROUGH else max(least, n // 5))


class Shape(NamedTuple):
    """The arguments of `garnet` that the tasks of a pair share."""

    n_states: int
    n_actions: int
    branching: int
    gamma: float
    terminating: float
    reward_range: tuple[float, float]


def draw_shape(rng: np.random.Generator, *, most_states: int = 6) -> Shape:
    n_states = int(rng.integers(1, most_states + 1))
    return Shape(
        n_states=n_states,
        n_actions=int(rng.integers(1, 4)),
        branching=int(rng.integers(1, n_states + 1)),
        gamma=float(rng.choice(DISCOUNTS)),
        terminating=float(rng.choice((0.0, 0.3, 1.0), p=(0.5, 0.4, 0.1))),
        reward_range=RANGES[rng.integers(len(RANGES))],
    )


def draw_task(rng: np.random.Generator, shape: Shape | None = None) -> TabularMDP:
    return garnet(**(shape or draw_shape(rng))._asdict(), seed=rng)


def draw_outcomes(rng: np.random.Generator, shape: Shape, *, merging: bool = False) -> Entries:
    """Draw outcomes whose rewards have very different sizes, and often nearly cancel.

    Rewards have up to ten orders of magnitude. In half of the pairs the last reward makes their
    mean zero, up to rounding. With `merging`, successors may repeat, and outcomes are merged.
    """
    n_pairs, size = shape.n_states * shape.n_actions, shape.branching + 2 * merging
    successors = np.array(
        [rng.choice(shape.n_states, size, replace=merging) for _ in range(n_pairs)]
    )
    p = rng.dirichlet(np.ones(size), n_pairs) + 1e-4
    p /= p.sum(axis=1, keepdims=True)
    rewards = rng.choice([-1.0, 1.0], p.shape) * 10 ** rng.uniform(-1, 9, p.shape)
    cancels = rng.random(n_pairs) < 0.5
    rest = (p[:, :-1] * rewards[:, :-1]).sum(axis=1)
    rewards[cancels, -1] = -rest[cancels] / p[cancels, -1]
    return Entries(
        pairs=np.repeat(np.arange(n_pairs), size),
        successors=successors.reshape(-1),
        p=p.reshape(-1),
        rewards=rewards.reshape(-1),
        ends=rng.random(p.size) < shape.terminating,
    )


def task_of(outcomes: Entries, shape: Shape) -> TabularMDP:
    """Return the task with these outcomes; its range of rewards is that of the outcomes."""
    transitions = collect(outcomes, shape.n_states, shape.n_actions)
    return TabularMDP.from_transitions(transitions, gamma=shape.gamma, reward_range=None)


def draw_transition_rewards(rng: np.random.Generator, shape: Shape | None = None) -> TabularMDP:
    """Draw a task with different rewards per transition, as `draw_outcomes` does."""
    shape = shape or draw_shape(rng, most_states=4)
    return task_of(draw_outcomes(rng, shape), shape)


def draw_pair(rng: np.random.Generator, *, most_states: int = 6) -> tuple[TabularMDP, TabularMDP]:
    """Draw two comparable tasks, related in one of the ways that `KINDS` lists."""
    shape = draw_shape(rng, most_states=most_states)
    m, other = draw_task(rng, shape), draw_task(rng, shape)
    kind = KINDS[rng.integers(len(KINDS))]
    weight = {"independent": (1, 1), "equal": (0, 0), "other rewards": (1, 0)}.get(kind)
    weight = weight or {"other transitions": (0, 1), "close": (0.05, 0.05)}[kind]
    return m, mixed(m, other, rewards=weight[0], transitions=weight[1])


def mixed(m: TabularMDP, other: TabularMDP, *, rewards: float, transitions: float) -> TabularMDP:
    """Interpolate between `m` (weight 0) and `other` (weight 1), in rewards and in transitions."""
    a, b = m.transitions, other.transitions
    R = (1 - rewards) * a.R + rewards * b.R if rewards else a.R
    lo, hi = m.reward_range
    pairs = np.concatenate([a.pairs, b.pairs])
    outcomes = Entries(
        pairs=pairs,
        successors=np.concatenate([a.successors, b.successors]).astype(np.int64),
        p=np.concatenate([(1 - transitions) * a.p, transitions * b.p]),
        rewards=np.clip(R, lo, hi)[pairs],
        ends=np.concatenate(
            [np.zeros(t.p.size, dtype=bool) if t.ends is None else t.ends for t in (a, b)]
        ),
    )
    return TabularMDP.from_transitions(
        collect(outcomes, m.n_states, m.n_actions), gamma=m.gamma, reward_range=m.reward_range
    )


def draw_policy(rng: np.random.Generator, m: TabularMDP) -> np.ndarray:
    """Draw a policy, probabilities [s, a]; three in ten are deterministic."""
    pi = rng.dirichlet(np.full(m.n_actions, 0.5), m.n_states)
    if rng.random() < 0.3:
        pi = np.eye(m.n_actions)[rng.integers(m.n_actions, size=m.n_states)]
    return pi


def _from_seed(draw):
    return st.integers(0, 2**32 - 1).map(lambda seed: draw(np.random.default_rng(seed)))


def tasks() -> st.SearchStrategy[TabularMDP]:
    return _from_seed(draw_task)


def task_pairs() -> st.SearchStrategy[tuple[TabularMDP, TabularMDP]]:
    return _from_seed(draw_pair)


def task_triples() -> st.SearchStrategy[tuple[TabularMDP, TabularMDP, TabularMDP]]:
    def draw(rng):
        shape = draw_shape(rng)
        return draw_task(rng, shape), draw_task(rng, shape), draw_task(rng, shape)

    return _from_seed(draw)


def pairs_and_policies():
    def draw(rng):
        m, m_bar = draw_pair(rng)
        return m, m_bar, draw_policy(rng, m)

    return _from_seed(draw)


def draw_available(rng: np.random.Generator, m: TabularMDP) -> np.ndarray:
    """Draw which actions are available, [s, a]: at least one per state, all in a third of draws."""
    available = rng.random((m.n_states, m.n_actions)) < rng.choice((0.3, 0.7, 1.0))
    available[np.arange(m.n_states), rng.integers(m.n_actions, size=m.n_states)] = True
    return available


def restricted(m: TabularMDP, available: np.ndarray) -> TabularMDP:
    """Return the task with the available actions of `m` only."""
    t = m.transitions
    rewards = t.R[t.pairs] if t.rewards is None else t.rewards
    ends = np.zeros(t.p.size, dtype=bool) if t.ends is None else t.ends
    outcomes = Entries(t.pairs, t.successors.astype(np.int64), t.p, rewards, ends)
    return TabularMDP.from_transitions(
        collect(outcomes, m.n_states, m.n_actions, available=available.reshape(-1)),
        gamma=m.gamma,
        reward_range=m.reward_range,
    )


def draw_masked_pair(rng: np.random.Generator) -> tuple[TabularMDP, TabularMDP]:
    """Draw two comparable tasks that may lack different actions."""
    m, m_bar = draw_pair(rng)
    available = draw_available(rng, m)
    m_bar = restricted(m_bar, available if rng.random() < 0.3 else draw_available(rng, m))
    return restricted(m, available), m_bar


def masked_pairs() -> st.SearchStrategy[tuple[TabularMDP, TabularMDP]]:
    return _from_seed(draw_masked_pair)
