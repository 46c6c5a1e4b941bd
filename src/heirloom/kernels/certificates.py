"""Upper and lower values over sets of models: what the visits of all pairs prove of a task.

An outcome i of a pair is a successor with a reward, and `W_i = r_i + γ V_i`, where V is 0 after an
end. Each set C of a pair contains its true model. Then

    Q⁺ <- min(Q⁺, max over C of Σ p W⁺),    Q⁻ <- max(Q⁻, min over C of Σ p W⁻),    V = max_a Q

keep bounds valid at every single backup, so that a program may stop at any time, and go on when
there are more visits. The sets of a pair are

- the confidence set of its own visits (`kernels/confidence.py`), to which visits of earlier tasks
  may be added if these have the same transitions;
- for each earlier task with visits, the models whose mean reward is within `margin`, and whose
  transitions are within total variation t, of a model in the confidence set of that task.

W is computed from the current V in every backup: an order of V that was sorted before would not be
that of the V that is used. A state whose value has changed by more than a tolerance is put into a
queue, and makes the pairs that can lead to it stale. Stale pairs of the upper program are backed up
only while they are the best ones of their states: until then their old bounds are valid.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from heirloom.kernels import inlined, njit
from heirloom.kernels.confidence import kl_radius, largest_mean, widened, widened_at

PER_TRANSITION, PRICES, SHARES = range(3)
NO_FAULT, NEW_SUCCESSOR, NEW_END, OTHER_REWARD = range(4)
HEAD, LENGTH = range(2)
CALLS_OF_SEARCH = 16.0  # work of a source's backup, in that of a confidence set


class Knowledge(NamedTuple):
    """What is known before the first step of a task, over pairs k = s * A + a.

    `kind` says what is known of rewards: they are the same at every visit of a transition
    (`PER_TRANSITION`); their means are `prices`, which is otherwise empty; or nothing (`SHARES`): a
    reward r then counts as the share (r - lo) / (hi - lo) of `hi`, and as `lo` for the rest. Mean
    rewards are at most `highest`. If `is_listed`, the possible successors are
    `states[first[k]:first[k + 1]]`, otherwise all states; `may_end[k]` says that ends are possible.
    `n_outcomes` is the number of possible outcomes, and `log_inverse[k]` is ln(1 / ε) of the
    confidence set. Visits of earlier tasks that count as own ones are at `base_first[k]`: the
    successors `base_states`, -1 for an end, and `base_times`. The pairs that can lead to state s
    are `into[into_first[s]:into_first[s + 1]]`, if successors are listed.
    """

    gamma: Any
    lo: Any
    hi: Any
    kind: Any
    prices: Any
    highest: Any
    is_listed: Any
    first: Any
    states: Any
    may_end: Any
    n_outcomes: Any
    log_inverse: Any
    base_first: Any
    base_states: Any
    base_times: Any
    into_first: Any
    into: Any


class Entries(NamedTuple):
    """The visits of a task, as in `counting.Model`."""

    counts: Any
    head: Any
    next_entry: Any
    outcomes: Any
    times: Any
    rewards: Any
    excess: Any


class Sources(NamedTuple):
    """The confidence sets of earlier tasks: those of pair k are `start[k]:start[k + 1]`.

    Set e has the frequencies `p`, the rewards `r` and the successors `states`, -1 for an end, at
    `first[e]:first[e + 1]`, and the radius `beta[e]`. `t` and `margin` are over pairs. `at` holds
    the best λ of the last search for each set, as a share of the largest one, for upper and for
    lower values; -1 before.
    """

    start: Any
    first: Any
    p: Any
    r: Any
    states: Any
    beta: Any
    t: Any
    margin: Any
    at: Any


class Own(NamedTuple):
    """The confidence sets of own visits: the radii `beta` after `seen` visits.

    The rest is room to work: `mark` and `place` over states, and `p`, `r`, `v`, `w`, `s` for the
    outcomes of a pair.
    """

    beta: Any
    seen: Any
    mark: Any
    place: Any
    p: Any
    r: Any
    v: Any
    w: Any
    s: Any
    stamp: Any


class Bounds(NamedTuple):
    """Q and V with `sense` 1 for upper bounds, -1 for lower ones; actions of pairs that `exists`.

    The next backup of a pair that is `unsure` searches for the best bounds of sources. `told` is V
    when pairs that lead to a state were last made stale. States in the ring `queue` are
    `is_queued`; `ring` holds its head and its length.
    """

    sense: Any
    exists: Any
    Q: Any
    V: Any
    told: Any
    stale: Any
    unsure: Any
    queue: Any
    is_queued: Any
    ring: Any


@inlined
def _push(bounds, s):
    """Put a state into the queue, unless it is there."""
    if not bounds.is_queued[s]:
        bounds.is_queued[s] = True
        at = (bounds.ring[HEAD] + bounds.ring[LENGTH]) % bounds.queue.size
        bounds.queue[at] = s
        bounds.ring[LENGTH] += 1


@njit(cache=True)
def make_stale(bounds, pairs):
    """Make pairs stale and unsure, and queue their states."""
    named = Bounds(*bounds)
    n_actions = named.Q.size // named.V.size
    for k in pairs:
        named.stale[k] = named.unsure[k] = True
        _push(named, k // n_actions)


@njit(cache=True)
def count(knowledge, entries, own, upper, lower):
    """Take note of the visits so far; return a pair and what it did that was declared impossible.

    Pairs with new visits become stale.
    """
    known, seen, sets = Knowledge(*knowledge), Entries(*entries), Own(*own)
    above, below = Bounds(*upper), Bounds(*lower)
    n_actions = above.Q.size // above.V.size
    for k in range(seen.counts.size):
        if seen.counts[k] == sets.seen[k]:
            continue
        n, fault = _gather(known, seen, sets, k)
        if fault != NO_FAULT:
            return k, fault
        sets.beta[k] = kl_radius(sets.p[:n], known.n_outcomes[k], known.log_inverse[k])
        sets.seen[k] = seen.counts[k]
        above.stale[k] = below.stale[k] = True
        _push(above, k // n_actions)
        _push(below, k // n_actions)
    return -1, NO_FAULT


@njit(cache=True)
def _gather(known, seen, sets, k):
    """Collect the outcomes of pair k that were seen: `p` visits each, with `r` and `s`.

    Returns their number, and whether one was declared impossible. `mark` is then `stamp` at states
    that are possible and not known with their reward, above it at those that are, and smaller
    elsewhere, if successors are listed.
    """
    sets.stamp[0] += 2
    stamp = sets.stamp[0]
    _mark_possible(known, sets, k, stamp)
    n, end_at, fault = 0, -1, NO_FAULT
    i = seen.head[k]
    while i >= 0:
        times, s, r = float(seen.times[i]), seen.outcomes[i], seen.rewards[i]
        excess = seen.excess[i, 0] + seen.excess[i, 1]
        varies = excess != 0.0 or math.copysign(1.0, seen.excess[i, 1]) < 0.0
        i = seen.next_entry[i]
        if times == 0.0:
            continue
        if s < 0:
            s = -1
            if not known.may_end[k]:
                fault = NEW_END
        elif known.is_listed and sets.mark[s] < stamp:
            fault = NEW_SUCCESSOR
        if known.kind == SHARES:
            x = (r + excess / times - known.lo) / (known.hi - known.lo)
            x = min(max(x, 0.0), 1.0)
            for part in range(2):
                share = x if part == 0 else 1.0 - x
                if share > 0.0:
                    sets.p[n], sets.s[n] = times * share, s
                    sets.r[n] = known.hi if part == 0 else known.lo
                    n += 1
            continue
        if known.kind == PER_TRANSITION and varies:
            fault = OTHER_REWARD
        if known.kind == PRICES:
            r = known.prices[k]
            if s < 0:
                if end_at >= 0:
                    sets.p[end_at] += times
                    continue
                end_at = n
        if s >= 0:
            sets.mark[s], sets.place[s] = stamp + 1, n
        sets.p[n], sets.r[n], sets.s[n] = times, r, s
        n += 1
    for j in range(known.base_first[k], known.base_first[k + 1]):  # only where prices are known
        s, times = known.base_states[j], float(known.base_times[j])
        at = end_at if s < 0 else (sets.place[s] if sets.mark[s] == stamp + 1 else -1)
        if at >= 0:
            sets.p[at] += times
            continue
        if s < 0:
            end_at = n
        else:
            sets.mark[s], sets.place[s] = stamp + 1, n
        sets.p[n], sets.r[n], sets.s[n] = times, known.prices[k], s
        n += 1
    return n, fault


@inlined
def _mark_possible(known, sets, k, stamp):
    """Mark the successors that are possible, if they are listed."""
    for j in range(known.first[k], known.first[k + 1]):
        sets.mark[known.states[j]] = stamp


@inlined
def _best(known, mark, V, sense, k, top, only):
    """Return sense times the best value of a possible successor with the mark `only`, -1 for any.

    `top` is at least that of all states, which counts where successors are not listed.
    """
    best = -np.inf if known.is_listed else top
    for j in range(known.first[k], known.first[k + 1]):
        s = known.states[j]
        if only < 0 or mark[s] == only:
            best = max(best, sense * V[s])
    return best


@njit(cache=True, error_model="numpy")
def backup(known, seen, sets, sources, bounds, top, k):
    """Return the smallest of the largest means over the sets of pair k; reverse with sense -1.

    `top` is at least sense times every value of a state. If the pair is not `unsure`, each source
    uses the λ of the last search, which is sound, too.
    """
    sense, V, gamma = bounds.sense, bounds.V, known.gamma
    r_unseen = known.hi if sense > 0.0 else -known.lo
    highest = known.highest[k] if sense > 0.0 else -known.lo
    if known.kind == PRICES:
        r_unseen = highest = sense * known.prices[k]
    n, _ = _gather(known, seen, sets, k)
    stamp = sets.stamp[0]
    v_top = _best(known, sets.mark, V, sense, k, top, -1)
    v_unseen = _best(known, sets.mark, V, sense, k, top, stamp)
    if known.may_end[k]:
        v_top = max(v_top, 0.0)
        if known.kind != PRICES or not _has_end(sets.s, n):
            v_unseen = max(v_unseen, 0.0)
    if v_top == -np.inf:  # no outcome is possible: the action does not exist
        return -np.inf
    best = highest + gamma * v_top
    if n > 0:
        total = 0.0
        for i in range(n):
            total += sets.p[i]
        for i in range(n):
            sets.p[i] /= total
            sets.v[i] = V[sets.s[i]] if sets.s[i] >= 0 else 0.0
            sets.w[i] = sets.r[i] + gamma * sets.v[i]
        beta = sets.beta[k]
        w_unseen = r_unseen + gamma * v_unseen if v_unseen > -np.inf else -np.inf
        found = largest_mean(sets.p[:n], sets.w[:n], sense, w_unseen, beta)
        best = min(best, found)
        if highest < r_unseen:
            found = largest_mean(sets.p[:n], sets.v[:n], sense, v_unseen, beta)
            best = min(best, highest + gamma * found)
    for e in range(sources.start[k], sources.start[k + 1]):
        found = _of_source(known, sets, sources, V, sense, top, v_top, k, e, best, bounds.unsure[k])
        best = min(best, found)
    bounds.unsure[k] = False
    return sense * best


@inlined
def _has_end(states, n):
    """Return whether one of the first n outcomes is an end."""
    for i in range(n):
        if states[i] < 0:
            return True
    return False


@njit(cache=True, error_model="numpy")
def _of_source(known, sets, sources, V, sense, top, v_top, k, e, best, search):
    """Return sense times the bound of one earlier task; something above `best` if it is no use."""
    first, last, gamma, t = sources.first[e], sources.first[e + 1], known.gamma, sources.t[k]
    n, margin, beta = last - first, sources.margin[k], sources.beta[e]
    p, r, v = sources.p[first:last], sources.r[first:last], sets.v[:n]
    mean, mean_r = 0.0, 0.0
    for i in range(n):
        s = sources.states[first + i]
        v[i] = V[s] if s >= 0 else 0.0
        mean += p[i] * (r[i] + gamma * v[i])
        mean_r += p[i] * r[i]
    highest = known.highest[k] if sense > 0.0 else -known.lo
    r_unseen = known.hi if sense > 0.0 else -known.lo
    if known.kind == PRICES:
        r_unseen = highest = sense * known.prices[k]
    by_reward = sense * mean_r + margin > highest  # then the largest mean reward is the better one
    if min(sense * mean + margin, highest + sense * (mean - mean_r)) >= best:
        return np.inf
    sets.stamp[0] += 2
    stamp = sets.stamp[0]
    _mark_possible(known, sets, k, stamp)
    ended = False
    for i in range(n):
        s = sources.states[first + i]
        if s < 0:
            ended = True
        elif known.kind != SHARES:
            sets.mark[s] = stamp + 1
    v_unseen = _best(known, sets.mark, V, sense, k, top, stamp)
    if known.may_end[k] and (known.kind != PRICES or not ended):
        v_unseen = max(v_unseen, 0.0)
    side = 0 if sense > 0.0 else 1
    if by_reward:
        for i in range(n):
            sets.r[i] = 0.0
        unseen = (0.0, gamma * v_unseen) if v_unseen > -np.inf else (-np.inf, -np.inf)
        common = p, sets.r[:n], v, sense, unseen, v_top, gamma, t, beta, sets.w
        found, at = _searched(common, sources.at[side, e], search)
        found += highest
    else:
        unseen = (r_unseen, r_unseen + gamma * v_unseen)
        if v_unseen == -np.inf:
            unseen = (-np.inf, -np.inf)
        common = p, r, v, sense, unseen, v_top, gamma, t, beta, sets.w
        found, at = _searched(common, sources.at[side, e], search)
        found += margin
    sources.at[side, e] = at
    return found


@njit(cache=True)
def _searched(common, at, search):
    """Return the bound of a widened set for the best λ, or for that of the last search."""
    if search or at < 0.0:
        return widened(*common)
    return widened_at(at, *common), at


@njit(cache=True)
def solve(knowledge, entries, own, sources, bounds, tol, most):
    """Back up stale pairs until no value changes by more than `tol`; return the work done.

    It stops earlier once the work is above `most`, in backups of a confidence set. The queue is
    then not empty, unless no successors are listed.
    """
    known, seen, sets = Knowledge(*knowledge), Entries(*entries), Own(*own)
    named, rows = Bounds(*bounds), Sources(*sources)
    if not known.is_listed:
        return _sweep(known, seen, sets, rows, named, tol, most)
    n_actions, work = named.Q.size // named.V.size, 0.0
    while named.ring[LENGTH] > 0 and work <= most:
        s = named.queue[named.ring[HEAD]]
        named.ring[HEAD] = (named.ring[HEAD] + 1) % named.queue.size
        named.ring[LENGTH] -= 1
        named.is_queued[s] = False
        work += _back_up_state(known, seen, sets, rows, named, np.inf, s, n_actions)
        if named.sense * (named.told[s] - named.V[s]) > tol:
            named.told[s] = named.V[s]
            for j in range(known.into_first[s], known.into_first[s + 1]):
                k = known.into[j]
                if named.exists[k]:
                    named.stale[k] = True
                    _push(named, k // n_actions)
    return work


@njit(cache=True)
def _back_up_state(known, seen, sets, sources, bounds, top, s, n_actions):
    """Back up stale pairs of a state, and its value; return the work done."""
    Q, sense, work = bounds.Q, bounds.sense, 0.0
    while True:
        best, k = -np.inf, -1
        for i in range(s * n_actions, (s + 1) * n_actions):
            if bounds.exists[i]:
                if Q[i] > best:
                    best = Q[i]
                if bounds.stale[i] and (k < 0 or Q[i] > Q[k]):
                    k = i
        if k < 0 or (sense > 0.0 and Q[k] < best):
            break
        value = backup(known, seen, sets, sources, bounds, top, k)
        Q[k] = min(Q[k], value) if sense > 0.0 else max(Q[k], value)
        bounds.stale[k] = False
        work += 1.0 + CALLS_OF_SEARCH * (sources.start[k + 1] - sources.start[k])
    if best > -np.inf and sense * (bounds.V[s] - best) > 0.0:
        bounds.V[s] = best
    return work


@njit(cache=True)
def _sweep(known, seen, sets, sources, bounds, tol, most):
    """Back up all pairs as `solve` does, where every value depends on those of all states."""
    n_actions, work = bounds.Q.size // bounds.V.size, 0.0
    while bounds.ring[LENGTH] > 0 and work <= most:
        change, top = 0.0, -np.inf
        for s in range(bounds.V.size):
            top = max(top, bounds.sense * bounds.V[s])
        for s in range(bounds.V.size):
            before = bounds.V[s]
            for k in range(s * n_actions, (s + 1) * n_actions):
                bounds.stale[k] = True
            work += _back_up_state(known, seen, sets, sources, bounds, top, s, n_actions)
            change = max(change, abs(before - bounds.V[s]))
        if change <= tol:
            bounds.ring[LENGTH] = 0
            bounds.is_queued[:] = False
            bounds.stale[:] = False
    return work


@njit(cache=True)
def at_frequencies(knowledge, entries, own, V, pairs, Q, first, states, p):
    """Write the values of pairs at the frequencies of visits, and these frequencies.

    Those of pair i are at `first[i]:first[i + 1]`, without ends, as far as there is room. Returns
    the room that is needed. Pairs without visits get NaN.
    """
    known, seen, sets = Knowledge(*knowledge), Entries(*entries), Own(*own)
    needed = 0
    for row in range(pairs.size):
        n, _ = _gather(known, seen, sets, pairs[row])
        total, value = 0.0, 0.0
        for i in range(n):
            total += sets.p[i]
        first[row] = needed
        for i in range(n):
            share, s = sets.p[i] / total, sets.s[i]
            value += share * sets.r[i]
            if s >= 0:
                value += share * known.gamma * V[s]
                if needed < states.size:
                    states[needed], p[needed] = s, share
                needed += 1
        Q[row] = value if n > 0 else math.nan
    first[pairs.size] = needed
    return needed


@njit(cache=True)
def radii(first, times, n_outcomes, log_inverse, beta):
    """Write the radius of the confidence set of each row of `times`."""
    for e in range(beta.size):
        beta[e] = kl_radius(times[first[e] : first[e + 1]], n_outcomes[e], log_inverse[e])
