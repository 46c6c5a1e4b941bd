"""Rows of transitions and the distributions near to them.

The first functions arrange the rows of all sources by pair, for the bounds of
`kernels.solving.Near`. The last ones find distributions that attain the largest expected value,
which `transfer.optimistic_program` uses as the policy of an adversary: those within total variation
t of a row, where mass of up to t moves from the outcomes with the smallest values to the possible
outcome with the largest. A row without any mass stands for all distributions over the possible
outcomes.
"""

import numpy as np

from heirloom.kernels import njit
from heirloom.kernels.counting import two_sum

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


@njit(cache=True)
def highest_outcomes(pairs, possible_first, possible, may_end, V, states, highest):
    """Find the possible outcome with the largest value; `states` is -1 for ⊥, of value 0."""
    for i in range(pairs.size):
        k = pairs[i]
        states[i], highest[i] = -1, 0.0 if may_end[k] else -np.inf
        for j in range(possible_first[k], possible_first[k + 1]):
            if V[possible[j]] > highest[i]:
                states[i], highest[i] = possible[j], V[possible[j]]


@njit(cache=True)
def largest_means(first, last, ends, successors, p, t, V, highest, start, kept, moved, means):
    """Set means[i] to the largest mean of row i.

    It is attained by the probabilities kept[start[i]:start[i + 1]] of the successors of the row,
    with mass moved[i] on the outcome whose value is highest[i].
    """
    for i in range(first.size):
        if first[i] == last[i] and ends[i] == 0.0:
            means[i], moved[i] = highest[i], 1.0
        else:
            means[i], moved[i] = _largest(
                first[i],
                last[i],
                successors,
                p,
                ends[i],
                V,
                t[i],
                highest[i],
                kept,
                start[i],
            )


@njit(cache=True)
def _largest(first, last, successors, p, end, V, t, highest, kept, start):
    """Return the largest mean of a row and the mass that moves; `kept` is the rest of the row.

    Outcome `last` is ⊥, with probability `end` and value 0; if `end` is negative, the mass -end of
    ⊥ has to move. The sum over the row is compensated, so that its error is a few roundings for
    any number of successors.
    """
    mean, lost = 0.0, 0.0
    for j in range(first, last):
        kept[start + j - first] = p[j]
        mean, rest = two_sum(mean, p[j] * V[successors[j]])
        lost += rest
    mean += lost
    left, end_left = t, end
    if end < 0.0:
        mean -= end * highest
        left += end
    while left > 0.0:
        smallest, at = np.inf, -1
        for j in range(first, last):
            if kept[start + j - first] > 0.0 and V[successors[j]] < smallest:
                smallest, at = V[successors[j]], j
        if end_left > 0.0 and smallest > 0.0:
            smallest, at = 0.0, last
        if at < 0 or smallest >= highest:
            break
        mass = min(left, end_left if at == last else kept[start + at - first])
        mean += mass * (highest - smallest)
        left -= mass
        if at == last:
            end_left -= mass
        else:
            kept[start + at - first] -= mass
    return mean, t - left
