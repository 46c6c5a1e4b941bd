"""The rows of all sources, arranged by pair, for the bounds of `kernels.solving.Near`."""

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
    to_all,
    whole,
    n_states,
    links,
    link_state,
    link_weight,
    witness_weight,
):
    """Find the states on which the bound of each pair depends, and by how much at most.

    Let T be the distribution at which a row attains the largest Σ T V: it has at most the mass of
    the row at each state, plus t at one possible outcome of the largest value, the witness. If V
    changes by x, the largest mean changes by at most Σ T |x|. The links of pair k are the states of
    its rows, weighed with their largest probability in a row. `witness_weight[k]` is the weight of
    the witness in addition: t, or 1 for a pair whose bound may be the largest possible value,
    because it has no rows, or one that leads to a state that is not possible, or because the model
    of the task has a radius of its own (`whole`). If values may rise,
    every possible outcome may become the witness: with `to_all`, they are all linked.

    Call twice: with empty `link_state`, `links[k + 1]` counts the links of pair k; then, after a
    cumulative sum, to fill in the links.
    """
    fill = link_state.size > 0
    weight = np.zeros(n_states)
    is_possible, is_touched = np.zeros(n_states, np.bool_), np.zeros(n_states, np.bool_)
    touched = np.empty(n_states, dtype=np.int64)
    for k in pairs:
        n_touched = 0
        bounded_by_largest = whole or start[k] == start[k + 1] or t[k] >= 1.0
        for j in range(possible_first[k], possible_first[k + 1]):
            is_possible[possible[j]] = True
        if t[k] < 1.0:
            for i in range(start[k], start[k + 1]):
                for j in range(first[i], last[i]):
                    s = successors[j]
                    if not is_touched[s] and p[j] > 0.0:
                        is_touched[s] = True
                        touched[n_touched] = s
                        n_touched += 1
                    weight[s] = max(weight[s], p[j])
                    if not any_successor and not is_possible[s]:
                        bounded_by_largest = True
        witness_weight[k] = 1.0 if bounded_by_largest else t[k]
        for j in range(possible_first[k], possible_first[k + 1]):
            s = possible[j]
            is_possible[s] = False
            if to_all:
                weight[s] = min(1.0, weight[s] + witness_weight[k])
                if not is_touched[s]:
                    is_touched[s] = True
                    touched[n_touched] = s
                    n_touched += 1
        for v in range(n_touched):
            s = touched[v]
            if fill:
                link_state[links[k] + v], link_weight[links[k] + v] = s, weight[s]
            weight[s], is_touched[s] = 0.0, False
        if not fill:
            links[k + 1] = n_touched
