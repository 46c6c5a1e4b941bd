"""The largest means over sets of distributions agree with linear programs."""

import numpy as np
import pytest
from scipy.optimize import linprog

from heirloom.kernels import nearness
from tests.strategies import seeds

N_STATES = 4


def draw_rows(rng, n_rows):
    """Rows of successors with probabilities; the rest of the mass of a row is termination."""
    lengths = rng.integers(0, N_STATES + 1, size=n_rows)
    last = np.cumsum(lengths)
    successors = np.concatenate([rng.permutation(N_STATES)[:n] for n in lengths])
    p, ends = np.empty(successors.size), np.ones(n_rows)
    for i, n in enumerate(lengths):
        mass = rng.dirichlet(np.ones(n + 1))
        if n and rng.random() < 0.5:  # without termination
            mass = np.append(mass[:-1] / mass[:-1].sum(), 0.0)
        p[last[i] - n : last[i]], ends[i] = mass[:-1], mass[-1]
    return last - lengths, last, ends, successors.astype(np.int64), p


def dense(rows, i):
    """Row i as probabilities of all states and of termination, which comes last."""
    first, last, ends, successors, p = rows
    row = np.zeros(N_STATES + 1)
    row[successors[first[i] : last[i]]] = p[first[i] : last[i]]
    row[-1] = ends[i]
    return row


def largest_mean(row, t, V, possible):
    """The largest mean over distributions within total variation t, by a linear program.

    Mass moves to `possible` outcomes only. The variables are the masses that leave and arrive.
    """
    n, values = row.size, np.append(V, 0.0)
    objective = np.concatenate([values, -values])  # minimised: what leaves minus what arrives
    bounds = [(0, x) for x in row] + [(0, 1.0 if possible[j] else 0.0) for j in range(n)]
    ones = np.ones(n)
    result = linprog(
        objective,
        A_ub=[np.concatenate([ones, 0 * ones])],
        b_ub=[t],
        A_eq=[np.concatenate([ones, -ones])],
        b_eq=[0.0],
        bounds=bounds,
    )
    return row @ values - result.fun


@pytest.mark.parametrize("seed", seeds(20))
def test_largest_means_are_those_of_linear_programs(seed):
    rng = np.random.default_rng(seed)
    rows, V = draw_rows(rng, 6), rng.normal(size=N_STATES)
    t = rng.choice([0.0, 0.1, 0.7, 1.0], size=6)
    possible = rng.random((6, N_STATES + 1)) < 0.6
    possible[:, 0] = True
    values = np.append(V, 0.0)
    highest = np.where(possible, values, -np.inf).max(axis=1)
    start = np.append(0, np.cumsum(rows[1] - rows[0]))
    kept, moved, means = np.empty(start[-1]), np.empty(6), np.empty(6)
    nearness.largest_means(*rows, t, V, highest, start, kept, moved, means)
    for i in range(6):
        exact = largest_mean(dense(rows, i), t[i], V, possible[i])
        assert means[i] == pytest.approx(exact, abs=1e-9)
        row, rest = slice(rows[0][i], rows[1][i]), kept[start[i] : start[i + 1]]
        assert (rest >= 0).all()
        assert (rest <= rows[4][row]).all()
        attained = rest @ V[rows[3][row]] + moved[i] * highest[i]
        assert attained == pytest.approx(means[i], abs=1e-12)


def test_row_without_mass_stands_for_all_distributions():
    none, empty = np.zeros(1, dtype=np.int64), np.empty(0)
    moved, means = np.empty(1), np.empty(1)
    arguments = none, none, np.zeros(1), np.empty(0, dtype=np.int64), empty, np.ones(1)
    start = np.zeros(2, dtype=np.int64)
    nearness.largest_means(*arguments, np.zeros(1), np.array([3.0]), start, empty, moved, means)
    assert (means[0], moved[0]) == (3.0, 1.0)


@pytest.mark.parametrize("seed", seeds(20))
def test_highest_outcomes_are_maxima_over_possible_outcomes(seed):
    rng = np.random.default_rng(seed)
    V, may_end = rng.normal(size=N_STATES), rng.random(5) < 0.5
    possible = [np.flatnonzero(rng.random(N_STATES) < 0.5) for _ in range(5)]
    first = np.append(0, np.cumsum([s.size for s in possible]))
    pairs = rng.permutation(5)
    states, highest = np.empty(5, dtype=np.int64), np.empty(5)
    nearness.highest_outcomes(pairs, first, np.concatenate(possible), may_end, V, states, highest)
    for i, k in enumerate(pairs):
        outcomes = {int(s): V[s] for s in possible[k]} | ({-1: 0.0} if may_end[k] else {})
        expected = max(outcomes.values(), default=-np.inf)
        assert highest[i] == expected
        assert outcomes.get(int(states[i]), -np.inf) == expected
