"""Compare the model of a pair with prior knowledge and with the models of sources."""

from typing import Any, NamedTuple

import numpy as np

from heirloom.kernels import njit


class Check(NamedTuple):
    """What prior knowledge and the known pairs of sources say about a pair that becomes known.

    Its mean reward lies between `low[k]` and `high[k]`. Its transitions lead to the states
    `possible[possible_first[k]:possible_first[k + 1]]`, unless `any_successor`, and terminate only
    if `may_end[k]`. Pair k is known in the rows `start[k]:start[k + 1]` of sources. The total
    variation between its transitions and row i is at most `limit[k]` + `tau[i]`, and its distance D
    to row i is at most `d_max[k]`. D is weighed with the lower weights `W[source[i]]`, whose
    two largest ones have the sum `top[source[i]]`, and `W_end` for ⊥. `eta[i]`, `tau[i]`,
    `task_eta` and `task_tau[k]` are the radii of the models. `active[0]` switches the check off.
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
    task_eta: Any
    task_tau: Any
    limit: Any
    d_max: Any
    W: Any
    W_end: Any
    top: Any
    gamma: Any


@njit(cache=True, error_model="numpy")
def pair_contradicts(model, check, k):
    """Return whether the known pair k contradicts what `check` says about it."""
    if not check.active[0]:
        return False
    R, first, last, ends = model.R[k], model.first[k], model.last[k], model.ends[k]
    if not check.low[k] <= R <= check.high[k] or (ends > 0.0 and not check.may_end[k]):
        return True
    successors, p = model.successors, model.p
    if not check.any_successor:
        i, end = check.possible_first[k], check.possible_first[k + 1]
        for j in range(first, last):
            while i < end and check.possible[i] < successors[j]:
                i += 1
            if i == end or check.possible[i] != successors[j]:
                return True
    limit, d_max, W_end = check.limit[k], check.d_max[k], check.W_end
    weighs = d_max < np.inf
    if limit >= 1.0 and not weighs:
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
            reward = max(abs(R - check.R[i]) - check.task_eta - check.eta[i], 0.0)
            radius = (check.task_tau[k] + check.tau[i]) * check.top[w]
            if reward + check.gamma * max(weighted - radius, 0.0) > d_max:
                return True
    return False
