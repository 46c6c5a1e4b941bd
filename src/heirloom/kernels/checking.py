"""Compare the model of a pair with claims and with the models of sources."""

import math
from typing import Any, NamedTuple

import numpy as np

from heirloom.kernels import inlined, njit
from heirloom.kernels.counting import Model

RHO = 1.0  # ρ; a larger one gives smaller radii after many visits and larger ones after few


class Check(NamedTuple):
    """What claims and the known pairs of sources say about a pair of the task at hand.

    Its mean reward lies between `low[k]` and `high[k]`. Its transitions lead to the states
    `possible[possible_first[k]:possible_first[k + 1]]`, unless `any_successor`, and terminate only
    if `may_end[k]`. Pair k is known in the rows `start[k]:start[k + 1]` of sources. The total
    variation between its transitions and row i is at most `limit[k]`, and its distance D to row i
    is at most `d_max[k]`. D is weighed with the lower weights `W[source[i]]`, whose two largest
    ones have the sum `top[source[i]]`, and `W_end` for ⊥.

    Learned models are within radii of the true ones. Those of row i are `eta[i]` and `tau[i]`, and
    `least_tau[k]` is the smallest τ of the rows of a pair. Those of pair k of the task after n
    visits are `task_eta + width * radius(n, log_rewards)` and
    `task_tau[k] + radius(n, log_sets[k])`. `active[0]` switches the check off.
    """

    active: Any
    low: Any
    high: Any
    any_successor: Any
    possible_first: Any
    possible: Any
    may_end: Any
    start: Any
    first: Any
    last: Any
    R: Any
    ends: Any
    source: Any
    successors: Any
    p: Any
    eta: Any
    tau: Any
    least_tau: Any
    task_eta: Any
    width: Any
    log_rewards: Any
    task_tau: Any
    log_sets: Any
    limit: Any
    d_max: Any
    W: Any
    W_end: Any
    top: Any
    gamma: Any


@inlined
def radius(n, log_sets):
    """Return √((n/4 + ρ) (ln(1 + n/4ρ) + 2 L)) / n, the radius of a mean of n visits.

    It is infinite without visits, and 0 if L = `log_sets` is -infinity (`transfer/radii.py`).
    """
    if log_sets == -np.inf:
        return 0.0
    if n == 0:
        return np.inf
    total = math.log1p(n / (4 * RHO)) + 2 * log_sets
    return math.sqrt((n / 4 + RHO) * max(total, 0.0)) / n


@njit(cache=True)
def fill_radii(n, log_rewards, log_sets, found):
    """Set found[0, k] <- radius(n[k], log_rewards), found[1, k] <- radius(n[k], log_sets[k])."""
    for k in range(n.size):
        found[0, k] = radius(n[k], log_rewards)
        found[1, k] = radius(n[k], log_sets[k])


@njit(cache=True)
def contradicts(model, check, k):
    """Call `pair_contradicts` for the last look at a pair, with tuples made from plain ones."""
    named = Model(*model)
    return pair_contradicts(named, Check(*check), k, named.looked[k])


@inlined
def pair_contradicts(model, check, k, n):
    """Return whether the model of pair k, after n visits, contradicts what `check` says about it.

    It may be called after any numbers of visits: the radii hold after all of them at once.
    """
    if not check.active[0]:
        return False
    R, first, last, ends = model.R[k], model.first[k], model.last[k], model.ends[k]
    eta = check.task_eta + check.width * radius(n, check.log_rewards)
    if not check.low[k] - eta <= R <= check.high[k] + eta or (ends > 0.0 and not check.may_end[k]):
        return True
    successors, p = model.successors, model.p
    if not check.any_successor:
        i, end = check.possible_first[k], check.possible_first[k + 1]
        for j in range(first, last):
            while i < end and check.possible[i] < successors[j]:
                i += 1
            if i == end or check.possible[i] != successors[j]:
                return True
    d_max, W_end = check.d_max[k], check.W_end
    tau = min(check.task_tau[k] + radius(n, check.log_sets[k]), 1.0)
    limit, weighs = check.limit[k] + tau, d_max < np.inf
    if limit + check.least_tau[k] >= 1.0 and not weighs:
        return False
    row_successors, row_p = check.successors, check.p
    for i in range(check.start[k], check.start[k + 1]):
        w = check.source[i] if weighs else 0
        change = abs(ends - check.ends[i])
        L1, weighted = change, W_end * change
        u, v, v_end = first, check.first[i], check.last[i]
        while u < last or v < v_end:
            if v == v_end or (u < last and successors[u] < row_successors[v]):
                s, change = successors[u], p[u]
                u += 1
            elif u == last or row_successors[v] < successors[u]:
                s, change = row_successors[v], row_p[v]
                v += 1
            else:
                s, change = successors[u], abs(p[u] - row_p[v])
                u += 1
                v += 1
            L1 += change
            if weighs:
                weighted += check.W[w, s] * change
        if L1 / 2 > limit + check.tau[i]:
            return True
        if weighs:
            reward = max(abs(R - check.R[i]) - eta - check.eta[i], 0.0)
            moved = (tau + check.tau[i]) * check.top[w]
            if reward + check.gamma * max(weighted - moved, 0.0) > d_max:
                return True
    return False
