"""Distances between tasks are upper bounds in rational arithmetic, rounding errors included.

Rewards are given per transition, have very different sizes and often nearly cancel.
"""

from fractions import Fraction

import numpy as np
import pytest

import heirloom as hl
from heirloom.mdp.transitions import Entries
from heirloom.metrics.bisimulation import bisimulation_metric
from heirloom.metrics.pseudometrics import difference_error
from tests.reference import exact
from tests.strategies import draw_outcomes, draw_shape, draw_transition_rewards, task_of


def draw_related(rng):
    """Draw two tasks: independent, with rewards that differ by roundings, or equal."""
    shape = draw_shape(rng, most_states=4)._replace(
        gamma=float(rng.choice([0.0, 0.3, 0.9, 0.99])), n_actions=int(rng.integers(1, 3))
    )
    outcomes = draw_outcomes(rng, shape)
    kind = rng.integers(3)
    if kind == 0:
        return task_of(outcomes, shape), draw_transition_rewards(rng, shape)
    factors = 1 + kind % 2 * 2.0**-52 * rng.integers(-2, 3, outcomes.p.size)
    changed = outcomes._replace(rewards=outcomes.rewards * factors)
    return task_of(outcomes, shape), task_of(changed, shape)


def at_least(results, truth):
    """Whether results [s, a] are at least rational numbers [s][a]."""
    return all(
        Fraction(x) >= true
        for row, true_row in zip(np.atleast_2d(results).tolist(), truth, strict=True)
        for x, true in zip(row, true_row, strict=True)
    )


def smaller(first, second):
    return [
        [min(pair) for pair in zip(row, other, strict=True)]
        for row, other in zip(first, second, strict=True)
    ]


def gap(Q, Q_bar):
    return [
        [abs(q - q_bar) for q, q_bar in zip(row, row_bar, strict=True)]
        for row, row_bar in zip(Q, Q_bar, strict=True)
    ]


def check_optimal_values(rng):
    """Return the number of metrics for which float64 arithmetic is accurate enough."""
    m, m_bar = draw_related(rng)
    Q, Q_bar = exact.exact_Q(m), exact.exact_Q(m_bar)
    d, d_bar = exact.exact_dissimilarity(m, m_bar), exact.exact_dissimilarity(m_bar, m)
    D, D_bar = exact.exact_distance(m, m_bar), exact.exact_distance(m_bar, m)
    largest = min(max(D), max(D_bar)) / (1 - Fraction(m.gamma))
    both = [[max(x, y)] for x, y in zip(D, D_bar, strict=True)]
    n_certified = 0
    for compute, truths in (
        (lambda: hl.dissimilarity(m, m_bar), [d]),
        (lambda: hl.local_pseudometric(m, m_bar), [smaller(d, d_bar), gap(Q, Q_bar)]),
        (lambda: hl.global_pseudometric(m, m_bar), [[[max(map(max, gap(Q, Q_bar)))]], [[largest]]]),
        (lambda: hl.lipschitz_bound(m, m_bar), [Q]),
        (lambda: hl.metrics.family_distance([m, m_bar]).reshape(-1, 1), [both]),
    ):
        try:
            result = compute()
        except hl.errors.NotConverged:
            continue
        n_certified += 1
        assert all(at_least(result, truth) for truth in truths)
    return n_certified


def check_policy(rng):
    m, m_bar = draw_related(rng)
    actions = rng.integers(m.n_actions, size=m.n_states)

    def choose(s):
        return int(actions[s])

    d = smaller(
        exact.exact_dissimilarity(m, m_bar, choose), exact.exact_dissimilarity(m_bar, m, choose)
    )
    try:
        of_pairs = hl.policy_q_pseudometric(m, m_bar, actions)
        of_states = hl.policy_v_pseudometric(m, m_bar, actions)
    except hl.errors.NotConverged:
        return 0
    assert at_least(of_pairs, d)
    assert at_least(of_states[:, None], [[d[s][choose(s)]] for s in range(m.n_states)])
    return 1


def test_distances_are_upper_bounds_in_exact_arithmetic():
    rng = np.random.default_rng(1)
    assert sum(check_optimal_values(rng) for _ in range(60)) > 200
    assert sum(check_policy(rng) for _ in range(60)) > 30


@pytest.mark.slow
@pytest.mark.parametrize("block", range(5))
def test_distances_are_upper_bounds_in_exact_arithmetic_on_many_tasks(block):
    rng = np.random.default_rng([2, block])
    for _ in range(200):
        check_optimal_values(rng)
        check_policy(rng)


def cancelling(r):
    """Return a one-step task whose two rewards, weighted by 1/4 and 3/4, add up to nearly 0."""
    R, T = [[[1e9, r]], [[0, 0]]], [[[0.25, 0.75]], [[0, 1]]]
    return hl.TabularMDP(R, T, gamma=0, reward_range=(-1e9, 1e9))


def test_distance_of_mean_rewards_that_nearly_cancel_is_certified():
    """The products of rewards and probabilities are 2.5e8, and their sums differ by 1e-7."""
    m, m_bar = cancelling(-1e9 / 3), cancelling(np.nextafter(-1e9 / 3, 0))
    truth = exact.exact_distance(m, m_bar)[0]
    assert 0 < truth < 1e-7
    for distance in (hl.dissimilarity(m, m_bar), hl.local_pseudometric(m, m_bar)):
        assert truth <= Fraction(distance[0, 0]) <= truth * (1 + Fraction(1e-9))


def test_pairs_with_the_same_transitions_in_both_tasks_are_at_distance_zero():
    """Only the rewards of one pair differ; mean rewards are rounded at all pairs."""
    rng = np.random.default_rng(3)
    T, R = rng.dirichlet(np.ones(4), (4, 2)), rng.random((4, 2, 4))
    changed = R.copy()
    changed[1, 1] = rng.random(4)
    m, m_bar = (hl.TabularMDP(rewards, T, gamma=0.9) for rewards in (R, changed))
    assert (m.transitions.R_error > 0).all()
    D = hl.metrics.family_distance([m, m_bar])
    assert D[1, 1] > 0
    assert np.count_nonzero(D) == 1
    assert (hl.dissimilarity(m, hl.TabularMDP(R, T, gamma=0.9)) == 0).all()


def test_error_of_a_difference_is_zero_only_for_pairs_with_the_same_transitions():
    rng = np.random.default_rng(4)
    shape = draw_shape(rng)._replace(n_states=4, n_actions=1, branching=3, terminating=0.5)
    outcomes = draw_outcomes(rng, shape)
    t = task_of(outcomes, shape).transitions
    for name, change in {
        "p": lambda x: np.where(outcomes.pairs == 1, np.roll(x, 1), x),
        "rewards": lambda x: np.where(outcomes.pairs == 1, 2 * x, x),
        "ends": lambda x: np.where(outcomes.pairs == 1, ~x, x),
        "successors": lambda x: np.where(outcomes.pairs == 1, (x + 1) % 4, x),
    }.items():
        changed = outcomes._replace(**{name: change(getattr(outcomes, name))})
        if name == "p":  # within the pair, so that it remains a distribution
            p = outcomes.p.copy()
            p[3:6] = np.roll(p[3:6], 1)
            changed = outcomes._replace(p=p)
        error = difference_error(t, task_of(changed, shape).transitions)
        assert (error > 0).tolist() == [False, True, False, False], name


def test_rounded_rewards_of_merged_outcomes_are_not_taken_as_equal():
    """Both tasks store the same rounded rewards; the exact ones differ by less than a rounding."""
    shape = draw_shape(np.random.default_rng(0))._replace(n_states=1, n_actions=1, gamma=0.0)

    def task(r):
        columns = np.zeros(3, dtype=np.int64), np.zeros(3, dtype=np.int64), np.full(3, 1 / 3)
        ends = np.zeros(3, dtype=bool)
        return task_of(Entries(*columns, np.array([1.0, 0.0, r]), ends), shape)

    m, m_bar = task(0.0), task(1e-17)
    assert m.R == m_bar.R
    assert hl.dissimilarity(m, m_bar)[0, 0] >= 1e-17 / 3
    assert (hl.dissimilarity(m, m) == 0).all()


def test_global_pseudometric_allows_for_rows_that_sum_to_more_than_one():
    """Rewards differ by 1 at every pair; if rows sum to 1 + η, the gap is 1 / (1 - γ (1 + η))."""
    rng = np.random.default_rng(5)
    n_above = 0
    for gamma in (0.99, 0.999, 0.9999):
        T = np.array([rng.dirichlet(np.ones(3), 3) for _ in range(40)])
        for rows in T:
            m, m_bar = (
                hl.TabularMDP(np.full((3, 1), r), rows[:, None], gamma=gamma) for r in (0.0, 1.0)
            )
            truth = max(map(max, exact.exact_Q(m_bar)))
            n_above += truth > 1 / (1 - Fraction(gamma))
            assert hl.global_pseudometric(m, m_bar) >= truth
    assert n_above > 10


@pytest.mark.parametrize("c", [0.0, 0.5])
def test_recursive_bisimulation_metric_includes_the_rounding_of_mean_rewards(c):
    m, m_bar = cancelling(-1e9 / 3), cancelling(np.nextafter(-1e9 / 3, 0))
    truth = exact.exact_distance(m, m_bar)[0]  # the difference of rewards; transitions are equal
    d = bisimulation_metric(m, m_bar, ground="recursive", c=c, tol=1e-12)
    assert d[0, 0] >= truth
    R = np.random.default_rng(6).random((3, 1, 3))
    T = np.random.default_rng(7).dirichlet(np.ones(3), (3, 1))
    m = hl.TabularMDP(R, T, gamma=0.9)
    with pytest.raises(
        hl.errors.NotConverged, match=r"tol=1e-18 cannot be certified: rounding allows"
    ):
        bisimulation_metric(m, m, ground="recursive", c=c, tol=1e-18)
