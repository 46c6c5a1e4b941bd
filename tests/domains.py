"""Tasks with an optimal `Q` that was derived by hand."""

from dataclasses import dataclass

import numpy as np

from heirloom import TabularMDP


@dataclass(frozen=True)
class Domain:
    name: str
    task: TabularMDP
    Q: np.ndarray

    def __repr__(self) -> str:
        return self.name


def one_state(gamma: float, r: float) -> Domain:
    """One state with reward r at every step: V = r / (1-γ)."""
    task = TabularMDP([[r]], [[[1.0]]], gamma=gamma, reward_range=(-2, 2))
    return Domain(f"one state, reward {r}, gamma {gamma}", task, np.array([[r / (1 - gamma)]]))


def coin(gamma: float, p_end: float, r: float) -> Domain:
    """Reward r at every step, each of which terminates with probability p: V = r + γ (1 - p) V.

    Terminal transitions enter an absorbing second state.
    """
    T = [[[1 - p_end, p_end]], [[0.0, 1.0]]]
    task = TabularMDP(
        [[r], [0.0]], T, gamma=gamma, terminates=[1], start=0, reward_range=(-2.0, 2.0)
    )
    V = r / (1 - gamma * (1 - p_end))
    return Domain(f"coin {p_end}, reward {r}, gamma {gamma}", task, np.array([[V], [0.0]]))


def corridor(n: int, gamma: float) -> Domain:
    """Left or right along n >= 2 cells; entering the last cell has reward 1 and terminates.

    V(s) = γ^(k - 1) at a distance of k steps. The last cell has values too: moving right from it
    enters it again.
    """
    T, R = np.zeros((n, 2, n)), np.zeros((n, 2, n))
    for s in range(n):
        for a, s_next in enumerate((max(s - 1, 0), min(s + 1, n - 1))):
            T[s, a, s_next] = 1.0
            R[s, a, s_next] = float(s_next == n - 1)
    V = np.array([gamma ** max(n - 2 - s, 0) for s in range(n)])
    Q = np.empty((n, 2))
    for s in range(n):
        Q[s, 0] = gamma * V[max(s - 1, 0)]
        Q[s, 1] = 1.0 if s >= n - 2 else gamma * V[s + 1]
    task = TabularMDP(R, T, gamma=gamma, terminates=[n - 1], start=0)
    return Domain(f"corridor of {n}, gamma {gamma}", task, Q)


def stay_or_go(gamma: float) -> Domain:
    """Two states; actions in the second have reward 1: it is optimal to go there and stay."""
    R = [[0.0, 0.0], [1.0, 1.0]]
    T = [[[1, 0], [0, 1]], [[0, 1], [1, 0]]]
    top = 1 / (1 - gamma)
    Q = [[gamma**2 * top, gamma * top], [top, 1 + gamma**2 * top]]
    return Domain(f"stay or go, gamma {gamma}", TabularMDP(R, T, gamma=gamma), np.array(Q))


def shortest_path(n: int, gamma: float) -> Domain:
    """Each step costs 1 until the last cell is entered; giving up costs 3 and terminates.

    k steps cost (1 - γ^k) / (1-γ).
    """
    T, ends = np.zeros((n, 2, n)), np.zeros((n, 2, n), dtype=bool)
    for s in range(n):
        T[s, 0, min(s + 1, n - 1)] = 1.0
        ends[s, 0, n - 1] = True
        T[s, 1, s] = 1.0
        ends[s, 1, s] = True
    R = np.tile([-1.0, -3.0], (n, 1))
    V, Q = np.zeros(n + 1), np.empty((n, 2))
    for s in reversed(range(n)):
        go = -1.0 if s >= n - 2 else -1.0 + gamma * V[s + 1]
        Q[s] = go, -3.0
        V[s] = max(go, -3.0)
    task = TabularMDP(R, T, gamma=gamma, terminates=ends, start=0, reward_range=(-3, 0))
    return Domain(f"shortest path of {n}, gamma {gamma}", task, Q)


DISCOUNTS = (0.0, 0.5, 0.9, 0.99, 0.999)
DOMAINS = [
    domain
    for gamma in DISCOUNTS
    for domain in (
        one_state(gamma, 1.0),
        one_state(gamma, -0.25),
        coin(gamma, 0.25, 1.0),
        coin(gamma, 1.0, -1.0),
        corridor(2, gamma),
        corridor(9, gamma),
        stay_or_go(gamma),
        shortest_path(7, gamma),
    )
]


def chain(slip: float, *, n: int = 5, gamma: float = 0.95) -> TabularMDP:
    """Strens' chain: forward pays 1 in the last state, back pays 0.2 and leads to the first.

    With probability `slip`, an action has the effect of the other one.
    """
    T, R = np.zeros((n, 2, n)), np.zeros((n, 2, n))
    for s in range(n):
        forward = min(s + 1, n - 1)
        for a, p in enumerate((1 - slip, slip)):
            T[s, a, forward] += p
            T[s, a, 0] += 1 - p
        R[s, :, 0] = 0.2
        R[s, :, forward] = float(s == n - 1)
    return TabularMDP(R, T, gamma=gamma, start=0)


def river_swim(current: float, *, n: int = 6, gamma: float = 0.95) -> TabularMDP:
    """Strehl and Littman's river: swimming right pays 1 at its end, drifting left 0.005.

    Swimming moves the swimmer right with probability 0.4 - `current`, left with `current`.
    """
    T, R = np.zeros((n, 2, n)), np.zeros((n, 2))
    for s in range(n):
        T[s, 0, max(s - 1, 0)] = 1.0
        T[s, 1, min(s + 1, n - 1)] += 0.4 - current
        T[s, 1, max(s - 1, 0)] += current
        T[s, 1, s] += 0.6
    R[0, 0], R[n - 1, 1] = 0.005, 1.0
    return TabularMDP(R, T, gamma=gamma, start=0)
