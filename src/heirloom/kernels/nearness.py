"""The rows of all sources, arranged by pair, for the bounds of `kernels.learning.Near`."""

import numpy as np

from heirloom.kernels import njit

COMPARED = 32  # distinct rows of a pair that a further row is compared with


@njit(cache=True)
def hash_rows(first, last, ends, successors, p, hashes):
    """Write a hash of each row, of its successors and the bits of its probabilities."""
    for i in range(first.size):
        h = np.uint64(14695981039346656037) ^ ends[i : i + 1].view(np.uint64)[0]
        for j in range(first[i], last[i]):
            h = (h ^ np.uint64(successors[j])) * np.uint64(1099511628211)
            h = (h ^ p[j : j + 1].view(np.uint64)[0]) * np.uint64(1099511628211)
            h ^= h >> np.uint64(29)
        hashes[i] = h


@njit(cache=True)
def drop_equal_rows(start, hashes, kept):
    """Set kept[i] to False if row i equals an earlier row of its pair, judged by their hashes.

    Pair k has the rows start[k]:start[k + 1]. Each is compared with the first `COMPARED` distinct
    rows of the pair. Tasks with the same model have equal rows, and one of them is enough. If two
    different rows have the same hash, dropping one is sound: fewer rows give larger bounds.
    """
    distinct = np.empty(COMPARED, dtype=np.uint64)
    for k in range(start.size - 1):
        n_distinct = 0
        for i in range(start[k], start[k + 1]):
            kept[i] = True
            for v in range(n_distinct):
                if hashes[i] == distinct[v]:
                    kept[i] = False
                    break
            if kept[i] and n_distinct < COMPARED:
                distinct[n_distinct] = hashes[i]
                n_distinct += 1


@njit(cache=True)
def link(
    pairs,
    start,
    first,
    last,
    successors,
    p,
    t,
    possible_first,
    possible,
    any_successor,
    into,
    into_pair,
    into_weight,
):
    """Find the pairs whose bound depends on each state, and by how much at most.

    If V[s] decreases by one, the largest Σ T V of a pair decreases by at most the largest
    probability of s in its rows, plus t if mass can move to s. A pair without rows, or with a row
    that leads to a state that is not possible, is bounded by its largest possible value.

    Call twice: with empty `into_pair`, `into[s + 1]` counts the links of state s; then, after a
    cumulative sum, to fill in the links.
    """
    fill = into_pair.size > 0
    n_states = into.size - 1
    position = into[:-1].copy()
    weight = np.zeros(n_states)
    is_possible = np.zeros(n_states, dtype=np.bool_)
    touched = np.empty(n_states, dtype=np.int64)
    is_touched = np.zeros(n_states, dtype=np.bool_)
    for k in pairs:
        n_touched, bounded_by_largest = 0, start[k] == start[k + 1] or t[k] >= 1.0
        for j in range(possible_first[k], possible_first[k + 1]):
            s = possible[j]
            is_possible[s] = True
            touched[n_touched] = s
            is_touched[s] = True
            n_touched += 1
        if t[k] < 1.0:
            for i in range(start[k], start[k + 1]):
                for j in range(first[i], last[i]):
                    s = successors[j]
                    if not is_touched[s]:
                        is_touched[s] = True
                        touched[n_touched] = s
                        n_touched += 1
                    weight[s] = max(weight[s], p[j])
                    if not any_successor and not is_possible[s]:
                        bounded_by_largest = True
        for v in range(n_touched):
            s = touched[v]
            x = weight[s]
            if is_possible[s]:
                x = 1.0 if bounded_by_largest else min(1.0, x + t[k])
            weight[s], is_touched[s], is_possible[s] = 0.0, False, False
            if x > 0.0:
                if fill:
                    into_pair[position[s]] = k
                    into_weight[position[s]] = x
                    position[s] += 1
                else:
                    into[s + 1] += 1


@njit(cache=True)
def link_by_pair(
    pairs,
    start,
    first,
    last,
    successors,
    p,
    t,
    possible_first,
    possible,
    any_successor,
    links,
    link_state,
    link_weight,
    witness_weight,
):
    """Find the states on which the bound of each pair depends, and by how much at most.

    Let T be the distribution at which a row attains the largest Σ T V: it has at most the mass of
    the row at each state, plus t at one possible outcome of the largest value, the witness. If V
    decreases by x, Σ T V decreases by Σ T x, so the new maximum is below the last one by no more.
    The links of pair k are the states of its rows, weighed with their largest probability in a row.
    `witness_weight[k]` is the weight of the witness in addition. It is 1 for a pair whose bound may
    be the largest possible value, as in `link`.

    Call twice: with empty `link_state`, `links[k + 1]` counts the links of pair k; then, after a
    cumulative sum, to fill in the links.
    """
    fill = link_state.size > 0
    n_states = 0
    for j in range(successors.size):
        n_states = max(n_states, successors[j] + 1)
    for j in range(possible.size):
        n_states = max(n_states, possible[j] + 1)
    weight = np.zeros(n_states)
    is_possible = np.zeros(n_states, dtype=np.bool_)
    touched = np.empty(n_states, dtype=np.int64)
    for k in pairs:
        n_touched, bounded_by_largest = 0, start[k] == start[k + 1] or t[k] >= 1.0
        for j in range(possible_first[k], possible_first[k + 1]):
            is_possible[possible[j]] = True
        if t[k] < 1.0:
            for i in range(start[k], start[k + 1]):
                for j in range(first[i], last[i]):
                    s = successors[j]
                    if weight[s] == 0.0 and p[j] > 0.0:
                        touched[n_touched] = s
                        n_touched += 1
                    weight[s] = max(weight[s], p[j])
                    if not any_successor and not is_possible[s]:
                        bounded_by_largest = True
        for j in range(possible_first[k], possible_first[k + 1]):
            is_possible[possible[j]] = False
        witness_weight[k] = 1.0 if bounded_by_largest else t[k]
        for v in range(n_touched):
            s = touched[v]
            if fill:
                link_state[links[k] + v], link_weight[links[k] + v] = s, weight[s]
            weight[s] = 0.0
        if not fill:
            links[k + 1] = n_touched
