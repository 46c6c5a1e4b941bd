"""Values that follow from models: one solver, which follows changes in either direction.

`Q` is the fixed point of

    Q = U off K,    Q = min(U, max R + γ Σ T V) on K,    V = max_a Q

where the maximum is over the models that the visits of a known pair admit: the estimate (R̂, T̂)
alone, or rewards up to `high` and the distributions T within total variation `radius` of T̂, or
with KL(T̂, T) up to `beta`. `U` is the minimum of constant bounds (`base`) and, if sets of models
are given (`Near`), of

    r + γ max Σ T V,    over the distributions T near to the row of a source.

An action that is not available has U = Q = -infinity, so that it is never a maximum.

If `sense` is -1, minima and maxima over models and bounds change places, and `U` are lower bounds:
Q is then a lower bound on Q*. All code below calculates with `sense` times the values of models.

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

from heirloom.kernels import inlined, njit
from heirloom.kernels.confidence import largest_mean
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

    `row`, `row_p` and `row_v` have room for a row of the model and ⊥, and `changed` for one pair.
    """

    gamma: Any
    sense: Any
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
    row: Any
    row_p: Any
    row_v: Any
    changed: Any
    no_caps: Any


class Near(NamedTuple):
    """Sets of models of pairs, from rows near to those of the task.

    The mean reward of pair k is at most `reward[k]` (with sense -1, at least `-reward[k]`). Its
    transitions are within total variation `t[k]` of each of the rows `rows[k]:rows[k + 1]`. Row i
    has the successors `successors[first[i]:last[i]]` with probabilities `p`, terminates with
    probability |ends[i]|, and belongs to the task `tasks[i]`. `ends[i]` is negative if this mass
    has to move, because the task does not terminate there. The transitions of the task may
    terminate if `may_end[k]`, and `all_may_end` says whether all pairs may. If `any_successor`,
    they may lead to any state, otherwise to the states
    `possible[possible_first[k]:possible_first[k + 1]]`. `pairs` are the
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
    return update(Model(*model), Values(*values), named_near(near), pairs, caps, budget)


@njit(cache=True)
def named_near(near):
    """Return a named tuple for a plain one, or None for None, which compiles to less code."""
    if near is None:
        return None
    return Near(*near)


@njit(cache=True, error_model="numpy", _nrt=False)
def update(model, values, near, pairs, caps, budget):
    """Bring `Q` and `V` to the fixed point, starting at `pairs`, whose bound or model changed.

    At the end no backup would change a pair that is within `margin` of its state's value by more
    than `slack`, so V is within slack / (1-γ) of its fixed point. If values only fall, Q is never
    below its fixed point. `caps` are upper bounds on the fixed point, or empty.

    Stops earlier after about `budget` units of work: the queue is then not empty, and the next call
    continues with it. A unit is the visit of a transition or of a pair. Returns the work done.
    """
    slack, work = values.slack, pairs.size
    if values.pull.size > 0:
        slack /= 2  # the change of `top` that is not counted yet changes a pair by as much at most
    for k in pairs:
        outdate(model, values, near, k, caps)
        push(values, values.state[k])
    while values.queue_state[LENGTH] > 0 and work < budget:
        s = pop(values)
        best, done = back_up_state(model, values, near, s, slack)
        work += done
        before = values.V[s]
        if best != before:
            values.V[s] = best
            work += spread(model, values, s, before, slack)
            if near is not None:
                work += spread_near(model, values, near, s, before, slack)
        if near is not None:
            if values.pull.size > 0 and values.queue_state[LENGTH] == 0:
                work += spread_top(values, slack)
    return work


@inlined
def push(values, s):
    """Add a state at the end of the queue, unless it is there."""
    queue, queue_state = values.queue, values.queue_state
    if not values.queued[s]:
        values.queued[s] = True
        end = queue_state[FRONT] + queue_state[LENGTH]
        queue[end if end < queue.size else end - queue.size] = s
        queue_state[LENGTH] += 1


@inlined
def pop(values):
    """Remove the first state of the queue and return it."""
    queue, queue_state = values.queue, values.queue_state
    front = queue_state[FRONT]
    s = queue[front]
    queue_state[FRONT] = front + 1 if front + 1 < queue.size else 0
    queue_state[LENGTH] -= 1
    values.queued[s] = False
    return s


@inlined
def raise_pending(values, k, change, slack):
    """Count that a backup of pair k may change it by `change` more."""
    values.pending[k] += change
    if values.pending[k] > slack:
        push(values, values.state[k])


@inlined
def outdate(model, values, near, k, caps):
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
    if known and model.radius.size > 0 and values.pull.size > 0:
        values.pull[k] = max(values.pull[k], model.radius[k])
    # It is -infinity for an action that is not available.
    varies = known or (near is not None and U[k] > -np.inf)
    if not varies:
        Q[k] = U[k]
    values.pending[k] = np.inf if varies else 0.0


@inlined
def back_up_state(model, values, near, s, slack):
    """Back up the pairs of a state that need it; return the value of the state, and the work."""
    Q, pending, margin = values.Q, values.pending, values.margin
    n_actions, is_eager, work = Q.size // values.V.size, margin == np.inf, 0
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
        work += n_actions + back_up(model, values, near, k)
    if is_eager:
        best = Q[start]
        for k in range(start + 1, stop):
            best = max(best, Q[k])
    for k in range(start, stop):
        if model.known[k] and not model.listed[k] and pending[k] <= slack:
            if Q[k] >= best - margin:
                enter_row(model, k)
            else:  # changes of its successors will not be counted
                pending[k] = np.inf
    if near is not None:
        for k in range(start, stop):
            is_done = near.listed[k] or (model.known[k] and not near.on_known)
            if is_done or pending[k] > slack:
                continue
            if Q[k] >= best - margin:
                enter(near.links[k], near.links[k + 1], near.link_state, near.next_link, near.into)
                near.listed[k] = True
            else:
                pending[k] = np.inf
    return best, work


@inlined
def back_up(model, values, near, k):
    """Back up pair k, and return the work done."""
    sense, known = values.sense, model.known[k]
    value, above, highest, work = sense * values.U[k], 0.0, 0.0, 0
    if near is not None:
        if near.on_known or not known:
            highest, best_state, work = highest_outcome(values, near, k)
            smallest, row, done = smallest_mean(values, near, k, highest)
            value, above = near_value(values, near, k, smallest, row)
            work += done
            if near.witness.size > 0 and near.witness[k] != best_state:
                set_witness(near, k, best_state)
    if known:
        backup = own_backup(model, values, k, highest)
        work += model.last[k] - model.first[k]
        above = max(backup - value, 0.0)
        value = min(value, backup)
    # If values only fall, a backup above U by x changes a pair after it has fallen by x.
    values.pending[k] = -above if values.falls else 0.0
    values.Q[k] = min(values.Q[k], value) if values.falls else sense * value
    return work


@inlined
def own_backup(model, values, k, highest):
    """Return the largest R + γ Σ T V of the models that the visits of a known pair admit."""
    first, last, V, sense = model.first[k], model.last[k], values.V, values.sense
    if model.beta.size > 0:
        expected = kl_mean(model, values, k, highest)
        return sense * model.high[k] + values.gamma * expected
    if model.radius.size > 0 and model.radius[k] > 0.0:
        n = last - first
        for i in range(n):  # a copy, because it is sorted
            values.row[i], values.row_p[i] = model.successors[first + i], model.p[first + i]
        expected = extreme_mean(
            *(0, n, values.row, values.row_p, model.ends[k], V, sense),
            *(min(model.radius[k], 1.0), highest),
        )
        return sense * model.high[k] + values.gamma * expected
    expected = 0.0
    for j in range(first, last):
        expected += model.p[j] * V[model.successors[j]]
    if model.share.size > 0:
        expected *= model.share[k]
    return sense * (model.high[k] + values.gamma * expected)


@njit(cache=True, error_model="numpy", _nrt=True)
def kl_mean(model, values, k, highest):
    """Return the largest Σ T v, v = sense V, over the T with KL(T̂, T) <= β of a known pair.

    No possible outcome has a value above `highest`.
    """
    n, p, v = 0, values.row_p, values.row_v
    for j in range(model.first[k], model.last[k]):
        p[n], v[n] = model.p[j], values.V[model.successors[j]]
        n += 1
    if model.ends[k] > 0.0:
        p[n], v[n] = model.ends[k], 0.0
        n += 1
    return largest_mean(p[:n], v[:n], values.sense, highest, model.beta[k])


@inlined
def highest_outcome(values, near, k):
    """Return the largest value of a possible outcome of pair k, its state or -1, and the work."""
    highest, state, work, V, sense = values.top[TOP], -1, 0, values.V, values.sense
    if not near.any_successor:
        highest = -np.inf
        for j in range(near.possible_first[k], near.possible_first[k + 1]):
            v = sense * V[near.possible[j]]
            if v > highest:
                highest, state = v, near.possible[j]
        work = near.possible_first[k + 1] - near.possible_first[k]
    if near.may_end[k] and highest <= 0.0:
        highest, state = 0.0, -1
    return highest, state, work


@inlined
def smallest_mean(values, near, k, highest):
    """Return the smallest of the largest means of the rows of pair k, its row or -1, and the work.

    It is `highest` if no row gives less.
    """
    smallest, row, work, t = highest, -1, 0, near.t[k]
    if t < 1.0:
        total = near.decrease[k]
        if near.any_successor:
            total += t * values.top[FALLEN]
        # The row that was the best comes first: most others need no evaluation.
        best_before, is_counted, start = near.best[k], near.listed[k], near.rows[k]
        for n in range(start - 1, near.rows[k + 1]):
            i = n if n >= start else best_before
            if i < 0 or (n >= start and i == best_before):
                continue
            # While a pair is not in lists, decreases are not counted.
            if is_counted and near.value[i] - (total - near.seen[i]) >= smallest:
                continue
            mean = extreme_mean(
                *(near.first[i], near.last[i], near.successors, near.p, near.ends[i]),
                *(values.V, values.sense, t, highest),
            )
            near.value[i], near.seen[i] = mean, total
            work += 2 * (near.last[i] - near.first[i])
            if mean < smallest:
                smallest, row = mean, i
    near.best[k] = row
    return smallest, row, work


@inlined
def near_value(values, near, k, smallest, row):
    """Set the bound of pair k from its smallest mean; return it, and by how much it is above."""
    sense = values.sense
    bound, value = near.reward[k] + values.gamma * smallest, sense * values.base[k]
    above = max(bound - min(value, near.limit), 0.0)
    if bound < value and bound < near.limit:
        value, values.decider[k], near.U[k] = bound, near.number, sense * bound
        near.source[k] = 0 if row < 0 else near.tasks[row]
    elif not values.falls:
        values.decider[k], near.U[k] = values.base_decider[k], sense * bound
    values.U[k] = sense * value
    return value, above


@inlined
def spread(model, values, s, before, slack):
    """Tell the pairs whose row leads to state s that its value changed; return the work."""
    change, work = values.gamma * abs(values.V[s] - before), 0
    into, next_into, Q, V = model.into, model.next_into, values.Q, values.V
    j, previous = into[s], -1
    while j >= 0:
        k, following = model.owner[j], next_into[j]
        work += 1
        has_moved = not values.falls and (j < model.first[k] or j >= model.last[k])
        if has_moved or Q[k] < V[values.state[k]] - values.margin:
            if not has_moved:
                values.pending[k], model.listed[k] = np.inf, False
            remove(into, next_into, s, previous, j)
        else:
            previous = j
            p = model.p[j]
            if model.beta.size > 0:  # the mass of each outcome may grow
                p += model.radius[k]
            raise_pending(values, k, change * p, slack)
        j = following
    return work


@inlined
def spread_near(model, values, near, s, before, slack):
    """Tell the pairs whose bound depends on state s that its value changed; return the work."""
    known, Q, V, margin = model.known, values.Q, values.V, values.margin
    change, work = values.gamma * abs(V[s] - before), 0
    decrease = max(values.sense * (before - V[s]), 0.0)
    j, previous = near.into[s], -1
    while j >= 0:
        k, following = near.link_pair[j], near.next_link[j]
        work += 1
        is_done = known[k] and not near.on_known
        if is_done or Q[k] < V[values.state[k]] - margin:
            near.listed[k] = False
            if not is_done:
                values.pending[k] = np.inf
            remove(near.into, near.next_link, s, previous, j)
        else:
            previous = j
            near.decrease[k] += near.link_weight[j] * decrease
            raise_pending(values, k, change * near.link_weight[j], slack)
        j = following
    k = near.witness_into[s]
    while k >= 0:
        following = near.next_witness[k]
        work += 1
        if known[k] or Q[k] < V[values.state[k]] - margin:
            if not known[k]:
                values.pending[k], near.listed[k] = np.inf, False
            set_witness(near, k, -1)
        else:
            near.decrease[k] += near.witness_weight[k] * decrease
            raise_pending(values, k, change * near.witness_weight[k], slack)
        k = following
    if values.pull.size > 0:
        work += move_top(values, near.all_may_end, values.sense * before, values.sense * V[s])
    return work


@inlined
def spread_top(values, slack):
    """Tell the pairs that depend on the largest value of an outcome that it changed."""
    top, Q, V = values.top, values.Q, values.V
    change = values.gamma * (top[MOVED] - top[COUNTED])
    if change * values.most_pull <= slack:
        return 0
    top[COUNTED] = top[MOVED]
    for k in range(Q.size):
        values.pending[k] += change * values.pull[k]
        is_active = values.pull[k] > 0.0 and Q[k] >= V[values.state[k]] - values.margin
        if is_active and values.pending[k] > slack:
            push(values, values.state[k])
    return Q.size


@inlined
def enter_row(model, k):
    """Enter the transitions of the row of pair k into the lists of their successors."""
    enter(model.first[k], model.last[k], model.successors, model.next_into, model.into)
    model.listed[k] = True


@inlined
def enter(first, last, states, following, into):
    """Enter the entries first:last into the lists of their states, if in none."""
    for j in range(first, last):
        if following[j] == NOT_LISTED:
            following[j] = into[states[j]]
            into[states[j]] = j


@inlined
def remove(into, following, s, previous, j):
    """Remove entry j, which follows `previous` (-1 if it is the first), from the list of s."""
    if previous < 0:
        into[s] = following[j]
    else:
        following[previous] = following[j]
    following[j] = NOT_LISTED


@inlined
def set_witness(near, k, state):
    """Move pair k from the list of its witness to that of `state`, or to none if it is -1."""
    witness, following, previous = near.witness, near.next_witness, near.last_witness
    if witness[k] >= 0:
        before, after = previous[k], following[k]
        if before >= 0:
            following[before] = after
        else:
            near.witness_into[witness[k]] = after
        if after >= 0:
            previous[after] = before
    witness[k] = state
    if state >= 0:
        after = near.witness_into[state]
        following[k], previous[k] = after, -1
        if after >= 0:
            previous[after] = k
        near.witness_into[state] = k


@inlined
def move_top(values, all_may_end, before, after):
    """Update the largest value of an outcome, after the value of a state changed.

    Returns the work done.
    """
    top, n_top, V, sense = values.top, values.n_top, values.V, values.sense
    if before < top[TOP] and after <= top[TOP]:
        return 0
    if after > top[TOP]:
        top[MOVED] += after - top[TOP]
        top[TOP], n_top[0] = after, 1
    elif after == top[TOP]:
        n_top[0] += before < after
    elif n_top[0] > 1:
        n_top[0] -= 1
    else:
        largest = 0.0 if all_may_end else -np.inf
        for s in range(V.size):
            largest = max(largest, sense * V[s])
        count = 0
        for s in range(V.size):
            count += sense * V[s] == largest
        top[FALLEN] += top[TOP] - largest
        top[MOVED] += top[TOP] - largest
        top[TOP] = largest
        n_top[0] = count if count > 0 else V.size + 1  # ⊥ has the largest value, and keeps it
        return V.size
    return 1


@inlined
def extreme_mean(first, last, successors, p, end, V, sense, t, highest):
    """Return the largest Σ T v, v = sense V, over the T within total variation t of a row.

    Up to t of mass moves from the outcomes with the smallest values to one with value `highest`.
    ⊥ has probability `end` and value 0; if `end` is negative, the mass -end <= t of ⊥ has to move.
    The row is sorted in place by the values of its successors, by insertion: the order seldom
    changes, so that one pass is usually enough.
    """
    mean = 0.0
    for j in range(first, last):
        s, q = successors[j], p[j]
        v = sense * V[s]
        mean += q * v
        i = j
        while i > first and sense * V[successors[i - 1]] > v:
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
            v, mass = sense * V[successors[j]], p[j]
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


@njit(cache=True, error_model="numpy", _nrt=False)
def known_backups(model, values, Q):
    """Lower Q[k] to the backup of V at the known pairs k, none of which has a radius."""
    for k in range(Q.size):
        if model.known[k]:
            Q[k] = min(Q[k], own_backup(model, values, k, 0.0))
