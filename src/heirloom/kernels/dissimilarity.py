"""Distances passed on through a model: how much more a task may be worth than another.

For D over pairs, the dissimilarity d is the fixed point of

    d = D + γ max_T Σ_s' T max_a' d   over the T within ε of the model, where the model is known
    d = D + γ max d                   where it is not

`lower_dissimilarity` solves it by sweeps over all pairs. The rest of the file solves it for many
sources at once, each from its last solution downwards along a worklist, and lowers the bound U on
the values of the task at hand to Q̄ + d. Functions that Python calls take plain tuples, which numba
looks into in half the time, and give them their names.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import njit

NEVER, NOT_KEPT, KEPT = range(3)  # whether d to a source was solved for, and has followed D since


class Graph(NamedTuple):
    """The known rows of a model, and what leads to each state.

    The pair k has the row `index[k]`, or -1; row j is `successors[first[j]:last[j]]` and `p`, and
    ends with probability `ends[j]`. Transition t belongs to the pair `owner[t]`; those that lead
    to s are linked, from `into[s]` on by `next_into`. Of several models, `index` and `into` have
    one row each, and the other arrays hold the rows of all.
    """

    index: Any
    ends: Any
    first: Any
    last: Any
    successors: Any
    p: Any
    owner: Any
    into: Any
    next_into: Any


class Passing(NamedTuple):
    """How distances are passed on: the discount, the accuracy of models, and the tolerance.

    What one backup may leave undone is `slack`. Unless `both_ways`, only d from the task at hand
    to a source serves as a bound.
    """

    gamma: Any
    epsilon: Any
    slack: Any
    both_ways: Any


class Solved(NamedTuple):
    """d of each source over pairs, `worst` over states, and the largest d.

    `pending` is what falls since its last backup may take off a pair, `undone` what the fall of
    the largest d may take off any; `at_largest` states have the largest d.
    """

    d: Any
    worst: Any
    pending: Any
    largest: Any
    undone: Any
    at_largest: Any


class There(NamedTuple):
    """d from the task to each source, which is solved for only where there is no closed form.

    `state` is NEVER, NOT_KEPT or KEPT. `unknown` is an unknown pair that may attain the largest D,
    which is `unknown_of`; no pair before it does.
    """

    solved: Any
    state: Any
    unknown: Any
    unknown_of: Any


class Distances(NamedTuple):
    """D of all sources, D[i, k], in both directions, and the largest of each source.

    The entries of `back` that fell are listed in `changed` as i * P + k, `n_changed[0]` of them; a
    source of which there are too many is marked in `all_changed`.
    """

    there: Any
    back: Any
    tops: Any
    changed: Any
    n_changed: Any
    all_changed: Any


class Worklist(NamedTuple):
    """Pairs that wait for a backup, and pairs whose d fell; each with marks."""

    queue: Any
    queued: Any
    touched: Any
    is_touched: Any


class Bound(NamedTuple):
    """The bound U over pairs, the task that decides it, the numbers of sources, and their Q."""

    U: Any
    decider: Any
    tasks: Any
    Q: Any


class Found(NamedTuple):
    """What an update found: pairs where U fell, and which sources may still lower a bound.

    `useful_pair` is a pair where the source may; no pair before it is one.
    """

    lowered: Any
    is_lowered: Any
    useful: Any
    useful_pair: Any


class Solving(NamedTuple):
    """All that is kept of sources between two updates."""

    distances: Any
    there: Any
    back: Any
    passing: Any
    bound: Any
    work: Any


@njit(cache=True)
def lower_dissimilarity(m, D, gamma, epsilon, slack, d, worst):
    """Lower d[k] and worst[s] = max_a d[s, a] towards the fixed point, from above.

    Stops after a sweep that lowered nothing by more than `slack`; then d is above the fixed point
    by at most gamma / (1 - gamma) * slack. Returns the largest d.
    """
    known, ends, first, last = m.known, m.ends, m.first, m.last
    successors, p = m.successors, m.p
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

    Up to epsilon / 2 of mass moves from the outcomes with the least values to the largest one; a
    transition that terminates is worth nothing, so its mass moves first.
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
def link(graph, start, of_row):
    """Find the rows of pairs, and what leads to each state, in the models of all sources.

    Row j belongs to the pair of_row[j]; source i has the rows start[i] to start[i + 1].
    """
    graph = Graph(*graph)
    for i in range(graph.index.shape[0]):
        for j in range(start[i], start[i + 1]):
            graph.index[i, of_row[j]] = j
            for t in range(graph.first[j], graph.last[j]):
                graph.owner[t] = of_row[j]
                graph.next_into[t] = graph.into[i, graph.successors[t]]
                graph.into[i, graph.successors[t]] = t


@njit(cache=True)
def begin_sources(sources, solving):
    """Solve d of all sources while nothing of the task at hand is known, and lower U to Q + d."""
    _begin_sources(Graph(*sources), _named(solving))


@njit(cache=True)
def update_sources(pair, known, own_U, active, model, sources, solving, found):
    """Lower d of all `active` sources to what their D are by now, and the bound U to Q + d.

    Only pairs that are unknown in the task need a bound. Marks the sources that may still lower U
    or the agent's own bound, for d >= 0 those with Q below both at an unknown pair. Returns at how
    many pairs U fell, and lists them.
    """
    named, found = _named(solving), Found(*found)
    n_lowered = _update_sources(pair, known, active, Graph(*model), Graph(*sources), named, found)
    _find_useful(known, own_U, active, named.bound, found)
    return n_lowered


@njit(cache=True)
def _named(solving):
    """The named tuple of a plain one."""
    distances, there, back, passing, bound, work = solving
    return Solving(
        Distances(*distances),
        There(Solved(*there[0]), there[1], there[2], there[3]),
        Solved(*back),
        Passing(*passing),
        Bound(*bound),
        Worklist(*work),
    )


@njit(cache=True)
def _begin_sources(sources, solving):
    distances, back, bound = solving.distances, solving.back, solving.bound
    passing, work = solving.passing, solving.work
    gamma, tops, largest_there = passing.gamma, distances.tops, solving.there.solved.largest
    d = back.d
    for i in range(sources.index.shape[0]):
        largest_there[i] = tops[i, 0] / (1.0 - gamma)
        if passing.both_ways:
            back.largest[i] = tops[i, 1] / (1.0 - gamma)
            d[i] = back.largest[i]
            back.worst[i] = back.largest[i]
            back.at_largest[i] = back.worst.shape[1]
            waiting = _what_begins_lower(
                distances.back[i], tops[i, 1], sources.index[i], sources.ends, work
            )
            _update_from_source(i, sources, distances, back, passing, work, waiting)
        else:
            d[i] = np.inf
        for k in range(d.shape[1]):
            value = bound.Q[i, k] + min(distances.there[i, k] + gamma * largest_there[i], d[i, k])
            if value < bound.U[k]:
                bound.U[k] = value
                bound.decider[k] = bound.tasks[i]


@njit(cache=True)
def _update_sources(pair, known, active, model, sources, solving, found):
    distances, there, back = solving.distances, solving.there, solving.back
    passing, bound, work = solving.passing, solving.bound, solving.work
    largest_there, d_back = there.solved.largest, back.d
    U, Q, decider = bound.U, bound.Q, bound.decider
    lowered, is_lowered, touched = found.lowered, found.is_lowered, work.touched
    n_pairs = known.size
    fell = distances.changed[: distances.n_changed[0]]
    distances.n_changed[0] = 0
    if fell.size > 1:
        fell.sort()
    c, n_lowered = 0, 0
    for i in active:
        before = largest_there[i]
        _update_to_source(i, pair, model, distances, there, passing, work)
        c, waiting = _what_fell(i, fell, c, work)
        if distances.all_changed[i]:
            distances.all_changed[i], waiting = False, _everything(work)
        n_touched = 0
        if waiting > 0:
            n_touched = _update_from_source(i, sources, distances, back, passing, work, waiting)
        everywhere = largest_there[i] < before
        for v in range(n_pairs if everywhere else n_touched):
            k = v if everywhere else touched[v]
            d = min(distances.there[i, k] + passing.gamma * largest_there[i], d_back[i, k])
            if known[k] or Q[i, k] + d >= U[k]:
                continue
            U[k] = Q[i, k] + d
            decider[k] = bound.tasks[i]
            if not is_lowered[k]:
                is_lowered[k] = True
                lowered[n_lowered] = k
                n_lowered += 1
    for v in range(n_lowered):
        is_lowered[lowered[v]] = False
    return n_lowered


@njit(cache=True)
def _find_useful(known, own_U, active, bound, found):
    """Mark the sources with Q below U and below the agent's own bound at an unknown pair."""
    for i in active:
        k = found.useful_pair[i]  # a pair that is of no use will never be
        while k < known.size and (
            known[k] or bound.Q[i, k] >= own_U[k] or bound.Q[i, k] >= bound.U[k]
        ):
            k += 1
        found.useful_pair[i] = k
        found.useful[i] = k < known.size


@njit(cache=True)
def _update_to_source(i, pair, model, distances, there, passing, work):
    """The largest d from the task to the source i, now that the task's model of `pair` is known.

    From an unknown pair the task may lead anywhere, also to the pair itself. So if one attains
    max D, then max d = max D / (1 - gamma). Otherwise d is solved for.
    """
    solved, state, unknown = there.solved, there.state, there.unknown
    index, D, top = model.index, distances.there, distances.tops[i, 0]
    if there.unknown_of[i] != top:
        there.unknown_of[i], unknown[i] = top, 0
    k = unknown[i]  # a pair that is known, or where D is below its maximum, stays so
    while k < index.size and (index[k] >= 0 or D[i, k] < top):
        k += 1
    unknown[i] = k
    limit = top / (1.0 - passing.gamma)
    if k < index.size:
        solved.largest[i] = min(solved.largest[i], limit)
        state[i] = min(state[i], NOT_KEPT)
        return
    if state[i] == KEPT:
        work.queue[0], work.queued[pair], waiting = pair, True, 1
    else:
        if state[i] == NEVER:
            solved.d[i] = solved.largest[i]
            solved.worst[i] = solved.largest[i]
        waiting = _everything(work)
        state[i], solved.undone[i], solved.at_largest[i] = KEPT, 0.0, 0
    if limit < solved.largest[i]:
        _limit_largest(i, limit, passing.gamma, solved)
    _update_values(i, model, D[i], passing, solved, work, waiting)


@njit(cache=True)
def _update_from_source(i, sources, distances, back, passing, work, waiting):
    """Solve d from the source i to the task, from pairs in the queue; returns how many d fell."""
    limit = distances.tops[i, 1] / (1.0 - passing.gamma)
    if limit < back.largest[i]:
        _limit_largest(i, limit, passing.gamma, back)
    model = Graph(
        sources.index[i],
        sources.ends,
        sources.first,
        sources.last,
        sources.successors,
        sources.p,
        sources.owner,
        sources.into[i],
        sources.next_into,
    )
    return _update_values(i, model, distances.back[i], passing, back, work, waiting)


@njit(cache=True)
def _update_values(i, model, D, passing, solved, work, waiting):
    """Lower d of source i to the fixed point, from pairs in the queue.

    From the last solution downwards, along what leads to a state whose value fell. `pending` and
    `undone` stay within slack / 2 each, so that no pair would fall by more than `slack`. A pair
    whose d fell is listed in `touched`; returns the number of those.
    """
    index, ends, first, last = model.index, model.ends, model.first, model.last
    successors, p, owner = model.successors, model.p, model.owner
    into, next_into = model.into, model.next_into
    gamma, epsilon, slack = passing.gamma, passing.epsilon, passing.slack
    d, worst, pending = solved.d[i], solved.worst[i], solved.pending[i]
    largest, undone, at_largest = solved.largest, solved.undone, solved.at_largest
    queue, queued = work.queue, work.queued
    touched, is_touched = work.touched, work.is_touched
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
            _limit_largest(i, worst.max(), gamma, solved)
        if undone[i] <= 0.5 * slack:
            break
        undone[i] = 0.0
        begin, waiting = 0, _everything(work)
    for c in range(n_touched):
        is_touched[touched[c]] = False
    return n_touched


@njit(cache=True)
def _limit_largest(i, value, gamma, solved):
    """No d of source i is above `value`: what that may take off others is yet undone."""
    if value < solved.largest[i]:
        solved.undone[i] += gamma * (solved.largest[i] - value)
        solved.largest[i] = value
    solved.at_largest[i] = (solved.worst[i] >= solved.largest[i]).sum()


# How pairs come to wait. These are functions of their own, for numba would compile what they are
# followed by for `waiting = 0` too.


@njit(cache=True)
def _everything(work):
    """All pairs wait; returns their number."""
    for k in range(work.queue.size):
        work.queue[k] = k
        work.queued[k] = True
    return work.queue.size


@njit(cache=True)
def _what_begins_lower(D, top, index, ends, work):
    """The pairs wait where d is not top / (1 - gamma) all the same; returns their number."""
    waiting = 0
    for k in range(D.size):
        if D[k] < top or (index[k] >= 0 and ends[index[k]] > 0.0):
            work.queue[waiting] = k
            work.queued[k] = True
            waiting += 1
    return waiting


@njit(cache=True)
def _what_fell(i, fell, c, work):
    """The pairs of the source i wait that stand in fell[c:]; returns where they end, and how many.

    Sources come in order in `fell`; what is left of earlier ones, dropped since, is passed over.
    """
    n_pairs, waiting = work.queue.size, 0
    while c < fell.size and fell[c] < (i + 1) * n_pairs:
        k = fell[c] - i * n_pairs
        if k >= 0 and not work.queued[k]:
            work.queued[k] = True
            work.queue[waiting] = k
            waiting += 1
        c += 1
    return c, waiting
