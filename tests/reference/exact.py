"""Reference implementations for exact tasks: slow and plain.

They use dense numpy arrays, one formula per function, and exact rational arithmetic for
certificates.
"""

from collections.abc import Callable, Iterable
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from heirloom import TabularMDP
from heirloom.mdp.transitions import Entries


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


def exact_mean_rewards(m: TabularMDP) -> list[Fraction]:
    """Return Σ p r / Σ p of each pair in rational arithmetic, with the stored p and r."""
    t = m.transitions
    if t.rewards is None:
        return [Fraction(r) for r in t.R.tolist()]
    return [
        mean(zip(t.p[row].tolist(), t.rewards[row].tolist(), strict=True)) for row in _slices(m)
    ]


def exact_merged_rewards(m: TabularMDP, outcomes: Entries) -> list[Fraction]:
    """Return the mean rewards of a task made from `outcomes`, some of which were merged.

    The reward of a merged transition is the mean of its outcomes, weighted by their given
    probabilities. Transitions are weighted by the stored p.
    """
    groups: dict[tuple[int, int, bool], list[tuple[float, float]]] = {}
    for k, s, p, r, end in zip(*(column.tolist() for column in outcomes), strict=True):
        groups.setdefault((k, s, end), []).append((p, r))
    t = m.transitions
    ends = [False] * t.p.size if t.ends is None else t.ends.tolist()
    weighted: list[list[tuple[float, Fraction]]] = [[] for _ in range(t.indptr.size - 1)]
    for k, s, p, end in zip(
        t.pairs.tolist(), t.successors.tolist(), t.p.tolist(), ends, strict=True
    ):
        weighted[k].append((p, mean(groups[k, s, end])))
    return [mean(of_pair) for of_pair in weighted]


def mean(weighted: Iterable[tuple[float | Fraction, float | Fraction]]) -> Fraction:
    """Return the mean of pairs (weight, value), in rational arithmetic."""
    pairs = [(Fraction(weight), Fraction(value)) for weight, value in weighted]
    return sum(w * x for w, x in pairs) / sum(w for w, _ in pairs)


def exact_Q(
    m: TabularMDP, choose: Callable | None = None, *, R: list[Fraction] | None = None
) -> list[list[Fraction]]:
    """Return Q* in rational arithmetic, by policy iteration; or Q of the policy `choose(s)`.

    The float64 numbers of the task are taken as exact rationals. R, over pairs, replaces its mean
    rewards.
    """
    A, gamma = m.n_actions, Fraction(m.gamma)
    rows, R = _rows(m), R or exact_mean_rewards(m)

    def back_up(k: int, V: list[Fraction]) -> Fraction:
        return R[k] + gamma * sum(
            (p * V[s] for s, p in rows[k].items() if s is not END), Fraction(0)
        )

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


def exact_distance(
    m: TabularMDP, m_bar: TabularMDP, choose: Callable | None = None
) -> list[Fraction]:
    """Return D_sa(M ‖ M̄) in rational arithmetic, weighted by the values of M̄ (or of a policy)."""
    gamma = Fraction(m.gamma)
    c = min(0, Fraction(m.reward_range[0]), Fraction(m_bar.reward_range[0])) / (1 - gamma)
    Q = exact_Q(m_bar, choose)
    V = [max(q) if choose is None else q[choose(s)] for s, q in enumerate(Q)]
    weights = {**{s: gamma * (v - c) for s, v in enumerate(V)}, END: -gamma * c}
    return [
        abs(r - r_bar)
        + sum(weights[s] * abs(row.get(s, 0) - row_bar.get(s, 0)) for s in {*row, *row_bar})
        for r, r_bar, row, row_bar in zip(
            exact_mean_rewards(m), exact_mean_rewards(m_bar), _rows(m), _rows(m_bar), strict=True
        )
    ]


def exact_dissimilarity(
    m: TabularMDP, m_bar: TabularMDP, choose: Callable | None = None
) -> list[list[Fraction]]:
    """Return d_sa(M ‖ M̄) in rational arithmetic, or that of the policy `choose(s)`."""
    return exact_Q(m, choose, R=exact_distance(m, m_bar, choose))


END = None  # the key of ⊥ in a row


def _rows(m: TabularMDP) -> list[dict[int | None, Fraction]]:
    """Return the exact probabilities of the successors of each pair, and of ⊥."""
    t = m.transitions
    ends = [False] * t.p.size if t.ends is None else t.ends.tolist()
    rows = []
    for of_pair in _slices(m):
        row = {}
        for s, p, end in zip(
            t.successors[of_pair].tolist(), t.p[of_pair].tolist(), ends[of_pair], strict=True
        ):
            key = END if end else s
            row[key] = row.get(key, Fraction(0)) + Fraction(p)
        rows.append(row)
    return rows


def _slices(m: TabularMDP) -> list[slice]:
    indptr = m.transitions.indptr.tolist()
    return [slice(first, last) for first, last in pairwise(indptr)]


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
