"""How far the model of one pair that became known is from those of the sources."""

from typing import NamedTuple

import numpy as np

from heirloom.arrays import FloatArray, IntArray
from heirloom.transfer.nearness.knowledge import Nearness
from heirloom.transfer.refutation.watch import TaskWatch


class Observed(NamedTuple):
    """The model of a pair after n visits, over the states and ⊥ (the last entry)."""

    pair: int
    n: int
    R: float
    T: FloatArray


class Difference(NamedTuple):
    """The difference between the task at hand and a source at a pair."""

    task: int
    reward: float
    eta: float
    """The sum of the radii of both mean rewards."""
    tv: float
    tau: float
    """The sum of the radii of both distributions."""
    distance: float
    """A lower bound on the distance D, weighed with the values of the source; 0 without d_max."""


def differences(watch: TaskWatch, seen: Observed) -> list[Difference]:
    """Return how far the model of a pair is from that of each source that knows the pair."""
    found, n_states = [], watch.setting.n_states
    own_eta, own_tau = watch.own.of_pair(seen.pair, seen.n)
    for i, (source, radii) in enumerate(zip(watch.sources, watch.source_radii, strict=True)):
        if not source.known[seen.pair]:
            continue
        rows = source.rows
        T = np.zeros(n_states + 1)
        row = slice(rows.first[seen.pair], rows.last[seen.pair])
        T[rows.successors[row]] = rows.p[row]
        T[n_states] = rows.ends[seen.pair]
        gap = np.abs(T - seen.T)
        tau = own_tau + float(radii.transitions[seen.pair])
        reward = abs(seen.R - float(rows.R[seen.pair]))
        eta = own_eta + float(radii.rewards[seen.pair])
        distance, check = 0.0, watch.check
        if check is not None and len(check.W):
            weighted = float(check.W[i] @ gap[:-1] + check.W_end * gap[-1])
            moved = max(weighted - min(tau, 2.0) * float(check.top[i]), 0.0)
            distance = max(reward - eta, 0.0) + watch.setting.gamma * moved
        found.append(Difference(source.task, reward, eta, float(gap.sum()) / 2, tau, distance))
    return found


def outside(nearness: Nearness, seen: Observed) -> tuple[IntArray, bool]:
    """Return the observed states that a nearness excludes at a pair, and whether ⊥ is excluded."""
    outcomes, n_states = np.flatnonzero(seen.T > 0), seen.T.size - 1
    excluded = nearness._excludes(np.full(outcomes.size, seen.pair), outcomes, n_states)
    states = outcomes[excluded & (outcomes < n_states)]
    return states, bool(excluded.sum() > states.size)
