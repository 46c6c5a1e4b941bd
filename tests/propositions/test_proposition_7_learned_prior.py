"""Proposition 7, for two given tasks: after m tasks, D̂_max >= D(M, M̄) with probability 1 - δ.

`tasks_for_distance` is the least m with 2 (1 - p_min)^m - (1 - 2 p_min)^m <= δ. Erratum 10
shows that the statement does not extend to all pairs of tasks at once.
"""

import itertools

import numpy as np
import pytest

import heirloom as hl


def one_state_tasks(n):
    """Tasks of one state and n actions; task i pays 0 for action i and 1 for the others."""
    T = np.ones((1, n, 1))
    return [hl.TabularMDP(1.0 - np.eye(n)[i : i + 1], T, gamma=0.0) for i in range(n)]


@pytest.mark.parametrize(("n", "delta"), [(2, 0.3), (2, 0.1), (3, 0.5), (3, 0.3)])
def test_m_drawn_tasks_include_two_given_tasks_with_probability_one_minus_delta(n, delta):
    """All sequences of equally likely tasks are enumerated; m - 1 tasks would not suffice."""
    m = hl.theory.tasks_for_distance(1 / n, delta)

    def missed(length):
        draws = itertools.product(range(n), repeat=length)
        return np.mean([not {0, 1} <= set(drawn) for drawn in draws])

    assert missed(m) <= delta + 1e-12
    assert m == 1 or missed(m - 1) > delta


@pytest.mark.parametrize("seed", range(3))
def test_learned_maximum_bounds_the_distance_of_two_given_tasks(seed):
    """Agents that learn m drawn tasks exactly: the maximum is too small in a fraction δ at most."""
    n, delta, repetitions = 3, 0.3, 60
    tasks = one_state_tasks(n)
    D = hl.model_pseudometric(tasks[0], tasks[1], [0.0]).ravel()
    rng = np.random.default_rng([7, seed])
    too_small = 0
    for _ in range(repetitions):
        agent = hl.LRMax(
            **{"n_states": 1, "n_actions": n, "gamma": 0.0, "n_known": 1, "refresh": None},
            p_min=1 / n,
            delta=delta,
            seed=rng,
        )
        m = agent.bounds[0].n_tasks = hl.theory.tasks_for_distance(1 / n, delta)
        for i in rng.integers(n, size=m):
            hl.learn(agent, tasks[i], episodes=n, max_steps=1, seed=0)
        (learned, _), *_ = agent.memory.learned.values()
        too_small += bool((learned < D).any())
    assert too_small <= delta * repetitions


def test_unknown_pairs_count_as_their_largest_possible_distance():
    """A pair that was never tried does not make the learned maximum too small."""
    tasks = one_state_tasks(4)
    options = {"n_states": 1, "n_actions": 4, "gamma": 0.0, "n_known": 1, "refresh": None}
    agent = hl.LRMax(**options, p_min=0.25, delta=0.2, seed=0)
    for i in range(3):
        hl.learn(agent, tasks[i], episodes=1, max_steps=1, seed=0)  # one visit, one known pair
    (learned, _), *_ = agent.memory.learned.values()
    assert (learned >= 1.0).all()
