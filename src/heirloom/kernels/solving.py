"""Values that follow from models: one solver, which follows changes in either direction.

`Q` is the fixed point of

    Q = U off K,    Q = min(U, R̂ + γ Σ T̂ V) on K,    V = max_a Q

where `U` is the minimum of constant bounds (`base`) and, if sets of models are given (`Near`), of

    r + γ max Σ T V,    over the distributions T near to the row of a source.

An action that is not available has U = Q = -infinity, so that it is never a maximum.

`solve` brings `Q` up to date from its last solution, along a queue of states. It stops when no
backup would change a pair by more than `slack`. If every model is looked at only once, values only
fall (`falls`). Then the backups of a pair whose last backup is below the value of its state by more
than `margin` can wait until the value of the state has fallen to its own: it cannot change that
value. With an infinite margin every pair is backed up.

A call also stops when it has done a given amount of work, so that Python can handle Ctrl-C; the
next call then continues where it stopped.

`solve` takes plain tuples in the order of fields, because numba unpacks them in half the time that
named tuples take.
"""

from typing import Any, NamedTuple

import numpy as np

from heirloom.kernels import njit
from heirloom.kernels.counting import NOT_LISTED, Model

FRONT, LENGTH = range(2)
TOP, FALLEN, MOVED, COUNTED = range(4)
MAX_WORK = 20_000_000  # units of work in one call, each of up to 20 ns


class Values(NamedTuple):
    """The bounds, the values Q and V, and the work space of `solve`.

    Actions whose values are within `tie` of the largest are all greedy.

    `base` is the minimum of the bounds that do not depend on V, and `base_decider` the number of
    the one that is the minimum; `U` and `decider` also take sets of models into account. If values
    only fall, `base` is `U` itself, which is then a running minimum.

    `state[k]` is the state of pair k. `pending[k]` bounds how much a backup would change the pair,
    and `queue` is a circular queue of states to look at, whose first entry and length are in
    `queue_state` (see `FRONT`, `LENGTH`). An update that a rollout makes stops after `budget` units
    of work.

    The bound of pair k depends with weight `pull[k]` (at most `most_pull`) on the largest value of
    any outcome, `top[TOP]`, which `n_top[0]` states have. Its total decrease is `top[FALLEN]`, and
    its total change `top[MOVED]`, of which `pending` includes `top[COUNTED]`. If no pair depends on
    it, `pull` is empty.
    """

    gamma: Any
    tie: Any
    margin: Any
    slack: Any
    falls: Any
    base: Any
    base_decider: Any
    U: Any
    decider: Any
    Q: Any
    V: Any
    state: Any
    pending: Any
    queue: Any
    queued: Any
    queue_state: Any
    budget: Any
    pull: Any
    most_pull: Any
    top: Any
    n_top: Any


class Near(NamedTuple):
    """Upper bounds on the rewards and transitions of pairs, from rows near to those of the task.

    The mean reward of pair k is at most `reward[k]`. Its transitions are within total variation
    `t[k]` of each of the rows `rows[k]:rows[k + 1]`. Row i has the successors
    `successors[first[i]:last[i]]` with probabilities `p`, terminates with probability |ends[i]|,
    and belongs to the task `tasks[i]`. `ends[i]` is negative if this mass has to move, because the
    task does not terminate there. The transitions of the task may terminate if `may_end[k]`, and
    `all_may_end` says whether all pairs may. If `any_successor`, they may lead to any state,
    otherwise to the states `possible[possible_first[k]:possible_first[k + 1]]`. `pairs` are the
    pairs that can have a bound; if `on_known`, the bounds also hold at known pairs.

    `best[k]` is the row that gave the smallest bound, or -1. Row i gave the bound `value[i]` when
    the sum of decreases on which pair k depends was `seen[i]`; this sum is now `decrease[k]`, plus
    the decrease of the largest value. So row i need not be evaluated again while
    `value[i] - (decrease[k] - seen[i])` is at least another bound.

    The bound of pair k depends on the states `link_state[j]` with weights `link_weight[j]`, for j
    in `links[k]:links[k + 1]`; `link_pair[j]` is k. Links to a state s form a list, which starts at
    `into[s]` and continues with `next_link`, until -1; for links in no list `next_link` is
    `NOT_LISTED`, and `listed[k]` says that all links of a pair are in lists. If values only fall,
    possible successors need no links except for one of the largest value, `witness[k]`, with
    `witness_weight[k]`. The pairs with witness s form a list, which starts at `witness_into[s]` and
    continues with `next_witness`, and backwards with `last_witness`.

    Where the bound is below `limit` and decides, its task (or 0) is written to `source`, and
    `number` to `decider`.
    """

    any_successor: Any
    all_may_end: Any
    on_known: Any
    limit: Any
    number: Any
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
    best: Any
    value: Any
    seen: Any
    decrease: Any
    links: Any
    link_state: Any
    link_weight: Any
    link_pair: Any
    next_link: Any
    into: Any
    listed: Any
    witness_weight: Any
    witness: Any
    next_witness: Any
    last_witness: Any
    witness_into: Any
    U: Any
    source: Any


@njit(cache=True)
def solve(model, values, near, pairs, caps, budget):
    """Call `update` with named tuples made from plain ones; `near` may be None."""
    return update(Model(*model), Values(*values), _named(near), pairs, caps, budget)


@njit(cache=True)
def _named(near):
    """Return a named tuple for a plain one, or None for None, which compiles to less code."""
    if near is None:
        return None
    return Near(*near)


@njit(cache=True, error_model="numpy")
def update(model, values, near, pairs, caps, budget):
    """Bring `Q` and `V` to the fixed point, starting at `pairs`, whose bound or model changed.

    At the end no backup would change a pair that is within `margin` of its state's value by more
    than `slack`, so V is within slack / (1-γ) of its fixed point. If values only fall, Q is never
    below its fixed point. `caps` are upper bounds on the fixed point, or empty.

    Stops earlier after about `budget` units of work: the queue is then not empty, and the next call
    continues with it. A unit is the visit of a transition or of a pair. Returns the work done.
    """
    # Local names: each use of a field of a tuple would count a reference to its array.
    queue, queued, queue_state = values.queue, values.queued, values.queue_state
    Q, V, U, pending, margin = values.Q, values.V, values.U, values.pending, values.margin
    slack, gamma, falls, top = values.slack, values.gamma, values.falls, values.top
    known, R, first, last, listed = model.known, model.R, model.first, model.last, model.listed
    successors, p, owner = model.successors, model.p, model.owner
    into, next_into, state = model.into, model.next_into, values.state
    if near is not None:
        any_successor, all_may_end, on_known = near.any_successor, near.all_may_end, near.on_known
        limit, number, reward, t = near.limit, near.number, near.reward, near.t
        may_end, rows, row_first, row_last = near.may_end, near.rows, near.first, near.last
        row_ends, row_tasks, row_successors, row_p = near.ends, near.tasks, near.successors, near.p
        possible_first, possible = near.possible_first, near.possible
        best_row, row_value, row_seen, fallen = near.best, near.value, near.seen, near.decrease
        links, link_state, link_weight = near.links, near.link_state, near.link_weight
        link_pair, next_link, link_into = near.link_pair, near.next_link, near.into
        linked, near_U, near_source = near.listed, near.U, near.source
        witness, witness_weight, witness_into = near.witness, near.witness_weight, near.witness_into
        next_witness, last_witness = near.next_witness, near.last_witness
        base, decider, base_decider = values.base, values.decider, values.base_decider
        n_top, pull, most_pull = values.n_top, values.pull, values.most_pull
    depends_on_top = values.pull.size > 0
    if depends_on_top:
        slack /= 2  # the change of `top` that is not counted yet changes a pair by as much at most
    n_actions, is_eager, work = Q.size // V.size, margin == np.inf, pairs.size
    for k in pairs:
        _outdate(model, values, near, k, caps)
        push(queue, queued, queue_state, state[k])
    front, n_queued = queue_state
    while n_queued > 0 and work < budget:
        s = queue[front]
        front = front + 1 if front + 1 < queue.size else 0
        n_queued -= 1
        queued[s] = False
        start, stop = s * n_actions, (s + 1) * n_actions
        k, best = start - 1, -np.inf
        while True:
            if is_eager:
                k += 1
                while k < stop and pending[k] <= slack:
                    k += 1
                if k == stop:
                    break
            else:  # the largest value that may be wrong, unless it is below that of the state
                k, best = -1, Q[start]
                for i in range(start, stop):
                    best = max(best, Q[i])
                    if pending[i] > slack and (k < 0 or Q[i] > Q[k]):
                        k = i
                if k < 0 or Q[k] < best - margin:
                    break
            value, above = U[k], 0.0
            if near is not None:
                if on_known or not known[k]:
                    highest, best_state = top[TOP], -1
                    if not any_successor:
                        highest = -np.inf
                        for j in range(possible_first[k], possible_first[k + 1]):
                            if V[possible[j]] > highest:
                                highest, best_state = V[possible[j]], possible[j]
                        work += possible_first[k + 1] - possible_first[k]
                    if may_end[k] and highest <= 0.0:
                        highest, best_state = 0.0, -1
                    smallest, row = highest, -1
                    if t[k] < 1.0:
                        total = fallen[k]
                        if any_successor:
                            total += t[k] * top[FALLEN]
                        # The row that was the best comes first: most others need no evaluation.
                        best_before, is_counted = best_row[k], linked[k]
                        for n in range(rows[k] - 1, rows[k + 1]):
                            i = n if n >= rows[k] else best_before
                            if i < 0 or (n >= rows[k] and i == best_before):
                                continue
                            # While a pair is not in lists, decreases are not counted.
                            if is_counted and row_value[i] - (total - row_seen[i]) >= smallest:
                                continue
                            mean = largest_mean(
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
                    best_row[k] = row
                    bound, value = reward[k] + gamma * smallest, base[k]
                    above = max(bound - min(value, limit), 0.0)
                    if bound < value and bound < limit:
                        value, decider[k], near_U[k] = bound, number, bound
                        near_source[k] = 0 if row < 0 else row_tasks[row]
                    elif not falls:
                        decider[k], near_U[k] = base_decider[k], bound
                    U[k] = value
                    if witness.size > 0 and witness[k] != best_state:
                        set_witness(
                            k, best_state, witness, next_witness, last_witness, witness_into
                        )
            if known[k]:
                expected = 0.0
                for j in range(first[k], last[k]):
                    expected += p[j] * V[successors[j]]
                backup = R[k] + gamma * expected
                work += last[k] - first[k]
                above = max(backup - value, 0.0)
                value = min(value, backup)
                if is_eager and not listed[k]:
                    listed[k] = enter(first[k], last[k], successors, next_into, into)
            # If values only fall, a backup above U by x changes a pair after it has fallen by x.
            pending[k] = -above if falls else 0.0
            Q[k] = min(Q[k], value) if falls else value
            work += n_actions
        if is_eager:
            best = Q[start]
            for k in range(start + 1, stop):
                best = max(best, Q[k])
        else:
            for k in range(start, stop):
                if known[k] and not listed[k] and pending[k] <= slack:
                    if Q[k] >= best - margin:
                        listed[k] = enter(first[k], last[k], successors, next_into, into)
                    else:  # changes of its successors will not be counted
                        pending[k] = np.inf
        if near is not None:
            for k in range(start, stop):
                if linked[k] or (known[k] and not on_known) or pending[k] > slack:
                    continue
                if Q[k] >= best - margin:
                    linked[k] = enter(links[k], links[k + 1], link_state, next_link, link_into)
                else:
                    pending[k] = np.inf
        before = V[s]
        if best != before:
            V[s] = best
            change = gamma * abs(best - before)
            j, previous = into[s], -1
            while j >= 0:
                k, following = owner[j], next_into[j]
                work += 1
                has_moved = not falls and (j < first[k] or j >= last[k])
                if has_moved or (not is_eager and Q[k] < V[state[k]] - margin):
                    if not has_moved:
                        pending[k], listed[k] = np.inf, False
                    remove(into, next_into, s, previous, j)
                else:
                    previous = j
                    pending[k] += change * p[j]
                    if pending[k] > slack and not queued[state[k]]:
                        queued[state[k]] = True
                        end = front + n_queued
                        queue[end if end < queue.size else end - queue.size] = state[k]
                        n_queued += 1
                j = following
            if near is not None:
                decrease = max(before - best, 0.0)
                j, previous = link_into[s], -1
                while j >= 0:
                    k, following = link_pair[j], next_link[j]
                    work += 1
                    is_done = known[k] and not on_known
                    if is_done or (not is_eager and Q[k] < V[state[k]] - margin):
                        linked[k] = False
                        if not is_done:
                            pending[k] = np.inf
                        remove(link_into, next_link, s, previous, j)
                    else:
                        previous = j
                        fallen[k] += link_weight[j] * decrease
                        pending[k] += change * link_weight[j]
                        if pending[k] > slack and not queued[state[k]]:
                            queued[state[k]] = True
                            end = front + n_queued
                            queue[end if end < queue.size else end - queue.size] = state[k]
                            n_queued += 1
                    j = following
                k = witness_into[s]
                while k >= 0:
                    following = next_witness[k]
                    work += 1
                    if known[k] or (not is_eager and Q[k] < V[state[k]] - margin):
                        if not known[k]:
                            pending[k], linked[k] = np.inf, False
                        set_witness(k, -1, witness, next_witness, last_witness, witness_into)
                    else:
                        fallen[k] += witness_weight[k] * decrease
                        pending[k] += change * witness_weight[k]
                        if pending[k] > slack and not queued[state[k]]:
                            queued[state[k]] = True
                            end = front + n_queued
                            queue[end if end < queue.size else end - queue.size] = state[k]
                            n_queued += 1
                    k = following
                if depends_on_top and (before >= top[TOP] or best > top[TOP]):
                    work += move_top(V, all_may_end, before, best, top, n_top)
        if near is not None:
            change = gamma * (top[MOVED] - top[COUNTED])
            if depends_on_top and n_queued == 0 and change * most_pull > slack:
                # The largest value of an outcome changed, which may change the bound of any pair.
                top[COUNTED] = top[MOVED]
                work += Q.size
                for k in range(Q.size):
                    pending[k] += change * pull[k]
                    is_active = pull[k] > 0.0 and Q[k] >= V[state[k]] - margin
                    if is_active and pending[k] > slack and not queued[state[k]]:
                        queued[state[k]] = True
                        end = front + n_queued
                        queue[end if end < queue.size else end - queue.size] = state[k]
                        n_queued += 1
    queue_state[:] = front, n_queued
    return work


@njit(cache=True)
def push(queue, queued, queue_state, s):
    """Add a state at the end of the queue, unless it is there."""
    if not queued[s]:
        queued[s] = True
        end = queue_state[FRONT] + queue_state[LENGTH]
        queue[end if end < queue.size else end - queue.size] = s
        queue_state[LENGTH] += 1


@njit(cache=True)
def _outdate(model, values, near, k, caps):
    """Mark pair k as one that must be backed up; `caps[k]` is an upper bound, if there are any."""
    Q, U, base, known = values.Q, values.U, values.base, model.known[k]
    if caps.size > 0 and caps[k] < np.inf:
        if not values.falls:
            Q[k] = min(base[k], caps[k])
        elif known:
            Q[k] = min(Q[k], caps[k])
        elif near is not None:
            if caps[k] < U[k] and caps[k] < near.limit:
                U[k], values.decider[k], near.U[k] = caps[k], near.number, caps[k]
                near.source[k] = 0 if near.best[k] < 0 else near.tasks[near.best[k]]
    if values.falls:
        Q[k] = min(Q[k], U[k])
        if known and values.pull.size > 0:
            values.pull[k] = 0.0
    elif near is None or base[k] == -np.inf:
        U[k], values.decider[k] = base[k], values.base_decider[k]
    # It is -infinity for an action that is not available.
    varies = known or (near is not None and U[k] > -np.inf)
    if not varies:
        Q[k] = U[k]
    values.pending[k] = np.inf if varies else 0.0


@njit(cache=True)
def enter(first, last, states, following, into):
    """Enter the entries first:last into the lists of their states, if in none; return True."""
    for j in range(first, last):
        if following[j] == NOT_LISTED:
            following[j] = into[states[j]]
            into[states[j]] = j
    return True


@njit(cache=True)
def remove(into, following, s, previous, j):
    """Remove entry j, which follows `previous` (-1 if it is the first), from the list of s."""
    if previous < 0:
        into[s] = following[j]
    else:
        following[previous] = following[j]
    following[j] = NOT_LISTED


@njit(cache=True)
def set_witness(k, state, witness, following, previous, witness_into):
    """Move pair k from the list of its witness to that of `state`, or to none if it is -1."""
    if witness[k] >= 0:
        before, after = previous[k], following[k]
        if before >= 0:
            following[before] = after
        else:
            witness_into[witness[k]] = after
        if after >= 0:
            previous[after] = before
    witness[k] = state
    if state >= 0:
        after = witness_into[state]
        following[k], previous[k] = after, -1
        if after >= 0:
            previous[after] = k
        witness_into[state] = k


@njit(cache=True)
def move_top(V, all_may_end, before, after, top, n_top):
    """Update the largest value of an outcome, after the value of a state changed.

    Returns the work done.
    """
    work = 1
    if after > top[TOP]:
        top[MOVED] += after - top[TOP]
        top[TOP], n_top[0] = after, 1
    elif after == top[TOP]:
        n_top[0] += before < after
    elif n_top[0] > 1:
        n_top[0] -= 1
    else:
        work = V.size
        largest = 0.0 if all_may_end else -np.inf
        for s in range(V.size):
            largest = max(largest, V[s])
        count = 0
        for s in range(V.size):
            count += V[s] == largest
        top[FALLEN] += top[TOP] - largest
        top[MOVED] += top[TOP] - largest
        top[TOP] = largest
        n_top[0] = count if count > 0 else V.size + 1  # ⊥ has the largest value, and keeps it
    return work


@njit(cache=True, error_model="numpy")
def largest_mean(first, last, successors, p, end, V, t, highest):
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
def known_backups(model, V, gamma, Q):
    """Lower Q[k] to R + γ Σ T V at the known pairs k."""
    for k in range(Q.size):
        if model.known[k]:
            expected = 0.0
            for j in range(model.first[k], model.last[k]):
                expected += model.p[j] * V[model.successors[j]]
            Q[k] = min(Q[k], model.R[k] + gamma * expected)
