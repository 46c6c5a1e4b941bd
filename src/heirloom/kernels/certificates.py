"""Upper and lower values over confidence sets of all pairs at once.

An outcome i of a pair is a successor with a reward, and `W_i = r_i + γ V_i`, where V is 0 after an
end. The sets C of `kernels/confidence.py` contain the true distributions of all pairs. Then

    Q⁺ <- min(Q⁺, max over C of Σ p W⁺),    Q⁻ <- max(Q⁻, min over C of Σ p W⁻),    V = max_a Q

keep bounds valid at every single backup, so that sweeps may stop at any time. W is computed from
the current V in every backup: an order of V that was sorted before would not be that of the V that
is used.
"""

from typing import Any, NamedTuple

import numpy as np

from heirloom.kernels import njit
from heirloom.kernels.confidence import largest_mean


class Sets(NamedTuple):
    """Confidence sets over pairs k = s * A + a, and the outcomes that are possible.

    Outcomes that were seen are at `first[k]:first[k + 1]`: the frequency `p`, the reward `r` and
    the successor `states`, or -1 for an end. `beta[k]` is the radius, infinite without visits.
    Outcomes that were not seen have the reward `low` or `high`. If `is_listed`, their successors
    are at `unseen_first[k]:unseen_first[k + 1]` in `unseen`, otherwise any state; `may_end[k]` says
    that ends are possible. `exists` marks actions that exist.
    """

    first: Any
    p: Any
    r: Any
    states: Any
    beta: Any
    low: Any
    high: Any
    is_listed: Any
    unseen_first: Any
    unseen: Any
    may_end: Any
    exists: Any


@njit(cache=True)
def sweep(sets, gamma, sense, Q, V, W, tol, most):
    """Back up all pairs until no sweep changes a value by `tol`; return the number of sweeps.

    With `sense` 1, Q and V are upper bounds, which fall; with -1 lower bounds, which rise. `W` has
    room for the outcomes of a pair.
    """
    named = Sets(*sets)
    n_actions = Q.size // V.size
    for n in range(most):
        change = 0.0
        top = (sense * V).max()
        for s in range(V.size):
            best = -np.inf
            for k in range(s * n_actions, (s + 1) * n_actions):
                if not named.exists[k]:
                    continue
                value = backup(named, gamma, sense, V, W, top, k)
                Q[k] = min(Q[k], value) if sense > 0 else max(Q[k], value)
                best = max(best, Q[k])
            if sense * (V[s] - best) > 0.0 and best > -np.inf:
                change = max(change, abs(V[s] - best))
                V[s] = best
        if change <= tol:
            return n + 1
    return most


@njit(cache=True, error_model="numpy")
def backup(sets, gamma, sense, V, W, top, k):
    """Return the largest mean of W over the set of a pair, with sense -1 the smallest.

    `top` is at least the largest value of a state, with sense -1 at least the largest -V.
    """
    first, last = sets.first[k], sets.first[k + 1]
    for i in range(first, last):
        v = V[sets.states[i]] if sets.states[i] >= 0 else 0.0
        W[i - first] = sets.r[i] + gamma * v
    best = -np.inf  # sense times the largest value of a possible outcome that was not seen
    if not sets.is_listed:
        best = top
    for j in range(sets.unseen_first[k], sets.unseen_first[k + 1]):
        best = max(best, sense * V[sets.unseen[j]])
    if sets.may_end[k]:
        best = max(best, 0.0)
    r = sets.high[k] if sense > 0 else sets.low[k]
    n = last - first
    unseen = sense * r + gamma * best
    return sense * largest_mean(sets.p[first:last], W[:n], sense, unseen, sets.beta[k])
