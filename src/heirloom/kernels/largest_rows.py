"""Rows of transitions that attain the largest expected value over a set of distributions.

The set of a row contains the distributions within total variation t of it: mass of up to t moves
from the outcomes with the smallest values to the possible outcome with the largest. With t = 0 the
set contains the row only. A row without any mass stands for all distributions over the possible
outcomes. `transfer.optimistic_program` uses these rows as the policy of an adversary.
"""

import numpy as np

from heirloom.kernels import njit


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
    ⊥ has to move. The sum over the row is compensated, so
    that its error is a few roundings for any number of successors.
    """
    mean, lost = 0.0, 0.0
    for j in range(first, last):
        kept[start + j - first] = p[j]
        term = p[j] * V[successors[j]]
        total = mean + term
        if abs(mean) >= abs(term):
            lost += (mean - total) + term
        else:
            lost += (term - total) + mean
        mean = total
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
