"""Reference implementations for exact tasks: slow and plain.

They use dense numpy arrays, one formula per function, and exact rational arithmetic for
certificates.
"""

from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from heirloom import TabularMDP


class Dense(NamedTuple):
    """A task as dense arrays; the last successor is the absorbing terminal state ⊥."""

    R: np.ndarray
    T: np.ndarray
    gamma: float


def dense(m: TabularMDP) -> Dense:
    """Return mean rewards [s, a] and probabilities [s, a, s'], where s' = S is ⊥."""
    t = m.transitions
    T = np.zeros((m.n_states, m.n_actions, m.n_states + 1))
    for k in range(m.n_states * m.n_actions):
        for j in range(t.indptr[k], t.indptr[k + 1]):
            ends = t.ends is not None and t.ends[j]
            T[*divmod(k, m.n_actions), m.n_states if ends else t.successors[j]] += t.p[j]
    return Dense(m.R, T, m.gamma)


def fixed_point(
    operator: Callable[[np.ndarray], np.ndarray], x: np.ndarray, *, modulus: float, tol: float
) -> np.ndarray:
    """Return a point within `tol` of the fixed point of a contraction."""
    for _ in range(1_000_000):
        x, previous = operator(x), x
        if modulus * np.abs(x - previous).max() <= tol * (1 - modulus):
            return x
    raise AssertionError("the iteration did not converge")


def after(T: np.ndarray, V: np.ndarray) -> np.ndarray:
    """Return Σ_s' T V with V(⊥) = 0."""
    return T @ np.append(V, 0.0)


def optimal_Q(m: TabularMDP, tol: float = 1e-10) -> np.ndarray:
    R, T, gamma = dense(m)
    return fixed_point(
        lambda Q: R + gamma * after(T, Q.max(axis=1)), np.zeros(R.shape), modulus=gamma, tol=tol
    )


def policy_Q(m: TabularMDP, pi: np.ndarray, tol: float = 1e-10) -> np.ndarray:
    R, T, gamma = dense(m)
    return fixed_point(
        lambda Q: R + gamma * after(T, (pi * Q).sum(axis=1)),
        np.zeros(R.shape),
        modulus=gamma,
        tol=tol,
    )


def model_distance(m: TabularMDP, m_bar: TabularMDP, f: np.ndarray, f_end: float = 0.0):
    """Return |R - R̄| + Σ f |T - T̄|, summed over the states and ⊥."""
    a, b = dense(m), dense(m_bar)
    return np.abs(a.R - b.R) + np.abs(a.T - b.T) @ np.append(f, f_end)


def floor(m: TabularMDP, m_bar: TabularMDP) -> float:
    """Return c = min(0, lo / (1-γ)), which is subtracted from values to make them weights."""
    return min(0.0, m.reward_range[0], m_bar.reward_range[0]) / (1 - m.gamma)


def source_distance(m: TabularMDP, m_bar: TabularMDP, V_bar: np.ndarray) -> np.ndarray:
    """Return D_sa(M ‖ M̄), weighted by γ (V̄ - c)."""
    c = floor(m, m_bar)
    return model_distance(m, m_bar, m.gamma * (V_bar - c), -m.gamma * c)


def dissimilarity(m: TabularMDP, m_bar: TabularMDP, tol: float = 1e-9) -> np.ndarray:
    D = source_distance(m, m_bar, optimal_Q(m_bar).max(axis=1))
    _, T, gamma = dense(m)
    return fixed_point(
        lambda d: D + gamma * after(T, d.max(axis=1)), np.zeros(D.shape), modulus=gamma, tol=tol
    )


def policy_dissimilarity(m: TabularMDP, m_bar: TabularMDP, pi: np.ndarray, tol: float = 1e-9):
    """Return d^π_sa(M ‖ M̄); the dissimilarity of states is its mean over π."""
    D = source_distance(m, m_bar, (pi * policy_Q(m_bar, pi)).sum(axis=1))
    _, T, gamma = dense(m)
    return fixed_point(
        lambda d: D + gamma * after(T, (pi * d).sum(axis=1)),
        np.zeros(D.shape),
        modulus=gamma,
        tol=tol,
    )


def exact_Q(m: TabularMDP, choose: Callable | None = None) -> list[list[Fraction]]:
    """Return Q* in rational arithmetic, by policy iteration; or Q of the policy `choose(s)`.

    The float64 numbers of the task are taken as exact rationals.
    """
    t, A, gamma = m.transitions, m.n_actions, Fraction(m.gamma)
    rows = [
        {
            int(t.successors[j]): Fraction(float(t.p[j]))
            for j in range(t.indptr[k], t.indptr[k + 1])
            if t.ends is None or not t.ends[j]
        }
        for k in range(m.n_states * A)
    ]
    R = [Fraction(float(r)) for r in t.R]

    def back_up(k: int, V: list[Fraction]) -> Fraction:
        return R[k] + gamma * sum((p * V[s] for s, p in rows[k].items()), Fraction(0))

    policy = [0] * m.n_states if choose is None else [choose(s) for s in range(m.n_states)]
    while True:
        V = _solve(
            [
                [Fraction(s == s2) - gamma * rows[s * A + a].get(s2, 0) for s2 in range(m.n_states)]
                for s, a in enumerate(policy)
            ],
            [R[s * A + a] for s, a in enumerate(policy)],
        )
        Q = [[back_up(s * A + a, V) for a in range(A)] for s in range(m.n_states)]
        better = [
            a if Q[s][a] == max(Q[s]) else Q[s].index(max(Q[s])) for s, a in enumerate(policy)
        ]
        if choose is not None or better == policy:
            return Q
        policy = better


def _solve(A: list[list[Fraction]], b: list[Fraction]) -> list[Fraction]:
    """Solve A x = b by Gauss-Jordan elimination."""
    n = len(b)
    rows = [[*row, value] for row, value in zip(A, b, strict=True)]
    for i in range(n):
        pivot = next(r for r in range(i, n) if rows[r][i] != 0)
        rows[i], rows[pivot] = rows[pivot], rows[i]
        rows[i] = [x / rows[i][i] for x in rows[i]]
        for r in range(n):
            if r != i and rows[r][i] != 0:
                rows[r] = [x - rows[r][i] * y for x, y in zip(rows[r], rows[i], strict=True)]
    return [row[n] for row in rows]
