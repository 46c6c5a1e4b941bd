"""Distances between the models of two tasks, row by row."""

import numpy as np
from numba import njit

MARGIN = 1e-9  # more than rounding


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
def bound_differences(pairs, m, m_bar, W, W_end, sink, heaviest, lo, hi, gamma, epsilon, D):
    """D[i] <- an upper bound on |R - R_bar| + gamma * sum_s' W[s'] |T - T_bar| at pairs[i].

    Whatever is known of either model, with accuracy epsilon, is used: the least of the rows that
    apply. A model that is unknown may be any, so its distance from a known one is attained with all
    mass on one outcome, and that of two unknown ones on the two heaviest. The sink is an outcome if
    `sink`, and weighs `W_end`. `heaviest` lists states by falling weight, more than the longest
    row has, or all.
    """
    known, R, ends, first, last, successors, p = m
    known_bar, R_bar, ends_bar, first_bar, last_bar, successors_bar, p_bar = m_bar
    row = R, ends, first, last, successors, p
    row_bar = R_bar, ends_bar, first_bar, last_bar, successors_bar, p_bar
    numbers = W_end, sink, lo, hi, gamma, epsilon
    for i in range(pairs.size):
        k = pairs[i]
        j, j_bar = k if known[k] else -1, k if known_bar[k] else -1
        D[i] = _bound_difference(row, j, row_bar, j_bar, W, heaviest, numbers)


@njit(cache=True)
def _bound_difference(rows, j, rows_bar, j_bar, W, heaviest, numbers):
    """What `bound_differences` says of the row j of a model and j_bar of another; -1 is unknown."""
    R, ends, first, last, successors, p = rows
    R_bar, ends_bar, first_bar, last_bar, successors_bar, p_bar = rows_bar
    W_end, sink, lo, hi, gamma, epsilon = numbers
    most, second = _two_largest(W, W_end, sink, heaviest)
    off = epsilon * (1.0 + gamma * most)
    bound = hi - lo + gamma * (most + second)
    if j >= 0:
        far = _farthest(first[j], last[j], successors, p, ends[j], W, W_end, sink, heaviest)
        bound = min(bound, max(R[j] - lo, hi - R[j]) + gamma * far + off)
    if j_bar >= 0:
        i, end = first_bar[j_bar], last_bar[j_bar]
        far = _farthest(i, end, successors_bar, p_bar, ends_bar[j_bar], W, W_end, sink, heaviest)
        bound = min(bound, max(R_bar[j_bar] - lo, hi - R_bar[j_bar]) + gamma * far + off)
    if j >= 0 and j_bar >= 0:
        i, end = first_bar[j_bar], last_bar[j_bar]
        apart = _apart(first[j], last[j], successors, p, i, end, successors_bar, p_bar, W)
        apart = W_end * abs(ends[j] - ends_bar[j_bar]) + apart
        bound = min(bound, abs(R[j] - R_bar[j_bar]) + gamma * apart + 2.0 * off)
    return bound


@njit(cache=True)
def _two_largest(W, W_end, sink, heaviest):
    """The largest weights of two outcomes; they add up to 0 if there is only one."""
    most = W[heaviest[0]]
    second = W[heaviest[1]] if heaviest.size > 1 else 0.0
    if sink:
        second = max(second, min(most, W_end))
        most = max(most, W_end)
    elif heaviest.size == 1:
        second = -most  # two models cannot differ
    return most, second


@njit(cache=True)
def _farthest(first, last, successors, p, end, W, W_end, sink, heaviest):
    """max_t sum_s' W[s'] |T[s'] - t[s']| = sum_s' T W + max_j W[j] (1 - 2 T[j]), sink included."""
    expected = end * W_end
    far = W_end * (1.0 - 2.0 * end) if sink else -np.inf
    for j in range(first, last):
        w = W[successors[j]]
        expected += p[j] * w
        far = max(far, w * (1.0 - 2.0 * p[j]))
    for s in heaviest:
        if not _contains(successors, first, last, s):
            far = max(far, W[s])
            break
    return expected + far


@njit(cache=True)
def _contains(successors, first, last, s):
    """Whether s stands in successors[first:last], which rises."""
    while first < last:
        middle = (first + last) // 2
        if successors[middle] < s:
            first = middle + 1
        elif successors[middle] > s:
            last = middle
        else:
            return True
    return False


# All sources at once. In what follows a source i has D[i, k] over pairs, and rows as the class
# `Rows` of heirloom.transfer.lipschitz.all_sources describes them: `index[i, k]` is its row of the
# pair, or -1.


@njit(cache=True)
def rank(W, heavy):
    """List the heaviest states by falling weight; returns what no other state's weight exceeds."""
    n = heavy.size
    for s in range(n):
        heavy[s] = s
    for i in range(n // 2 - 1, -1, -1):
        _sink(W, heavy, i, n)
    for s in range(n, W.size):
        if W[s] > W[heavy[0]]:
            heavy[0] = s
            _sink(W, heavy, 0, n)
    bar = W[heavy[0]] if n < W.size else -np.inf
    for end in range(n - 1, 0, -1):
        heavy[0], heavy[end] = heavy[end], heavy[0]
        _sink(W, heavy, 0, end)
    return bar


@njit(cache=True)
def _sink(W, heap, i, n):
    """Let heap[i] sink to its place in heap[:n], where the lightest state is first."""
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
def measure_sources(sources, weights, own, numbers, D_there, D_back, tops, at_top):
    """Lower D of all sources in both directions, while nothing of the task at hand is known."""
    index, _, _, R, ends, first, last, successors, p, _, _, _ = sources
    W_bar, heaviest, least, one_known = weights
    W, heavy, _, _, values = own
    rows = R, ends, first, last, successors, p
    least_back, one_back = _least(W, heavy, values.size, numbers)
    for i in range(index.shape[0]):
        rank(W_bar[i], heaviest[i])
        least[i], one_known[i] = _least(W_bar[i], heaviest[i], values.size, numbers)
        for D, weight, ranked, lowest, one, way in (
            (D_there, W_bar[i], heaviest[i], least[i], one_known[i], 0),
            (D_back, W, heavy, least_back, one_back, 1),
        ):
            neither = _bound_difference(rows, -1, rows, -1, weight, ranked, numbers)
            for k in range(index.shape[1]):
                D[i, k] = min(D[i, k], neither)
                if index[i, k] >= 0 and D[i, k] > lowest and D[i, k] > one:
                    bound = _bound_difference(rows, index[i, k], rows, -1, weight, ranked, numbers)
                    D[i, k] = min(D[i, k], bound)
            tops[i, way], at_top[i, way] = _top(D[i])


@njit(cache=True)
def remeasure_sources(
    pair, known_pairs, V, fallen, active, m, sources, weights, own, numbers, floor, measured
):
    """Lower D of the `active` sources after `pair` became known and V fell at `fallen` states.

    From the task to a source the weights stay, so only the pair has changed. Back, weighed by V,
    those pairs have that lead to a state that fell, in either model; and if the heaviest states
    weigh less, all known ones, for which an unknown model may lead to those. Where D fell on the
    way back is appended to `changed`, as i * P + k, or i is marked in `all_changed`. Returns the
    largest D that is left on the way back.
    """
    index, _, _, R, ends, first, last, successors, p, owner, into, next_into = m
    index_bar, start, of_row, R_bar, ends_bar, first_bar, last_bar = sources[:7]
    successors_bar, p_bar, owner_bar, into_bar, next_into_bar = sources[7:]
    W_bar, heaviest, least_there, _ = weights
    W, heavy, _, _, values = own
    D_there, D_back, tops, at_top, _, _, _, listed, some = measured
    rows = R, ends, first, last, successors, p
    rows_bar = R_bar, ends_bar, first_bar, last_bar, successors_bar, p_bar
    n_pairs = index.size
    before = _two_largest(W, numbers[0], numbers[1], heavy)
    ranks_changed = _follow(V, fallen, floor, own)
    most, second = _two_largest(W, numbers[0], numbers[1], heavy)
    least, one = _least(W, heavy, values.size, numbers)
    neither = _bound_difference(rows, -1, rows_bar, -1, W, heavy, numbers)
    n_some = _leading_to(fallen, pair, owner, into, next_into, listed, some)
    highest = 0.0
    for i in active:
        if D_there[i, pair] > least_there[i]:
            j = index_bar[i, pair]
            D = _bound_difference(rows, pair, rows_bar, j, W_bar[i], heaviest[i], numbers)
            if D < D_there[i, pair]:
                at_top[i, 0] -= D_there[i, pair] == tops[i, 0]
                D_there[i, pair] = D
                if at_top[i, 0] == 0:
                    tops[i, 0], at_top[i, 0] = _top(D_there[i])
        if tops[i, 1] <= least:
            highest = max(highest, tops[i, 1])
            continue
        one_decides = one < tops[i, 1]
        n_chain, chain, n_rows, everywhere = n_some, some, 0, False
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
                D = _bound_difference(rows_bar, j_bar, rows, j, W, heavy, numbers)
                _fall(i, k, D, measured)
        if not everywhere and n_rows == 0:
            for s in fallen:
                t = into_bar[i, s]
                while t >= 0:
                    k = owner_bar[t]
                    j, j_bar = index[k], index_bar[i, k]
                    if D_back[i, k] > least and (one_decides or j >= 0):
                        D = _bound_difference(rows_bar, j_bar, rows, j, W, heavy, numbers)
                        _fall(i, k, D, measured)
                    t = next_into_bar[t]
        if at_top[i, 1] == 0:
            tops[i, 1], at_top[i, 1] = _top(D_back[i])
        highest = max(highest, tops[i, 1])
    return highest


@njit(cache=True)
def _fall(i, k, D, measured):
    """D_back[i, k] <- D, if it is less."""
    _, D_back, tops, at_top, changed, n_changed, all_changed, _, _ = measured
    if D >= D_back[i, k]:
        return
    at_top[i, 1] -= D_back[i, k] == tops[i, 1]
    D_back[i, k] = D
    if n_changed[0] == changed.size:
        all_changed[i] = True
    else:
        changed[n_changed[0]] = i * D_back.shape[1] + k
        n_changed[0] += 1


@njit(cache=True)
def _least(W, heavy, n_ranks, numbers):
    """What no D is below, and what none is where one model is known; the latter with a margin.

    A row leaves out one of the `n_ranks` heaviest states, unless there are no more states.
    """
    W_end, sink, lo, hi, gamma, epsilon = numbers
    most, _ = _two_largest(W, W_end, sink, heavy)
    off = epsilon * (1.0 + gamma * most)
    left_out = W[heavy[n_ranks - 1]] if n_ranks < W.size else 0.0
    one = (hi - lo) / 2.0 + gamma * left_out + off
    return min(2.0 * off, off + (hi - lo) / 2.0, hi - lo), one - MARGIN * max(1.0, one)


@njit(cache=True)
def _follow(V, fallen, floor, own):
    """Bring weights and heaviest states up to date; returns whether the largest weights changed.

    `heavy` holds more states than are needed, of which those are the heaviest that weigh no less
    than `bar`, for no other state ever weighs more.
    """
    W, heavy, is_heavy, bar, values = own
    moved = False
    for s in fallen:
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
def _leading_to(states, pair, owner, into, next_into, listed, some):
    """List `pair`, and what may lead to one of `states`, each once; returns how many there are."""
    some[0] = pair
    listed[pair] = True
    n = 1
    for s in states:
        t = into[s]
        while t >= 0:
            k = owner[t]
            if not listed[k]:
                listed[k] = True
                some[n] = k
                n += 1
            t = next_into[t]
    for c in range(n):
        listed[some[c]] = False
    return n


@njit(cache=True)
def _top(D):
    """The largest entry, and how many there are of it."""
    top = D.max()
    return top, (top == D).sum()
