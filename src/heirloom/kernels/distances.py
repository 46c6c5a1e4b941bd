"""Distances between the models of two tasks, row by row.

For models learned in part, with weights W ≥ 0 and B = ε (1 + γ max W), D is the least of the rows
of this table that apply (Proposition 3, corrected):

    both known      |R - R̄| + γ Σ W |T - T̄| + 2B
    one known       max(R - lo, hi - R) + γ (Σ T W + max_j W(j) (1 - 2 T(j))) + B
    neither         hi - lo + γ (the sum of the two largest of W)

The second half of the file keeps D of many sources up to date, in both directions, as a task is
learned. Functions that Python calls take plain tuples, which numba looks into in half the time, and
give them their names.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import njit

MARGIN = 1e-9  # more than rounding


class Terms(NamedTuple):
    """What weighs beside the states: termination, which is an outcome if `terminating`.

    Then the range of rewards, the discount, and the accuracy of known models.
    """

    W_end: Any
    terminating: Any
    lo: Any
    hi: Any
    gamma: Any
    epsilon: Any


class Rows(NamedTuple):
    """Rows of a model: rewards, probabilities of termination, and where each row stands."""

    R: Any
    ends: Any
    first: Any
    last: Any
    successors: Any
    p: Any


class Linked(NamedTuple):
    """The known rows of a model, and what leads to each state; of all sources one after the other.

    The pair k has the row `index[k]` (of source i, `index[i, k]`), or -1. Source i has the rows
    `start[i]` to `start[i + 1]`, and row j belongs to the pair `of_row[j]`. Transitions that lead
    to s are linked, from `into[s]` on by `next_into`, and belong to the pairs `owner`.
    """

    index: Any
    start: Any
    of_row: Any
    rows: Any
    owner: Any
    into: Any
    next_into: Any


class SourceWeights(NamedTuple):
    """The weights of each source, its heaviest states, and what no D is below.

    `least` is below every D, `one_known` below those where only one model is known.
    """

    W: Any
    heaviest: Any
    least: Any
    one_known: Any


class OwnWeights(NamedTuple):
    """The weights of the task at hand, which fall.

    `heavy` lists more states than are needed by falling weight; `is_heavy` marks them, and no other
    state weighs more than `bar[0]`. `values` are the largest weights as of the last time.
    """

    W: Any
    heavy: Any
    is_heavy: Any
    bar: Any
    values: Any


class Measured(NamedTuple):
    """D of all sources, D[i, k], in both directions; the largest, and how many pairs attain it.

    The entries of `back` that fell are listed in `changed` as i * P + k, `n_changed[0]` of them; a
    source of which there are too many is marked in `all_changed`. `listed` and `some` are room.
    """

    there: Any
    back: Any
    tops: Any
    at_top: Any
    changed: Any
    n_changed: Any
    all_changed: Any
    listed: Any
    some: Any


@njit(cache=True)
def weigh_differences(indptr, successors, p, indptr_bar, successors_bar, p_bar, f, D):
    """D[k] <- sum_s' f[s'] |T[k, s'] - T_bar[k, s']|, over the rows of two models."""
    for k in range(D.size):
        D[k] = _apart(
            indptr[k],
            indptr[k + 1],
            successors,
            p,
            indptr_bar[k],
            indptr_bar[k + 1],
            successors_bar,
            p_bar,
            f,
        )


@njit(cache=True)
def _apart(i, end, successors, p, j, end_bar, successors_bar, p_bar, f):
    """sum_s' f[s'] |T[s'] - T_bar[s']| of two rows, in which successors rise."""
    total = 0.0
    while i < end and j < end_bar:
        s, s_bar = successors[i], successors_bar[j]
        if s == s_bar:
            total += f[s] * abs(p[i] - p_bar[j])
            i += 1
            j += 1
        elif s < s_bar:
            total += f[s] * p[i]
            i += 1
        else:
            total += f[s_bar] * p_bar[j]
            j += 1
    for k in range(i, end):
        total += f[successors[k]] * p[k]
    for k in range(j, end_bar):
        total += f[successors_bar[k]] * p_bar[k]
    return total


@njit(cache=True)
def bound_differences(pairs, m, m_bar, W, heaviest, terms, D):
    """D[i] <- an upper bound on |R - R_bar| + gamma * sum_s' W[s'] |T - T_bar| at pairs[i].

    Whatever is known of either model is used. A model that is unknown may be any, so its distance
    from a known one is attained with all mass on one outcome, and that of two unknown ones on the
    two heaviest. `heaviest` lists states by falling weight, more than the longest row has, or all.
    """
    rows = Rows(m.R, m.ends, m.first, m.last, m.successors, m.p)
    rows_bar = Rows(m_bar.R, m_bar.ends, m_bar.first, m_bar.last, m_bar.successors, m_bar.p)
    known, known_bar, terms = m.known, m_bar.known, Terms(*terms)
    for i in range(pairs.size):
        k = pairs[i]
        j, j_bar = k if known[k] else -1, k if known_bar[k] else -1
        D[i] = _bound_difference(rows, j, rows_bar, j_bar, W, heaviest, terms)


@njit(cache=True)
def _bound_difference(rows, j, rows_bar, j_bar, W, heaviest, terms):
    """What `bound_differences` says of the row j of a model and j_bar of another; -1 is unknown."""
    lo, hi, gamma = terms.lo, terms.hi, terms.gamma
    most, second = _two_largest(W, heaviest, terms)
    off = terms.epsilon * (1.0 + gamma * most)
    bound = hi - lo + gamma * (most + second)
    if j >= 0:
        far = _farthest(rows, j, W, heaviest, terms)
        bound = min(bound, max(rows.R[j] - lo, hi - rows.R[j]) + gamma * far + off)
    if j_bar >= 0:
        far = _farthest(rows_bar, j_bar, W, heaviest, terms)
        R_bar = rows_bar.R[j_bar]
        bound = min(bound, max(R_bar - lo, hi - R_bar) + gamma * far + off)
    if j >= 0 and j_bar >= 0:
        apart = _apart(
            rows.first[j],
            rows.last[j],
            rows.successors,
            rows.p,
            rows_bar.first[j_bar],
            rows_bar.last[j_bar],
            rows_bar.successors,
            rows_bar.p,
            W,
        )
        apart = terms.W_end * abs(rows.ends[j] - rows_bar.ends[j_bar]) + apart
        bound = min(bound, abs(rows.R[j] - rows_bar.R[j_bar]) + gamma * apart + 2.0 * off)
    return bound


@njit(cache=True)
def _two_largest(W, heaviest, terms):
    """The largest weights of two outcomes; they add up to 0 if there is only one."""
    most = W[heaviest[0]]
    second = W[heaviest[1]] if heaviest.size > 1 else 0.0
    if terms.terminating:
        second = max(second, min(most, terms.W_end))
        most = max(most, terms.W_end)
    elif heaviest.size == 1:
        second = -most  # two models cannot differ
    return most, second


@njit(cache=True)
def _farthest(rows, j, W, heaviest, terms):
    """max_t sum_s' W |T - t| = sum_s' T W + max_j W[j] (1 - 2 T[j]), termination included."""
    first, last, successors, p = rows.first[j], rows.last[j], rows.successors, rows.p
    end = rows.ends[j]
    expected = end * terms.W_end
    far = terms.W_end * (1.0 - 2.0 * end) if terms.terminating else -np.inf
    for t in range(first, last):
        w = W[successors[t]]
        expected += p[t] * w
        far = max(far, w * (1.0 - 2.0 * p[t]))
    for s in heaviest:
        at = first + np.searchsorted(successors[first:last], s)
        if at == last or successors[at] != s:
            far = max(far, W[s])
            break
    return expected + far


# All sources at once: D[i, k] of source i at the pair k.


@njit(cache=True)
def rank(W, heavy):
    """List the heaviest states by falling weight; returns what no other state's weight exceeds."""
    n = heavy.size
    for s in range(n):
        heavy[s] = s
    for i in range(n // 2 - 1, -1, -1):
        _sift_down(W, heavy, i, n)
    for s in range(n, W.size):
        if W[s] > W[heavy[0]]:
            heavy[0] = s
            _sift_down(W, heavy, 0, n)
    bar = W[heavy[0]] if n < W.size else -np.inf
    for end in range(n - 1, 0, -1):
        heavy[0], heavy[end] = heavy[end], heavy[0]
        _sift_down(W, heavy, 0, end)
    return bar


@njit(cache=True)
def _sift_down(W, heap, i, n):
    """Move heap[i] down to its place in heap[:n], where the lightest state is first."""
    s = heap[i]
    while 2 * i + 1 < n:
        child = 2 * i + 1
        if child + 1 < n and W[heap[child + 1]] < W[heap[child]]:
            child += 1
        if W[heap[child]] >= W[s]:
            break
        heap[i] = heap[child]
        i = child
    heap[i] = s


@njit(cache=True)
def _insert_again(W, heavy):
    """Sort by falling weight states that are in order but for a few."""
    for i in range(1, heavy.size):
        s = heavy[i]
        w, j = W[s], i
        while j > 0 and W[heavy[j - 1]] < w:
            heavy[j] = heavy[j - 1]
            j -= 1
        heavy[j] = s


@njit(cache=True)
def measure_sources(sources, weights, own, terms, measured):
    """Lower D of all sources in both directions, while nothing of the task at hand is known."""
    _measure_sources(
        _linked(sources),
        SourceWeights(*weights),
        OwnWeights(*own),
        Terms(*terms),
        Measured(*measured),
    )


@njit(cache=True)
def _linked(model):
    """The named tuple of a plain one."""
    index, start, of_row, rows, owner, into, next_into = model
    return Linked(index, start, of_row, Rows(*rows), owner, into, next_into)


@njit(cache=True)
def _measure_sources(sources, weights, own, terms, measured):
    index, rows, n_ranks = sources.index, sources.rows, own.values.size
    tops, at_top = measured.tops, measured.at_top
    least_back, one_back = _least(own.W, own.heavy, n_ranks, terms)
    for i in range(index.shape[0]):
        W_bar, heaviest = weights.W[i], weights.heaviest[i]
        rank(W_bar, heaviest)
        weights.least[i], weights.one_known[i] = _least(W_bar, heaviest, n_ranks, terms)
        for D, W, ranked, lowest, one, way in (
            (measured.there, W_bar, heaviest, weights.least[i], weights.one_known[i], 0),
            (measured.back, own.W, own.heavy, least_back, one_back, 1),
        ):
            neither = _bound_difference(rows, -1, rows, -1, W, ranked, terms)
            for k in range(index.shape[1]):
                D[i, k] = min(D[i, k], neither)
                if index[i, k] >= 0 and D[i, k] > lowest and D[i, k] > one:
                    bound = _bound_difference(rows, index[i, k], rows, -1, W, ranked, terms)
                    D[i, k] = min(D[i, k], bound)
            tops[i, way], at_top[i, way] = _top(D[i])


@njit(cache=True)
def remeasure_sources(
    pair, known_pairs, V, decreased, active, model, sources, weights, own, terms, floor, measured
):
    """Lower D of the `active` sources after `pair` became known and V fell at `fallen` states.

    From the task to a source the weights stay, so only the pair has changed. Back, weighed by V,
    those pairs have that lead to a state that fell, in either model; and if the heaviest states
    weigh less, all known ones, for which an unknown model may lead to those. Returns the largest
    D that is left on the way back.
    """
    return _remeasure_sources(
        pair,
        known_pairs,
        V,
        decreased,
        active,
        _linked(model),
        _linked(sources),
        SourceWeights(*weights),
        OwnWeights(*own),
        Terms(*terms),
        floor,
        Measured(*measured),
    )


@njit(cache=True)
def _remeasure_sources(
    pair, known_pairs, V, decreased, active, model, sources, weights, own, terms, floor, measured
):
    index, rows, index_bar, rows_bar = model.index, model.rows, sources.index, sources.rows
    start, of_row = sources.start, sources.of_row
    W, heavy, D_back, tops = own.W, own.heavy, measured.back, measured.tops
    n_pairs = index.size
    before = _two_largest(W, heavy, terms)
    ranks_changed = _follow(V, decreased, floor, own)
    most, second = _two_largest(W, heavy, terms)
    least, one = _least(W, heavy, own.values.size, terms)
    neither = _bound_difference(rows, -1, rows_bar, -1, W, heavy, terms)
    n_some = _leading_to(decreased, pair, model, measured.listed, measured.some)
    highest = 0.0
    for i in active:
        _remeasure_there(i, pair, rows, index_bar[i, pair], rows_bar, weights, terms, measured)
        if tops[i, 1] <= least:
            highest = max(highest, tops[i, 1])
            continue
        one_decides = one < tops[i, 1]
        n_chain, chain, n_rows, everywhere = n_some, measured.some, 0, False
        if (most != before[0] or second != before[1]) and neither < tops[i, 1]:
            everywhere = True
        elif most != before[0] or (ranks_changed and one_decides):
            n_chain, chain, n_rows = known_pairs.size, known_pairs, start[i + 1] - start[i]
        n_first = n_pairs if everywhere else n_chain + n_rows
        for c in range(n_first):
            k = c
            if not everywhere:
                k = chain[c] if c < n_chain else of_row[start[i] + c - n_chain]
            j, j_bar = index[k], index_bar[i, k]
            if D_back[i, k] > least and (one_decides or (j >= 0 and j_bar >= 0)):
                D = _bound_difference(rows_bar, j_bar, rows, j, W, heavy, terms)
                _fall(i, k, D, measured)
        if not everywhere and n_rows == 0:
            for s in decreased:
                t = sources.into[i, s]
                while t >= 0:
                    k = sources.owner[t]
                    j, j_bar = index[k], index_bar[i, k]
                    if D_back[i, k] > least and (one_decides or j >= 0):
                        D = _bound_difference(rows_bar, j_bar, rows, j, W, heavy, terms)
                        _fall(i, k, D, measured)
                    t = sources.next_into[t]
        if measured.at_top[i, 1] == 0:
            tops[i, 1], measured.at_top[i, 1] = _top(D_back[i])
        highest = max(highest, tops[i, 1])
    return highest


@njit(cache=True)
def _remeasure_there(i, pair, rows, j_bar, rows_bar, weights, terms, measured):
    """Lower D from the task to the source i at the pair, whose row in the task is known now."""
    D_there, tops, at_top = measured.there, measured.tops, measured.at_top
    if D_there[i, pair] <= weights.least[i]:
        return
    D = _bound_difference(rows, pair, rows_bar, j_bar, weights.W[i], weights.heaviest[i], terms)
    if D < D_there[i, pair]:
        at_top[i, 0] -= D_there[i, pair] == tops[i, 0]
        D_there[i, pair] = D
        if at_top[i, 0] == 0:
            tops[i, 0], at_top[i, 0] = _top(D_there[i])


@njit(cache=True)
def _fall(i, k, D, measured):
    """Lower D back of source i at the pair k to D, if that is less, and list it."""
    D_back, n_changed = measured.back, measured.n_changed
    if D >= D_back[i, k]:
        return
    measured.at_top[i, 1] -= D_back[i, k] == measured.tops[i, 1]
    D_back[i, k] = D
    if n_changed[0] == measured.changed.size:
        measured.all_changed[i] = True
    else:
        measured.changed[n_changed[0]] = i * D_back.shape[1] + k
        n_changed[0] += 1


@njit(cache=True)
def _least(W, heavy, n_ranks, terms):
    """What no D is below, and what none is where one model is known; the latter with a margin.

    A row leaves out one of the `n_ranks` heaviest states, unless there are no more states.
    """
    lo, hi = terms.lo, terms.hi
    most, _ = _two_largest(W, heavy, terms)
    off = terms.epsilon * (1.0 + terms.gamma * most)
    left_out = W[heavy[n_ranks - 1]] if n_ranks < W.size else 0.0
    one = (hi - lo) / 2.0 + terms.gamma * left_out + off
    return min(2.0 * off, off + (hi - lo) / 2.0, hi - lo), one - MARGIN * max(1.0, one)


@njit(cache=True)
def _follow(V, decreased, floor, own):
    """Bring weights and heaviest states up to date; returns whether the largest weights changed.

    Of the states in `heavy` those are the heaviest that weigh no less than `bar`, for no other
    state ever weighs more.
    """
    W, heavy, is_heavy, bar, values = own.W, own.heavy, own.is_heavy, own.bar, own.values
    moved = False
    for s in decreased:
        W[s] = max(V[s] - floor, 0.0)
        moved |= is_heavy[s]
    if not moved:
        return False
    _insert_again(W, heavy)
    if W[heavy[values.size - 1]] < bar[0]:
        is_heavy[heavy] = False
        bar[0] = rank(W, heavy)
        is_heavy[heavy] = True
    changed = False
    for r in range(values.size):
        changed |= W[heavy[r]] != values[r]
        values[r] = W[heavy[r]]
    return changed


@njit(cache=True)
def _leading_to(states, pair, model, listed, some):
    """List `pair`, and what may lead to one of `states`, each once; returns how many there are."""
    some[0] = pair
    listed[pair] = True
    n = 1
    for s in states:
        t = model.into[s]
        while t >= 0:
            k = model.owner[t]
            if not listed[k]:
                listed[k] = True
                some[n] = k
                n += 1
            t = model.next_into[t]
    for c in range(n):
        listed[some[c]] = False
    return n


@njit(cache=True)
def _top(D):
    """The largest entry, and how many there are of it."""
    top = D.max()
    return top, (top == D).sum()
