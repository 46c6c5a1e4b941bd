"""The bound from near models, in the plainest way: sweeps over all pairs, and linear programs."""

import numpy as np
from scipy.optimize import linprog

from tests.reference.learned_models import as_dense


def possible_outcomes(nearness, setting):
    """Booleans [k, s'] over the states and, last, ⊥."""
    n_states, n_pairs = setting.n_states, setting.n_pairs
    possible = np.ones((n_pairs, n_states + 1), dtype=bool)
    if nearness.successors is not None:
        first, states = nearness.successors
        possible[:, :-1] = False
        for k in range(n_pairs):
            possible[k, states[first[k] : first[k + 1]]] = True
    if nearness.terminates is not None:
        possible[:, -1] = nearness._per_pair("terminates", n_pairs)
    possible[:, -1] &= setting.terminating
    return possible


def largest_mean(row, values, t, possible):
    """max Σ T values over the T on `possible` within total variation t of a row.

    A linear program. The row may have mass on outcomes that are not possible, which has to move.
    """
    n = row.size
    result = linprog(
        -np.append(values, np.zeros(n)),
        A_ub=np.block(
            [
                [np.eye(n), -np.eye(n)],
                [-np.eye(n), -np.eye(n)],
                [np.zeros((1, n)), np.ones((1, n))],
            ]
        ),
        b_ub=np.concatenate([row, -row, [2 * t + 1e-12]]),
        A_eq=np.append(np.ones(n), np.zeros(n))[None],
        b_eq=[1],
        bounds=[*((0, 1 if ok else 0) for ok in possible), *((0, None),) * n],
    )
    return -result.fun if result.status == 0 else np.inf


def near_Q(model, sources, nearness, setting, tol=1e-9):
    """Q of the joint program: R̂ + γ Σ T̂ V on K, and the smallest bound of near sources off K."""
    n_states, n_pairs, gamma = setting.n_states, setting.n_pairs, setting.gamma
    known, R, T = as_dense(model, n_states)
    dense = [as_dense(source.rows, n_states) for source in sources]
    possible = possible_outcomes(nearness, setting)
    t = np.minimum(1, nearness._per_pair("transitions", n_pairs) + setting.epsilon / 2)
    r = nearness._per_pair("rewards", n_pairs) + setting.epsilon
    reward = np.full(n_pairs, setting.reward_range[1])
    if nearness.highest_rewards is not None:
        reward = np.minimum(reward, nearness._per_pair("highest_rewards", n_pairs))
    for known_bar, R_bar, _ in dense:
        reward = np.where(known_bar, np.minimum(reward, R_bar + r), reward)
    Q = np.full(n_pairs, setting.v_max)
    U = Q.copy()
    while True:
        V = np.append(Q.reshape(n_states, -1).max(axis=1), 0.0)
        new = np.empty(n_pairs)
        for k in range(n_pairs):
            if known[k]:
                new[k] = min(U[k], R[k] + gamma * T[k] @ V)
                continue
            w = V[possible[k]].max(initial=-np.inf)
            for known_bar, _, T_bar in dense:
                if known_bar[k] and t[k] < 1:
                    w = min(w, largest_mean(T_bar[k], V, t[k], possible[k]))
            new[k] = min(setting.v_max, reward[k] + gamma * w)
        if np.abs(new - Q).max() * gamma <= tol * (1 - gamma):
            return new
        Q = np.minimum(Q, new)
