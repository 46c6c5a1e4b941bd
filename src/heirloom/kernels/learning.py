"""Learning one task: draw steps, count them, and compute the `Q` that follows from the model.

`Q` is the fixed point of

    Q = U outside K,    Q = min(U, R̂ + γ Σ T̂ V) on K,    V = max_a Q

or, if the models of sources near to the task are given (`Near`), also

    U <= r + γ max Σ T V off K, over the distributions T near to the row of a source.

An action that is not available has U = Q = -infinity, so that it is never a maximum.
`update_values` lowers `Q` from its last solution, and stops when no backup would lower a pair by
more than `slack`. If `lazy` is given, this holds for the greedy pairs of each state only. A pair
whose last backup is below the value of its state cannot change that value, since no value ever
increases; so it is not backed up before the value of its state has fallen to its own. `V` is then
as accurate as otherwise, at a fraction of the cost. An update also stops when it has done a given
amount of work, so that Python can handle Ctrl-C; the next call then continues where it stopped.
Steps drawn by `rollout` and steps taken in an environment give bitwise identical results, because
both are processed by `record` (or its copy in `LearnedModel.observe`), `make_known` and
`update_values`.

`update_values` and `rollout` take plain tuples in the order of fields, because numba unpacks them
in half the time that named tuples take.
"""

from typing import Any, NamedTuple

import numpy as np

from heirloom.kernels import njit
from heirloom.kernels.checking import Check, pair_contradicts

DONE, KNOWN, NO_UNIFORMS, NO_CHOICES, NO_ROOM, UNFINISHED, PAUSED, REFUTED = range(8)


class Model(NamedTuple):
    """The learned model of a task, over pairs k = s * A + a.

    A known pair has the successors `successors[first[k]:last[k]]` with probabilities `p`, and
    terminates with probability `ends[k]`. No row has more than `widest` successors. The transitions
    into state s form a linked list, which starts at `into[s]` and continues with `next_into`, until
    -1; transition j belongs to the pair `owner[j]`. Lists of some of these transitions, for lazy
    updates, start at `into_active[s]` and continue with `next_active`, which is `NOT_LISTED` for
    the others.

    `reward_sums[k]` holds the sum of the rewards of a pair, and the sum of the rounding errors of
    its additions.

    The distinct outcomes of a pair that is not yet known are in a block of `outcomes`, which starts
    with their number at `head[k]` (-1 if there is none) and continues with the outcomes; outcome i
    was seen `times[i]` times. A block has room for `SMALLEST` outcomes, or for twice, four times,
    ... as many. `sizes` holds the number of transitions, the number of entries of `outcomes` in use
    (see `N_TRANSITIONS`, `N_OUTCOMES`), and from `FREE` on the first free block of each size, or
    -1; a free block starts with the next one in `times`.
    """

    n_known: Any
    widest: Any
    counts: Any
    known: Any
    reward_sums: Any
    R: Any
    ends: Any
    first: Any
    last: Any
    successors: Any
    p: Any
    owner: Any
    next_into: Any
    into: Any
    next_active: Any
    into_active: Any
    outcomes: Any
    times: Any
    head: Any
    sizes: Any


class Values(NamedTuple):
    """The bound U, the values Q and V, and the work space of `update_values`.

    Actions whose values are within `tie` of the largest are all greedy. `pending` bounds how much a
    backup would lower each pair, and `queue` is a circular queue of pairs to back up (of states if
    updates are lazy), whose first entry and length are in `queue_state` (see `FRONT`, `LENGTH`). An
    update that `rollout` makes
    stops after `budget` units of work. The first `n_decreased[0]` entries of `decreased` are the
    states whose V decreased, and `is_decreased` marks them, until the caller resets both.
    """

    gamma: Any
    tie: Any
    slack: Any
    U: Any
    Q: Any
    V: Any
    pending: Any
    queue: Any
    queued: Any
    queue_state: Any
    budget: Any
    decreased: Any
    n_decreased: Any
    is_decreased: Any


class Near(NamedTuple):
    """Upper bounds on the rewards and transitions of unknown pairs, from sources near to the task.

    The mean reward of pair k is at most `reward[k]`. Its transitions are within total variation
    `t[k]` of each of the rows `rows[k]:rows[k + 1]`, which are those of sources. Row i has the
    successors `successors[first[i]:last[i]]` with probabilities `p`, terminates with probability
    |ends[i]|, and belongs to the task `tasks[i]`. `ends[i]` is negative if this mass has to move,
    because the task does not terminate there. The transitions of the task may terminate if
    `may_end[k]`, and `all_may_end` says whether all pairs may. If `any_successor`, they may lead to
    any state, otherwise to the states `possible[possible_first[k]:possible_first[k + 1]]`.

    `w[k]` is the smallest upper bound on Σ T V found so far, and `best[k]` the row that gave it, or
    -1. A decrease of V[s] by x lowers the bound of pair `into_pair[j]` by at most
    x * `into_weight[j]`, for j in `into[s]:into[s + 1]`; `decrease[k]` is the sum of these for pair
    k. Row i gave the bound `value[i]` when that sum was `seen[i]`, so it need not be evaluated
    again while `value[i] - (decrease[k] - seen[i]) >= w[k]`. If `any_successor`, every bound also
    depends on `top[TOP]`, the largest value of any outcome that is possible at all pairs, which
    `n_top[0]` states have. Its total decrease is `top[TOTAL]`, and `pending` includes it up to
    `top[COUNTED]`.

    For lazy updates, the links are ordered by pair instead: pair k = `into_pair[j]` depends on the
    states `link_state[j]`, for j in `links[k]:links[k + 1]`. Some of the links to a state s form a
    list, which starts at `into[s]` and continues with `next_link`, until -1; for the others
    `next_link` is `NOT_LISTED`. In addition, the bound depends with `witness_weight[k]` on one
    possible successor of the largest value, `witness[k]`, if this is a state and not every
    successor is possible. The pairs with witness s form a list, which starts at
    `witness_into[s]` and continues with `next_witness`, and backwards with `last_witness`.

    Where the bound is lowered, to below `limit`, it is written to `U`, the task of its row (or 0)
    to `source`, and `number` to `decider`. `pairs` are the pairs that can have a bound, and
    `t_max` is their largest `t`.
    """

    any_successor: Any
    all_may_end: Any
    limit: Any
    number: Any
    t_max: Any
    pairs: Any
    reward: Any
    t: Any
    may_end: Any
    rows: Any
    first: Any
    last: Any
    ends: Any
    tasks: Any
    successors: Any
    p: Any
    possible_first: Any
    possible: Any
    into: Any
    into_pair: Any
    into_weight: Any
    links: Any
    link_state: Any
    next_link: Any
    witness_weight: Any
    witness: Any
    next_witness: Any
    last_witness: Any
    witness_into: Any
    w: Any
    best: Any
    value: Any
    seen: Any
    decrease: Any
    top: Any
    n_top: Any
    U: Any
    source: Any
    decider: Any


class Task(NamedTuple):
    """An exact task to draw from: `rewards` per transition, and `ends` marks terminal transitions.

    `sums` holds the cumulative probabilities of the transitions of each pair, and `start_sums`
    those of `start_states`.
    """

    indptr: Any
    successors: Any
    sums: Any
    rewards: Any
    ends: Any
    start_states: Any
    start_sums: Any


class Run(NamedTuple):
    """The progress of a run, its random numbers and its results.

    `at` holds, in this order: the episode, the step within it, the state (-1 before the episode
    starts), the number of steps in the task, how many numbers of `uniforms` and of `choices` were
    used, and the number of updates.
    """

    at: Any
    discount: Any
    uniforms: Any
    choices: Any
    returns: Any
    discounted: Any
    update_steps: Any


EPISODE, STEP, STATE, STEPS, UNIFORM, CHOICE, UPDATES = range(7)
N_TRANSITIONS, N_OUTCOMES, FREE = range(3)
TOP, TOTAL, COUNTED = range(3)
FRONT, LENGTH = range(2)
NOT_LISTED = -2  # instead of the next entry of a list
EVALUATED = -np.inf  # instead of `pending`: the pair was backed up, and is not listed yet
MAX_WORK = 20_000_000  # units of work in one call, each of up to 20 ns
SHORT = 8  # transitions that are searched one after the other
SPLIT = 2.0**27 + 1  # splits a float64 into two halves, whose products are exact
INDEX_LIMIT = 2**32  # above every index of an outcome
SMALLEST = 4  # outcomes for which the smallest blocks have room
N_SIZE_CLASSES = 40  # of blocks; the largest has room for more outcomes than there are states


@njit(cache=True)
def cumulative(indptr, p, sums):
    """Write the cumulative sums of each row of p."""
    for k in range(indptr.size - 1):
        total = 0.0
        for j in range(indptr[k], indptr[k + 1]):
            total += p[j]
            sums[j] = total


@njit(cache=True)
def largest_block(widest):
    """Return at least the size of a block for `widest` successors and ⊥."""
    return 2 * widest + SMALLEST + 1


@njit(cache=True)
def has_room(sizes, outcomes, p, widest):
    """Return whether one more block of outcomes and one more row fit into the arrays."""
    outcome_fits = sizes[N_OUTCOMES] + largest_block(widest) <= outcomes.size
    return outcome_fits and sizes[N_TRANSITIONS] + widest <= p.size


@njit(cache=True)
def record(counts, reward_sums, outcomes, times, head, sizes, k, reward, outcome):
    """Count a visit of the unknown pair k; `outcome` is the successor, or -1 for ⊥.

    Returns the number of visits so far.
    """
    i, last = head[k], head[k]
    if i >= 0:
        last += outcomes[i]
        i += 1
        while i <= last and outcomes[i] != outcome:
            i += 1
    if i < 0 or i > last:
        i = add_outcome(outcomes, times, head, sizes, k, outcome)
    times[i] += 1
    before = reward_sums[k, 0]
    total = before + reward
    added = total - before
    reward_sums[k, 0] = total
    reward_sums[k, 1] += (before - (total - added)) + (reward - added)  # exact (Knuth, 1969)
    counts[k] += 1
    return counts[k]


@njit(cache=True)
def add_outcome(outcomes, times, head, sizes, k, outcome):
    """Add an outcome of pair k, which was not seen yet; return its index."""
    old = head[k]
    n = np.int64(outcomes[old]) if old >= 0 else 0
    if old < 0 or n == SMALLEST << _size_class(n):  # there is no block, or it is full
        size_class = 0 if old < 0 else _size_class(n) + 1
        block = sizes[FREE + size_class]
        if block >= 0:
            sizes[FREE + size_class] = times[block]
        else:
            block = sizes[N_OUTCOMES]
            sizes[N_OUTCOMES] += (SMALLEST << size_class) + 1
        for j in range(1, n + 1):
            outcomes[block + j], times[block + j] = outcomes[old + j], times[old + j]
        if old >= 0:
            _free_block(times, sizes, old, n)
        head[k] = block
    i = head[k] + n + 1
    outcomes[head[k]], outcomes[i], times[i] = n + 1, outcome, 0
    return i


@njit(cache=True)
def _size_class(n):
    """Return the c of the smallest block for n outcomes, which has room for SMALLEST 2^c."""
    c = 0
    while SMALLEST << c < n:
        c += 1
    return c


@njit(cache=True)
def _free_block(times, sizes, block, n):
    """Add a block that held n outcomes to the free ones."""
    entry = FREE + _size_class(n)
    times[block] = sizes[entry]
    sizes[entry] = block


@njit(cache=True)
def make_known(model, k):
    """Turn the outcomes of the pair k into its row, and free them."""
    n, block = model.counts[k], model.head[k]
    n_distinct = np.int64(model.outcomes[block])
    seen = np.empty(n_distinct, dtype=np.int64)  # outcome and index in one number, to sort
    for v in range(n_distinct):
        i = block + 1 + v
        seen[v] = (np.int64(model.outcomes[i]) + 1) * INDEX_LIMIT + i
    _free_block(model.times, model.sizes, block, n_distinct)
    model.head[k] = -1
    seen.sort()
    j = model.sizes[N_TRANSITIONS]
    model.first[k] = j
    for v in range(n_distinct):
        outcome, share = seen[v] // INDEX_LIMIT - 1, model.times[seen[v] % INDEX_LIMIT] / n
        if outcome < 0:
            model.ends[k] = share
        else:
            model.successors[j] = outcome
            model.p[j] = share
            model.owner[j] = k
            model.next_into[j] = model.into[outcome]
            model.into[outcome] = j
            model.next_active[j] = NOT_LISTED
            j += 1
    model.last[k] = j
    model.sizes[N_TRANSITIONS] = j
    model.R[k] = mean(model.reward_sums[k, 0], model.reward_sums[k, 1], n)
    model.known[k] = True


@njit(cache=True)
def mean(total, lost, n):
    """Return (total + lost) / n, the mean of n rewards.

    If no reward is above r in absolute value, the error is at most half a unit in the last place of
    the result, plus 2^-104 n² r. Therefore the mean of up to 2^25 equal rewards is exact.
    """
    q = (total + lost) / n
    product = q * n
    scaled = SPLIT * q
    q_high = scaled - (scaled - q)
    q_low = q - q_high
    scaled = SPLIT * n
    n_high = scaled - (scaled - n)
    n_low = n - n_high
    # The rounding error of `product` is -rest (Dekker, 1971).
    rest = ((product - q_high * n_high) - q_low * n_high) - q_high * n_low
    rest -= q_low * n_low
    return q + (((total - product) + rest) + lost) / n


@njit(cache=True)
def update_values(model, values, near, pairs, caps, budget, lazy):
    """Call `_update_values`, or `_update_lazily`, with named tuples made from plain ones.

    `lazy` is None or True, so that only one of the two functions is compiled. `caps` are upper
    bounds on the fixed point for `_update_lazily`, or empty.
    """
    named = Model(*model), Values(*values), _named(near)
    if lazy is None:
        return _update_values(*named, pairs, budget)
    return _update_lazily(*named, pairs, caps, budget)


@njit(cache=True)
def _named(near):
    """Return a named tuple for a plain one, or None for None, which compiles to less code."""
    if near is None:
        return None
    return Near(*near)


@njit(cache=True, error_model="numpy")
def _update_values(model, values, near, pairs, budget):
    """Lower `Q` and `V` to the fixed point, starting at `pairs`, whose bound or model changed.

    At the end no backup would lower a pair by more than `slack`, so Q is above the fixed point by
    at most slack / (1-γ). No value ever increases.

    Stops earlier after about `budget` units of work: the queue is then not empty, and the next call
    continues with it. A unit is the visit of a transition or of a pair. Returns the work done.
    """
    # Local names: each use of a field of a tuple would count a reference to its array.
    gamma, slack, U, Q, V = values.gamma, values.slack, values.U, values.Q, values.V
    pending, queue, queued = values.pending, values.queue, values.queued
    decreased, n_decreased, is_decreased = values.decreased, values.n_decreased, values.is_decreased
    known, R, first, last = model.known, model.R, model.first, model.last
    successors, p, owner = model.successors, model.p, model.owner
    into, next_into = model.into, model.next_into
    if near is not None:
        slack /= 2  # the decrease of `top` that is not counted yet lowers a pair by as much at most
        any_successor, all_may_end = near.any_successor, near.all_may_end
        reward, t, rows, may_end = near.reward, near.t, near.rows, near.may_end
        row_first, row_last, row_ends = near.first, near.last, near.ends
        row_successors, row_p, row_tasks = near.successors, near.p, near.tasks
        possible_first, possible = near.possible_first, near.possible
        w, best_row, row_value, row_seen = near.w, near.best, near.value, near.seen
        total_decrease, top, n_top = near.decrease, near.top, near.n_top
        near_into, near_pair, near_weight = near.into, near.into_pair, near.into_weight
        limit, number, near_pairs, t_max = near.limit, near.number, near.pairs, near.t_max
        near_U, near_source, decider = near.U, near.source, near.decider
    n_actions = Q.size // V.size
    front, n_queued, work = values.queue_state[FRONT], values.queue_state[LENGTH], pairs.size
    for k in pairs:
        if not queued[k]:
            queued[k] = True
            end = front + n_queued
            queue[end if end < queue.size else end - queue.size] = k
            n_queued += 1
    while n_queued > 0 and work < budget:
        k = queue[front]
        front = front + 1 if front + 1 < queue.size else 0
        n_queued -= 1
        queued[k] = False
        pending[k] = 0.0
        work += 1
        value = U[k]
        if known[k]:
            expected = 0.0
            for j in range(first[k], last[k]):
                expected += p[j] * V[successors[j]]
            work += last[k] - first[k]
            value = min(value, R[k] + gamma * expected)
        elif near is not None:
            # The largest Σ T V over the possible transitions T, from the rows that may lower it.
            highest = top[TOP]
            if not any_successor:
                highest = -np.inf
                for j in range(possible_first[k], possible_first[k + 1]):
                    highest = max(highest, V[possible[j]])
                work += possible_first[k + 1] - possible_first[k]
            if may_end[k]:
                highest = max(highest, 0.0)
            smallest, row = w[k], best_row[k]
            if highest < smallest:
                smallest, row = highest, -1
            if t[k] < 1.0:
                total = total_decrease[k]
                if any_successor:
                    total += t[k] * top[TOTAL]
                # The row that was the best comes first: then most of the others need no evaluation.
                best_before = best_row[k]
                for n in range(rows[k] - 1, rows[k + 1]):
                    i = n if n >= rows[k] else best_before
                    if i < 0 or row_value[i] - (total - row_seen[i]) >= smallest:
                        continue
                    mean = _largest_mean(
                        row_first[i],
                        row_last[i],
                        row_successors,
                        row_p,
                        row_ends[i],
                        V,
                        t[k],
                        highest,
                    )
                    row_value[i], row_seen[i] = mean, total
                    work += 2 * (row_last[i] - row_first[i])
                    if mean < smallest:
                        smallest, row = mean, i
            w[k], best_row[k] = smallest, row
            bound = reward[k] + gamma * smallest
            if bound < value and bound < limit:
                value = bound
                U[k], near_U[k], decider[k] = bound, bound, number
                near_source[k] = 0 if row < 0 else row_tasks[row]
        if value < Q[k]:
            Q[k] = value
            s = k // n_actions
            best = Q[s * n_actions]
            for a in range(1, n_actions):
                best = max(best, Q[s * n_actions + a])
            before = V[s]
            decrease = before - best
            if decrease > 0.0:
                V[s] = best
                if not is_decreased[s]:
                    is_decreased[s] = True
                    decreased[n_decreased[0]] = s
                    n_decreased[0] += 1
                j = into[s]
                while j >= 0:
                    predecessor = owner[j]
                    pending[predecessor] += gamma * p[j] * decrease
                    if pending[predecessor] > slack and not queued[predecessor]:
                        queued[predecessor] = True
                        end = front + n_queued
                        queue[end if end < queue.size else end - queue.size] = predecessor
                        n_queued += 1
                    j = next_into[j]
                    work += 1
                if near is not None:
                    work += near_into[s + 1] - near_into[s]
                    for j in range(near_into[s], near_into[s + 1]):
                        predecessor = near_pair[j]
                        if known[predecessor]:
                            continue
                        change = near_weight[j] * decrease
                        total_decrease[predecessor] += change
                        pending[predecessor] += gamma * change
                        if pending[predecessor] > slack and not queued[predecessor]:
                            queued[predecessor] = True
                            end = front + n_queued
                            queue[end if end < queue.size else end - queue.size] = predecessor
                            n_queued += 1
                    if any_successor and before >= top[TOP]:
                        work += V.size if n_top[0] == 1 else 1
                        _lower_top(V, all_may_end, top, n_top)
        if near is not None:
            if n_queued == 0 and gamma * t_max * (top[TOTAL] - top[COUNTED]) > slack:
                # The largest value of an outcome decreased, which may lower the bound of any pair.
                decrease = top[TOTAL] - top[COUNTED]
                top[COUNTED] = top[TOTAL]
                work += near_pairs.size
                for k in near_pairs:
                    if known[k]:
                        continue
                    pending[k] += gamma * t[k] * decrease
                    if pending[k] > slack and not queued[k]:
                        queued[k] = True
                        end = front + n_queued
                        queue[end if end < queue.size else end - queue.size] = k
                        n_queued += 1
    values.queue_state[FRONT], values.queue_state[LENGTH] = front, n_queued
    return work


@njit(cache=True, error_model="numpy")
def _update_lazily(model, values, near, pairs, caps, budget):
    """Lower `Q` and `V` as `_update_values` does, but back up only pairs that are greedy.

    A pair is active if its value is within `tie` of that of its state. At the end no backup would
    lower an active pair by more than `slack`, so V is above its fixed point by at most
    slack / (1-γ). The values of other pairs are upper bounds from an earlier backup.

    The transitions of an active pair are listed at the states to which they lead, so `pending` of
    this pair is valid. If a decrease of V[s] finds a pair in the list of s that is not active, its
    entry is removed, and its `pending` becomes infinite until it is backed up again. If a backup is
    above U by x, it lowers the pair only after it has itself decreased by x, so `pending` is -x.
    """
    gamma, slack, tie = values.gamma, values.slack, values.tie
    U, Q, V = values.U, values.Q, values.V
    pending, queue, queued = values.pending, values.queue, values.queued
    decreased, n_decreased, is_decreased = values.decreased, values.n_decreased, values.is_decreased
    known, R, first, last = model.known, model.R, model.first, model.last
    successors, p, owner = model.successors, model.p, model.owner
    into, next_active = model.into_active, model.next_active
    if near is not None:
        slack /= 2  # as in `_update_values`
        any_successor, all_may_end = near.any_successor, near.all_may_end
        reward, t, rows, may_end = near.reward, near.t, near.rows, near.may_end
        row_first, row_last, row_ends = near.first, near.last, near.ends
        row_successors, row_p, row_tasks = near.successors, near.p, near.tasks
        possible_first, possible = near.possible_first, near.possible
        w, best_row, row_value, row_seen = near.w, near.best, near.value, near.seen
        total_decrease, top, n_top = near.decrease, near.top, near.n_top
        near_into, near_pair, near_weight = near.into, near.into_pair, near.into_weight
        links, link_state, next_link = near.links, near.link_state, near.next_link
        witness_weight, witness, witness_into = near.witness_weight, near.witness, near.witness_into
        next_witness, last_witness = near.next_witness, near.last_witness
        limit, number, near_pairs, t_max = near.limit, near.number, near.pairs, near.t_max
        near_U, near_source, decider = near.U, near.source, near.decider
    n_actions = Q.size // V.size
    excess, argmax = np.empty(n_actions), np.empty(n_actions, dtype=np.int64)
    front, n_queued, work = values.queue_state[FRONT], values.queue_state[LENGTH], pairs.size
    for k in pairs:
        if caps.size > 0:
            if known[k]:
                Q[k] = min(Q[k], caps[k])
            elif near is not None and caps[k] < U[k] and caps[k] < limit:
                U[k], near_U[k], decider[k] = caps[k], caps[k], number
                near_source[k] = 0 if best_row[k] < 0 else row_tasks[best_row[k]]
        Q[k] = min(Q[k], U[k])
        # It is -infinity for an action that is not available.
        varies = known[k] or (near is not None and U[k] > -np.inf)
        pending[k] = np.inf if varies else 0.0
        s = k // n_actions
        if not queued[s]:
            queued[s] = True
            end = front + n_queued
            queue[end if end < queue.size else end - queue.size] = s
            n_queued += 1
    while n_queued > 0 and work < budget:
        s = queue[front]
        front = front + 1 if front + 1 < queue.size else 0
        n_queued -= 1
        queued[s] = False
        start, stop = s * n_actions, (s + 1) * n_actions
        while True:
            # Back up the largest value that may be too large, until no active pair is left.
            work += n_actions
            best = Q[start]
            for k in range(start + 1, stop):
                best = max(best, Q[k])
            threshold, stale = best - tie, -1
            for k in range(start, stop):
                if Q[k] >= threshold and pending[k] > slack and (stale < 0 or Q[k] > Q[stale]):
                    stale = k
            if stale < 0:
                break
            k, value, above = stale, U[stale], 0.0
            if known[k]:
                expected = 0.0
                for j in range(first[k], last[k]):
                    expected += p[j] * V[successors[j]]
                work += last[k] - first[k]
                backup = R[k] + gamma * expected
                above = max(backup - value, 0.0)
                value = min(value, backup)
            elif near is not None:
                highest, state = top[TOP], -1
                if not any_successor:
                    highest = -np.inf
                    for j in range(possible_first[k], possible_first[k + 1]):
                        if V[possible[j]] > highest:
                            highest, state = V[possible[j]], possible[j]
                    work += possible_first[k + 1] - possible_first[k]
                if may_end[k] and highest <= 0.0:
                    highest, state = 0.0, -1
                argmax[k - start] = state
                smallest, row = w[k], best_row[k]
                if highest < smallest:
                    smallest, row = highest, -1
                if t[k] < 1.0:
                    total = total_decrease[k]
                    if any_successor:
                        total += t[k] * top[TOTAL]
                    best_before = best_row[k]
                    for n in range(rows[k] - 1, rows[k + 1]):
                        i = n if n >= rows[k] else best_before
                        if i < 0:
                            continue
                        # While a pair is not listed, its total decrease is not counted.
                        is_counted = pending[k] < np.inf or (n >= rows[k] and i == best_before)
                        if is_counted and row_value[i] - (total - row_seen[i]) >= smallest:
                            continue
                        mean = _largest_mean(
                            row_first[i],
                            row_last[i],
                            row_successors,
                            row_p,
                            row_ends[i],
                            V,
                            t[k],
                            highest,
                        )
                        row_value[i], row_seen[i] = mean, total
                        work += 2 * (row_last[i] - row_first[i])
                        if mean < smallest:
                            smallest, row = mean, i
                w[k], best_row[k] = smallest, row
                bound = reward[k] + gamma * smallest
                above = max(bound - min(value, limit), 0.0)
                if bound < value and bound < limit:
                    value = bound
                    U[k], near_U[k], decider[k] = bound, bound, number
                    near_source[k] = 0 if row < 0 else row_tasks[row]
            Q[k] = min(Q[k], value)
            pending[k], excess[k - start] = EVALUATED, above
        for k in range(start, stop):
            if pending[k] != EVALUATED:
                continue
            pending[k] = -excess[k - start] if Q[k] >= threshold else np.inf
            if Q[k] < threshold:
                continue
            if known[k]:
                for j in range(first[k], last[k]):
                    if next_active[j] == NOT_LISTED:
                        next_active[j] = into[successors[j]]
                        into[successors[j]] = j
                work += last[k] - first[k]
            elif near is not None:
                for j in range(links[k], links[k + 1]):
                    if next_link[j] == NOT_LISTED:
                        next_link[j] = near_into[link_state[j]]
                        near_into[link_state[j]] = j
                work += links[k + 1] - links[k]
                state = argmax[k - start]
                if witness[k] != state:
                    _set_witness(k, state, witness, next_witness, last_witness, witness_into)
        before = V[s]
        decrease = before - best
        if decrease > 0.0:
            V[s] = best
            if not is_decreased[s]:
                is_decreased[s] = True
                decreased[n_decreased[0]] = s
                n_decreased[0] += 1
            j, previous = into[s], -1
            while j >= 0:
                predecessor, following = owner[j], next_active[j]
                state = predecessor // n_actions
                if Q[predecessor] < V[state] - tie:
                    pending[predecessor] = np.inf
                    next_active[j] = NOT_LISTED
                    if previous < 0:
                        into[s] = following
                    else:
                        next_active[previous] = following
                else:
                    previous = j
                    pending[predecessor] += gamma * p[j] * decrease
                    if pending[predecessor] > slack and not queued[state]:
                        queued[state] = True
                        end = front + n_queued
                        queue[end if end < queue.size else end - queue.size] = state
                        n_queued += 1
                j = following
                work += 1
            if near is not None:
                j, previous = near_into[s], -1
                while j >= 0:
                    predecessor, following = near_pair[j], next_link[j]
                    state = predecessor // n_actions
                    if known[predecessor] or Q[predecessor] < V[state] - tie:
                        if not known[predecessor]:
                            pending[predecessor] = np.inf
                        next_link[j] = NOT_LISTED
                        if previous < 0:
                            near_into[s] = following
                        else:
                            next_link[previous] = following
                    else:
                        previous = j
                        change = near_weight[j] * decrease
                        total_decrease[predecessor] += change
                        pending[predecessor] += gamma * change
                        if pending[predecessor] > slack and not queued[state]:
                            queued[state] = True
                            end = front + n_queued
                            queue[end if end < queue.size else end - queue.size] = state
                            n_queued += 1
                    j = following
                    work += 1
                k = witness_into[s]
                while k >= 0:
                    following, state = next_witness[k], k // n_actions
                    if known[k] or Q[k] < V[state] - tie:
                        if not known[k]:
                            pending[k] = np.inf
                        _set_witness(k, -1, witness, next_witness, last_witness, witness_into)
                    else:
                        change = witness_weight[k] * decrease
                        total_decrease[k] += change
                        pending[k] += gamma * change
                        if pending[k] > slack and not queued[state]:
                            queued[state] = True
                            end = front + n_queued
                            queue[end if end < queue.size else end - queue.size] = state
                            n_queued += 1
                    k = following
                    work += 1
                if any_successor and before >= top[TOP]:
                    work += V.size if n_top[0] == 1 else 1
                    _lower_top(V, all_may_end, top, n_top)
        if near is not None:
            if n_queued == 0 and gamma * t_max * (top[TOTAL] - top[COUNTED]) > slack:
                # The largest value of an outcome decreased, which may lower the bound of any pair.
                decrease = top[TOTAL] - top[COUNTED]
                top[COUNTED] = top[TOTAL]
                work += near_pairs.size
                for k in near_pairs:
                    if known[k]:
                        continue
                    pending[k] += gamma * t[k] * decrease
                    state = k // n_actions
                    if pending[k] > slack and not queued[state] and Q[k] >= V[state] - tie:
                        queued[state] = True
                        end = front + n_queued
                        queue[end if end < queue.size else end - queue.size] = state
                        n_queued += 1
    values.queue_state[FRONT], values.queue_state[LENGTH] = front, n_queued
    return work


@njit(cache=True)
def _set_witness(k, state, witness, next_witness, last_witness, witness_into):
    """Move pair k from the list of its witness to that of `state`, or to none if it is -1."""
    if witness[k] >= 0:
        before, after = last_witness[k], next_witness[k]
        if before >= 0:
            next_witness[before] = after
        else:
            witness_into[witness[k]] = after
        if after >= 0:
            last_witness[after] = before
    witness[k] = state
    if state >= 0:
        after = witness_into[state]
        next_witness[k], last_witness[k] = after, -1
        if after >= 0:
            last_witness[after] = k
        witness_into[state] = k


@njit(cache=True)
def known_backups(model, V, gamma, Q):
    """Lower Q[k] to R + γ Σ T V at the known pairs k."""
    for k in range(Q.size):
        if model.known[k]:
            expected = 0.0
            for j in range(model.first[k], model.last[k]):
                expected += model.p[j] * V[model.successors[j]]
            Q[k] = min(Q[k], model.R[k] + gamma * expected)


@njit(cache=True, error_model="numpy")
def _largest_mean(first, last, successors, p, end, V, t, highest):
    """Return the largest Σ T V over the T within total variation t of a row, and sort the row.

    Up to t of mass moves from the outcomes with the smallest values to one with value `highest`.
    ⊥ has probability `end` and value 0; if `end` is negative, the mass -end <= t of ⊥ has to move.
    The successors of the row are sorted in place by their values, by insertion: the order seldom
    changes, so that one pass is usually enough.
    """
    mean = 0.0
    for j in range(first, last):
        s, q = successors[j], p[j]
        v = V[s]
        mean += q * v
        i = j
        while i > first and V[successors[i - 1]] > v:
            successors[i], p[i] = successors[i - 1], p[i - 1]
            i -= 1
        if i < j:
            successors[i], p[i] = s, q
    left, j = t, first
    if end < 0.0:
        mean -= end * highest
        left += end
    while left > 0.0:
        v, mass = np.inf, 0.0
        if j < last:
            v, mass = V[successors[j]], p[j]
        if end > 0.0 and v > 0.0:
            v, mass, end = 0.0, end, 0.0
        else:
            j += 1
        if v >= highest:
            break
        moved = min(left, mass)
        mean += moved * (highest - v)
        left -= moved
    return mean


@njit(cache=True)
def _lower_top(V, all_may_end, top, n_top):
    """Update the largest value of an outcome, after the value of a state that had it decreased."""
    n_top[0] -= 1
    if n_top[0] > 0:
        return
    largest = 0.0 if all_may_end else -np.inf
    for s in range(V.size):
        largest = max(largest, V[s])
    count = 0
    for s in range(V.size):
        count += V[s] == largest
    top[TOTAL] += top[TOP] - largest
    top[TOP] = largest
    n_top[0] = count if count > 0 else V.size + 1  # ⊥ has the largest value, and keeps it


@njit(cache=True)
def contradicts(model, check, k):
    """Call `pair_contradicts` with named tuples made from plain ones."""
    named = Model(*model)
    return pair_contradicts(named, Check(*check), k, named.counts[k])


@njit(cache=True)
def rollout(task, model, values, near, check, run, episodes, max_steps, explore, pause, lazy):
    """Call `_rollout` with named tuples made from plain ones."""
    named = Task(*task), Model(*model), Values(*values), _named(near), _named_check(check)
    return _rollout(*named, Run(*run), episodes, max_steps, explore, pause, lazy)


@njit(cache=True)
def _named_check(check):
    """Return a named tuple for a plain one, or None for None, which compiles to less code."""
    if check is None:
        return None
    return Check(*check)


@njit(cache=True, error_model="numpy")
def _rollout(task, model, values, near, check, run, episodes, max_steps, explore, pause, lazy):
    """Act greedily on `Q` in steps drawn from `task`, until `episodes` episodes are done.

    With probability `explore`, a step takes the action that `explored` returns instead.

    Returns a status and a pair. The status is DONE, or the reason for stopping earlier: REFUTED if
    a pair became known and contradicts `check`; KNOWN if `pause` and another pair became known (in
    both cases the pair is returned, and `Q` is not yet updated for it); NO_UNIFORMS or NO_CHOICES
    if random numbers ran out; NO_ROOM if the model must grow; UNFINISHED if an update of `Q` used
    up its budget, so that the caller must finish it; PAUSED if all updates of this call took long,
    so that Python can handle Ctrl-C. The next call resumes where this one stopped.
    """
    # Local variables, because each use of a field would change the reference count of its array.
    indptr, successors, sums, rewards, ends = (
        task.indptr,
        task.successors,
        task.sums,
        task.rewards,
        task.ends,
    )
    start_states, start_sums = task.start_states, task.start_sums
    known, Q, gamma, tie = model.known, values.Q, values.gamma, values.tie
    n_known, widest, room_p, sizes = model.n_known, model.widest, model.p, model.sizes
    counts, reward_sums, outcomes = model.counts, model.reward_sums, model.outcomes
    times, head = model.times, model.head
    at, discounts, uniforms, choices = run.at, run.discount, run.uniforms, run.choices
    returns, discounted, update_steps = run.returns, run.discounted, run.update_steps
    n_actions = Q.size // values.V.size
    episode, step, s, steps, uniform, choice, updates = at
    discount = discounts[0]
    room = has_room(sizes, outcomes, room_p, widest)
    changed, no_caps = np.empty(1, dtype=np.int64), np.empty(0)
    status, pair, work = DONE, -1, 0
    while episode < episodes:
        if uniform == uniforms.size:
            status = NO_UNIFORMS
            break
        u = uniforms[uniform]
        if s < 0:
            s, step, discount = start_states[first_above(start_sums, u)], 0, 1.0
            uniform += 1
            continue
        if choice == choices.size:
            status = NO_CHOICES
            break
        if not room:
            status = NO_ROOM
            break
        k = s * n_actions
        best, second = Q[k], -np.inf
        for i in range(k + 1, (s + 1) * n_actions):
            q = Q[i]
            if q > best:
                best, second, k = q, best, i
            elif q > second:
                second = q
        if explore > 0.0:
            v = choices[choice]
            choice += 1
            if v < explore:
                k = explored(known, counts, Q, s * n_actions, n_actions, v / explore)
            elif second >= best - tie:
                v = (v - explore) / (1.0 - explore)
                k = choose_greedy(Q, s * n_actions, n_actions, best - tie, v)
        elif second >= best - tie:
            k = choose_greedy(Q, s * n_actions, n_actions, best - tie, choices[choice])
            choice += 1
        j, last = indptr[k], indptr[k + 1] - 1
        while last - j > SHORT:
            middle = (j + last) // 2
            if sums[middle] > u:
                last = middle
            else:
                j = middle + 1
        while j < last and u >= sums[j]:
            j += 1
        uniform += 1
        reward, ended, s = rewards[j], ends[j], successors[j]
        outcome = -1 if ended else s
        returns[episode] += reward
        discounted[episode] += discount * reward
        discount *= gamma
        step += 1
        steps += 1
        if ended or step == max_steps:
            episode += 1
            s = -1
        if not known[k]:
            visits = record(
                counts,
                reward_sums,
                outcomes,
                times,
                head,
                sizes,
                k,
                reward,
                outcome,
            )
            became_known = visits >= n_known
            if became_known:
                make_known(model, k)
            room = has_room(sizes, outcomes, room_p, widest)
            if became_known:
                update_steps[updates] = steps
                updates += 1
                if check is not None:
                    if pair_contradicts(model, check, k, model.counts[k]):
                        status, pair = REFUTED, k
                        break
                if pause:
                    status, pair = KNOWN, k
                    break
                changed[0] = k
                if lazy is None:
                    work += _update_values(model, values, near, changed, values.budget)
                else:
                    work += _update_lazily(model, values, near, changed, no_caps, values.budget)
                if values.queue_state[LENGTH] > 0:
                    status = UNFINISHED
                    break
                if work > MAX_WORK:
                    status = PAUSED
                    break
    at[:] = episode, step, s, steps, uniform, choice, updates
    discounts[0] = discount
    return status, pair


@njit(cache=True)
def explored(known, counts, Q, first, n_actions, u):
    """Return the unknown pair among first, ..., first + n_actions - 1 with the fewest visits.

    If all of them are known, return one of them, each equally likely if u is uniform in [0, 1).
    Pairs with Q = -infinity are actions that are not available.
    """
    best, n_available = -1, 0
    for k in range(first, first + n_actions):
        if Q[k] == -np.inf:
            continue
        n_available += 1
        if not known[k] and (best < 0 or counts[k] < counts[best]):
            best = k
    if best >= 0:
        return best
    left = min(int(u * n_available), n_available - 1)
    best = first
    while left > 0 or Q[best] == -np.inf:
        left -= Q[best] > -np.inf
        best += 1
    return best


@njit(cache=True)
def first_above(sums, u):
    """Return the index of the first entry above u in the increasing `sums`, or the last index."""
    low, high = 0, sums.size - 1
    while low < high:
        middle = (low + high) // 2
        if sums[middle] > u:
            high = middle
        else:
            low = middle + 1
    return low


@njit(cache=True)
def choose_greedy(Q, first, n_actions, threshold, u):
    """Choose one of the pairs first, ..., first + n_actions - 1 with Q >= threshold.

    If u is uniform in [0, 1), all of them are equally likely.
    """
    n_greedy = 0
    for k in range(first, first + n_actions):
        n_greedy += Q[k] >= threshold
    left = int(u * n_greedy)
    for k in range(first, first + n_actions):
        if Q[k] >= threshold:
            if left == 0:
                return k
            left -= 1
    return first  # pragma: no cover -- not reached for u < 1; numba needs an integer here
