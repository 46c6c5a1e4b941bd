"""Dissimilarity d between tasks: by how much optimal values may differ, given model distances D.

For D over pairs, the dissimilarity d is the fixed point of

    d = D + γ max_T Σ_s' T max_a' d   over the T within ε of the model, where the model is known
    d = D + γ max d                   where it is not

`lower_dissimilarity` solves this by sweeps over all pairs. The rest of the file solves it for many
sources at once: d of each source is lowered from its last solution along a worklist, and then the
bound U on the optimal values of the current task is lowered to Q̄ + d. Each call does a limited
amount of work, so that Ctrl-C is handled between calls; d is an upper bound at any time. In names,
`to_source` stands for d(M ‖ M̄), from the current task M to a source M̄, and `from_source` for
d(M̄ ‖ M).

Functions that Python calls take plain tuples in the order of fields, because numba unpacks them in
half the time that named tuples take, and convert them to named tuples.
"""

from typing import Any, NamedTuple

import numpy as np

from heirloom.kernels import njit

# Status of d to a source: never solved, solved for earlier values of D, or solved for D as it is.
NEVER_SOLVED, OUTDATED, UP_TO_DATE = range(3)
TO_SOURCE, FROM_SOURCE = range(2)  # columns of `Distances.largest`
BUDGET, MAX_BACKUPS, LEFT, N_UNFINISHED = range(4)  # entries of `Worklist.limits`
MAX_WORK = 20_000_000  # units of work in one call: transitions that backups read


class Graph(NamedTuple):
    """The known rows of a model, and the transitions into each state.

    Pair k has the row `index[k]`, or -1 if it is unknown. Row j has `successors[first[j]:last[j]]`
    with probabilities `p`, and probability of termination `ends[j]`. Transition t belongs to the
    pair `owner[t]`. The transitions into state s form a linked list, which starts at `into[s]` and
    continues with `next_into`, until -1. For several models, `index` and `into` have one row per
    model, and the other arrays hold the rows of all models.
    """

    index: Any
    ends: Any
    first: Any
    last: Any
    successors: Any
    p: Any
    owner: Any
    into: Any
    next_into: Any


class Parameters(NamedTuple):
    """The discount factor, the accuracy of models, the slack, the directions in use, and a cap.

    `slack` is how much one more backup of a solution may lower d. Unless `both_ways`, only
    d(M ‖ M̄) is used as a bound. Optimal values never differ by more than `cap`, so d starts at
    `cap` or below. `cap` is infinite if no cap is used. If x is the difference of optimal values,
    G the operator and x <= G(x), then x <= y implies x <= min(G(y), cap), because G is monotone. So
    every iterate from the cap is an upper bound, and never above the iterate from an infinite cap.
    """

    gamma: Any
    epsilon: Any
    slack: Any
    both_ways: Any
    cap: Any


class Solved(NamedTuple):
    """For each source: d over pairs, `d_state` = max_a d over states, and the largest d.

    `pending[k]` bounds how much a backup of pair k would lower d[k], because d decreased at its
    successors since its last backup. `pending_all` bounds the same for every pair, because the
    largest d decreased; it is infinite if the last solution used up its budget. `n_at_largest` is
    the number of states that attain the largest d.
    """

    d: Any
    d_state: Any
    pending: Any
    largest: Any
    pending_all: Any
    n_at_largest: Any


class ToSource(NamedTuple):
    """d from the task to each source, which is solved only where it has no closed form.

    `status` is NEVER_SOLVED, OUTDATED or UP_TO_DATE. All pairs before `candidate` are known, or
    have a D below `candidate_value`, the largest D when the search for such a pair began.
    """

    solved: Any
    status: Any
    candidate: Any
    candidate_value: Any


class Distances(NamedTuple):
    """D[i, k] of all sources i at all pairs k, in both directions, and the largest per source.

    `largest` has the columns TO_SOURCE and FROM_SOURCE. The first `n_changed[0]` entries of
    `changed` list the entries of `from_source` that decreased, as i * P + k for P pairs; a source
    whose entries did not all fit is marked in `all_changed`.
    """

    to_source: Any
    from_source: Any
    largest: Any
    changed: Any
    n_changed: Any
    all_changed: Any


class Worklist(NamedTuple):
    """A circular queue of pairs to back up, and the pairs whose d decreased.

    `queued` and `is_decreased` mark their members. `limits` has the work that a solution and a call
    may do (see `MAX_WORK`), the work that is left in this call, and the number of solutions whose
    budget was used up in this call.
    """

    queue: Any
    queued: Any
    decreased: Any
    is_decreased: Any
    limits: Any


class Bound(NamedTuple):
    """The bound U over pairs, the task that determines it, and the numbers and Q of the sources."""

    U: Any
    decider: Any
    tasks: Any
    Q: Any


class UpdateResult(NamedTuple):
    """The pairs where an update lowered U, and which sources may still lower a bound.

    `useful_pair` is the first pair at which the source may still lower a bound.
    """

    lowered: Any
    is_lowered: Any
    useful: Any
    useful_pair: Any


class Solver(NamedTuple):
    """Everything that is kept about the sources between two updates."""

    distances: Any
    to_source: Any
    from_source: Any
    parameters: Any
    bound: Any
    work: Any


@njit(cache=True)
def lower_dissimilarity(m, D, gamma, epsilon, slack, d, d_state, max_sweeps):
    """Lower d[k] and d_state[s] = max_a d[s, a] towards the fixed point, from above.

    Stops after a sweep that lowered no entry by more than `slack`; d is then above the fixed point
    by at most gamma / (1 - gamma) * slack. Returns the largest d, and whether it stopped this way
    within `max_sweeps`.
    """
    known, ends, first, last = m.known, m.ends, m.first, m.last
    successors, p = m.successors, m.p
    n_actions = d.size // d_state.size
    largest = min(d_state.max(), D.max() / (1.0 - gamma))
    for _ in range(max_sweeps):
        decrease = 0.0
        highest = 0.0
        for s in range(d_state.size):
            top = 0.0
            for k in range(s * n_actions, (s + 1) * n_actions):
                next_d = largest
                if known[k]:
                    next_d = _worst_case_mean(
                        first[k], last[k], successors, p, ends[k], d_state, largest, epsilon
                    )
                value = D[k] + gamma * next_d
                if value < d[k]:
                    decrease = max(decrease, d[k] - value)
                    d[k] = value
                top = max(top, d[k])
            d_state[s] = min(d_state[s], top)
            highest = max(highest, d_state[s])
        largest = min(largest, highest)
        if decrease <= slack:
            return largest, True
    return largest, False


@njit(cache=True)
def _worst_case_mean(first, last, successors, p, end, d_state, largest, epsilon):
    """Return max_T sum_s' T d_state over the distributions T within epsilon of `p` in L1 norm.

    Probability mass of up to epsilon / 2 moves from the outcomes with the smallest values to the
    one with the largest. Termination has value 0, so its mass moves first.
    """
    expected = 0.0
    for j in range(first, last):
        expected += p[j] * d_state[successors[j]]
    budget = 0.5 * epsilon
    moved = min(budget, end)
    expected += moved * largest
    budget -= moved
    previous, previous_j = -1.0, -1
    while budget > 0.0:
        least, least_j = np.inf, -1
        for j in range(first, last):
            value = d_state[successors[j]]
            remains = value > previous or (value == previous and j > previous_j)
            if remains and value < least:
                least, least_j = value, j
        if least_j < 0 or least >= largest:
            break
        moved = min(budget, p[least_j])
        expected += moved * (largest - least)
        budget -= moved
        previous, previous_j = least, least_j
    return expected


@njit(cache=True)
def link_transitions(graph, start, row_pair):
    """Fill in `index`, `owner`, `into` and `next_into` of a graph of the models of all sources.

    Row j belongs to the pair row_pair[j]; source i has the rows from start[i] to start[i + 1] - 1.
    """
    graph = Graph(*graph)
    for i in range(graph.index.shape[0]):
        for j in range(start[i], start[i + 1]):
            graph.index[i, row_pair[j]] = j
            for t in range(graph.first[j], graph.last[j]):
                graph.owner[t] = row_pair[j]
                graph.next_into[t] = graph.into[i, graph.successors[t]]
                graph.into[i, graph.successors[t]] = t


@njit(cache=True)
def begin_sources(sources, solver):
    """Solve d of all sources before any pair of the task is known, and lower U to Q + d."""
    _begin_sources(Graph(*sources), _as_solver(solver))


@njit(cache=True)
def update_sources(pairs, known, agent_U, active, model, sources, solver, result):
    """Solve d of the `active` sources again for their current D, and lower U to Q + d.

    `pairs` became known since the last update. U is lowered only at pairs that are unknown in the
    task, since only these need a bound. Marks the sources that may still lower U or the agent's own
    bound `agent_U`: as d >= 0, those with Q below both at an unknown pair. Lists the pairs where U
    decreased, and returns their number.
    """
    named, result = _as_solver(solver), UpdateResult(*result)
    n_lowered = _update_sources(pairs, known, active, Graph(*model), Graph(*sources), named, result)
    _find_useful(known, agent_U, active, named.bound, result)
    return n_lowered


@njit(cache=True)
def resume_source(i, direction, model, sources, solver):
    """Continue to lower d of source i in a direction, after its budget was used up.

    U is not lowered.
    """
    _resume_source(i, direction, Graph(*model), Graph(*sources), _as_solver(solver))


@njit(cache=True)
def _as_solver(solver):
    """Convert a plain tuple of tuples to a `Solver`."""
    distances, to_source, from_source, parameters, bound, work = solver
    return Solver(
        Distances(*distances),
        ToSource(Solved(*to_source[0]), to_source[1], to_source[2], to_source[3]),
        Solved(*from_source),
        Parameters(*parameters),
        Bound(*bound),
        Worklist(*work),
    )


@njit(cache=True)
def _resume_source(i, direction, model, sources, solver):
    distances, parameters, work = solver.distances, solver.parameters, solver.work
    work.limits[LEFT], work.limits[N_UNFINISHED] = work.limits[MAX_BACKUPS], 0
    if direction == TO_SOURCE:
        solved = solver.to_source.solved
        solved.pending_all[i] = 0.0
        D = distances.to_source[i]
        _solve_from_queue(i, model, D, parameters, solved, work, _queue_all(work))
    else:
        solved = solver.from_source
        solved.pending_all[i] = 0.0
        _update_from_source(i, sources, distances, solved, parameters, work, _queue_all(work))


@njit(cache=True)
def _begin_sources(sources, solver):
    distances, from_source, bound = solver.distances, solver.from_source, solver.bound
    parameters, work = solver.parameters, solver.work
    gamma, largest_D = parameters.gamma, distances.largest
    largest_to_source = solver.to_source.solved.largest
    d = from_source.d
    work.limits[LEFT], work.limits[N_UNFINISHED] = work.limits[MAX_BACKUPS], 0
    for i in range(sources.index.shape[0]):
        largest_to_source[i] = min(largest_D[i, TO_SOURCE] / (1.0 - gamma), parameters.cap)
        if parameters.both_ways:
            largest = min(largest_D[i, FROM_SOURCE] / (1.0 - gamma), parameters.cap)
            from_source.largest[i] = largest
            d[i] = from_source.largest[i]
            from_source.d_state[i] = from_source.largest[i]
            from_source.n_at_largest[i] = from_source.d_state.shape[1]
            n_queued = _queue_initially_lower(
                distances.from_source[i],
                largest_D[i, FROM_SOURCE],
                sources.index[i],
                sources.ends,
                work,
            )
            _update_from_source(i, sources, distances, from_source, parameters, work, n_queued)
        else:
            from_source.largest[i] = np.inf
            d[i] = np.inf
        for k in range(d.shape[1]):
            value = bound.Q[i, k] + min(
                distances.to_source[i, k] + gamma * largest_to_source[i], d[i, k]
            )
            if value < bound.U[k]:
                bound.U[k] = value
                bound.decider[k] = bound.tasks[i]


@njit(cache=True)
def _update_sources(pairs, known, active, model, sources, solver, result):
    distances, to_source, from_source = solver.distances, solver.to_source, solver.from_source
    parameters, bound, work = solver.parameters, solver.bound, solver.work
    largest_to_source, d_from_source = to_source.solved.largest, from_source.d
    U, Q, decider = bound.U, bound.Q, bound.decider
    lowered, is_lowered, decreased = result.lowered, result.is_lowered, work.decreased
    n_pairs = known.size
    changed = distances.changed[: distances.n_changed[0]]
    distances.n_changed[0] = 0
    if changed.size > 1:
        changed.sort()
    c, n_lowered = 0, 0
    work.limits[LEFT], work.limits[N_UNFINISHED] = work.limits[MAX_BACKUPS], 0
    for i in active:
        largest_before = largest_to_source[i]
        unfinished = _is_unfinished(i, to_source, from_source)
        _update_to_source(i, pairs, model, distances, to_source, parameters, work)
        c, n_queued = _queue_changed(i, changed, c, work)
        if distances.all_changed[i]:
            distances.all_changed[i], n_queued = False, _queue_all(work)
        n_decreased = 0
        if n_queued > 0 or from_source.pending_all[i] == np.inf:
            n_decreased = _update_from_source(
                i, sources, distances, from_source, parameters, work, n_queued
            )
        everywhere = unfinished or largest_to_source[i] < largest_before
        for v in range(n_pairs if everywhere else n_decreased):
            k = v if everywhere else decreased[v]
            d = min(
                distances.to_source[i, k] + parameters.gamma * largest_to_source[i],
                d_from_source[i, k],
            )
            if known[k] or Q[i, k] + d >= U[k]:
                continue
            U[k] = Q[i, k] + d
            decider[k] = bound.tasks[i]
            if not is_lowered[k]:
                is_lowered[k] = True
                lowered[n_lowered] = k
                n_lowered += 1
    for v in range(n_lowered):
        is_lowered[lowered[v]] = False
    return n_lowered


@njit(cache=True)
def _is_unfinished(i, to_source, from_source):
    """Return whether the budget of a solution of source i was used up."""
    return to_source.solved.pending_all[i] == np.inf or from_source.pending_all[i] == np.inf


@njit(cache=True)
def _find_useful(known, agent_U, active, bound, result):
    """Mark the sources whose Q is below U and below the agent's bound at some unknown pair."""
    for i in active:
        k = result.useful_pair[i]  # a pair that is not useful never becomes useful
        while k < known.size and (
            known[k] or bound.Q[i, k] >= agent_U[k] or bound.Q[i, k] >= bound.U[k]
        ):
            k += 1
        result.useful_pair[i] = k
        result.useful[i] = k < known.size


@njit(cache=True)
def _update_to_source(i, pairs, model, distances, to_source, parameters, work):
    """Lower the largest d from the task to the source i, after `pairs` became known in the task.

    An unknown pair may lead to any state, including its own. So if an unknown pair attains max D,
    then max d = max D / (1 - gamma). Otherwise d is solved for.
    """
    solved, status, candidate = to_source.solved, to_source.status, to_source.candidate
    index, D, top = model.index, distances.to_source, distances.largest[i, TO_SOURCE]
    if to_source.candidate_value[i] != top:
        to_source.candidate_value[i], candidate[i] = top, 0
    k = candidate[i]  # an earlier pair is known or has a smaller D, and both stay so
    while k < index.size and (index[k] >= 0 or D[i, k] < top):
        k += 1
    candidate[i] = k
    limit = top / (1.0 - parameters.gamma)
    if k < index.size:
        solved.largest[i] = min(solved.largest[i], limit)
        status[i] = min(status[i], OUTDATED)
        return
    if status[i] == UP_TO_DATE:
        n_queued = _queue_pairs(pairs, work)
    else:
        if status[i] == NEVER_SOLVED:
            solved.d[i] = solved.largest[i]
            solved.d_state[i] = solved.largest[i]
        n_queued = _queue_all(work)
        status[i], solved.pending_all[i], solved.n_at_largest[i] = UP_TO_DATE, 0.0, 0
    if limit < solved.largest[i]:
        _limit_largest(i, limit, parameters.gamma, solved)
    _solve_from_queue(i, model, D[i], parameters, solved, work, n_queued)


@njit(cache=True)
def _update_from_source(i, sources, distances, from_source, parameters, work, n_queued):
    """Solve d from the source i to the task, starting at the queued pairs.

    Returns the number of pairs whose d decreased.
    """
    limit = distances.largest[i, FROM_SOURCE] / (1.0 - parameters.gamma)
    if limit < from_source.largest[i]:
        _limit_largest(i, limit, parameters.gamma, from_source)
    model = Graph(
        sources.index[i],
        sources.ends,
        sources.first,
        sources.last,
        sources.successors,
        sources.p,
        sources.owner,
        sources.into[i],
        sources.next_into,
    )
    return _solve_from_queue(
        i, model, distances.from_source[i], parameters, from_source, work, n_queued
    )


@njit(cache=True)
def _solve_from_queue(i, model, D, parameters, solved, work, n_queued):
    """Lower d of source i from its last solution to the fixed point, starting at the queued pairs.

    Whenever `d_state` decreases at a state, the pairs that may lead to it are queued. At the end
    `pending` and `pending_all` are at most slack / 2 each, so no backup would lower a pair by more
    than `slack`. If the budget is used up first, `pending_all` is infinite. The pairs whose d
    decreased are listed in `decreased`, and their number is returned.
    """
    index, ends, first, last = model.index, model.ends, model.first, model.last
    successors, p, owner = model.successors, model.p, model.owner
    into, next_into = model.into, model.next_into
    gamma, epsilon, slack = parameters.gamma, parameters.epsilon, parameters.slack
    d, d_state, pending = solved.d[i], solved.d_state[i], solved.pending[i]
    largest, pending_all, n_at_largest = solved.largest, solved.pending_all, solved.n_at_largest
    queue, queued = work.queue, work.queued
    decreased, is_decreased = work.decreased, work.is_decreased
    n_actions = d.size // d_state.size
    front, n_decreased = 0, 0
    budget = min(work.limits[BUDGET], work.limits[LEFT])
    left = budget
    while True:
        while n_queued > 0:
            k = queue[front]
            front = front + 1 if front + 1 < queue.size else 0
            n_queued -= 1
            queued[k] = False
            pending[k] = 0.0
            next_d, j = largest[i], index[k]
            if j >= 0:
                next_d = _worst_case_mean(
                    first[j], last[j], successors, p, ends[j], d_state, largest[i], epsilon
                )
            value = D[k] + gamma * next_d
            if value >= d[k]:
                continue
            d[k] = value
            if not is_decreased[k]:
                is_decreased[k] = True
                decreased[n_decreased] = k
                n_decreased += 1
            s = k // n_actions
            top = d[s * n_actions]
            for a in range(1, n_actions):
                top = max(top, d[s * n_actions + a])
            decrease = d_state[s] - top
            if decrease <= 0.0:
                continue
            n_at_largest[i] -= d_state[s] >= largest[i] and top < largest[i]
            d_state[s] = top
            t = into[s]
            while t >= 0:
                predecessor = owner[t]
                pending[predecessor] += gamma * p[t] * decrease
                if pending[predecessor] > 0.5 * slack and not queued[predecessor] and left > 0:
                    left -= 1
                    queued[predecessor] = True
                    end = front + n_queued
                    queue[end if end < queue.size else end - queue.size] = predecessor
                    n_queued += 1
                t = next_into[t]
        if n_at_largest[i] <= 0:
            _limit_largest(i, d_state.max(), gamma, solved)
        if left <= 0:  # pairs may have been left out of the queue
            pending_all[i] = np.inf
            work.limits[N_UNFINISHED] += 1
            break
        if pending_all[i] <= 0.5 * slack:
            break
        pending_all[i] = 0.0
        front, n_queued = 0, _queue_all(work)
        left -= n_queued
    work.limits[LEFT] -= budget - left
    for c in range(n_decreased):
        is_decreased[decreased[c]] = False
    return n_decreased


@njit(cache=True)
def _limit_largest(i, value, gamma, solved):
    """Lower the largest d of source i to the upper bound `value`.

    Adds to `pending_all` how much this may lower d at other pairs.
    """
    if value < solved.largest[i]:
        solved.pending_all[i] += gamma * (solved.largest[i] - value)
        solved.largest[i] = value
    solved.n_at_largest[i] = (solved.d_state[i] >= solved.largest[i]).sum()


# The functions below fill the queue. They are not inlined in their callers because numba would then
# compile the code that follows a second time, for the literal `n_queued = 0`.


@njit(cache=True)
def _queue_all(work):
    """Queue all pairs; return their number."""
    for k in range(work.queue.size):
        work.queue[k] = k
        work.queued[k] = True
    return work.queue.size


@njit(cache=True)
def _queue_pairs(pairs, work):
    """Queue `pairs`, which are different; return their number."""
    for c in range(pairs.size):
        work.queue[c] = pairs[c]
        work.queued[pairs[c]] = True
    return pairs.size


@njit(cache=True)
def _queue_initially_lower(D, top, index, ends, work):
    """Queue the pairs whose first backup may give less than d at the start; return their number.

    `top` is the largest D, and d at the start is at most top / (1 - gamma). So these are the pairs
    with a smaller D or a row that may terminate.
    """
    n_queued = 0
    for k in range(D.size):
        if D[k] < top or (index[k] >= 0 and ends[index[k]] > 0.0):
            work.queue[n_queued] = k
            work.queued[k] = True
            n_queued += 1
    return n_queued


@njit(cache=True)
def _queue_changed(i, changed, c, work):
    """Queue the pairs of source i listed in changed[c:].

    `changed` is sorted, so the entries of one source are contiguous; entries of earlier sources,
    which were dropped, are skipped. Returns where the entries of source i end, and the number of
    queued pairs.
    """
    n_pairs, n_queued = work.queue.size, 0
    while c < changed.size and changed[c] < (i + 1) * n_pairs:
        k = changed[c] - i * n_pairs
        if k >= 0 and not work.queued[k]:
            work.queued[k] = True
            work.queue[n_queued] = k
            n_queued += 1
        c += 1
    return c, n_queued
