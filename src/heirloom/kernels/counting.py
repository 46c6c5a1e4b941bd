"""The learned model of a task: every visit of a pair is counted, and looked at now and then.

A look estimates the reward and the transitions of a pair from all its visits so far. The first look
is at visit `n_known`: the pair is then known. Further looks are at the visits ⌈n_known g^i⌉, where
g is the factor `growth`, or never if it is infinite. If g is below `CLOSE`, the look after that at
visit n is at visit ⌈g n⌉.
"""

from typing import Any, NamedTuple

import numpy as np

from heirloom.kernels import inlined, njit

N_TRANSITIONS, N_ENTRIES, N_LOGGED, N_OTHERS = range(4)
NOT_LISTED = -2  # instead of the next entry of a list
NEVER = 2**62  # a number of visits that no pair reaches
CLOSE = 1.001  # a smaller factor would have to be multiplied too often
SPLIT = 2.0**27 + 1  # splits a float64 into two halves, whose products are exact
INDEX_LIMIT = 2**32  # above every index of an entry


class Model(NamedTuple):
    """Visits and estimates of a task, over pairs k = s * A + a.

    A pair k has been visited `counts[k]` times. Its distinct outcomes form a list of entries, which
    starts at `head[k]` and continues with `next_entry`, until -1. Entry i is the outcome
    `outcomes[i]`: the successor s, or -1 - s if the transition to s was terminal. It was seen
    `times[i]` times, first with the reward `rewards[i]`; `excess[i]` holds the sum of the
    differences from this reward, and the sum of the rounding errors of its additions. If there were
    differences and the sums are 0, the second one is -0.0.

    The last look at a known pair, after `looked[k]` visits, found the mean reward `R[k]`, the
    probability `ends[k]` of termination, and the successors `successors[first[k]:last[k]]`, in
    increasing order, with probabilities `p`; entry i is at `first[k] + place[i]`. The first look
    stays stored: it found `R_1`, `ends_1` and the row `first_1[k]:last_1[k]`. The next look is at
    visit `next_look[k]`, which is `due[k]` rounded up.

    As evidence says, the mean reward of the task is at most `high[k]`, and its transitions T are
    within total variation `radius[k]` of the row T̂; if `beta` is not empty, KL(T̂, T) is at most
    `beta[k]`, too. If `share` is not empty, a backup multiplies the expected value by `share[k]`.
    `rule` says how these follow from visits (`kernels/evidence.py`). Without evidence `high` is
    `R`, and the others are empty.

    Transition j belongs to the pair `owner[j]`. The transitions into state s that the first looks
    found form a list, which starts at `into_1[s]` and continues with `next_into_1`, until -1.
    Further lists of transitions, for the solver, start at `into[s]` and continue with `next_into`,
    which is `NOT_LISTED` for those in no list; `listed[k]` says that all transitions of a pair are
    in one. `sizes` holds the numbers of transitions and of entries in use (`N_TRANSITIONS`,
    `N_ENTRIES`). No row has more than `widest` successors.

    The first `sizes[N_LOGGED]` numbers of `log` are the steps in their order, if that is not
    negative: 2 i for entry i, 2 i + 1 if the reward was another than `rewards[i]`, which is then
    the next of the `sizes[N_OTHERS]` numbers of `other_rewards`; and -1 - s for an episode that
    began in state s.
    """

    n_known: Any
    growth: Any
    widest: Any
    counts: Any
    known: Any
    due: Any
    next_look: Any
    looked: Any
    R: Any
    high: Any
    radius: Any
    beta: Any
    share: Any
    rule: Any
    ends: Any
    first: Any
    last: Any
    R_1: Any
    ends_1: Any
    first_1: Any
    last_1: Any
    listed: Any
    successors: Any
    p: Any
    owner: Any
    next_into: Any
    into: Any
    next_into_1: Any
    into_1: Any
    head: Any
    outcomes: Any
    times: Any
    rewards: Any
    excess: Any
    place: Any
    next_entry: Any
    log: Any
    other_rewards: Any
    sizes: Any


@inlined
def has_room(sizes, outcomes, p, widest):
    """Return whether one more entry and one more row fit into the arrays."""
    return sizes[N_ENTRIES] < outcomes.size and sizes[N_TRANSITIONS] + widest <= p.size


@inlined
def log_is_full(model):
    """Return whether the log has no room for one more step."""
    sizes = model.sizes
    return sizes[N_LOGGED] == model.log.size or sizes[N_OTHERS] == model.other_rewards.size


@inlined
def log_start(model, s):
    """Log that an episode began in state s."""
    n = model.sizes[N_LOGGED]
    if n >= 0:
        model.log[n] = -1 - s
        model.sizes[N_LOGGED] = n + 1


@inlined
def log_step(model, i, reward):
    """Log a step that was counted in entry i."""
    n = model.sizes[N_LOGGED]
    if n >= 0:
        is_other = reward != model.rewards[i]
        model.log[n] = 2 * i + is_other
        model.sizes[N_LOGGED] = n + 1
        if is_other:
            model.other_rewards[model.sizes[N_OTHERS]] = reward
            model.sizes[N_OTHERS] += 1


@njit(cache=True, error_model="numpy", _nrt=False)
def recount(model, owner, starts, at, last, last_step, looks):
    """Count the steps of the log again, from `at[0]` on and before `last`.

    `owner` has the pair of each entry. `at` holds the number of codes read, of other rewards read,
    and of steps. Returns a pair that is due, if `looks`; otherwise -1, at the end, after the step
    `last_step`, or before a step with an outcome that has no entry yet.
    """
    while at[0] < last and at[2] < last_step:
        code = model.log[at[0]]
        if code < 0:
            starts[-1 - code] += 1
            at[0] += 1
            continue
        i = code // 2
        if i >= model.sizes[N_ENTRIES]:
            return -1
        if code % 2 == 1:
            add_excess(model.rewards, model.excess, i, model.other_rewards[at[1]])
            at[1] += 1
        k = owner[i]
        model.times[i] += 1
        model.counts[k] += 1
        at[0] += 1
        at[2] += 1
        if looks and model.counts[k] == model.next_look[k]:
            return k
    return -1


@inlined
def entry_of(head, next_entry, outcomes, times, rewards, excess, place, sizes, k, outcome, reward):
    """Return the entry of an outcome of pair k; a new one, with `reward`, if there is none."""
    i, last = head[k], -1
    while i >= 0:
        if outcomes[i] == outcome:
            return i
        i, last = next_entry[i], i
    i = sizes[N_ENTRIES]
    sizes[N_ENTRIES] += 1
    outcomes[i], times[i], rewards[i], place[i], next_entry[i] = outcome, 0, reward, -1, -1
    excess[i, 0] = excess[i, 1] = 0.0
    if last < 0:
        head[k] = i
    else:
        next_entry[last] = i
    return i


@inlined
def add_excess(rewards, excess, i, reward):
    """Add the difference between a reward and the first one of entry i, without rounding."""
    difference, rest = two_sum(reward, -rewards[i])
    excess[i, 0], lost = two_sum(excess[i, 0], difference)
    excess[i, 1] += lost + rest
    if excess[i, 0] == 0.0 and excess[i, 1] == 0.0:
        excess[i, 1] = -0.0


@njit(cache=True, error_model="numpy", _nrt=False)
def look(model, k):
    """Estimate pair k from all its visits so far, and set its next look."""
    if not (model.known[k] and _update_row(model, k)):
        _write_row(model, k)
    n, n_ended, i = model.counts[k], 0, model.head[k]
    while i >= 0:
        if model.outcomes[i] < 0:
            n_ended += model.times[i]
        i = model.next_entry[i]
    model.looked[k], model.R[k], model.ends[k] = n, mean_reward(model, k), n_ended / n
    if not model.known[k]:
        _keep_first_look(model, k)
        model.known[k], model.due[k] = True, model.n_known
    if model.growth < CLOSE:
        model.due[k] = max(model.due[k], n / model.growth)
    while model.next_look[k] <= n:
        model.due[k] *= model.growth
        model.next_look[k] = NEVER if model.due[k] >= NEVER else np.int64(np.ceil(model.due[k]))


@inlined
def _update_row(model, k):
    """Write the probabilities of the row of pair k again; return False if it must be written anew.

    That is if it has a new successor, or if it is still the row of the first look.
    """
    i, is_same = model.head[k], model.first[k] != model.first_1[k]
    while i >= 0 and is_same:
        is_same = model.outcomes[i] < 0 or model.place[i] >= 0
        i = model.next_entry[i]
    i = model.head[k] if is_same else -1
    while i >= 0:
        if model.outcomes[i] >= 0:
            model.p[model.first[k] + model.place[i]] = model.times[i] / model.counts[k]
        i = model.next_entry[i]
    return is_same


@inlined
def _write_row(model, k):
    """Write the row of pair k behind all others, in increasing order of its successors."""
    n_distinct, i = 0, model.head[k]
    while i >= 0:
        n_distinct += model.outcomes[i] >= 0
        i = model.next_entry[i]
    n, start = model.counts[k], model.sizes[N_TRANSITIONS]
    j, i = start, model.head[k]
    while i >= 0:
        if model.outcomes[i] >= 0:
            model.next_into[j] = np.int64(model.outcomes[i]) * INDEX_LIMIT + i
            j += 1
        i = model.next_entry[i]
    _sort(model.next_into, start, j)
    for v in range(n_distinct):
        j = start + v
        i = model.next_into[j] % INDEX_LIMIT
        model.place[i] = v
        model.successors[j], model.p[j] = model.outcomes[i], model.times[i] / n
        model.owner[j], model.next_into[j], model.next_into_1[j] = k, NOT_LISTED, -1
    model.sizes[N_TRANSITIONS] = start + n_distinct
    model.first[k], model.last[k], model.listed[k] = start, start + n_distinct, False


@njit(cache=True, _nrt=True)
def _sort(numbers, first, last):
    """Sort a part of an array."""
    numbers[first:last].sort()


@inlined
def _keep_first_look(model, k):
    """Store what the first look at pair k found, and link its transitions."""
    model.R_1[k], model.ends_1[k] = model.R[k], model.ends[k]
    model.first_1[k], model.last_1[k] = model.first[k], model.last[k]
    for j in range(model.first[k], model.last[k]):
        model.next_into_1[j] = model.into_1[model.successors[j]]
        model.into_1[model.successors[j]] = j


@inlined
def mean_reward(model, k):
    """Return the mean of all rewards of pair k, which was visited."""
    total, lost, i = 0.0, 0.0, model.head[k]
    while i >= 0:
        product, rest = two_product(float(model.times[i]), model.rewards[i])
        total, rounding = two_sum(total, product)
        lost += rounding + rest
        total, rounding = two_sum(total, model.excess[i, 0])
        lost += rounding + model.excess[i, 1]
        i = model.next_entry[i]
    return mean(total, lost, model.counts[k])


@njit(cache=True)
def borrow(model, pairs, outcomes, times, R, entries, added):
    """Count `times[n]` visits of `pairs[n]` in other tasks, with a mean reward R[n] each.

    Writes the entries where they are counted, and what was added to their excess. There must be
    room for one entry each, and every pair that is due must be looked at afterwards.
    """
    for n in range(pairs.size):
        k = pairs[n]
        i = entry_of(
            *(model.head, model.next_entry, model.outcomes, model.times, model.rewards),
            *(model.excess, model.place, model.sizes, k, outcomes[n], R[n]),
        )
        difference = times[n] * (R[n] - model.rewards[i])
        model.excess[i, 0], lost = two_sum(model.excess[i, 0], difference)
        model.excess[i, 1] += lost
        model.times[i] += times[n]
        model.counts[k] += times[n]
        entries[n], added[n] = i, difference


@njit(cache=True)
def mean_rewards(model, R):
    """Write the mean of all rewards of each pair that was visited."""
    for k in range(R.size):
        if model.counts[k] > 0:
            R[k] = mean_reward(model, k)


@njit(cache=True)
def entry_pairs(head, next_entry, pairs):
    """Write the pair to which each entry belongs."""
    for k in range(head.size):
        i = head[k]
        while i >= 0:
            pairs[i] = k
            i = next_entry[i]


@njit(cache=True)
def mean(total, lost, n):
    """Return (total + lost) / n, the mean of n rewards.

    If no reward is above r in absolute value, the error is at most half a unit in the last place of
    the result, plus 2^-104 n² r. Therefore the mean of up to 2^25 equal rewards is exact.
    """
    q = (total + lost) / n
    product, rest = two_product(q, n * 1.0)
    return q + (((total - product) - rest) + lost) / n


@njit(cache=True)
def two_sum(a, b):
    """Return a + b rounded to float64, and the exact remainder (Knuth, 1969)."""
    total = a + b
    b_rounded = total - a
    return total, (a - (total - b_rounded)) + (b - b_rounded)


@njit(cache=True)
def two_product(a, b):
    """Return a b rounded to float64, and the exact remainder (Dekker, 1971), without underflow."""
    product = a * b
    scaled = SPLIT * a
    a_high = scaled - (scaled - a)
    a_low = a - a_high
    scaled = SPLIT * b
    b_high = scaled - (scaled - b)
    b_low = b - b_high
    rest = ((product - a_high * b_high) - a_low * b_high) - a_high * b_low
    return product, a_low * b_low - rest
