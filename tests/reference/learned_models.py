"""Slow, plain twins of what is computed from models that were learned in part."""

import numpy as np
from scipy.optimize import linprog

import heirloom as hl
from tests.reference.exact import fixed_point


class KeepAll(hl.Lipschitz):
    """Drops no source."""

    drops = False


def as_dense(rows, n_states):
    """(known, R, T) of a `Known`, T over the states and, last, the sink."""
    T = np.zeros((rows.known.size, n_states + 1))
    for k in np.flatnonzero(rows.known):
        row = slice(rows.first[k], rows.last[k])
        T[k, rows.successors[row]] = rows.p[row]
        T[k, -1] = rows.ends[k]
    return rows.known, rows.R, T


def outcomes(setting):
    """Which outcomes there are: the states, and the sink if tasks may terminate."""
    return np.arange(setting.n_states + (1 if setting.terminating else 0))


def weights(V, setting):
    """W over states and sink."""
    return np.append(V - setting.floor, -setting.floor)


def distance(m, m_bar, V_bar, setting):
    """The table of D̂, every maximum taken by looking at all vertices."""
    known, R, T = as_dense(m, setting.n_states)
    known_bar, R_bar, T_bar = as_dense(m_bar, setting.n_states)
    W = weights(V_bar, setting)
    possible = outcomes(setting)
    points = np.eye(setting.n_states + 1)[possible]
    lo, hi = setting.reward_range
    off = setting.epsilon * (1 + setting.gamma * W[possible].max())
    D = np.empty(known.size)
    for k in range(known.size):
        rows = [hi - lo + setting.gamma * max(W @ abs(t - u) for t in points for u in points)]
        for is_known, r, t in ((known[k], R[k], T[k]), (known_bar[k], R_bar[k], T_bar[k])):
            if is_known:
                far = max(W @ abs(t - u) for u in points)
                rows.append(max(r - lo, hi - r) + setting.gamma * far + off)
        if known[k] and known_bar[k]:
            rows.append(abs(R[k] - R_bar[k]) + setting.gamma * W @ abs(T[k] - T_bar[k]) + 2 * off)
        D[k] = min(rows)
    return D


def worst_case(t, values, epsilon):
    """max Σ T values over distributions T within `epsilon` of t in L1 norm, as a linear program."""
    n = t.size
    # variables: T, and |T - t|
    result = linprog(
        -np.append(values, np.zeros(n)),
        A_ub=np.block(
            [
                [np.eye(n), -np.eye(n)],
                [-np.eye(n), -np.eye(n)],
                [np.zeros((1, n)), np.ones((1, n))],
            ]
        ),
        b_ub=np.concatenate([t, -t, [epsilon]]),
        A_eq=np.append(np.ones(n), np.zeros(n))[None],
        b_eq=[1],
    )
    return -result.fun


def one_step_further(m, D, d, setting):
    """D̂ + γ (worst case of max d̂), once."""
    known, _, T = as_dense(m, setting.n_states)
    worst = np.append(d.reshape(setting.n_states, -1).max(axis=1), 0.0)
    after = [
        worst_case(T[k], worst, setting.epsilon) if known[k] else worst.max() for k in range(d.size)
    ]
    return D + setting.gamma * np.array(after)


def optimistic_Q(model, U, setting, tol=1e-9):
    """Q = U off K, min(U, R̂ + γ Σ T̂ V) on K."""
    known, R, T = as_dense(model, setting.n_states)

    def operator(Q):
        V = np.append(Q.reshape(setting.n_states, -1).max(axis=1), 0.0)
        return np.where(known, np.minimum(U, R + setting.gamma * T @ V), U)

    return fixed_point(operator, U.copy(), modulus=setting.gamma, tol=tol)
