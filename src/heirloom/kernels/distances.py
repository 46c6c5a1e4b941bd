"""Distances between the models of two tasks, row by row.

For partly known models, with weights W ≥ 0 of outcomes and B = ε (1 + γ max W), D is the minimum of
the following expressions that apply (Proposition 3, corrected):

    both known      |R - R̄| + γ Σ W |T - T̄| + 2B
    one known       max(R - lo, hi - R) + γ (Σ T W + max_j W(j) (1 - 2 T(j))) + B
    always          hi - lo + γ (the sum of the two largest of W)

The second half of the file updates D of many sources, in both directions, as a task is learned. In
names, `to_source` stands for D(M ‖ M̄), from the current task M to a source M̄, and `from_source` for
D(M̄ ‖ M).

Functions that Python calls take plain tuples in the order of fields, because numba unpacks them in
half the time that named tuples take, and convert them to named tuples.
"""

from typing import Any, NamedTuple

import numpy as np

from heirloom.kernels import njit

MARGIN = 1e-9  # relative, and larger than rounding errors
LINKS_PER_PAIR = 2  # links to predecessors that are followed before all pairs are examined
TO_SOURCE, FROM_SOURCE = range(2)  # columns of `Measured.largest` and `Measured.n_at_largest`


class Parameters(NamedTuple):
    """Parameters of the distance that are the same for all pairs.

    `W_end` is the weight of termination, which is a possible outcome only if `terminating`. Rewards
    lie in [lo, hi], `gamma` is the discount factor, and `epsilon` the accuracy of known models.
    """

    W_end: Any
    terminating: Any
    lo: Any
    hi: Any
    gamma: Any
    epsilon: Any


class PlainRows(NamedTuple):
    """Rows of a model: rewards R, probabilities of termination `ends`, and successors.

    Row j has `successors[first[j]:last[j]]`, in increasing order, with probabilities `p`.
    """

    R: Any
    ends: Any
    first: Any
    last: Any
    successors: Any
    p: Any


class LinkedRows(NamedTuple):
    """The known rows of a model, or of all sources one after the other, with links to predecessors.

    Pair k has the row `index[k]` (for source i, `index[i, k]`), or -1 if it is unknown. Source i
    has the rows from `start[i]` to `start[i + 1] - 1`, and row j belongs to the pair `row_pair[j]`.
    The transitions into state s form a linked list, which starts at `into[s]` (for source i,
    `into[i, s]`) and continues with `next_into`, until -1; transition t belongs to the pair
    `owner[t]`.
    """

    index: Any
    start: Any
    row_pair: Any
    rows: Any
    owner: Any
    into: Any
    next_into: Any


class SourceWeights(NamedTuple):
    """For each source: the weights of states, its heaviest states, and lower bounds on D(M ‖ M̄).

    `least` is a lower bound on every D, `least_one_known` on D where only one model is known.
    """

    W: Any
    heaviest: Any
    least: Any
    least_one_known: Any


class TaskWeights(NamedTuple):
    """The weights of states in the current task, which decrease as it is learned.

    `heavy` lists the heaviest states by decreasing weight, with some in reserve, and `is_heavy`
    marks them; no other state weighs more than `outside_bound[0]`. `top_weights` holds the largest
    weights after the last update.
    """

    W: Any
    heavy: Any
    is_heavy: Any
    outside_bound: Any
    top_weights: Any


class Measured(NamedTuple):
    """D[i, k] of all sources i at all pairs k, in both directions.

    `largest` is the largest D per source and direction, and `n_at_largest` the number of pairs that
    attain it. The first `n_changed[0]` entries of `changed` list the entries of `from_source` that
    decreased, as i * P + k for P pairs; a source whose entries did not all fit is marked in
    `all_changed`. `listed` and `is_listed` are work space for a list of pairs.
    """

    to_source: Any
    from_source: Any
    largest: Any
    n_at_largest: Any
    changed: Any
    n_changed: Any
    all_changed: Any
    is_listed: Any
    listed: Any


@njit(cache=True)
def weigh_differences(indptr, successors, p, indptr_bar, successors_bar, p_bar, f, D):
    """Set D[k] <- sum_s' f[s'] |T[k, s'] - T_bar[k, s']| for all rows k of two models."""
    for k in range(D.size):
        D[k] = _weighted_l1(
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
def _weighted_l1(i, end, successors, p, j, end_bar, successors_bar, p_bar, f):
    """Return sum_s' f[s'] |T[s'] - T_bar[s']| of two rows with successors in increasing order."""
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
def bound_differences(pairs, m, m_bar, W, heaviest, parameters, D):
    """Set D[i] <- an upper bound on |R - R_bar| + gamma * sum_s' W[s'] |T - T_bar| at pairs[i].

    An unknown model may be any model. So its largest distance from a known one is attained with all
    probability on one outcome, and that of two unknown models with one of the two heaviest outcomes
    each. `heaviest` lists states by decreasing weight: more than the longest row has, or all.
    """
    rows = PlainRows(m.R, m.ends, m.first, m.last, m.successors, m.p)
    rows_bar = PlainRows(m_bar.R, m_bar.ends, m_bar.first, m_bar.last, m_bar.successors, m_bar.p)
    known, known_bar, parameters = m.known, m_bar.known, Parameters(*parameters)
    for i in range(pairs.size):
        k = pairs[i]
        j, j_bar = k if known[k] else -1, k if known_bar[k] else -1
        D[i] = _bound_difference(rows, j, rows_bar, j_bar, W, heaviest, parameters)


@njit(cache=True)
def _bound_difference(rows, j, rows_bar, j_bar, W, heaviest, parameters):
    """Return D of `bound_differences` for row j of a model and j_bar of another; -1 is unknown."""
    lo, hi, gamma = parameters.lo, parameters.hi, parameters.gamma
    most, second = _two_largest(W, heaviest, parameters)
    B = parameters.epsilon * (1.0 + gamma * most)
    bound = hi - lo + gamma * (most + second)
    if j >= 0:
        farthest = _largest_l1(rows, j, W, heaviest, parameters)
        bound = min(bound, max(rows.R[j] - lo, hi - rows.R[j]) + gamma * farthest + B)
    if j_bar >= 0:
        farthest = _largest_l1(rows_bar, j_bar, W, heaviest, parameters)
        R_bar = rows_bar.R[j_bar]
        bound = min(bound, max(R_bar - lo, hi - R_bar) + gamma * farthest + B)
    if j >= 0 and j_bar >= 0:
        l1 = _weighted_l1(
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
        l1 = parameters.W_end * abs(rows.ends[j] - rows_bar.ends[j_bar]) + l1
        bound = min(bound, abs(rows.R[j] - rows_bar.R[j_bar]) + gamma * l1 + 2.0 * B)
    return bound


@njit(cache=True)
def _two_largest(W, heaviest, parameters):
    """Return the two largest weights of outcomes; if there is only one outcome, their sum is 0."""
    most = W[heaviest[0]]
    second = W[heaviest[1]] if heaviest.size > 1 else 0.0
    if parameters.terminating:
        second = max(second, min(most, parameters.W_end))
        most = max(most, parameters.W_end)
    elif heaviest.size == 1:
        second = -most  # there is only one outcome, so all models are equal
    return most, second


@njit(cache=True)
def _largest_l1(rows, j, W, heaviest, parameters):
    """Return max_t sum_s' W |T - t| = sum_s' T W + max_x W[x] (1 - 2 T[x]), where T is row j.

    The outcomes x are the states and, if tasks may terminate, termination.
    """
    first, last, successors, p = rows.first[j], rows.last[j], rows.successors, rows.p
    end = rows.ends[j]
    expected = end * parameters.W_end
    largest_term = parameters.W_end * (1.0 - 2.0 * end) if parameters.terminating else -np.inf
    for t in range(first, last):
        w = W[successors[t]]
        expected += p[t] * w
        largest_term = max(largest_term, w * (1.0 - 2.0 * p[t]))
    for s in heaviest:
        position = first + np.searchsorted(successors[first:last], s)
        if position == last or successors[position] != s:
            largest_term = max(largest_term, W[s])
            break
    return expected + largest_term


# The rest handles all sources at once: D[i, k] is that of source i at pair k.


@njit(cache=True)
def rank(W, heavy):
    """Fill `heavy` with the heaviest states by decreasing weight.

    Returns an upper bound on the weights of all other states.
    """
    n = heavy.size
    for s in range(n):
        heavy[s] = s
    for i in range(n // 2 - 1, -1, -1):
        _sift_down(W, heavy, i, n)
    for s in range(n, W.size):
        if W[s] > W[heavy[0]]:
            heavy[0] = s
            _sift_down(W, heavy, 0, n)
    outside_bound = W[heavy[0]] if n < W.size else -np.inf
    for end in range(n - 1, 0, -1):
        heavy[0], heavy[end] = heavy[end], heavy[0]
        _sift_down(W, heavy, 0, end)
    return outside_bound


@njit(cache=True)
def _sift_down(W, heap, i, n):
    """Move heap[i] down to its position in the heap heap[:n], whose root is the lightest state."""
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
def _insertion_sort(W, heavy):
    """Sort states by decreasing weight; fast if only a few are out of order."""
    for i in range(1, heavy.size):
        s = heavy[i]
        w, j = W[s], i
        while j > 0 and W[heavy[j - 1]] < w:
            heavy[j] = heavy[j - 1]
            j -= 1
        heavy[j] = s


@njit(cache=True)
def measure_sources(sources, weights_bar, weights, parameters, measured):
    """Lower D of all sources in both directions, before any pair of the task is known."""
    _measure_sources(
        _as_linked_rows(sources),
        SourceWeights(*weights_bar),
        TaskWeights(*weights),
        Parameters(*parameters),
        Measured(*measured),
    )


@njit(cache=True)
def _as_linked_rows(model):
    """Convert a plain tuple of tuples to `LinkedRows`."""
    index, start, row_pair, rows, owner, into, next_into = model
    return LinkedRows(index, start, row_pair, PlainRows(*rows), owner, into, next_into)


@njit(cache=True)
def _measure_sources(sources, weights_bar, weights, parameters, measured):
    index, rows, n_ranks = sources.index, sources.rows, weights.top_weights.size
    least_from, least_one_from = _lower_bounds(weights.W, weights.heavy, n_ranks, parameters)
    for i in range(index.shape[0]):
        W_bar, heaviest = weights_bar.W[i], weights_bar.heaviest[i]
        rank(W_bar, heaviest)
        weights_bar.least[i], weights_bar.least_one_known[i] = _lower_bounds(
            W_bar, heaviest, n_ranks, parameters
        )
        least_to, least_one_to = weights_bar.least[i], weights_bar.least_one_known[i]
        for D, W, ranked, least, least_one, direction in (
            (measured.to_source, W_bar, heaviest, least_to, least_one_to, TO_SOURCE),
            (
                measured.from_source,
                weights.W,
                weights.heavy,
                least_from,
                least_one_from,
                FROM_SOURCE,
            ),
        ):
            neither = _bound_difference(rows, -1, rows, -1, W, ranked, parameters)
            for k in range(index.shape[1]):
                D[i, k] = min(D[i, k], neither)
                if index[i, k] >= 0 and D[i, k] > least and D[i, k] > least_one:
                    bound = _bound_difference(rows, index[i, k], rows, -1, W, ranked, parameters)
                    D[i, k] = min(D[i, k], bound)
            measured.largest[i, direction], measured.n_at_largest[i, direction] = _largest(D[i])


@njit(cache=True)
def remeasure_sources(
    pairs,
    known_pairs,
    V,
    decreased,
    active,
    model,
    sources,
    weights_bar,
    weights,
    parameters,
    floor,
    measured,
):
    """Lower D of the `active` sources after `pairs` became known and V decreased at some states.

    The weights of D(M ‖ M̄) come from the source and do not change, so only its entries at `pairs`
    may decrease. The weights of D(M̄ ‖ M) come from V, so it may decrease at pairs that lead to one
    of the `decreased` states in either model. If the heaviest states became lighter, it may
    decrease at all pairs that are known in either model, because an unknown model may lead to these
    states, and at the other pairs if the distance between two unknown models is below the largest
    D. Returns the largest D(M̄ ‖ M).
    """
    return _remeasure_sources(
        pairs,
        known_pairs,
        V,
        decreased,
        active,
        _as_linked_rows(model),
        _as_linked_rows(sources),
        SourceWeights(*weights_bar),
        TaskWeights(*weights),
        Parameters(*parameters),
        floor,
        Measured(*measured),
    )


@njit(cache=True)
def _remeasure_sources(
    pairs,
    known_pairs,
    V,
    decreased,
    active,
    model,
    sources,
    weights_bar,
    weights,
    parameters,
    floor,
    measured,
):
    index, rows, index_bar, rows_bar = model.index, model.rows, sources.index, sources.rows
    start, row_pair = sources.start, sources.row_pair
    W, heavy, D_from, largest = weights.W, weights.heavy, measured.from_source, measured.largest
    n_pairs = index.size
    most_before, second_before = _two_largest(W, heavy, parameters)
    ranks_changed = _update_weights(V, decreased, floor, weights)
    most, second = _two_largest(W, heavy, parameters)
    least, least_one = _lower_bounds(W, heavy, weights.top_weights.size, parameters)
    neither = _bound_difference(rows, -1, rows_bar, -1, W, heavy, parameters)
    is_listed, listed = measured.is_listed, measured.listed
    n_listed = _list_pairs(pairs, known_pairs, decreased, model, is_listed, listed)
    highest = 0.0
    for i in active:
        for pair in pairs:
            _remeasure_to_source(
                i, pair, rows, index_bar[i, pair], rows_bar, weights_bar, parameters, measured
            )
        if largest[i, FROM_SOURCE] <= least:
            highest = max(highest, largest[i, FROM_SOURCE])
            continue
        one_known_matters = least_one < largest[i, FROM_SOURCE]
        n_candidates, candidates, n_rows, everywhere = n_listed, listed, 0, False
        n_marked = n_listed
        if (most != most_before or second != second_before) and neither < largest[i, FROM_SOURCE]:
            everywhere = True
        elif most != most_before or (ranks_changed and one_known_matters):
            n_candidates, candidates = known_pairs.size, known_pairs
            n_rows = start[i + 1] - start[i]
        else:
            own = row_pair[start[i] : start[i + 1]]
            n_candidates = n_marked = _list_predecessors(
                decreased, own, sources.into[i], sources, is_listed, listed, n_listed
            )
        for c in range(n_pairs if everywhere else n_candidates + n_rows):
            k = c
            if not everywhere:
                k = candidates[c] if c < n_candidates else row_pair[start[i] + c - n_candidates]
            j, j_bar = index[k], index_bar[i, k]
            if D_from[i, k] > least and (one_known_matters or (j >= 0 and j_bar >= 0)):
                D = _bound_difference(rows_bar, j_bar, rows, j, W, heavy, parameters)
                _lower_from_source(i, k, D, measured)
        for c in range(n_listed, n_marked):
            is_listed[listed[c]] = False
        if measured.n_at_largest[i, FROM_SOURCE] == 0:
            largest[i, FROM_SOURCE], measured.n_at_largest[i, FROM_SOURCE] = _largest(D_from[i])
        highest = max(highest, largest[i, FROM_SOURCE])
    for c in range(n_listed):
        is_listed[listed[c]] = False
    return highest


@njit(cache=True)
def _remeasure_to_source(i, pair, rows, j_bar, rows_bar, weights_bar, parameters, measured):
    """Lower D from the task to the source i at `pair`, which is known in the task."""
    D_to, largest, n_at_largest = measured.to_source, measured.largest, measured.n_at_largest
    if D_to[i, pair] <= weights_bar.least[i]:
        return
    D = _bound_difference(
        rows, pair, rows_bar, j_bar, weights_bar.W[i], weights_bar.heaviest[i], parameters
    )
    if D < D_to[i, pair]:
        n_at_largest[i, TO_SOURCE] -= D_to[i, pair] == largest[i, TO_SOURCE]
        D_to[i, pair] = D
        if n_at_largest[i, TO_SOURCE] == 0:
            largest[i, TO_SOURCE], n_at_largest[i, TO_SOURCE] = _largest(D_to[i])


@njit(cache=True)
def _lower_from_source(i, k, D, measured):
    """Lower from_source[i, k] of `measured` to D, if D is smaller, and list it as changed."""
    D_from, n_changed = measured.from_source, measured.n_changed
    if D >= D_from[i, k]:
        return
    measured.n_at_largest[i, FROM_SOURCE] -= D_from[i, k] == measured.largest[i, FROM_SOURCE]
    D_from[i, k] = D
    if n_changed[0] == measured.changed.size:
        measured.all_changed[i] = True
    else:
        measured.changed[n_changed[0]] = i * D_from.shape[1] + k
        n_changed[0] += 1


@njit(cache=True)
def _lower_bounds(W, heavy, n_ranks, parameters):
    """Return lower bounds on D: at any pair, and where only one model is known (with a margin).

    If there are more than `n_ranks` states, no row contains all of the `n_ranks` heaviest, so an
    unknown model may lead to one of these which is not in the row.
    """
    lo, hi = parameters.lo, parameters.hi
    most, _ = _two_largest(W, heavy, parameters)
    B = parameters.epsilon * (1.0 + parameters.gamma * most)
    left_out = W[heavy[n_ranks - 1]] if n_ranks < W.size else 0.0
    one = (hi - lo) / 2.0 + parameters.gamma * left_out + B
    return min(2.0 * B, B + (hi - lo) / 2.0, hi - lo), one - MARGIN * max(hi - lo, one)


@njit(cache=True)
def _update_weights(V, decreased, floor, weights):
    """Update the weights and the heaviest states; return whether the largest weights changed.

    States in `heavy` that weigh at least `outside_bound` are the heaviest of all, because no other
    state weighs more. If too few are left, all states are ranked again.
    """
    W, heavy, is_heavy = weights.W, weights.heavy, weights.is_heavy
    outside_bound, top_weights = weights.outside_bound, weights.top_weights
    heavy_moved = False
    for s in decreased:
        W[s] = max(V[s] - floor, 0.0)
        heavy_moved |= is_heavy[s]
    if not heavy_moved:
        return False
    _insertion_sort(W, heavy)
    if W[heavy[top_weights.size - 1]] < outside_bound[0]:
        is_heavy[heavy] = False
        outside_bound[0] = rank(W, heavy)
        is_heavy[heavy] = True
    changed = False
    for r in range(top_weights.size):
        changed |= W[heavy[r]] != top_weights[r]
        top_weights[r] = W[heavy[r]]
    return changed


@njit(cache=True)
def _list_pairs(pairs, known_pairs, decreased, model, is_listed, listed):
    """List `pairs` and the known pairs of the task that may lead to a decreased state.

    Returns the number of pairs, which stay marked in `is_listed`.
    """
    for c in range(pairs.size):
        listed[c] = pairs[c]
        is_listed[pairs[c]] = True
    return _list_predecessors(
        decreased, known_pairs, model.into, model, is_listed, listed, pairs.size
    )


@njit(cache=True)
def _list_predecessors(states, own, into, model, is_listed, listed, n):
    """Append the pairs that may lead to any of `states` to the `n` listed pairs, once each.

    `own` are all known pairs of the model. If the states have many predecessors, all of them are
    listed instead, because following the links would take longer. Returns the number of pairs.
    """
    left = LINKS_PER_PAIR * own.size
    for s in states:
        t = into[s]
        while t >= 0 and left > 0:
            k = model.owner[t]
            if not is_listed[k]:
                is_listed[k] = True
                listed[n] = k
                n += 1
            t = model.next_into[t]
            left -= 1
    if left <= 0:
        for k in own:
            if not is_listed[k]:
                is_listed[k] = True
                listed[n] = k
                n += 1
    return n


@njit(cache=True)
def _largest(D):
    """Return the largest entry of D, and the number of entries equal to it."""
    top = D.max()
    return top, (top == D).sum()
