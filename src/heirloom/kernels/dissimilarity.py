"""Distances passed on through a model: how much more a task may be worth than another."""

import numpy as np
from numba import njit

NEVER, NOT_KEPT, KEPT = range(3)  # whether d was solved for, and has followed D since


@njit(cache=True)
def lower_dissimilarity(m, D, gamma, epsilon, slack, d, worst):
    """Lower d[k] and worst[s] = max_a d[s, a] towards the fixed point, from above.

        d = D + gamma * max_T sum_s' T max_a' d   for T within epsilon of the model, where known
        d = D + gamma * max d                     where it is not

    Stops after a sweep that lowered nothing by more than `slack`; then d is above the fixed point
    by at most gamma / (1 - gamma) * slack. Returns the largest d.
    """
    known, _, ends, first, last, successors, p = m
    n_actions = d.size // worst.size
    largest = min(worst.max(), D.max() / (1.0 - gamma))
    while True:
        fall = 0.0
        highest = 0.0
        for s in range(worst.size):
            top = 0.0
            for k in range(s * n_actions, (s + 1) * n_actions):
                after = largest
                if known[k]:
                    after = _worst_case(
                        first[k], last[k], successors, p, ends[k], worst, largest, epsilon
                    )
                value = D[k] + gamma * after
                if value < d[k]:
                    fall = max(fall, d[k] - value)
                    d[k] = value
                top = max(top, d[k])
            worst[s] = min(worst[s], top)
            highest = max(highest, worst[s])
        largest = min(largest, highest)
        if fall <= slack:
            return largest


@njit(cache=True)
def _worst_case(first, last, successors, p, end, worst, largest, epsilon):
    """max_T sum_s' T worst over the distributions T within epsilon of `p` in L1 norm.

    Up to epsilon / 2 of mass moves from the outcomes with the least values to the largest one; the
    sink is worth nothing, so its mass moves first.
    """
    expected = 0.0
    for j in range(first, last):
        expected += p[j] * worst[successors[j]]
    left = 0.5 * epsilon
    moved = min(left, end)
    expected += moved * largest
    left -= moved
    below, taken = -1.0, -1
    while left > 0.0:
        least, at = np.inf, -1
        for j in range(first, last):
            value = worst[successors[j]]
            after = value > below or (value == below and j > taken)
            if after and value < least:
                least, at = value, j
        if at < 0 or least >= largest:
            break
        moved = min(left, p[at])
        expected += moved * (largest - least)
        left -= moved
        below, taken = least, at
    return expected


@njit(cache=True)
def settle_dissimilarity(i, m, D, numbers, solved, work, waiting):
    """Lower d of source i to the fixed point of `lower_dissimilarity`, from pairs in the queue.

    From the last solution downwards, along what leads to a state whose value fell. `pending[k]`
    is what falls since the last backup of k may take off its value, and `undone[i]` what the fall
    of the largest d may take off any. Both stay within slack / 2, so that no pair would fall by
    more than `slack`. A pair whose d fell is listed in `touched`; returns the number of those.
    """
    index, ends, first, last, successors, p, owner, into, next_into = m
    gamma, epsilon, slack = numbers
    d, worst, pending = solved[0][i], solved[1][i], solved[2][i]
    largest, undone, at_largest = solved[3:]
    queue, queued, touched, is_touched = work
    n_actions = d.size // worst.size
    begin, n_touched = 0, 0
    while True:
        while waiting > 0:
            k = queue[begin]
            begin = begin + 1 if begin + 1 < queue.size else 0
            waiting -= 1
            queued[k] = False
            pending[k] = 0.0
            after, j = largest[i], index[k]
            if j >= 0:
                after = _worst_case(
                    first[j], last[j], successors, p, ends[j], worst, largest[i], epsilon
                )
            value = D[k] + gamma * after
            if value >= d[k]:
                continue
            d[k] = value
            if not is_touched[k]:
                is_touched[k] = True
                touched[n_touched] = k
                n_touched += 1
            s = k // n_actions
            top = d[s * n_actions]
            for a in range(1, n_actions):
                top = max(top, d[s * n_actions + a])
            fall = worst[s] - top
            if fall <= 0.0:
                continue
            at_largest[i] -= worst[s] >= largest[i] and top < largest[i]
            worst[s] = top
            t = into[s]
            while t >= 0:
                before = owner[t]
                pending[before] += gamma * p[t] * fall
                if pending[before] > 0.5 * slack and not queued[before]:
                    queued[before] = True
                    end = begin + waiting
                    queue[end if end < queue.size else end - queue.size] = before
                    waiting += 1
                t = next_into[t]
        if at_largest[i] <= 0:
            limit_largest(i, worst.max(), gamma, solved)
        if undone[i] <= 0.5 * slack:
            break
        undone[i] = 0.0
        begin, waiting = 0, _everything(queue, queued)
    for c in range(n_touched):
        is_touched[touched[c]] = False
    return n_touched


@njit(cache=True)
def limit_largest(i, value, gamma, solved):
    """No d of source i is above `value`: what that may take off others is yet undone."""
    _, worst, _, largest, undone, at_largest = solved
    if value < largest[i]:
        undone[i] += gamma * (largest[i] - value)
        largest[i] = value
    at_largest[i] = (worst[i] >= largest[i]).sum()


@njit(cache=True)
def link(index, start, of_row, R, ends, first, last, successors, p, owner, into, next_into):
    """Find the rows of pairs, and what leads to each state, in the models of all sources."""
    for i in range(index.shape[0]):
        for j in range(start[i], start[i + 1]):
            index[i, of_row[j]] = j
            for t in range(first[j], last[j]):
                owner[t] = of_row[j]
                next_into[t] = into[i, successors[t]]
                into[i, successors[t]] = t


@njit(cache=True)
def begin_sources(sources, Q, D_there, D_back, tops, there, back, numbers, bound, work):
    """Solve d of all sources while nothing of the task at hand is known, and lower U to Q + d."""
    index, _, _, _, ends = sources[:5]
    largest_there = there[0][3]
    d, worst, _, largest, _, at_largest = back
    gamma = numbers[0]
    queue, queued, _, _ = work
    U, decider, tasks = bound
    for i in range(index.shape[0]):
        largest_there[i] = tops[i, 0] / (1.0 - gamma)
        largest[i] = tops[i, 1] / (1.0 - gamma)
        d[i] = largest[i]
        worst[i] = largest[i]
        at_largest[i] = worst.shape[1]
        waiting = _what_begins_lower(D_back[i], tops[i, 1], index[i], ends, queue, queued)
        _settle_back(i, sources, D_back, tops, back, numbers, work, waiting)
        for k in range(d.shape[1]):
            value = Q[i, k] + min(D_there[i, k] + gamma * largest_there[i], d[i, k])
            if value < U[k]:
                U[k] = value
                decider[k] = tasks[i]


@njit(cache=True)
def settle_sources(
    pair, known, own_U, active, m, sources, Q, measured, there, back, numbers, bound, work, found
):
    """Lower d of all `active` sources to what their D are by now, and the bound U to Q + d.

    Only pairs that are unknown in the task need a bound. Marks the sources that may still lower U
    or the agent's own bound, for d >= 0 those with Q below both at an unknown pair. Returns at how
    many pairs U fell, and lists them.
    """
    D_there, D_back, tops, changed, n_changed, all_changed = measured
    largest_there, d_back = there[0][3], back[0]
    U, decider, tasks = bound
    queue, queued, touched, _ = work
    lowered, is_lowered, useful, useful_pair = found
    n_pairs = known.size
    fell = changed[: n_changed[0]]
    n_changed[0] = 0
    if fell.size > 1:
        fell.sort()
    c, n_lowered = 0, 0
    for i in active:
        before = largest_there[i]
        _settle_there(i, pair, m, D_there, tops, there, numbers, work)
        c, waiting = _what_fell(i, fell, c, queue, queued)
        if all_changed[i]:
            all_changed[i], waiting = False, _everything(queue, queued)
        n_touched = 0
        if waiting > 0:
            n_touched = _settle_back(i, sources, D_back, tops, back, numbers, work, waiting)
        everywhere = largest_there[i] < before
        for v in range(n_pairs if everywhere else n_touched):
            k = v if everywhere else touched[v]
            d = min(D_there[i, k] + numbers[0] * largest_there[i], d_back[i, k])
            if known[k] or Q[i, k] + d >= U[k]:
                continue
            U[k] = Q[i, k] + d
            decider[k] = tasks[i]
            if not is_lowered[k]:
                is_lowered[k] = True
                lowered[n_lowered] = k
                n_lowered += 1
    for v in range(n_lowered):
        is_lowered[lowered[v]] = False
    for i in active:
        k = useful_pair[i]  # a pair that is of no use will never be
        while k < n_pairs and (known[k] or Q[i, k] >= own_U[k] or Q[i, k] >= U[k]):
            k += 1
        useful_pair[i] = k
        useful[i] = k < n_pairs
    return n_lowered


@njit(cache=True)
def _settle_there(i, pair, m, D, tops, there, numbers, work):
    """The largest d from the task to the source i, now that the task's model of `pair` is known.

    From an unknown pair the task may lead anywhere, also to the pair itself. So if one attains
    max D, then max d = max D / (1 - gamma). Otherwise d is solved for.
    """
    solved, state, unknown, unknown_of = there
    d, worst, _, largest, undone, at_largest = solved
    gamma = numbers[0]
    queue, queued, _, _ = work
    index, _, _, _, ends, first, last, successors, p, owner, into, next_into = m
    if unknown_of[i] != tops[i, 0]:
        unknown_of[i], unknown[i] = tops[i, 0], 0
    k = unknown[i]  # a pair that is known, or where D is below its maximum, stays so
    while k < index.size and (index[k] >= 0 or D[i, k] < tops[i, 0]):
        k += 1
    unknown[i] = k
    limit = tops[i, 0] / (1.0 - gamma)
    if k < index.size:
        largest[i] = min(largest[i], limit)
        state[i] = min(state[i], NOT_KEPT)
        return
    if state[i] == KEPT:
        queue[0], queued[pair], waiting = pair, True, 1
    else:
        if state[i] == NEVER:
            d[i] = largest[i]
            worst[i] = largest[i]
        waiting = _everything(queue, queued)
        state[i], undone[i], at_largest[i] = KEPT, 0.0, 0
    if limit < largest[i]:
        limit_largest(i, limit, gamma, solved)
    m = index, ends, first, last, successors, p, owner, into, next_into
    settle_dissimilarity(i, m, D[i], numbers, solved, work, waiting)


@njit(cache=True)
def _settle_back(i, sources, D, tops, back, numbers, work, waiting):
    """Solve d from the source i to the task, from pairs in the queue; returns how many d fell."""
    index, _, _, _, ends, first, last, successors, p, owner, into, next_into = sources
    limit, largest = tops[i, 1] / (1.0 - numbers[0]), back[3]
    if limit < largest[i]:
        limit_largest(i, limit, numbers[0], back)
    m = index[i], ends, first, last, successors, p, owner, into[i], next_into
    return settle_dissimilarity(i, m, D[i], numbers, back, work, waiting)


@njit(cache=True)
def _everything(queue, queued):
    """All pairs wait."""
    for k in range(queue.size):
        queue[k] = k
        queued[k] = True
    return queue.size


# Functions of their own, for numba would compile what they are followed by for `waiting = 0` too.


@njit(cache=True)
def _what_begins_lower(D, top, index, ends, queue, queued):
    """The pairs wait where d is not top / (1 - gamma) all the same; returns their number."""
    waiting = 0
    for k in range(D.size):
        if D[k] < top or (index[k] >= 0 and ends[index[k]] > 0.0):
            queue[waiting] = k
            queued[k] = True
            waiting += 1
    return waiting


@njit(cache=True)
def _what_fell(i, fell, c, queue, queued):
    """The pairs of the source i wait that stand in fell[c:]; returns where they end, and how many.

    Sources come in order in `fell`; what is left of earlier ones, dropped since, is passed over.
    """
    waiting = 0
    while c < fell.size and fell[c] < (i + 1) * queue.size:
        k = fell[c] - i * queue.size
        if k >= 0 and not queued[k]:
            queued[k] = True
            queue[waiting] = k
            waiting += 1
        c += 1
    return c, waiting
