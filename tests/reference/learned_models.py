"""Reference implementations for partly known models: slow and plain."""

import numpy as np
from scipy.optimize import linprog

import heirloom as hl
from tests.reference.exact import fixed_point


class KeepAll(hl.Lipschitz):
    """The Lipschitz bound without dropping sources."""

    drops = False


def as_dense(rows, n_states):
    """Return (known, R, T) of `Rows`; T is over the states and, last, ⊥."""
    T = np.zeros((rows.known.size, n_states + 1))
    for k in np.flatnonzero(rows.known):
        row = slice(rows.first[k], rows.last[k])
        T[k, rows.successors[row]] = rows.p[row]
        T[k, -1] = rows.ends[k]
    return rows.known, rows.R, T


def outcomes(setting):
    """Return the possible outcomes: the states, and ⊥ if tasks may terminate."""
    return np.arange(setting.n_states + (1 if setting.terminating else 0))


def weights(V, setting):
    """Return W over the states and ⊥."""
    return np.append(V - setting.floor, -setting.floor)


def distance(m, m_bar, V_bar, setting):
    """Return D̂ by the table of `kernels.distances`; maxima are over all vertices of the simplex."""
    known, R, T = as_dense(m, setting.n_states)
    known_bar, R_bar, T_bar = as_dense(m_bar, setting.n_states)
    W = weights(V_bar, setting)
    possible = outcomes(setting)
    points = np.eye(setting.n_states + 1)[possible]
    lo, hi = setting.reward_range
    B = setting.epsilon * (1 + setting.gamma * W[possible].max())
    D = np.empty(known.size)
    for k in range(known.size):
        rows = [hi - lo + setting.gamma * max(W @ abs(t - u) for t in points for u in points)]
        for is_known, r, t in ((known[k], R[k], T[k]), (known_bar[k], R_bar[k], T_bar[k])):
            if is_known:
                farthest = max(W @ abs(t - u) for u in points)
                rows.append(max(r - lo, hi - r) + setting.gamma * farthest + B)
        if known[k] and known_bar[k]:
            rows.append(abs(R[k] - R_bar[k]) + setting.gamma * W @ abs(T[k] - T_bar[k]) + 2 * B)
        D[k] = min(rows)
    return D


def worst_case(t, values, epsilon):
    """Solve max Σ T values over distributions T within `epsilon` of t in L1 norm, as an LP."""
    n = t.size
    # The variables are T and |T - t|.
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


def one_sweep(m, D, d, setting):
    """Apply the operator once: return D̂ + γ (worst case of max_a d̂)."""
    known, _, T = as_dense(m, setting.n_states)
    d_state = np.append(d.reshape(setting.n_states, -1).max(axis=1), 0.0)
    next_d = [
        worst_case(T[k], d_state, setting.epsilon) if known[k] else d_state.max()
        for k in range(d.size)
    ]
    return D + setting.gamma * np.array(next_d)


def optimistic_Q(model, U, setting, tol=1e-9):
    """Return the fixed point of Q = U off K, Q = min(U, R̂ + γ Σ T̂ V) on K."""
    known, R, T = as_dense(model, setting.n_states)

    def operator(Q):
        V = np.append(Q.reshape(setting.n_states, -1).max(axis=1), 0.0)
        return np.where(known, np.minimum(U, R + setting.gamma * T @ V), U)

    return fixed_point(operator, U.copy(), modulus=setting.gamma, tol=tol)
